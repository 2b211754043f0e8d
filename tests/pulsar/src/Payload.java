import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;

/** What every message holds, as programs/payload.py has it. */
final class Payload {
    private static final int SIZE_MAX = 1024;

    private Payload() {}

    static byte[] of(String topic, String key, long number, long seed) {
        String head = topic + " " + key + " " + number + " " + seed + " ";
        String drawn = HexFormat.of().formatHex(digest(head));
        int size = (int) (Long.parseLong(drawn.substring(0, 8), 16) % SIZE_MAX);
        String noise = drawn.repeat(SIZE_MAX / drawn.length()).substring(0, size);
        return (head + noise).getBytes(StandardCharsets.UTF_8);
    }

    private static byte[] digest(String words) {
        try {
            MessageDigest sha256 = MessageDigest.getInstance("SHA-256");
            return sha256.digest(words.getBytes(StandardCharsets.UTF_8));
        } catch (NoSuchAlgorithmException error) {
            throw new IllegalStateException("every JDK has SHA-256", error);
        }
    }
}
