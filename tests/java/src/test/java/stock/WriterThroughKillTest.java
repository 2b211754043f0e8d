package stock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeper.DigestType;
import org.apache.bookkeeper.client.LedgerHandle;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * A writer lives through the SIGKILL and the return of a bookie; nothing acknowledged is lost.
 *
 * <p>It goes on in the same ledger, or is told that it may not, opens the ledger like anybody and
 * goes on in a new one.
 */
@OnBothWires
@Bookies(4)
class WriterThroughKillTest extends SuiteCase {
    static List<Integer> victim() {
        return Fleet.victims();
    }

    @ParameterizedTest
    @MethodSource("victim")
    void whoReplacedTheBookieBeforeItCameBackKeepsItsLedger(int victim) throws Exception {
        LedgerHandle ledger = create(Layout.ALL_OF_THREE);
        Entries.add(ledger, 50);
        Fleet.kill(victim);
        Entries.add(ledger, 50);
        Await.until("replaced", () -> metadata(ledger.getId()).getAllEnsembles().size() == 2);
        Fleet.start(victim);
        Entries.add(ledger, 50);
        ledger.close();
        Entries.check(recovered(ledger.getId()), 149);
    }

    @ParameterizedTest
    @MethodSource("victim")
    void whoSentNothingMeanwhileKeepsItsLedgerAsWell(int victim) throws Exception {
        LedgerHandle ledger = create(Layout.ALL_OF_THREE);
        Entries.add(ledger, 50);
        Fleet.kill(victim);
        Fleet.start(victim);
        // A bookie that may have forgotten takes no more of it: the writer replaces the bookie.
        Entries.add(ledger, 50);
        ledger.close();
        Entries.check(recovered(ledger.getId()), 99);
    }

    @ParameterizedTest
    @MethodSource("victim")
    void whoStillNamesTheBookieGoesOnThereOrInANewLedger(int victim) throws Exception {
        // Two of three acknowledge, so nobody asks for a replacement while one is away.
        BookKeeper patient = another(settings -> settings.setDelayEnsembleChange(true));
        LoggedWriter writer = new LoggedWriter(patient);
        writer.add(50);
        Fleet.kill(victim);
        writer.add(50);
        Fleet.start(victim);
        writer.add(200);
        writer.close();
        assertTrue(writer.ledgers.size() <= 2, "at most one ledger was lost to the return");
        assertEquals(300, writer.count());
        for (Map.Entry<Long, Long> ledger : writer.ledgers.entrySet()) {
            LedgerHandle reader = recovered(client, ledger.getKey());
            assertTrue(reader.getLastAddConfirmed() >= ledger.getValue());
            Entries.check(reader, reader.getLastAddConfirmed());
        }
    }

    /** Adds one by one, and goes on in another ledger when the one at hand is no longer its own. */
    private final class LoggedWriter {
        private final BookKeeper by;
        /** Ledger -> the last entry that was acknowledged there. */
        final Map<Long, Long> ledgers = new LinkedHashMap<>();
        private LedgerHandle ledger;

        LoggedWriter(BookKeeper by) throws Exception {
            this.by = by;
            open();
        }

        private void open() throws Exception {
            ledger = create(by, Layout.ALL_OF_THREE, DigestType.CRC32C);
            ledgers.put(ledger.getId(), -1L);
        }

        void add(int count) throws Exception {
            for (int i = 0; i < count; i++) {
                long next = ledgers.get(ledger.getId()) + 1;
                try {
                    ledgers.put(ledger.getId(), ledger.addEntry(Entries.of(next)));
                } catch (BKException.BKLedgerFencedException
                        | BKException.BKLedgerClosedException
                        | BKException.BKNotEnoughBookiesException error) {
                    recovered(client, ledger.getId());
                    open();
                    i--;
                }
            }
        }

        long count() {
            return ledgers.values().stream().mapToLong(last -> last + 1).sum();
        }

        void close() throws Exception {
            ledger.close();
        }
    }
}
