package stock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.URI;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.bookkeeper.meta.LedgerUnderreplicationManager;
import org.apache.bookkeeper.meta.MetadataBookieDriver;
import org.apache.bookkeeper.meta.MetadataDrivers;
import org.apache.bookkeeper.meta.UnderreplicatedLedger;
import org.apache.bookkeeper.replication.ReplicationException;
import org.apache.bookkeeper.stats.NullStatsLogger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Marks of under-replicated ledgers: ours under Apache's workers, theirs under us. */
@ByAPerson
@Bookies(3)
class UnderreplicationTest {
    private static final long LEDGER = 7_000_007;

    private MetadataBookieDriver driver;
    private LedgerUnderreplicationManager theirs;

    @BeforeEach
    void connect() throws Exception {
        Fleet.heal(3);
        ServerConfiguration settings = new ServerConfiguration();
        settings.setMetadataServiceUri("zk+hierarchical://" + Fleet.ROOT);
        driver = MetadataDrivers.getBookieDriver(URI.create(settings.getMetadataServiceUri()));
        driver.initialize(settings, NullStatsLogger.INSTANCE);
        theirs = driver.getLedgerManagerFactory().newLedgerUnderreplicationManager();
    }

    /** A worker of a later class would wait for 5 s after each mark that it cannot make sense of. */
    @AfterEach
    void disconnect() throws Exception {
        for (long ledger : marked()) {
            clear(ledger);
        }
        theirs.close();
        driver.close();
    }

    private static Set<Long> marked() {
        return Stream.of(Fleet.ask("list-marks").split(" ")).filter(word -> !word.isEmpty())
                .map(Long::parseLong).collect(Collectors.toSet());
    }

    private static List<String> ours(long ledger) {
        return List.of(Fleet.ask("read-mark " + ledger).split(" "));
    }

    /** By us, at the version that it has. */
    private static boolean clear(long ledger) {
        return Boolean.parseBoolean(Fleet.ask("clear-mark " + ledger + " " + ours(ledger).get(1)));
    }

    private static boolean lock(long ledger) {
        return Boolean.parseBoolean(Fleet.ask("lock-mark " + ledger));
    }

    private static void unlock(long ledger) {
        Fleet.ask("unlock-mark " + ledger);
    }

    private List<Long> listedByThem() {
        List<Long> found = new ArrayList<>();
        theirs.listLedgersToRereplicate(null)
                .forEachRemaining(marked -> found.add(marked.getLedgerId()));
        return found;
    }

    @ParameterizedTest
    @ValueSource(longs = {0, LEDGER, 1L << 31, (1L << 40) + 5, Long.MAX_VALUE})
    void theyReadWhatWeMarked(long ledger) throws Exception {
        Fleet.ask("mark " + ledger + " 1234 bookie-8 bookie-9");
        UnderreplicatedLedger found = theirs.getLedgerUnreplicationInfo(ledger);
        assertEquals(List.of("bookie-8", "bookie-9"), found.getReplicaList());
        assertEquals(1234, found.getCtime());
        assertEquals(List.of(ledger), listedByThem());
    }

    @ParameterizedTest
    @ValueSource(longs = {0, LEDGER, 1L << 31, (1L << 40) + 5, Long.MAX_VALUE})
    void weReadWhatTheyMarked(long ledger) throws Exception {
        long before = System.currentTimeMillis();
        theirs.markLedgerUnderreplicated(ledger, "bookie-9");
        List<String> found = ours(ledger);
        assertTrue(Long.parseLong(found.get(0)) >= before);
        assertEquals(List.of("0", "bookie-9"), found.subList(1, found.size()));
        assertEquals(Set.of(ledger), marked());
    }

    @Test
    void bothAddToOneMark() throws Exception {
        theirs.markLedgerUnderreplicated(LEDGER, "bookie-7");
        Fleet.ask("mark " + LEDGER + " 55 bookie-8 bookie-7");
        assertEquals(List.of("55", "1", "bookie-7", "bookie-8"), ours(LEDGER));
        theirs.markLedgerUnderreplicated(LEDGER, "bookie-9");
        UnderreplicatedLedger found = theirs.getLedgerUnreplicationInfo(LEDGER);
        assertEquals(List.of("bookie-7", "bookie-8", "bookie-9"), found.getReplicaList());
        assertEquals(List.of("2", "bookie-7", "bookie-8", "bookie-9"), ours(LEDGER).subList(1, 5));
    }

