package stock;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import io.netty.buffer.Unpooled;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.LongFunction;
import org.apache.bookkeeper.client.LedgerEntry;
import org.apache.bookkeeper.client.LedgerHandle;

/** What tests write: the number of an entry tells its bytes, so that every reader can check them. */
final class Entries {
    static final long BOUND_S = 30;

    private Entries() {}

    /** As `payload` of java_peer.py; every fifth is empty. */
    static byte[] of(long number) {
        return ("entry " + number + " ").repeat((int) (number % 5)).getBytes(StandardCharsets.UTF_8);
    }

    /** Adds the next `count`, all of them open at once, and waits until they are acknowledged. */
    static void add(LedgerHandle ledger, int count) throws Exception {
        add(ledger, count, Entries::of);
    }

    static void add(LedgerHandle ledger, int count, LongFunction<byte[]> bytes) throws Exception {
        long first = ledger.getLastAddPushed() + 1;
        List<CompletableFuture<Long>> added = new ArrayList<>();
        for (long number = first; number < first + count; number++) {
            added.add(ledger.appendAsync(Unpooled.wrappedBuffer(bytes.apply(number))));
        }
        for (int i = 0; i < count; i++) {
            assertEquals(first + i, added.get(i).get(BOUND_S, TimeUnit.SECONDS));
        }
    }

    /** Reads all of them back, 0 to `last`. */
    static void check(LedgerHandle ledger, long last) throws Exception {
        check(ledger, last, Entries::of);
    }

    static void check(LedgerHandle ledger, long last, LongFunction<byte[]> bytes) throws Exception {
        assertEquals(last, ledger.getLastAddConfirmed());
        if (last >= 0) {
            check(Collections.list(ledger.readEntries(0, last)), 0, last, bytes);
        }
    }

    static void check(List<LedgerEntry> found, long first, long last) {
        check(found, first, last, Entries::of);
    }

    static void check(
            List<LedgerEntry> found, long first, long last, LongFunction<byte[]> bytes) {
        assertEquals(last - first + 1, found.size());
        for (LedgerEntry entry : found) {
            assertEquals(first, entry.getEntryId());
            assertArrayEquals(bytes.apply(first), entry.getEntry(), "entry " + first);
            first++;
        }
    }

    /** As java_peer.py tells what it has read. */
    static String told(int count) throws Exception {
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        for (int number = 0; number < count; number++) {
            digest.update(of(number));
        }
        return count + " " + HexFormat.of().formatHex(digest.digest());
    }
}
