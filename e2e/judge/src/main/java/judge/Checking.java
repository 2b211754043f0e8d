package judge;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeper.DigestType;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.client.api.LedgerEntries;
import org.apache.bookkeeper.client.api.LedgerEntry;
import org.apache.bookkeeper.client.api.LedgerMetadata;

/**
 * `check`: what was noted, held against what the stock client finds.
 *
 * Some ledgers are read as they are; then every ledger is opened with recovery and read whole; then every
 * bookie of every write set is asked for its own copies. A recovery writes back only what is beyond the
 * last add confirmed that a quorum tells: of everything before that it mends nothing.
 */
final class Checking {
    private static final int AT_ONCE = 4;
    private static final int READ_ENTRIES = 100;
    private static final int TRIES = 4;
    private static final int PATIENT_WITH = 4;
    private static final long AGAIN_MS = 1_500;
    private static final long ANSWER_S = 60;
    private static final long AS_IT_IS_EVERY = 3;

    private final Settings settings;
    private final Notes notes;
    private final Findings findings = new Findings();
    private final AtomicLong read = new AtomicLong();
    private final AtomicLong bytes = new AtomicLong();
    private final Set<Notes.Ledger> recovered =
            new ConcurrentSkipListSet<>(Comparator.comparingLong((Notes.Ledger ledger) -> ledger.id));
    private final AtomicLong openedAsIs = new AtomicLong();
    private final AtomicLong readAsIs = new AtomicLong();
    private final Set<Long> gone = new ConcurrentSkipListSet<>();
    private final Instant end;
    private final List<BookKeeper> clients = new ArrayList<>();
    private Copies copies;

    /** `wires`: ledgers are opened on them by turns, copies are asked for on each. */
    record Settings(Cluster cluster, List<Wire> wires, long seconds) {}

    /** Reads may fail for a while; this one says why it failed to the end. */
    private interface Reading<T> {
        T read() throws Exception;
    }

    Checking(Settings settings, Notes notes) {
        this.settings = settings;
        this.notes = notes;
        this.end = Instant.now().plusSeconds(settings.seconds);
    }

    void run() throws Exception {
        for (Wire wire : settings.wires) {
            clients.add(new BookKeeper(wire.settings(settings.cluster)));
        }
        each(this::readAsItIs);
        each(this::recoverAndRead);
        try (Copies asking = new Copies(
                settings.wires, settings.cluster, clients.get(0).getBookieAddressResolver(), findings, end)) {
            copies = asking;
            for (Notes.Ledger ledger : recovered) {
                askForCopies(ledger);
            }
            asking.finish();
        }
        for (BookKeeper client : clients) {
            client.close();
        }
    }

    /** The exit code; nothing seen is nothing proven. */
    int code() {
        int code = findings.code();
        return code == 0 && (notes.acknowledged() == 0 || recovered.size() == 0 || copies.owed() == 0) ? 5 : code;
    }

    void tell(ObjectNode into) {
        ObjectNode ledgers = into.putObject("ledgers");
        ledgers.put("noted", notes.ledgers().size());
        ledgers.put("openedAsTheyAre", openedAsIs.get());
        ledgers.put("recovered", recovered.size());
        ledgers.put("deleted", gone.size());
        ObjectNode entries = into.putObject("entries");
        entries.put("acknowledged", notes.acknowledged());
        entries.put("readAsTheyAre", readAsIs.get());
        entries.put("read", read.get());
        entries.put("bytes", bytes.get());
        copies.tell(into.putObject("copies"));
        findings.tell(into.putObject("findings"));
    }

    void print() {
        System.out.printf(
                "judge: %d ledgers noted, %d recovered, %d deleted, %d looked at as they are%n",
                notes.ledgers().size(), recovered.size(), gone.size(), openedAsIs.get());
        System.out.printf(
                "judge: %d entries acknowledged, %d read back; %d copies owed, %d held%n",
                notes.acknowledged(), read.get(), copies.owed(), copies.held());
        copies.print();
        findings.print();
    }

