package stock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.Executor;
import java.util.concurrent.Executors;
import java.util.function.Consumer;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeper.DigestType;
import org.apache.bookkeeper.client.BookKeeperAdmin;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.client.api.LedgerMetadata;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.params.Parameter;

/** One wire, a healthy fleet, and a client of its own for each test. */
abstract class SuiteCase {
    static final byte[] PASSWORD = "suite".getBytes(StandardCharsets.UTF_8);

    /** A client takes up to half a second to close, and nobody waits for that. */
    private static final Executor CLOSERS = Executors.newCachedThreadPool(task -> {
        Thread thread = new Thread(task, "closer");
        thread.setDaemon(true);
        return thread;
    });

    @Parameter Wire wire;
    BookKeeper client;
    BookKeeperAdmin admin;
    private final Deque<AutoCloseable> opened = new ArrayDeque<>();

    @BeforeEach
    void connect() throws Exception {
        Fleet.heal(bookies());
        client = another();
        admin = new BookKeeperAdmin(client, wire.settings());
    }

    @AfterEach
    void disconnect() {
        while (!opened.isEmpty()) {
            AutoCloseable resource = opened.pop();
            CLOSERS.execute(() -> close(resource));
        }
    }

    private static void close(AutoCloseable resource) {
        try {
            resource.close();
        } catch (Exception error) {
            error.printStackTrace(); // the client's log: no claim of a test is about it
        }
    }

    int bookies() {
        return getClass().getAnnotation(Bookies.class).value();
    }

    /** One more client, as if in another process; closed with the test. */
    BookKeeper another() throws Exception {
        return another(settings -> {});
    }

    BookKeeper another(Consumer<ClientConfiguration> change) throws Exception {
        ClientConfiguration settings = wire.settings();
        change.accept(settings);
        BookKeeper made = closing(new BookKeeper(settings));
        BookKeeperAdmin seen = new BookKeeperAdmin(made);
        Await.until("all bookies seen by a client that sees " + seen.getAvailableBookies(),
                () -> seen.getAvailableBookies().size() == bookies());
        return made;
    }

    <T extends AutoCloseable> T closing(T resource) {
        opened.push(resource);
        return resource;
    }

    LedgerHandle create(Layout layout) throws Exception {
        return create(layout, DigestType.CRC32C);
    }

    LedgerHandle create(Layout layout, DigestType digest) throws Exception {
        return create(client, layout, digest);
    }

    static LedgerHandle create(BookKeeper by, Layout layout, DigestType digest) throws Exception {
        return by.createLedger(layout.ensemble(), layout.write(), layout.ack(), digest, PASSWORD);
    }

    /** Opened by another client, which fences, recovers and closes it where it is open. */
    LedgerHandle recovered(long ledgerId) throws Exception {
        return recovered(another(), ledgerId);
    }

    static LedgerHandle recovered(BookKeeper by, long ledgerId) throws Exception {
        return by.openLedger(ledgerId, digestOf(by, ledgerId), PASSWORD);
    }

    /** Opened as it is. */
    LedgerHandle asIs(long ledgerId) throws Exception {
        return asIs(client, ledgerId);
    }

    static LedgerHandle asIs(BookKeeper by, long ledgerId) throws Exception {
        return by.openLedgerNoRecovery(ledgerId, digestOf(by, ledgerId), PASSWORD);
    }

    LedgerMetadata metadata(long ledgerId) throws Exception {
        return metadata(client, ledgerId);
    }

    static LedgerMetadata metadata(BookKeeper by, long ledgerId) throws Exception {
        return by.getLedgerManager().readLedgerMetadata(ledgerId).get().getValue();
    }

    /** An open ledger on the first three. */
    static LedgerHandle write(BookKeeper by, int count) throws Exception {
        LedgerHandle ledger = create(by, Layout.ALL_OF_THREE, DigestType.CRC32C);
        Entries.add(ledger, count);
        return ledger;
    }

    static void writesReadsAndRecovers(BookKeeper writer, BookKeeper reader) throws Exception {
        // Every bookie has acknowledged before one of them is fenced. The client would answer a late
        // refusal of an acknowledged entry by replacing that bookie, for which it finds no other.
        LedgerHandle open = create(writer, Layout.ALL_ACKNOWLEDGE, DigestType.CRC32C);
        Entries.add(open, 200);
        Entries.check(recovered(reader, open.getId()), 199);
        assertThrows(BKException.BKLedgerFencedException.class, () -> open.addEntry(new byte[9]));
    }

    /** To the last bookie, which is gone after the test: an autorecovery of another class would
     * find no place for what is on it, and wait after each such ledger. */
    static void writesThroughAnEnsembleChange(BookKeeper by) throws Exception {
        LedgerHandle ledger = write(by, 20);
        Fleet.start(4);
        BookKeeperAdmin seen = new BookKeeperAdmin(by);
        Await.until("one more is seen", () -> seen.getAvailableBookies().size() == 4);
        Fleet.kill(1);
        Entries.add(ledger, 20);
        ledger.close();
        Entries.check(recovered(by, ledger.getId()), 39);
        by.deleteLedger(ledger.getId());
    }

    /** Of bookies that do not let it in: it may do nothing, and a reader that may not recover does
     * the writer who may no harm. */
    void isUnauthorized(Consumer<ClientConfiguration> change, BookKeeper authorized)
            throws Exception {
        BookKeeper by = another(change);
        addsNothing(by);
        LedgerHandle there = write(authorized, 5);
        assertThrows(BKException.class, () -> recovered(by, there.getId()));
        Entries.add(there, 5);
        try (Raw raw = new Raw(wire, admin, change)) {
            int code = raw.read(0, there.getId(), 0).code();
            assertEquals(BKException.Code.UnauthorizedAccessException, code);
        }
    }

    static void addsNothing(BookKeeper by) throws Exception {
        LedgerHandle ledger = create(by, Layout.ALL_OF_THREE, DigestType.CRC32C);
        assertThrows(
                BKException.BKUnauthorizedAccessException.class, () -> ledger.addEntry(new byte[9]));
    }

    private static DigestType digestOf(BookKeeper by, long ledgerId) throws Exception {
        return DigestType.fromApiDigestType(metadata(by, ledgerId).getDigestType());
    }
}
