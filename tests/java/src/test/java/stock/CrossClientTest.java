package stock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.util.stream.Stream;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeper.DigestType;
import org.apache.bookkeeper.client.LedgerHandle;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** Ledgers of our client under the stock one, and the other way round. */
@OnBothWires
@Bookies(3)
class CrossClientTest extends SuiteCase {
    private static final int COUNT = 200;

    @BeforeEach
    void onlyWhereOurClientCanTalk() {
        // It speaks the native protocol, which Apache's bookies do not.
        assumeTrue(Fleet.hasOurs(), "our client needs our bookies");
    }

    /** In a mixed fleet ledgers on two bookies, which are ours. */
    static Stream<Arguments> ledgers() {
        Stream<String> layouts = Fleet.KIND.equals("ours")
                ? Stream.of("3/3/2", "3/2/2") : Stream.of("2/2/2");
        return layouts.flatMap(layout -> Stream.of(DigestType.values())
                .map(digest -> Arguments.of(layout, digest)));
    }

    private static long written(String layout, DigestType digest, String end) {
        String sizes = layout.replace('/', ' ');
        return Long.parseLong(
                Fleet.ask("write-with-python " + COUNT + " " + sizes + " " + digest + " " + end));
    }

    @ParameterizedTest
    @MethodSource("ledgers")
    void theStockClientReadsWhatOursWrote(String layout, DigestType digest) throws Exception {
        Entries.check(recovered(written(layout, digest, "closed")), COUNT - 1);
    }

    @ParameterizedTest
    @MethodSource("ledgers")
    void ourClientReadsWhatTheStockOneWrote(String layout, DigestType digest) throws Exception {
        LedgerHandle ledger = create(Layout.of(layout), digest);
        Entries.add(ledger, COUNT);
        ledger.close();
        assertEquals(
                Entries.told(COUNT), Fleet.ask("read-with-python " + ledger.getId()));
    }

    @ParameterizedTest
    @MethodSource("ledgers")
    void theStockClientRecoversWhatOursLeftOpen(String layout, DigestType digest)
            throws Exception {
        Entries.check(recovered(written(layout, digest, "open")), COUNT - 1);
    }

    @ParameterizedTest
    @MethodSource("ledgers")
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