    private void each(LedgerStep step) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(AT_ONCE);
        List<Future<?>> running = new ArrayList<>();
        for (Notes.Ledger ledger : notes.ledgers()) {
            Callable<Void> task = () -> {
                step.of(ledger);
                return null;
            };
            running.add(pool.submit(task));
        }
        pool.shutdown();
        for (Future<?> one : running) {
            one.get();
        }
    }

    private interface LedgerStep {
        void of(Notes.Ledger ledger) throws Exception;
    }

    private BookKeeper client(Notes.Ledger ledger) {
        return clients.get((int) (Long.remainderUnsigned(Payload.mix(ledger.id), 1024) % clients.size()));
    }

    // As it is
    private void readAsItIs(Notes.Ledger ledger) throws Exception {
        if (Long.remainderUnsigned(Payload.mix(~ledger.id), AS_IT_IS_EVERY) != 0 || ledger.isDoomed) {
            return;
        }
        LedgerHandle handle = settled(ledger, "opened as it is", TRIES, () ->
                client(ledger).openLedgerNoRecovery(ledger.id, digest(ledger), Writing.PASSWORD));
        if (handle == null) {
            return;
        }
        openedAsIs.incrementAndGet();
        long last = handle.getLastAddConfirmed();
        readAll(ledger, handle, last, readAsIs);
        if (ledger.wasClosed()) {
            compareEnd(ledger, last, handle.getLength());
        }
        handle.close();
    }

    // Recovered
    private void recoverAndRead(Notes.Ledger ledger) throws Exception {
        LedgerHandle handle = settled(ledger, "opened with recovery", TRIES, () ->
                client(ledger).openLedger(ledger.id, digest(ledger), Writing.PASSWORD));
        if (handle == null) {
            return;
        }
        if (ledger.isDeleted) {
            findings.add(Findings.Kind.WRONG, "ledger " + ledger.id + " was deleted, and can be opened");
        }
        recovered.add(ledger);
        long last = handle.getLastAddConfirmed();
        long length = readAll(ledger, handle, last, read);
        if (ledger.acked > last) {
            findings.add(Findings.Kind.LOST, ledger.acked - last, "ledger " + ledger.id + " ends at " + last
                    + ", and entries up to " + ledger.acked + " were acknowledged");
        }
        if (handle.getLength() != length) {
            findings.add(Findings.Kind.WRONG, "ledger " + ledger.id + " up to entry " + last + " has length "
                    + handle.getLength() + ", its entries have " + length);
        }
        if (ledger.wasClosed()) {
            compareEnd(ledger, last, handle.getLength());
        }
        handle.close();
    }

    private void compareEnd(Notes.Ledger ledger, long last, long length) {
        if (last != ledger.closedLast || length != ledger.closedLength) {
            findings.add(Findings.Kind.WRONG, "ledger " + ledger.id + " was closed at entry "
                    + ledger.closedLast + ", length " + ledger.closedLength + ", and is at " + last + ", " + length);
        }
    }

    /** Reads 0 to `last`, and says how long they are to be together. */
    private long readAll(Notes.Ledger ledger, LedgerHandle handle, long last, AtomicLong counter) {
        long length = 0;
        int failures = 0;
        for (long first = 0; first <= last; first += READ_ENTRIES) {
            long through = Math.min(last, first + READ_ENTRIES - 1);
            try {
                if (Instant.now().isAfter(end)) {
                    throw new java.util.concurrent.TimeoutException("no time is left");
                }
                readSome(ledger, handle, first, through, counter);
            } catch (Exception error) {
                for (long entry = first; entry <= through; entry++) {
                    failures += readOne(ledger, handle, entry, counter, failures < PATIENT_WITH ? TRIES : 1);
                }
            }
            for (long entry = first; entry <= through; entry++) {
                length += Payload.lengthOf(ledger.id, entry);
            }
        }
        return length;
    }

    /** How many failed: 0 or 1. */
    private int readOne(Notes.Ledger ledger, LedgerHandle handle, long entry, AtomicLong counter, int tries) {
        Boolean isRead = settled(ledger, "read: entry " + entry, tries, () -> {
            readSome(ledger, handle, entry, entry, counter);
            return true;
        });
        return isRead == null ? 1 : 0;
    }

    private void readSome(
            Notes.Ledger ledger, LedgerHandle handle, long first, long through, AtomicLong counter)
            throws Exception {
        try (LedgerEntries found = handle.readAsync(first, through).get(ANSWER_S, TimeUnit.SECONDS)) {
            for (LedgerEntry entry : found) {
                byte[] payload = entry.getEntryBytes();
                if (!java.util.Arrays.equals(payload, Payload.of(ledger.id, entry.getEntryId()))) {
                    findings.add(Findings.Kind.WRONG, "ledger " + ledger.id + " entry " + entry.getEntryId()
                            + " holds " + payload.length + " other bytes");
                }
                counter.incrementAndGet();
                bytes.addAndGet(payload.length);
            }
        }
    }

    // Copies
    private void askForCopies(Notes.Ledger ledger) throws Exception {
        LedgerMetadata metadata = settled(ledger, "looked up in the metadata", TRIES, () ->
                client(ledger).getLedgerManager().readLedgerMetadata(ledger.id)
                        .get(ANSWER_S, TimeUnit.SECONDS).getValue());
        if (metadata != null && metadata.isClosed()) {
            copies.ask(metadata);
        } else if (metadata != null) {
            findings.add(Findings.Kind.UNJUDGED, "ledger " + ledger.id + " is " + metadata.getState());
        }
    }

    private DigestType digest(Notes.Ledger ledger) {
        return DigestType.valueOf(ledger.digest);
    }

    /**
     * What a read says, tried again for a while; null when it stays without, which is a finding: denied
     * is lost, all else could not be judged. That a ledger that was to be deleted is gone is none.
     */
    private <T> T settled(Notes.Ledger ledger, String how, int tries, Reading<T> reading) {
        Exception last = null;
        for (int attempt = 0; attempt < tries && Instant.now().isBefore(end); attempt++) {
            try {
                if (attempt > 0) {
                    Thread.sleep(AGAIN_MS);
                }
                return reading.read();
            } catch (Exception error) {
                last = error;
                if (isNoLedger(Codes.of(error)) && ledger.isDoomed) {
                    gone.add(ledger.id);
                    return null;
                }
            }
        }
        int code = last == null ? BKException.Code.TimeoutException : Codes.of(last);
        String why = last == null ? "no time was left" : Codes.name(last);
        String what = "ledger " + ledger.id + " could not be " + how + ": " + why;
        if (isNoLedger(code)) {
            findings.add(Findings.Kind.LOST, Math.max(ledger.acked + 1, 1), what);
        } else if (code == BKException.Code.NoSuchEntryException) {
            findings.add(Findings.Kind.LOST, what);
        } else {
            findings.add(Findings.Kind.UNJUDGED, what);
        }
        return null;
    }

    private static boolean isNoLedger(int code) {
        return code == BKException.Code.NoSuchLedgerExistsException
                || code == BKException.Code.NoSuchLedgerExistsOnMetadataServerException;
    }
}
