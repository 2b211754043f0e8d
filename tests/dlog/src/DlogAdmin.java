import java.net.URI;
import java.util.concurrent.TimeUnit;
import org.apache.distributedlog.LogSegmentMetadata;
import org.apache.distributedlog.api.AsyncLogWriter;
import org.apache.distributedlog.api.DistributedLogManager;
import org.apache.distributedlog.api.namespace.Namespace;
import org.apache.distributedlog.impl.metadata.BKDLConfig;
import org.apache.distributedlog.metadata.DLMetadata;

/**
 * {@code SETTINGS URI WHAT ...}: {@code bind ZOOKEEPER LEDGERS LOG...} makes a namespace and
 * logs in it, {@code delete LOG}, {@code truncate LOG POSITION}, {@code purge LOG ID} of what lies
 * wholly before this transaction id, {@code segments LOG}, a line for each: {@code LEDGER FIRST LAST
 * STATE}, its transaction ids.
 */
public final class DlogAdmin {
    private static final long WAIT_S = 60;

    private DlogAdmin() {}

    public static void main(String[] words) throws Exception {
        if (words[2].equals("bind")) {
            DLMetadata.create(new BKDLConfig(words[3], words[4])).create(URI.create(words[1]));
        }
        try (Namespace namespace = DlogPlace.namespace(words[0], words[1])) {
            switch (words[2]) {
                case "bind" -> {
                    for (int index = 5; index < words.length; index++) {
                        namespace.createLog(words[index]);
                    }
                }
                case "delete" -> namespace.deleteLog(words[3]);
                default -> {
                    try (DistributedLogManager manager = namespace.openLog(words[3])) {
                        of(manager, words);
                    }
                }
            }
        }
        System.exit(0); // its threads would be waited for
    }

    private static void of(DistributedLogManager manager, String[] words) throws Exception {
        switch (words[2]) {
            case "truncate" -> {
                AsyncLogWriter writer = manager.openAsyncLogWriter().get(WAIT_S, TimeUnit.SECONDS);
                boolean isDone =
                        writer.truncate(DlogPlace.position(words[4]))
                                .get(WAIT_S, TimeUnit.SECONDS);
                writer.asyncClose().get(WAIT_S, TimeUnit.SECONDS);
                if (!isDone) {
                    throw new IllegalStateException("not truncated");
                }
            }
            case "purge" -> manager.purgeLogsOlderThan(Long.parseLong(words[4]));
            case "segments" -> {
                for (LogSegmentMetadata one : manager.getLogSegments()) {
                    String state = one.isInProgress() ? "open" : one.getTruncationStatus().name();
                    System.out.println(
                            one.getLogSegmentId()
                                    + " "
                                    + one.getFirstTxId()
                                    + " "
                                    + (one.isInProgress() ? -1 : one.getLastTxId())
                                    + " "
                                    + state);
                }
            }
            default -> throw new IllegalArgumentException(words[2]);
        }
    }
}
