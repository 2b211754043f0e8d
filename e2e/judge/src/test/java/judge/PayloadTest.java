package judge;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.security.MessageDigest;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class PayloadTest {
    /** Computed in another language from the words of the documentation. */
    @ParameterizedTest
    @CsvSource({
        "0, 0, 256, 76a4d4ce644985320e2ab149b0c1bace5c4a759b2373bfd081e61a160ce5f626",
        "1, 0, 73, 58613808a4ec23dae74cceeed95b17fd2af931ea301323659b74309b5c12b052",
        "7, 1234, 477, 40ce4fd68b3c7b0ccdcedcd9283ff85c81eab7fc4090a4b0cc979ea056c769ed",
        "1099511627779, 99, 820, 53c6993bc8acc96a6451885391f85b187e0e93c71b6dd46ade4d7b4991d1d306",
        "5, 14, 9040, 03259a35af0fc2fa1ecb17abfee775a148753ec32d1a2ad83f140508aac642b2"
    })
    void isWhatTheDocumentationSays(long ledger, long entry, int length, String sha256) throws Exception {
        byte[] payload = Payload.of(ledger, entry);
        assertEquals(length, payload.length);
        assertEquals(sha256, HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(payload)));
    }

    @Test
    void noTwoEntriesHoldTheSame() {
        Set<String> seen = new HashSet<>();
        for (long ledger = 0; ledger < 50; ledger++) {
            for (long entry = 0; entry < 50; entry++) {
                assertTrue(seen.add(HexFormat.of().formatHex(Payload.of(ledger, entry))));
            }
        }
    }

    @Test
    void theLengthIsKnownWithoutTheBytes() {
        int longest = 0;
        for (long entry = 0; entry < 2000; entry++) {
            byte[] payload = Payload.of(3, entry);
            assertEquals(payload.length, Payload.lengthOf(3, entry));
            longest = Math.max(longest, payload.length);
        }
        assertTrue(longest > 4096, "some are large");
    }

    @Test
    void isTheSameAtEachCall() {
        assertArrayEquals(Payload.of(9, 9), Payload.of(9, 9));
    }
}
