import java.nio.file.Path;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.distributedlog.DLSN;
import org.apache.distributedlog.LogRecord;
import org.apache.distributedlog.api.AsyncLogWriter;
import org.apache.distributedlog.api.DistributedLogManager;
import org.apache.distributedlog.api.namespace.Namespace;

/**
 * {@code SETTINGS URI LOG SEED NOTES FIRST COUNT RATE goes-on|stops}: writes records FIRST and
 * following, each tried once, its number also its transaction id; ends after COUNT, with its standard
 * input, or where it {@code stops}, of the first record that fails. Else a writer that failed is closed,
 * and another one opened.
 *
 * <p>Notes: {@code begin MS}, {@code open MS LAST}, {@code ack LOG NUMBER MS POSITION}, {@code
 * failed LOG NUMBER WHY}, {@code reopen MS WHY}, at the end {@code end} and the first number that
 * nobody tried.
 */
public final class DlogWrite {
    private static final int OPEN_MAX = 200;

    private final Namespace namespace;
    private final String log;
    private final long seed;
    private final Path notes;
    private final AtomicBoolean stopping;
    private final Semaphore window = new Semaphore(OPEN_MAX);
    private volatile String broken;
    private DistributedLogManager manager;
    private AsyncLogWriter writer;

    private DlogWrite(Namespace namespace, String log, long seed, Path notes) {
        this.namespace = namespace;
        this.log = log;
        this.seed = seed;
        this.notes = notes;
        this.stopping = DlogPlace.stopping();
    }

    public static void main(String[] words) throws Exception {
        long first = Long.parseLong(words[5]);
        long count = Long.parseLong(words[6]);
        double rate = Double.parseDouble(words[7]);
        boolean stops = words[8].equals("stops");
        Namespace namespace = DlogPlace.namespace(words[0], words[1]);
        Path notes = Path.of(words[4]);
        DlogWrite program = new DlogWrite(namespace, words[2], Long.parseLong(words[3]), notes);
        DlogPlace.note(notes, "begin " + System.currentTimeMillis());
        program.open();
        long next = program.write(first, first + count, rate, stops);
        program.settle();
        program.close();
        DlogPlace.note(notes, "end " + next);
        System.exit(0); // its threads would be waited for
    }

    private long write(long first, long beyond, double rate, boolean stops) throws Exception {
        long began = System.nanoTime();
        long next = first;
        while (next < beyond && !stopping.get() && !(stops && broken != null)) {
            if (broken != null) {
                reopen();
                continue;
            }
            window.acquire();
            send(next);
            next += 1;
            double ahead = (next - first) / rate - (System.nanoTime() - began) / 1e9;
            if (ahead > 0.01) {
                Thread.sleep((long) (ahead * 1000));
            }
        }
        return next;
    }

    private void send(long number) {
        LogRecord record = new LogRecord(number, DlogPlace.payload(log, number, seed));
        writer.write(record).whenComplete((at, error) -> done(number, at, error));
    }

    private void done(long number, DLSN at, Throwable error) {
        if (error == null) {
            String when = System.currentTimeMillis() + " " + DlogPlace.words(at);
            DlogPlace.note(notes, "ack " + log + " " + number + " " + when);
        } else {
            broken = kind(error);
            DlogPlace.note(notes, "failed " + log + " " + number + " " + broken);
        }
        window.release();
    }

    private void reopen() throws Exception {
        settle();
        DlogPlace.note(notes, "reopen " + System.currentTimeMillis() + " " + broken);
        close();
        open();
    }

    /** Until it is there: bookies that are struck have to come back first. */
    private void open() throws Exception {
        long began = System.currentTimeMillis();
        while (true) {
            try {
                manager = namespace.openLog(log);
                writer = manager.openAsyncLogWriter().get(60, TimeUnit.SECONDS);
                broken = null;
                long last = writer.getLastTxId();
                DlogPlace.note(notes, "open " + System.currentTimeMillis() + " " + last);
                return;
            } catch (Exception error) {
                DlogPlace.note(notes, "unopened " + System.currentTimeMillis() + " " + kind(error));
                close();
                if (System.currentTimeMillis() - began > DlogPlace.PATIENCE_MS || stopping.get()) {
                    throw error;
                }
                Thread.sleep(200);
            }
        }
    }

    /** Until every record that was sent is acknowledged or failed. */
    private void settle() throws InterruptedException {
        if (window.tryAcquire(OPEN_MAX, DlogPlace.PATIENCE_MS, TimeUnit.MILLISECONDS)) {
            window.release(OPEN_MAX);
        }
    }

    private void close() {
        try {
            if (writer != null) {
                (broken == null ? writer.asyncClose() : writer.asyncAbort())
                        .get(30, TimeUnit.SECONDS);
            }
        } catch (Exception error) {
            DlogPlace.note(notes, "unclosed " + System.currentTimeMillis() + " " + kind(error));
        }
        writer = null;
        try {
            if (manager != null) {
                manager.close();
            }
        } catch (Exception error) {
            DlogPlace.note(notes, "unclosed " + System.currentTimeMillis() + " " + kind(error));
        }
        manager = null;
    }

    private static String kind(Throwable error) {
        Throwable cause = error;
        while (cause.getCause() != null && cause != cause.getCause()) {
            cause = cause.getCause();
        }
        String said = cause.getClass().getSimpleName() + " " + cause.getMessage();
        return said.replaceAll("\\s+", " ");
    }
}
