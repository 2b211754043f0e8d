package judge;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeper.DigestType;
import org.apache.bookkeeper.client.LedgerHandle;

/**
 * `write`: several ledgers at once on each wire, replaced now and then; every acknowledgement noted.
 *
 * What a stock application may meet (a fence, too few bookies, a time limit) ends a ledger, never the
 * writer: another one is created.
 */
final class Writing {
    static final byte[] PASSWORD = "judge".getBytes(java.nio.charset.StandardCharsets.US_ASCII);

    private static final DigestType[] DIGESTS = {DigestType.CRC32C, DigestType.MAC, DigestType.CRC32};
    private static final int ENTRIES_MIN = 50;
    private static final int WINDOW = 64;
    private static final long AGAIN_MS = 200;
    private static final long ANSWERS_S = 20;
    private static final long TELL_S = 10;
    private static final double LEFT_OPEN = 0.2;
    private static final double DELETED = 0.15;

    private final Settings settings;
    private final Notebook notes;
    private final Instant end;
    private final AtomicLong bytes = new AtomicLong();
    private final AtomicLong ledgers = new AtomicLong();
    private final AtomicLong ensembleChanges = new AtomicLong();
    private final Map<String, AtomicLong> ends = new ConcurrentSkipListMap<>();
    private volatile boolean isStopped;

    /** `entries`: of a ledger, at most; `rate`: entries a second of all writers together, 0: any. */
    record Settings(
            Cluster cluster, List<Wire> wires, List<Layout> layouts, int writers, long seed,
            long seconds, long bytes, long rate, int entries) {}

    Writing(Settings settings, Notebook notes) {
        this.settings = settings;
        this.notes = notes;
        this.end = Instant.now().plusSeconds(settings.seconds);
    }

    /** To be called by any thread: what is under way is still waited for. */
    void stop() {
        isStopped = true;
    }

    /** Until the time or the bytes are over, or `stop`. */
    void run() throws Exception {
        List<BookKeeper> clients = new ArrayList<>();
        List<Thread> threads = new ArrayList<>();
        for (Wire wire : settings.wires) {
            BookKeeper client = new BookKeeper(wire.settings(settings.cluster));
            clients.add(client);
            for (int i = 0; i < settings.writers; i++) {
                Writer writer = new Writer(client, wire, threads.size());
                threads.add(new Thread(writer::run, wire + "-writer-" + i));
            }
        }
        threads.forEach(Thread::start);
        Instant began = Instant.now();
        for (Thread thread : threads) {
            while (thread.isAlive()) {
                thread.join(Duration.ofSeconds(TELL_S).toMillis());
                if (thread.isAlive()) {
                    System.out.printf(
                            "judge: %d s, %d ledgers, %d entries acknowledged and noted%n",
                            Duration.between(began, Instant.now()).toSeconds(), ledgers.get(), notes.noted());
                }
            }
        }
        notes.finish();
        for (BookKeeper client : clients) {
            client.close();
        }
    }

    void tell(ObjectNode into) {
        into.put("seed", settings.seed);
        into.put("ledgers", ledgers.get());
        into.put("acknowledged", notes.noted());
        into.put("bytes", bytes.get());
        into.put("ensembleChanges", ensembleChanges.get());
        ObjectNode told = into.putObject("ends");
        ends.forEach((how, count) -> told.put(how, count.get()));
    }

    private boolean isOver() {
        return isStopped || Instant.now().isAfter(end) || notes.failed() != null
                || (settings.bytes > 0 && bytes.get() >= settings.bytes);
    }

    private static <T> void complete(CompletableFuture<T> future, int code, T value) {
        if (code == BKException.Code.OK) {
            future.complete(value);
        } else {
            future.completeExceptionally(BKException.create(code));
        }
    }

    /** The client has time limits of its own, so this is its fault or the machine's: stacks tell. */
    private static synchronized void unanswered(String what) {
        System.out.println("judge: no answer to " + what + " within " + ANSWERS_S + " s");
        Thread.getAllStackTraces().forEach((thread, frames) -> {
            System.err.println(thread + " " + thread.getState());
            for (StackTraceElement frame : frames) {
                System.err.println("    " + frame);
            }
        });
    }

    private void count(String how) {
        ends.computeIfAbsent(how, key -> new AtomicLong()).incrementAndGet();
    }

    /** One ledger after another. */
    private final class Writer {
        private final BookKeeper client;
        private final Wire wire;
        private final Random random;

        Writer(BookKeeper client, Wire wire, int number) {
            this.client = client;
            this.wire = wire;
            this.random = new Random(settings.seed * 1_000 + number);
        }

