import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.distributedlog.DLSN;
import org.apache.distributedlog.DistributedLogConfiguration;
import org.apache.distributedlog.api.namespace.Namespace;
import org.apache.distributedlog.api.namespace.NamespaceBuilder;

/** What the programs of this folder share: a namespace, a record's payload and position, notes. */
final class DlogPlace {
    static final long PATIENCE_MS = 120_000;

    private DlogPlace() {}

    static Namespace namespace(String settings, String uri) throws Exception {
        DistributedLogConfiguration configuration = new DistributedLogConfiguration();
        configuration.loadConf(Path.of(settings).toUri().toURL());
        return NamespaceBuilder.newBuilder().conf(configuration).uri(URI.create(uri)).build();
    }

    static byte[] payload(String log, long number, long seed) {
        return Payload.of("dlog", log, number, seed);
    }

    static String words(DLSN at) {
        return at.getLogSegmentSequenceNo() + ":" + at.getEntryId() + ":" + at.getSlotId();
    }

    static DLSN position(String words) {
        String[] parts = words.split(":");
        return new DLSN(
                Long.parseLong(parts[0]), Long.parseLong(parts[1]), Long.parseLong(parts[2]));
    }

    private static OutputStream notes;

    /** Past this process before anybody can know of it: nothing holds it back. One file each. */
    static synchronized void note(Path file, String said) {
        try {
            if (notes == null) {
                notes = new FileOutputStream(file.toFile(), true);
            }
            notes.write((said + "\n").getBytes(StandardCharsets.UTF_8));
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** Set once standard input ends. Not by a SIGTERM: a JVM that is on its way down opens no log. */
    static AtomicBoolean stopping() {
        AtomicBoolean stopping = new AtomicBoolean();
        Thread watcher =
                new Thread(
                        () -> {
                            try {
                                while (System.in.read() >= 0) {}
                            } catch (IOException error) {
                                // ended, too
                            }
                            stopping.set(true);
                        });
        watcher.setDaemon(true);
        watcher.start();
        return stopping;
    }
}
