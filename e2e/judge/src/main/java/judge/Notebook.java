package judge;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/** Writes notes durably. An acknowledged entry counts once its line was forced, with others together. */
final class Notebook implements AutoCloseable {
    private static final long GATHER_MS = 20;

    private final FileChannel file;
    private final BlockingQueue<Ack> acks = new LinkedBlockingQueue<>();
    private final AtomicLong noted = new AtomicLong();
    private final Thread noting = new Thread(this::noteAcks, "notes");
    private volatile boolean isOver;
    private volatile IOException failed;

    private record Ack(long ledger, long first, long last) {}

    /** A new file: an old one is evidence. */
    Notebook(Path path) throws IOException {
        file = FileChannel.open(path, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE);
        note(Notes.FORMAT);
        noting.start();
    }

    /** Durable when it returns. */
    void note(String line) throws IOException {
        write(line + "\n");
    }

    /** Soon durable; of one ledger in the order of its entries. */
    void ack(long ledger, long entry) {
        acks.add(new Ack(ledger, entry, entry));
    }

    /** Acknowledged entries whose notes are durable. */
    long noted() {
        return noted.get();
    }

    /** Why nothing can be noted any more, or null. */
    IOException failed() {
        return failed;
    }

    private void noteAcks() {
        List<Ack> taken = new ArrayList<>();
        while (!isOver || !acks.isEmpty()) {
            try {
                Ack first = acks.poll(GATHER_MS, TimeUnit.MILLISECONDS);
                if (first == null) {
                    continue;
                }
                taken.add(first);
                acks.drainTo(taken);
                write(lines(taken));
                noted.addAndGet(taken.size());
                taken.clear();
            } catch (IOException error) {
                failed = error;
                return;
            } catch (InterruptedException error) {
                return;
            }
        }
    }

    /** Neighbours of one ledger become one line. */
    private static String lines(List<Ack> acks) {
        List<Ack> joined = new ArrayList<>();
        java.util.Map<Long, Integer> places = new java.util.HashMap<>();
        for (Ack ack : acks) {
            Integer place = places.get(ack.ledger);
            if (place == null) {
                places.put(ack.ledger, joined.size());
                joined.add(ack);
            } else {
                joined.set(place, new Ack(ack.ledger, joined.get(place).first, ack.last));
            }
        }
        StringBuilder text = new StringBuilder();
        for (Ack ack : joined) {
            text.append("ack ").append(ack.ledger).append(' ').append(ack.first).append(' ')
                    .append(ack.last).append('\n');
        }
        return text.toString();
    }

    private synchronized void write(String text) throws IOException {
        ByteBuffer bytes = ByteBuffer.wrap(text.getBytes(StandardCharsets.UTF_8));
        while (bytes.hasRemaining()) {
            file.write(bytes);
        }
        file.force(false);
    }

    /** What was acknowledged until now is noted first. */
    void finish() throws IOException, InterruptedException {
        isOver = true;
        noting.join();
        if (failed != null) {
            throw failed;
        }
        note("end " + noted.get());
    }

    @Override
    public void close() throws IOException {
        isOver = true;
        file.close();
    }
}
