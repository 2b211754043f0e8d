import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.conf.ClientConfiguration;

/**
 * Holds ledgers open with the stock client while bookies crash: one order for each line on stdin,
 * answered by one line of JSON.
 *
 * <p>Arguments: ZOOKEEPER/ROOT v2|v3 ENTRY_SIZE. The orders:
 *
 * <ul>
 *   <li>open ACTIVE SLOW IDLE: creates so many ledgers (3/3/2, CRC32C).
 *   <li>write PAUSE_MS SLOW_PAUSE_MS: the active and the slow ledgers are appended to from now on,
 *       each again so long after its last acknowledgement, until it is refused.
 *   <li>rest: no longer. Answered by how long each append to an active ledger took.
 *   <li>append: one entry into each ledger. Answered by how many of each kind were refused; these
 *       are left out from then on.
 * </ul>
 *
 * <p>The end of stdin ends the program, and so does any other failure.
 */
public final class Crash {
    private static final byte[] PASSWORD = new byte[0];
    private static final String[] KINDS = {"active", "slow", "idle"};

    private final BookKeeper client;
    private final byte[] entry;
    private final Map<String, List<LedgerHandle>> ledgers = new LinkedHashMap<>();
    private final ScheduledExecutorService clock = Executors.newSingleThreadScheduledExecutor();
    private Spell spell = new Spell();

    private Crash(BookKeeper client, int size) {
        this.client = client;
        this.entry = new byte[size];
    }

    public static void main(String[] args) throws Exception {
        ClientConfiguration settings = new ClientConfiguration();
        settings.setMetadataServiceUri("zk+hierarchical://" + args[0]);
        settings.setUseV2WireProtocol(args[1].equals("v2"));
        try (BookKeeper client = new BookKeeper(settings)) {
            Crash crash = new Crash(client, Integer.parseInt(args[2]));
            try {
                crash.obey(new BufferedReader(new InputStreamReader(System.in)));
            } finally {
                crash.clock.shutdownNow();
            }
        }
    }

    private void obey(BufferedReader orders) throws Exception {
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            String[] words = line.split(" ");
            int[] numbers = Arrays.stream(words).skip(1).mapToInt(Integer::parseInt).toArray();
            System.out.println(answer(words[0], numbers));
            System.out.flush();
        }
    }

    private String answer(String order, int[] numbers) throws Exception {
        switch (order) {
            case "open":
                return open(numbers);
            case "write":
                return write(numbers[0], numbers[1]);
            case "rest":
                return rest();
            case "append":
                return append();
            default:
                throw new IllegalArgumentException(order);
        }
    }

    private String open(int[] counts) throws Exception {
        for (int kind = 0; kind < KINDS.length; kind++) {
            List<LedgerHandle> opened = new ArrayList<>();
            for (int i = 0; i < counts[kind]; i++) {
                opened.add(
                        client.createLedger(3, 3, 2, BookKeeper.DigestType.CRC32C, PASSWORD));
            }
            ledgers.put(KINDS[kind], opened);
        }
        return "{\"opened\": " + Arrays.stream(counts).sum() + "}";
    }

    private String write(int pauseMs, int slowPauseMs) {
        spell = new Spell();
        Spell begun = spell;
        ledgers.get("active").forEach(ledger -> begun.write(ledger, pauseMs, begun.waits));
        Queue<Long> unused = new ConcurrentLinkedQueue<>();
        ledgers.get("slow").forEach(ledger -> begun.write(ledger, slowPauseMs, unused));
        return "{}";
    }

    private String rest() {
        spell.ended = true;
        return spell.waits.stream()
                .map(wait -> String.format(Locale.ROOT, "%.3f", wait / 1e6))
                .collect(Collectors.joining(", ", "{\"waits_ms\": [", "]}"));
    }

    private String append() throws InterruptedException {
        List<String> counts = new ArrayList<>();
        for (String kind : KINDS) {
            List<LedgerHandle> whole = ledgers.get(kind);
            List<LedgerHandle> refused = refusedOf(whole);
            whole.removeAll(refused);
            counts.add("\"" + kind + "\": " + refused.size());
        }
        return "{" + String.join(", ", counts) + "}";
    }

    private List<LedgerHandle> refusedOf(List<LedgerHandle> asked) throws InterruptedException {
        List<LedgerHandle> refused = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch open = new CountDownLatch(asked.size());
        for (LedgerHandle ledger : asked) {
            ledger.asyncAddEntry(
                    entry,
                    (code, handle, entryId, context) -> {
                        if (code != BKException.Code.OK) {
                            refused.add(ledger);
                        }
                        open.countDown();
                    },
                    null);
        }
        open.await();
        return refused;
    }

    /** The time from one order to write to the order to rest. */
    private final class Spell {
        private final Queue<Long> waits = new ConcurrentLinkedQueue<>();
        private volatile boolean ended;

        /** Appends until the end of the spell, or until it is refused. */
        private void write(LedgerHandle ledger, long pauseMs, Queue<Long> waits) {
            if (ended) {
                return;
            }
            long began = System.nanoTime();
            ledger.asyncAddEntry(
                    entry,
                    (code, handle, entryId, context) -> {
                        if (code == BKException.Code.OK) {
                            waits.add(System.nanoTime() - began);
                            clock.schedule(
                                    () -> write(ledger, pauseMs, waits),
                                    pauseMs,
                                    TimeUnit.MILLISECONDS);
                        }
                    },
                    null);
        }
    }
}
