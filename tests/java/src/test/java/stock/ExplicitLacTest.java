package stock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeper.DigestType;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.client.api.LastConfirmedAndEntry;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Messages of v3 about the last add confirmed: written, read, and waited for. */
@OnV3
@Bookies(3)
class ExplicitLacTest extends SuiteCase {
    private static final int INTERVAL_MS = 50;

    private BookKeeper telling() throws Exception {
        return another(s -> s.setExplictLacInterval(INTERVAL_MS));
    }

    private LedgerHandle createBy(BookKeeper writer, DigestType digest) throws Exception {
        return create(writer, Layout.ALL_OF_THREE, digest);
    }

    /**
     * Adds the next `count` while the task that sends explicit LACs is held. It reads the writer's
     * LAC twice, and one that moves in between is sent to nobody, then or later.
     */
    private static void addBetweenSends(BookKeeper writer, LedgerHandle ledger, int count)
            throws Exception {
        CompletableFuture<Void> held = new CompletableFuture<>();
        CompletableFuture<Void> added = new CompletableFuture<>();
        writer.getClientCtx().getScheduler().executeOrdered(ledger.getId(), () -> {
            held.complete(null);
            added.join();
        });
        held.get(Entries.BOUND_S, TimeUnit.SECONDS);
        try {
            Entries.add(ledger, count);
        } finally {
            added.complete(null);
        }
    }

    @ParameterizedTest
    @EnumSource(DigestType.class)
    void anIdleWriterTellsThatItsLastEntryIsConfirmed(DigestType digest) throws Exception {
        BookKeeper writer = telling();
        LedgerHandle ledger = createBy(writer, digest);
        addBetweenSends(writer, ledger, 10);
        LedgerHandle reader = asIs(ledger.getId());
        Await.until("told", () -> reader.readExplicitLastConfirmed() == 9);
        Entries.check(reader, 9);
    }

    @Test
    void aWriterThatDoesNotTellLeavesItToItsEntries() throws Exception {
        LedgerHandle ledger = create(Layout.ALL_OF_THREE);
        Entries.add(ledger, 5);
        ledger.addEntry(Entries.of(5));
        assertEquals(4, asIs(ledger.getId()).readExplicitLastConfirmed());
    }

    @Test
    void whatWasToldOutlivesTheBookies() throws Exception {
        BookKeeper writer = telling();
        LedgerHandle ledger = createBy(writer, DigestType.CRC32C);
        addBetweenSends(writer, ledger, 4);
        LedgerHandle before = asIs(ledger.getId());
        Await.until("told", () -> before.readExplicitLastConfirmed() == 3);
        for (int number = 0; number < 3; number++) {
            Fleet.stop(number);
        }
        Fleet.heal(3);
        assertEquals(3, recovered(ledger.getId()).getLastAddConfirmed());
    }

    @Test
    void aLongPollIsAnsweredByTheNextEntry() throws Exception {
        LedgerHandle ledger = create(Layout.ALL_OF_THREE);
        Entries.add(ledger, 2);
        LedgerHandle reader = asIs(ledger.getId());
        CompletableFuture<LastConfirmedAndEntry> waiting =
                reader.readLastAddConfirmedAndEntryAsync(1, 20_000, false);
        assertFalse(waiting.isDone());
        Entries.add(ledger, 2);
        try (LastConfirmedAndEntry found = waiting.get(15, TimeUnit.SECONDS)) {
            assertTrue(found.getLastAddConfirmed() >= 1);
            assertTrue(found.hasEntry());
            assertEquals(1, found.getEntry().getEntryId());
        }
    }

    @Test
    void parallelLongPollsAreAnsweredAsWell() throws Exception {
        LedgerHandle ledger = create(Layout.ALL_OF_THREE);
        Entries.add(ledger, 2);
        LedgerHandle reader = asIs(ledger.getId());
        CompletableFuture<LastConfirmedAndEntry> waiting =
                reader.readLastAddConfirmedAndEntryAsync(1, 20_000, true);
        Entries.add(ledger, 2);
        try (LastConfirmedAndEntry found = waiting.get(15, TimeUnit.SECONDS)) {
            assertTrue(found.getLastAddConfirmed() >= 1);
        }
    }

    @Test
    void aLongPollIsAnsweredByWhatTheWriterTells() throws Exception {
        BookKeeper writer = telling();
        LedgerHandle ledger = createBy(writer, DigestType.CRC32C);
        addBetweenSends(writer, ledger, 1);
        LedgerHandle reader = asIs(ledger.getId());
        CompletableFuture<LastConfirmedAndEntry> waiting =
                reader.readLastAddConfirmedAndEntryAsync(1, 20_000, false);
        addBetweenSends(writer, ledger, 1);
        try (LastConfirmedAndEntry found = waiting.get(15, TimeUnit.SECONDS)) {
            assertEquals(1, found.getLastAddConfirmed());
        }
    }

    @Test
    void aLongPollEndsWithoutAnEntryWhenItsTimeIsUp() throws Exception {
        LedgerHandle ledger = create(Layout.ALL_OF_THREE);
        Entries.add(ledger, 1);
        ledger.addEntry(Entries.of(1));
        LedgerHandle reader = asIs(ledger.getId());
        try (LastConfirmedAndEntry found =
                reader.readLastAddConfirmedAndEntryAsync(1, 200, false).get(15, TimeUnit.SECONDS)) {
            assertEquals(0, found.getLastAddConfirmed());
            assertFalse(found.hasEntry());
        }
    }

    @Test
    void aLongPollOfAnEntryThatIsConfirmedIsAnsweredAtOnce() throws Exception {
        LedgerHandle ledger = create(Layout.ALL_OF_THREE);
        Entries.add(ledger, 1);
        ledger.addEntry(Entries.of(1));
        ledger.addEntry(Entries.of(2));
        LedgerHandle reader = asIs(ledger.getId());
        try (LastConfirmedAndEntry found = reader
                .readLastAddConfirmedAndEntryAsync(1, 20_000, false).get(5, TimeUnit.SECONDS)) {
            assertEquals(1, found.getEntry().getEntryId());
        }
    }
}