    @Test
    void aBookieThatIsNamedIsNotAddedAgainByEither() throws Exception {
        Fleet.ask("mark " + LEDGER + " 55 bookie-8");
        theirs.markLedgerUnderreplicated(LEDGER, "bookie-8");
        Fleet.ask("mark " + LEDGER + " 77 bookie-8");
        assertEquals(List.of("55", "0", "bookie-8"), ours(LEDGER));
    }

    @Test
    void manyMarksAreListedByBoth() throws Exception {
        Set<Long> ledgers = Stream.iterate(1L, id -> id < 1L << 40, id -> id * 3 + 1)
                .collect(Collectors.toSet());
        for (long ledger : ledgers) {
            Fleet.ask("mark " + ledger + " 1 bookie-9");
        }
        assertEquals(ledgers, marked());
        assertEquals(ledgers, Set.copyOf(listedByThem()));
    }

    @Test
    void whatWeClearIsGoneForThem() throws Exception {
        theirs.markLedgerUnderreplicated(LEDGER, "bookie-9");
        theirs.markLedgerUnderreplicated(LEDGER + 1, "bookie-9");
        assertTrue(clear(LEDGER));
        assertNull(theirs.getLedgerUnreplicationInfo(LEDGER));
        assertEquals(List.of(LEDGER + 1), listedByThem());
    }

    @Test
    void whatTheirWorkerClearsIsGoneForUs() throws Exception {
        Fleet.ask("mark " + LEDGER + " 1 bookie-9");
        assertEquals(LEDGER, theirs.pollLedgerToRereplicate());
        theirs.markLedgerReplicated(LEDGER);
        assertEquals(List.of("none"), ours(LEDGER));
        assertEquals(Set.of(), marked());
    }

    @Test
    void whatWeMarkAnewTheirWorkerLeaves() throws Exception {
        Fleet.ask("mark " + LEDGER + " 1 bookie-8");
        assertEquals(LEDGER, theirs.pollLedgerToRereplicate());
        Fleet.ask("mark " + LEDGER + " 2 bookie-9");
        theirs.markLedgerReplicated(LEDGER);
        assertEquals(List.of("2", "1", "bookie-8", "bookie-9"), ours(LEDGER));
    }

    @Test
    void whatTheyMarkAnewWeLeave() throws Exception {
        String version = Fleet.ask("mark " + LEDGER + " 1 bookie-8");
        theirs.markLedgerUnderreplicated(LEDGER, "bookie-9");
        assertEquals("false", Fleet.ask("clear-mark " + LEDGER + " " + version));
        assertNotNull(theirs.getLedgerUnreplicationInfo(LEDGER));
    }

    @Test
    void ourLockKeepsTheirWorkersAway() throws Exception {
        Fleet.ask("mark " + LEDGER + " 1 bookie-9");
        assertTrue(lock(LEDGER));
        assertEquals(-1, theirs.pollLedgerToRereplicate());
        assertTrue(theirs.isLedgerBeingReplicated(LEDGER));
        assertEquals("ours", theirs.getReplicationWorkerIdRereplicatingLedger(LEDGER));
        assertThrows(
                ReplicationException.class, () -> theirs.acquireUnderreplicatedLedger(LEDGER));
        unlock(LEDGER);
        // They keep what they saw of locks until ZooKeeper's word of a change arrives.
        Await.until("it is theirs", () -> theirs.pollLedgerToRereplicate() == LEDGER);
    }

    @Test
    void theirWorkersLockKeepsUsAway() throws Exception {
        Fleet.ask("mark " + LEDGER + " 1 bookie-9");
        assertEquals(LEDGER, theirs.pollLedgerToRereplicate());
        assertFalse(lock(LEDGER));
        unlock(LEDGER);
        assertTrue(theirs.isLedgerBeingReplicated(LEDGER), "it is not ours to give up");
        theirs.releaseUnderreplicatedLedger(LEDGER);
        assertTrue(lock(LEDGER));
        unlock(LEDGER);
    }

    @Test
    void replicationIsSwitchedOffAndOnByEither() throws Exception {
        theirs.disableLedgerReplication();
        assertEquals("false", Fleet.ask("replication-enabled"));
        Fleet.ask("replication-enabled true");
        assertTrue(theirs.isLedgerReplicationEnabled());
        Fleet.ask("replication-enabled false");
        assertFalse(theirs.isLedgerReplicationEnabled());
        theirs.enableLedgerReplication();
        assertEquals("true", Fleet.ask("replication-enabled"));
    }

    @Test
    void theDelayOfRecoveryIsSetByEither() throws Exception {
        theirs.setLostBookieRecoveryDelay(600);
        assertEquals("600", Fleet.ask("recovery-delay"));
        Fleet.ask("recovery-delay 0");
        assertEquals(0, theirs.getLostBookieRecoveryDelay());
    }
}
