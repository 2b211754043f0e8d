package stock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeper.DigestType;
import org.apache.bookkeeper.client.LedgerHandle;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Ledgers of our client under the stock one, and the other way round. */
@OnBothWires
@Bookies(3)
class CrossClientTest extends SuiteCase {
    private static final int COUNT = 200;

    @BeforeEach
    void onlyWhereOurClientCanTalk() {
        // It speaks the native protocol, which Apache's bookies do not.
        assumeTrue(Fleet.KIND.equals("ours"), "our client needs our bookies");
    }

    private static long written(String layout, DigestType digest, String end) {
        String sizes = layout.replace('/', ' ');
        return Long.parseLong(
                Fleet.ask("write-with-python " + COUNT + " " + sizes + " " + digest + " " + end));
    }

    @ParameterizedTest
    @CsvSource({
        "3/3/2, CRC32C", "3/3/2, CRC32", "3/3/2, MAC", "3/3/2, DUMMY", "3/2/2, CRC32C",
    })
    void theStockClientReadsWhatOursWrote(String layout, DigestType digest) throws Exception {
        Entries.check(recovered(written(layout, digest, "closed")), COUNT - 1);
    }

    @ParameterizedTest
    @CsvSource({
        "3/3/2, CRC32C", "3/3/2, CRC32", "3/3/2, MAC", "3/3/2, DUMMY", "3/2/2, CRC32C",
    })
    void ourClientReadsWhatTheStockOneWrote(String layout, DigestType digest) throws Exception {
        LedgerHandle ledger = create(Layout.of(layout), digest);
        Entries.add(ledger, COUNT);
        ledger.close();
        assertEquals(
                Entries.told(COUNT), Fleet.ask("read-with-python " + ledger.getId()));
    }

    @ParameterizedTest
    @CsvSource({"3/3/2, CRC32C", "3/2/2, MAC"})
    void theStockClientRecoversWhatOursLeftOpen(String layout, DigestType digest)
            throws Exception {
        Entries.check(recovered(written(layout, digest, "open")), COUNT - 1);
    }

    @ParameterizedTest
    @CsvSource({"3/3/2, CRC32C", "3/2/2, MAC"})
    void ourClientRecoversWhatTheStockOneLeftOpen(String layout, DigestType digest)
            throws Exception {
        LedgerHandle ledger = create(Layout.of(layout), digest);
        Entries.add(ledger, COUNT);
        assertEquals(
                Entries.told(COUNT), Fleet.ask("recover-with-python " + ledger.getId()));
        assertThrows(BKException.class, () -> ledger.addEntry(new byte[1]));
        Entries.check(recovered(ledger.getId()), COUNT - 1);
    }
}
