package stock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.netty.buffer.Unpooled;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeper.DigestType;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.client.api.LedgerMetadata;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * A ledger that its writer has left open is closed by whoever opens it. Four bookies: the stock
 * client does not recover a ledger without a spare for a bookie that is down.
 */
@OnBothWires
@Bookies(4)
class RecoveryTest extends SuiteCase {
    /** A thread for each, however few cores there are. */
    private static final Executor RACERS = task -> new Thread(task, "racer").start();

    /** A ledger of a client that is gone. */
    private long abandoned(Layout layout, DigestType digest, int count) throws Exception {
        BookKeeper gone = another();
        LedgerHandle ledger = create(gone, layout, digest);
        Entries.add(ledger, count);
        gone.close();
        return ledger.getId();
    }

    /**
     * The same, and each entry says that none before it is confirmed: its client hears of no
     * acknowledgement before the last is on its way. A recovery writes what is confirmed nowhere again;
     * of the others a bookie may lack some, which the client had not reached when it went.
     */
    private long abandonedUnconfirmed(int count) throws Exception {
        BookKeeper gone = another();
        LedgerHandle ledger = create(gone, Layout.ALL_OF_THREE, DigestType.CRC32C);
        CompletableFuture<Void> pushed = new CompletableFuture<>();
        gone.getClientCtx().getMainWorkerPool().executeOrdered(ledger.getId(), () -> pushed.join());
        List<CompletableFuture<Long>> added = new ArrayList<>();
        try {
            for (long number = 0; number < count; number++) {
                added.add(ledger.appendAsync(Unpooled.wrappedBuffer(Entries.of(number))));
            }
        } finally {
            pushed.complete(null);
        }
        for (CompletableFuture<Long> one : added) {
            one.get(Entries.BOUND_S, TimeUnit.SECONDS);
        }
        gone.close();
        return ledger.getId();
    }

    @ParameterizedTest
    @CsvSource({
        "3/3/2, CRC32", "3/3/2, CRC32C", "3/3/2, MAC", "3/3/2, DUMMY",
        "3/2/2, CRC32", "3/2/2, CRC32C", "3/2/2, MAC", "3/2/2, DUMMY",
    })
    void everyAcknowledgedEntryIsRecovered(String layout, DigestType digest) throws Exception {
        long ledgerId = abandoned(Layout.of(layout), digest, 40);
        Entries.check(recovered(client, ledgerId), 39);
        LedgerMetadata metadata = metadata(ledgerId);
        assertTrue(metadata.isClosed());
        assertEquals(39, metadata.getLastEntryId());
    }

    @Test
    void anEmptyLedgerIsClosedEmpty() throws Exception {
        long ledgerId = abandoned(Layout.ALL_OF_THREE, DigestType.CRC32C, 0);
        assertEquals(-1, recovered(client, ledgerId).getLastAddConfirmed());
        assertTrue(metadata(ledgerId).isClosed());
    }

    @Test
    void aSecondRecoveryFindsTheSameEnd() throws Exception {
        long ledgerId = abandoned(Layout.TWO_OF_THREE, DigestType.MAC, 25);
        Entries.check(recovered(client, ledgerId), 24);
        Entries.check(recovered(ledgerId), 24);
    }

    @Test
    void recoveriesAtTheSameTimeAgree() throws Exception {
        long ledgerId = abandoned(Layout.ALL_OF_THREE, DigestType.CRC32C, 300);
        List<BookKeeper> clients = List.of(client, another(), another());
        List<CompletableFuture<LedgerHandle>> recoveries = new ArrayList<>();
        for (BookKeeper by : clients) {
            recoveries.add(CompletableFuture.supplyAsync(() -> patiently(by, ledgerId)));
        }
        for (CompletableFuture<LedgerHandle> recovery : recoveries) {
            Entries.check(recovery.get(Entries.BOUND_S, TimeUnit.SECONDS), 299);
        }
    }

    /** Each adds again what the others have added: copies that nobody needs. */
    @Test
    void manyRecoveriesOfOneLedgerAgree() throws Exception {
        long ledgerId = abandoned(Layout.ALL_OF_THREE, DigestType.CRC32C, 300);
        List<BookKeeper> clients = new ArrayList<>();
        for (int number = 0; number < 20; number++) {
            clients.add(another());
        }
        List<CompletableFuture<LedgerHandle>> recoveries = new ArrayList<>();
        for (BookKeeper by : clients) {
            recoveries.add(CompletableFuture.supplyAsync(() -> patiently(by, ledgerId), RACERS));
        }
        for (CompletableFuture<LedgerHandle> recovery : recoveries) {
            assertEquals(
                    299, recovery.get(Entries.BOUND_S, TimeUnit.SECONDS).getLastAddConfirmed());
        }
        Entries.check(recovered(ledgerId), 299);
    }

    /** Who loses the race for the metadata may have to look again. */
    private static LedgerHandle patiently(BookKeeper by, long ledgerId) {
        try {
            try {
                return recovered(by, ledgerId);
            } catch (BKException error) {
                return recovered(by, ledgerId);
            }
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    @Test
    void manyLedgersRecoverAtOnce() throws Exception {
        List<Long> ledgers = new ArrayList<>();
        BookKeeper gone = another();
        for (int number = 0; number < 20; number++) {
            LedgerHandle ledger = create(gone, Layout.ALL_OF_THREE, DigestType.CRC32C);
            Entries.add(ledger, number);
            ledgers.add(ledger.getId());
        }
        gone.close();
        List<CompletableFuture<LedgerHandle>> recoveries = new ArrayList<>();
        for (long ledgerId : ledgers) {
            recoveries.add(CompletableFuture.supplyAsync(() -> patiently(client, ledgerId)));
        }
        for (int number = 0; number < 20; number++) {
            Entries.check(recoveries.get(number).get(Entries.BOUND_S, TimeUnit.SECONDS), number - 1);
        }
    }

    static List<Integer> victim() {
        return Fleet.victims();
    }

    @ParameterizedTest
    @MethodSource("victim")
    void withOneBookieDownTheOthersAreEnough(int victim) throws Exception {
        long ledgerId = abandoned(Layout.ALL_OF_THREE, DigestType.CRC32C, 30);
        Fleet.kill(victim);
        Entries.check(recovered(client, ledgerId), 29);
        Fleet.start(victim);
        Entries.check(recovered(client, ledgerId), 29);
    }

    @Test
    void oneBookieIsNotEnoughToRecoverAndNothingIsDecided() throws Exception {
        long ledgerId = abandoned(Layout.ALL_OF_THREE, DigestType.CRC32C, 30);
        Fleet.stop(0);
        Fleet.stop(1);
        assertThrows(BKException.class, () -> recovered(client, ledgerId));
        assertEquals(false, metadata(ledgerId).isClosed());
        Fleet.heal(4);
        Entries.check(recovered(ledgerId), 29);
    }

    @Test
    void recoveredEntriesAreOnEveryBookieOfTheirWriteSet() throws Exception {
        long ledgerId = abandonedUnconfirmed(30);
        recovered(client, ledgerId);
        Raw raw = closing(new Raw(wire, admin));
        for (int number = 0; number < 3; number++) {
            for (long entry = 0; entry < 30; entry++) {
                int bookie = number;
                long wanted = entry;
                Await.until("entry " + entry + " on bookie " + number,
                        () -> raw.read(bookie, ledgerId, wanted).code() == BKException.Code.OK);
            }
        }
    }
}