        void run() {
            try {
                while (!isOver()) {
                    LedgerHandle ledger = create();
                    if (ledger == null) {
                        Thread.sleep(AGAIN_MS);
                    } else {
                        int failed = fill(ledger, ENTRIES_MIN + random.nextInt(settings.entries));
                        ensembleChanges.addAndGet(ledger.getLedgerMetadata().getAllEnsembles().size() - 1);
                        end(ledger, failed);
                    }
                }
            } catch (IOException | InterruptedException error) {
                System.out.println("judge: a writer ended: " + error);
                stop();
            }
        }

        /** Null where it cannot be now. */
        private LedgerHandle create() throws IOException, InterruptedException {
            Layout layout = settings.layouts.get(random.nextInt(settings.layouts.size()));
            DigestType digest = DIGESTS[random.nextInt(DIGESTS.length)];
            CompletableFuture<LedgerHandle> created = new CompletableFuture<>();
            client.asyncCreateLedger(
                    layout.ensemble(), layout.write(), layout.ack(), digest, PASSWORD,
                    (code, handle, context) -> complete(created, code, handle), null, Map.of());
            try {
                LedgerHandle made = answer(created);
                notes.note("create " + made.getId() + " " + wire + " " + layout + " " + digest);
                ledgers.incrementAndGet();
                return made;
            } catch (ExecutionException | TimeoutException error) {
                count("not created: " + Codes.name(error));
                return null;
            }
        }

        /** The code of the add that failed first, or OK. */
        private int fill(LedgerHandle ledger, int entries) throws InterruptedException {
            Semaphore window = new Semaphore(WINDOW);
            AtomicInteger failed = new AtomicInteger(BKException.Code.OK);
            long id = ledger.getId();
            long began = System.nanoTime();
            for (long entry = 0; entry < entries && !isOver() && failed.get() == BKException.Code.OK;) {
                if (!window.tryAcquire(1, TimeUnit.SECONDS)) {
                    continue;
                }
                byte[] payload = Payload.of(id, entry);
                bytes.addAndGet(payload.length);
                ledger.asyncAddEntry(payload, (code, handle, got, expected) -> {
                    if (code == BKException.Code.OK && got != (Long) expected) {
                        throw new IllegalStateException("entry " + expected + " was stored as " + got);
                    }
                    if (code == BKException.Code.OK) {
                        notes.ack(id, got);
                    } else {
                        failed.compareAndSet(BKException.Code.OK, code);
                    }
                    window.release();
                }, entry);
                entry++;
                pace(began, entry);
            }
            if (!window.tryAcquire(WINDOW, ANSWERS_S, TimeUnit.SECONDS)) {
                failed.compareAndSet(BKException.Code.OK, BKException.Code.TimeoutException);
                unanswered("adds of ledger " + id);
            }
            return failed.get();
        }

        private void pace(long began, long entries) throws InterruptedException {
            if (settings.rate > 0) {
                long due = entries * settings.wires.size() * settings.writers * 1_000_000_000 / settings.rate;
                long ahead = due - (System.nanoTime() - began);
                if (ahead > 1_000_000) {
                    Thread.sleep(ahead / 1_000_000);
                }
            }
        }

        private void end(LedgerHandle ledger, int failed) throws IOException, InterruptedException {
            long id = ledger.getId();
            double drawn = random.nextDouble();
            if (failed != BKException.Code.OK) {
                String why = Codes.name(failed);
                count(why);
                notes.note("left " + id + " " + why);
            }
            if (drawn < LEFT_OPEN) {
                if (failed == BKException.Code.OK) {
                    count("left open");
                    notes.note("left " + id + " open");
                }
                return;
            }
            try {
                answer(ledger.closeAsync());
                notes.note("close " + id + " " + ledger.getLastAddConfirmed() + " " + ledger.getLength());
                count("closed");
                if (drawn < LEFT_OPEN + DELETED) {
                    notes.note("deleting " + id);
                    answer(client.newDeleteLedgerOp().withLedgerId(id).execute());
                    notes.note("deleted " + id);
                    count("deleted");
                }
            } catch (ExecutionException | TimeoutException error) {
                count("not ended: " + Codes.name(error));
            }
        }

        /** What the client comes back with, within a bound: an application would not wait for ever. */
        private <T> T answer(CompletableFuture<T> future)
                throws ExecutionException, TimeoutException, InterruptedException {
            try {
                return future.get(ANSWERS_S, TimeUnit.SECONDS);
            } catch (TimeoutException error) {
                unanswered("a call");
                throw error;
            }
        }
    }
}
