package stock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeper.DigestType;
import org.apache.bookkeeper.client.LedgerHandle;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Whoever opens an open ledger takes it from its writer. Four bookies: see the note in the code. */
@OnBothWires
@Bookies(4)
class FencingTest extends SuiteCase {
    // With no spare bookie a fenced stock writer may see NotEnoughBookies first: a race within it.

    @ParameterizedTest
    @CsvSource({"3/3/2, CRC32C", "3/2/2, CRC32C", "3/3/2, MAC", "3/2/2, DUMMY", "3/3/2, CRC32"})
    void theFirstWriterIsFencedAndNothingIsLost(String layout, DigestType digest)
            throws Exception {
        LedgerHandle ledger = create(Layout.of(layout), digest);
        Entries.add(ledger, 50);
        LedgerHandle second = recovered(ledger.getId());
        Entries.check(second, 49);
        assertThrows(BKException.BKLedgerFencedException.class, () -> ledger.addEntry(new byte[1]));
        assertEquals(49, metadata(ledger.getId()).getLastEntryId());
        Entries.check(recovered(ledger.getId()), 49);
    }

    @Test
    void aFencedWriterStaysFenced() throws Exception {
        LedgerHandle ledger = create(Layout.ALL_OF_THREE);
        Entries.add(ledger, 3);
        recovered(ledger.getId());
        for (int turn = 0; turn < 3; turn++) {
            assertThrows(BKException.class, () -> ledger.addEntry(new byte[1]));
        }
        Entries.check(recovered(ledger.getId()), 2);
    }

    @Test
    void aWriterWithoutEntriesIsFencedAsWell() throws Exception {
        LedgerHandle ledger = create(Layout.ALL_OF_THREE);
        assertEquals(-1, recovered(ledger.getId()).getLastAddConfirmed());
        assertThrows(BKException.BKLedgerFencedException.class, () -> ledger.addEntry(new byte[1]));
        assertEquals(-1, metadata(ledger.getId()).getLastEntryId());
    }

    @Test
    void aLookWithoutRecoveryFencesNobody() throws Exception {
        LedgerHandle ledger = create(Layout.ALL_OF_THREE);
        Entries.add(ledger, 10);
        assertFalse(asIs(ledger.getId()).isClosed());
        Entries.add(ledger, 10);
        ledger.close();
        Entries.check(recovered(ledger.getId()), 19);
    }

    @Test
    void addsOnTheirWayAreAcknowledgedAndKeptOrRefused() throws Exception {
        LedgerHandle ledger = create(Layout.ALL_OF_THREE);
        Entries.add(ledger, 10);
        BookKeeper other = another();
        List<CompletableFuture<Long>> adds = new ArrayList<>();
        CompletableFuture<Long> last = CompletableFuture.supplyAsync(() -> lastOf(other, ledger));
        for (long number = 10; number < 500; number++) {
            adds.add(ledger.appendAsync(io.netty.buffer.Unpooled.wrappedBuffer(Entries.of(number))));
        }
        long closedAt = last.get(Entries.BOUND_S, TimeUnit.SECONDS);
        for (int i = 0; i < adds.size(); i++) {
            boolean isAcked = adds.get(i).handle((id, error) -> error == null)
                    .get(Entries.BOUND_S, TimeUnit.SECONDS);
            assertTrue(!isAcked || 10 + i <= closedAt, "entry " + (10 + i) + " was acknowledged");
        }
        Entries.check(recovered(ledger.getId()), closedAt);
    }

    private static long lastOf(BookKeeper other, LedgerHandle ledger) {
        try {
            return recovered(other, ledger.getId()).getLastAddConfirmed();
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    @Test
    void manyOpenersAgree() throws Exception {
        LedgerHandle ledger = create(Layout.ALL_OF_THREE);
        Entries.add(ledger, 200);
        BookKeeper other = another();
        List<CompletableFuture<Long>> openers = new ArrayList<>();
        for (int number = 0; number < 20; number++) {
            BookKeeper by = number % 2 == 0 ? client : other;
            openers.add(CompletableFuture.supplyAsync(() -> lastOfPatient(by, ledger)));
        }
        for (CompletableFuture<Long> opener : openers) {
            assertEquals(199, opener.get(Entries.BOUND_S, TimeUnit.SECONDS));
        }
        Entries.check(recovered(ledger.getId()), 199);
    }

    /** Of several recoveries at once one wins; the others may have to look again. */
    private static long lastOfPatient(BookKeeper other, LedgerHandle ledger) {
        try {
            return recovered(other, ledger.getId()).getLastAddConfirmed();
        } catch (BKException error) {
            return lastOf(other, ledger);
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    @Test
    void aFenceOutlivesTheRestartOfEveryBookie() throws Exception {
        LedgerHandle ledger = create(Layout.ALL_OF_THREE);
        Entries.add(ledger, 10);
        recovered(ledger.getId());
        for (int number = 0; number < 3; number++) {
            Fleet.stop(number);
        }
        Fleet.heal(4);
        assertThrows(BKException.class, () -> ledger.addEntry(new byte[1]));
        Entries.check(recovered(ledger.getId()), 9);
    }

    @Test
    void aFrozenBookieDoesNotKeepALedgerOpen() throws Exception {
        LedgerHandle ledger = create(Layout.ALL_OF_THREE);
        Entries.add(ledger, 10);
        BookKeeper other = another();
        Fleet.freeze(1);
        Entries.check(recovered(other, ledger.getId()), 9);
        Fleet.thaw(1);
        refusedAsFencedOrClosed(() -> ledger.addEntry(new byte[1]));
        Entries.check(recovered(ledger.getId()), 9);
    }

    /**
     * A writer that first replaces a member that was silent reads the metadata for it, and learns there
     * that the ledger is closed, before another member tells it that the ledger is fenced.
     */
    private static void refusedAsFencedOrClosed(Executable add) {
        BKException error = assertThrows(BKException.class, add);
        int code = error.getCode();
        assertTrue(
                code == BKException.Code.LedgerFencedException || code == BKException.Code.LedgerClosedException,
                "refused as fenced or closed, found: " + error);
    }
}
