package judge;

import java.nio.ByteBuffer;

/**
 * What every entry holds, computed from its ledger and id alone: a check needs no copy of what was sent.
 *
 * <pre>
 * seed    = mix(ledger * 0x9E3779B97F4A7C15 + mix(entry))
 * length  = 16 + (seed >>> 32) % 1024, and 16 times that where seed % 64 is 0   (unsigned)
 * payload = ledger (8 bytes, big-endian), entry (8 bytes, big-endian),
 *           then mix(seed + 1 * GOLDEN), mix(seed + 2 * GOLDEN), ... big-endian, cut to the length
 * </pre>
 *
 * `mix` is the finalizer of SplitMix64, GOLDEN its increment.
 */
final class Payload {
    static final int HEAD_BYTES = 16;
    private static final long GOLDEN = 0x9E3779B97F4A7C15L;

    private Payload() {}

    static byte[] of(long ledger, long entry) {
        long seed = seed(ledger, entry);
        int length = length(seed);
        ByteBuffer words = ByteBuffer.allocate((length + Long.BYTES - 1) / Long.BYTES * Long.BYTES);
        words.putLong(ledger).putLong(entry);
        for (long word = 1; words.hasRemaining(); word++) {
            words.putLong(mix(seed + word * GOLDEN));
        }
        byte[] payload = new byte[length];
        words.flip().get(payload);
        return payload;
    }

    /** Of `of`, without making it. */
    static int lengthOf(long ledger, long entry) {
        return length(seed(ledger, entry));
    }

    static long mix(long word) {
        long mixed = (word ^ (word >>> 30)) * 0xBF58476D1CE4E5B9L;
        mixed = (mixed ^ (mixed >>> 27)) * 0x94D049BB133111EBL;
        return mixed ^ (mixed >>> 31);
    }

    private static long seed(long ledger, long entry) {
        return mix(ledger * GOLDEN + mix(entry));
    }

    private static int length(long seed) {
        int length = HEAD_BYTES + (int) ((seed >>> 32) % 1024);
        return Long.remainderUnsigned(seed, 64) == 0 ? length * 16 : length;
    }
}
