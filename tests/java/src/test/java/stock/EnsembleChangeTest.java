package stock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.netty.buffer.Unpooled;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeper.DigestType;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.client.api.LedgerMetadata;
import org.apache.bookkeeper.net.BookieId;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** A bookie of the ensemble fails under the writer, and the fourth one takes its place. */
@OnBothWires
@Bookies(4)
class EnsembleChangeTest extends SuiteCase {
    private static final int SPARE = 3;

    static List<Integer> victim() {
        return Fleet.victims();
    }

    @ParameterizedTest
    @MethodSource("victim")
    void aWriterGoesOnWhenABookieIsKilledUnderIt(int victim) throws Exception {
        LedgerHandle ledger = create(Layout.ALL_OF_THREE);
        Entries.add(ledger, 100);
        List<CompletableFuture<Long>> open = start(ledger, 100, 200);
        Fleet.kill(victim);
        open.addAll(start(ledger, 300, 200));
        finish(open, 100);
        Entries.add(ledger, 100);
        ledger.close();

        List<List<BookieId>> ensembles = ensembles(ledger.getId());
        assertEquals(2, ensembles.size());
        assertTrue(ensembles.get(0).contains(Fleet.id(victim)));
        assertFalse(ensembles.get(1).contains(Fleet.id(victim)));
        assertTrue(ensembles.get(1).contains(Fleet.id(SPARE)));
        Entries.check(recovered(client, ledger.getId()), 599);
        Fleet.start(victim);
        Entries.check(recovered(ledger.getId()), 599);
    }

    @Test
    void aStripedWriterGoesOnAsWell() throws Exception {
        LedgerHandle ledger = create(Layout.TWO_OF_THREE, DigestType.MAC);
        Entries.add(ledger, 50);
        Fleet.kill(1);
        Entries.add(ledger, 50);
        ledger.close();
        assertEquals(2, ensembles(ledger.getId()).size());
        Entries.check(recovered(client, ledger.getId()), 99);
    }

    @Test
    void anAbandonedLedgerIsRecoveredFromItsLastEnsemble() throws Exception {
        LedgerHandle ledger = create(Layout.ALL_OF_THREE);
        Entries.add(ledger, 20);
        Fleet.kill(0);
        Entries.add(ledger, 20);
        Entries.add(ledger, 20);
        Fleet.heal(4);
        Entries.check(recovered(ledger.getId()), 59);
        assertThrows(BKException.BKLedgerFencedException.class, () -> ledger.addEntry(new byte[1]));
    }

    @Test
    void withoutASpareTheWriterEndsAndItsAcknowledgedEntriesStay() throws Exception {
        LedgerHandle ledger = create(Layout.ALL_OF_THREE);
        Entries.add(ledger, 20);
        Fleet.stop(SPARE);
        Fleet.kill(0);
        long acked = addUntilRefused(ledger);
        Fleet.heal(4);
        LedgerHandle reader = recovered(ledger.getId());
        assertTrue(reader.getLastAddConfirmed() >= acked);
        Entries.check(reader, reader.getLastAddConfirmed());
    }

    private static long addUntilRefused(LedgerHandle ledger) throws InterruptedException {
        long acked = ledger.getLastAddConfirmed();
        long bound = System.nanoTime() + TimeUnit.SECONDS.toNanos(Entries.BOUND_S);
        while (System.nanoTime() < bound) {
            try {
                acked = ledger.addEntry(Entries.of(acked + 1));
            } catch (BKException error) {
                return acked;
            }
        }
        throw new AssertionError("never refused");
    }

    @Test
    void aFrozenBookieStopsNobodyAndItsLateAnswersDoNoHarm() throws Exception {
        LedgerHandle ledger = create(Layout.ALL_OF_THREE);
        Entries.add(ledger, 20);
        Fleet.freeze(1);
        Entries.add(ledger, 20);
        Fleet.thaw(1);
        Entries.add(ledger, 20);
        ledger.close();
        Entries.check(recovered(client, ledger.getId()), 59);
    }

    @Test
    void readsGoOnWhileABookieIsFrozen() throws Exception {
        LedgerHandle ledger = create(Layout.ALL_OF_THREE);
        Entries.add(ledger, 20);
        ledger.close();
        Fleet.freeze(0);
        Entries.check(recovered(client, ledger.getId()), 19);
        Fleet.thaw(0);
    }

    private List<List<BookieId>> ensembles(long ledgerId) throws Exception {
        LedgerMetadata metadata = metadata(ledgerId);
        return new ArrayList<>(metadata.getAllEnsembles().values());
    }

    private static List<CompletableFuture<Long>> start(LedgerHandle ledger, long first, int count) {
        List<CompletableFuture<Long>> added = new ArrayList<>();
        for (long number = first; number < first + count; number++) {
            added.add(ledger.appendAsync(Unpooled.wrappedBuffer(Entries.of(number))));
        }
        return added;
    }

    private static void finish(List<CompletableFuture<Long>> added, long first) throws Exception {
        for (CompletableFuture<Long> add : added) {
            assertEquals(first++, add.get(Entries.BOUND_S, TimeUnit.SECONDS));
        }
    }
}
