import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.Random;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.bookkeeper.client.AsyncCallback.AddCallback;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.conf.ClientConfiguration;

/**
 * Appends with the stock client: one turn for each line on stdin, answered by one line of JSON.
 *
 * <p>Arguments: ZOOKEEPER/ROOT v2|v3. A line: ENTRY_SIZE COUNT WINDOW LEDGERS. A turn creates LEDGERS
 * new ledgers (3/3/2, CRC32C), adds COUNT entries to them in turn with at most WINDOW of them open,
 * and deletes them. Timed is what lies between the first add and the last acknowledgement, and the
 * time of each add. A turn ends with the first add that fails. The end of stdin ends the program.
 */
public final class Append {
    private static final byte[] PASSWORD = new byte[0];
    private static final long REGISTER_WAIT_NS = 60_000_000_000L;

    private final BookKeeper client;
    private final byte[] entry;
    private final int count;
    private final int window;
    private final LedgerHandle[] ledgers;
    private final Semaphore open;
    private final long[] nanos;
    private final AtomicInteger failed = new AtomicInteger(BKException.Code.OK);

    private Append(BookKeeper client, int size, int count, int window, int ledgers) {
        this.client = client;
        this.entry = new byte[size];
        this.count = count;
        this.window = window;
        this.ledgers = new LedgerHandle[ledgers];
        this.open = new Semaphore(window);
        this.nanos = new long[count];
        new Random().nextBytes(entry);
    }

    public static void main(String[] args) throws Exception {
        ClientConfiguration settings = new ClientConfiguration();
        settings.setMetadataServiceUri("zk+hierarchical://" + args[0]);
        settings.setUseV2WireProtocol(args[1].equals("v2"));
        settings.setThrottleValue(0); // by default no ledger may have 5,000 adds a second
        try (BookKeeper client = new BookKeeper(settings)) {
            BufferedReader turns = new BufferedReader(new InputStreamReader(System.in));
            for (String line = turns.readLine(); line != null; line = turns.readLine()) {
                int[] load = Arrays.stream(line.split(" ")).mapToInt(Integer::parseInt).toArray();
                System.out.println(new Append(client, load[0], load[1], load[2], load[3]).turn());
                System.out.flush();
            }
        }
    }

    private String turn() throws Exception {
        for (int i = 0; i < ledgers.length; i++) {
            ledgers[i] = create();
        }
        long began = System.nanoTime();
        addAll();
        double seconds = (System.nanoTime() - began) / 1e9;
        if (failed.get() != BKException.Code.OK) {
            return "{\"error\": \"" + BKException.getMessage(failed.get()) + "\"}";
        }
        for (LedgerHandle ledger : ledgers) {
            ledger.close();
            client.deleteLedger(ledger.getId());
        }
        Arrays.sort(nanos);
        double p50 = nanos[count / 2] / 1e3;
        return "{\"entries\": " + count + ", \"seconds\": " + seconds + ", \"p50_us\": " + p50 + "}";
    }

    /** Waits for bookies that have not registered yet. */
    private LedgerHandle create() throws Exception {
        long deadline = System.nanoTime() + REGISTER_WAIT_NS;
        while (true) {
            try {
                return client.createLedger(3, 3, 2, BookKeeper.DigestType.CRC32C, PASSWORD);
            } catch (BKException.BKNotEnoughBookiesException error) {
                if (System.nanoTime() > deadline) {
                    throw error;
                }
                Thread.sleep(200);
            }
        }
    }

    private void addAll() throws Exception {
        AddCallback added = (code, ledger, entryId, context) -> {
            if (code != BKException.Code.OK) {
                failed.compareAndSet(BKException.Code.OK, code);
            }
            int number = (Integer) context;
            nanos[number] = System.nanoTime() - nanos[number];
            open.release();
        };
        for (int i = 0; i < count && failed.get() == BKException.Code.OK; i++) {
            open.acquire();
            nanos[i] = System.nanoTime();
            ledgers[i % ledgers.length].asyncAddEntry(entry, added, i);
        }
        open.acquire(window);
        open.release(window);
    }
}
