import java.nio.file.Path;
import java.util.Arrays;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.distributedlog.DLSN;
import org.apache.distributedlog.LogRecordWithDLSN;
import org.apache.distributedlog.api.AsyncLogReader;
import org.apache.distributedlog.api.DistributedLogManager;
import org.apache.distributedlog.api.LogReader;
import org.apache.distributedlog.api.namespace.Namespace;
import org.apache.distributedlog.exceptions.LogEmptyException;

/**
 * {@code SETTINGS URI LOG SEED SEEN FROM async|sync UNTIL}: reads a log. FROM: {@code head}, {@code
 * at:POSITION} or {@code tx:ID}. UNTIL: {@code end}, what is the last record now; {@code follow},
 * what is the last one once standard input ends; or a number of records.
 *
 * <p>A line for each record: {@code NUMBER POSITION MS}, or {@code foreign POSITION} for what the
 * rule did not make; {@code reopen WHY} where a reader failed and another one went on; at the end
 * {@code end}.
 */
public final class DlogRead {
    private static final long POLL_MS = 200;

    private final Namespace namespace;
    private final String log;
    private final long seed;
    private final Path seen;
    private final AtomicBoolean stopping;
    private DLSN last = DLSN.InvalidDLSN;
    private long taken;
    private long heard = System.currentTimeMillis();

    private DlogRead(Namespace namespace, String log, long seed, Path seen) {
        this.namespace = namespace;
        this.log = log;
        this.seed = seed;
        this.seen = seen;
        this.stopping = DlogPlace.stopping();
    }

    public static void main(String[] words) throws Exception {
        Namespace namespace = DlogPlace.namespace(words[0], words[1]);
        Path seen = Path.of(words[4]);
        DlogRead program = new DlogRead(namespace, words[2], Long.parseLong(words[3]), seen);
        program.read(words[5], words[6].equals("sync"), words[7]);
        DlogPlace.note(seen, "end");
        System.exit(0); // its threads would be waited for
    }

    private void read(String from, boolean isSync, String until) throws Exception {
        while (true) {
            try (DistributedLogManager manager = namespace.openLog(log)) {
                Source source = isSync ? sync(manager, from) : async(manager, from);
                try {
                    drain(manager, source, until);
                    return;
                } finally {
                    source.close();
                }
            } catch (Exception error) {
                String said = error.toString().replaceAll("\\s+", " ");
                DlogPlace.note(seen, "reopen " + said);
                if (System.currentTimeMillis() - heard > DlogPlace.PATIENCE_MS) {
                    throw error;
                }
                Thread.sleep(POLL_MS);
            }
        }
    }

    private void drain(DistributedLogManager manager, Source source, String until)
            throws Exception {
        boolean isCounted = Character.isDigit(until.charAt(0));
        DLSN end = until.equals("end") ? end(manager) : null;
        while (end == null || last.compareTo(end) < 0) {
            if (isCounted && taken >= Long.parseLong(until)) {
                return;
            }
            LogRecordWithDLSN record = source.next();
            if (record != null) {
                note(record);
            } else if (end == null && stopping.get()) {
                end = end(manager);
            } else if (until.equals("follow") && end == null) {
                heard = System.currentTimeMillis(); // nobody owes it anything
            } else if (System.currentTimeMillis() - heard > DlogPlace.PATIENCE_MS) {
                throw new IllegalStateException("nothing comes after " + last + ", end is " + end);
            }
        }
    }

    private static DLSN end(DistributedLogManager manager) throws Exception {
        try {
            return manager.getLastDLSN();
        } catch (LogEmptyException error) {
            return DLSN.InvalidDLSN;
        }
    }

    private void note(LogRecordWithDLSN record) {
        last = record.getDlsn();
        heard = System.currentTimeMillis();
        taken += 1;
        long number = record.getTransactionId();
        boolean isOurs = Arrays.equals(record.getPayload(), DlogPlace.payload(log, number, seed));
        String at = DlogPlace.words(last);
        DlogPlace.note(seen, isOurs ? number + " " + at + " " + heard : "foreign " + at);
    }

    /** Readers of both kinds. {@code next}: null where nothing came for a while. */
    private interface Source {
        LogRecordWithDLSN next() throws Exception;

        void close() throws Exception;
    }

    private Source async(DistributedLogManager manager, String from) throws Exception {
        AsyncLogReader reader =
                taken > 0
                        ? manager.getAsyncLogReader(last.getNextDLSN())
                        : from.startsWith("tx:")
                                ? manager.getAsyncLogReader(Long.parseLong(from.substring(3)))
                                : manager.getAsyncLogReader(start(from));
        return new Source() {
            private CompletableFuture<LogRecordWithDLSN> asked;

            @Override
            public LogRecordWithDLSN next() throws Exception {
                if (asked == null) {
                    asked = reader.readNext();
                }
                try {
                    LogRecordWithDLSN record = asked.get(POLL_MS, TimeUnit.MILLISECONDS);
                    asked = null;
                    return record;
                } catch (TimeoutException error) {
                    return null;
                }
            }

            @Override
            public void close() throws Exception {
                reader.asyncClose().get(30, TimeUnit.SECONDS);
            }
        };
    }

    private Source sync(DistributedLogManager manager, String from) throws Exception {
        LogReader reader =
                taken > 0
                        ? manager.openLogReader(last.getNextDLSN())
                        : from.startsWith("tx:")
                                ? manager.openLogReader(Long.parseLong(from.substring(3)))
                                : manager.openLogReader(start(from));
        return new Source() {
            @Override
            public LogRecordWithDLSN next() throws Exception {
                LogRecordWithDLSN record = reader.readNext(true);
                if (record == null) {
                    Thread.sleep(POLL_MS / 10);
                }
                return record;
            }

            @Override
            public void close() throws Exception {
                reader.close();
            }
        };
    }

    private static DLSN start(String from) {
        return from.equals("head") ? DLSN.InitialDLSN : DlogPlace.position(from.substring(3));
    }
}
