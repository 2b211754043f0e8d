package stock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Collections;
import java.util.List;
import java.util.function.LongFunction;
import org.apache.bookkeeper.client.LedgerEntry;
import org.apache.bookkeeper.client.LedgerHandle;
import org.junit.jupiter.api.Test;

/** One read of v2 that is answered with several entries; the stock client has none on v3. */
@OnV2
@Bookies(3)
class BatchReadTest extends SuiteCase {
    /** A bookie answers with what it has up to its first gap: here none has any. */
    private static final Layout ON_ALL = new Layout(3, 3, 3);
    private static final int KIB = 1 << 10;
    private static final int MIB = 1 << 20;

    @Test
    void aBatchReadBringsManyEntries() throws Exception {
        LedgerHandle ledger = create(ON_ALL);
        Entries.add(ledger, 100);
        ledger.close();
        LedgerHandle reader = recovered(ledger.getId());
        Entries.check(Collections.list(reader.batchReadEntries(0, 100, MIB)), 0, 99);
        Entries.check(Collections.list(reader.batchReadEntries(40, 20, MIB)), 40, 59);
    }

    @Test
    void aBatchReadEndsWithTheLedger() throws Exception {
        LedgerHandle ledger = create(ON_ALL);
        Entries.add(ledger, 10);
        ledger.close();
        LedgerHandle reader = recovered(ledger.getId());
        Entries.check(Collections.list(reader.batchReadEntries(5, 100, MIB)), 5, 9);
    }

    @Test
    void aBatchReadOfAStripedLedgerGoesOnAfterEveryGap() throws Exception {
        LedgerHandle ledger = create(Layout.TWO_OF_THREE);
        Entries.add(ledger, 30);
        ledger.close();
        LedgerHandle reader = recovered(ledger.getId());
        for (long next = 0; next < 30; ) {
            List<LedgerEntry> found = Collections.list(reader.batchReadEntries(next, 30, MIB));
            assertTrue(found.size() > 0);
            Entries.check(found, next, next + found.size() - 1);
            next += found.size();
        }
    }

    /** The bookie reads what it wrote together as one: an answer may end before the next of it. */
    @Test
    void aBatchReadEndsBeforeItsAnswerIsTooLarge() throws Exception {
        LedgerHandle ledger = create(ON_ALL);
        LongFunction<byte[]> bytes = number -> new byte[10 * KIB];
        Entries.add(ledger, 20, bytes);
        ledger.close();
        LedgerHandle reader = recovered(ledger.getId());
        for (long next = 0; next < 20; ) {
            List<LedgerEntry> found =
                    Collections.list(reader.batchReadEntries(next, 20, 35 * KIB));
            assertTrue(found.size() >= 1 && found.size() <= 3);
            Entries.check(found, next, next + found.size() - 1, bytes);
            next += found.size();
        }
    }

    @Test
    void aBatchReadBringsAtLeastOneEntry() throws Exception {
        LedgerHandle ledger = create(ON_ALL);
        Entries.add(ledger, 5, number -> new byte[10 * KIB]);
        ledger.close();
        LedgerHandle reader = recovered(ledger.getId());
        assertEquals(1, Collections.list(reader.batchReadEntries(2, 5, KIB)).size());
    }

    @Test
    void aBatchReadBeyondTheLastAddConfirmedBringsWhatIsThere() throws Exception {
        LedgerHandle ledger = create(ON_ALL);
        Entries.add(ledger, 10);
        LedgerHandle reader = asIs(ledger.getId());
        Entries.check(Collections.list(reader.batchReadUnconfirmedEntries(0, 10, MIB)), 0, 9);
    }
}
