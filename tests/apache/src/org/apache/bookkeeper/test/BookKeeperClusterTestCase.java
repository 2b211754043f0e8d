package org.apache.bookkeeper.test;

import static org.apache.bookkeeper.util.BookKeeperConstants.AVAILABLE_NODE;
import static org.junit.Assert.assertTrue;

import java.io.File;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.LinkedList;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import org.apache.bookkeeper.bookie.Bookie;
import org.apache.bookkeeper.bookie.BookieImpl;
import org.apache.bookkeeper.bookie.BookieResources;
import org.apache.bookkeeper.bookie.MockUncleanShutdownDetection;
import org.apache.bookkeeper.client.BookKeeperTestClient;
import org.apache.bookkeeper.common.allocator.PoolingPolicy;
import org.apache.bookkeeper.conf.AbstractConfiguration;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.bookkeeper.conf.TestBKConfiguration;
import org.apache.bookkeeper.meta.zk.ZKMetadataDriverBase;
import org.apache.bookkeeper.metastore.InMemoryMetaStore;
import org.apache.bookkeeper.net.BookieId;
import org.apache.bookkeeper.net.BookieSocketAddress;
import org.apache.bookkeeper.proto.BookieServer;
import org.apache.bookkeeper.replication.Auditor;
import org.apache.bookkeeper.replication.AutoRecoveryMain;
import org.apache.bookkeeper.replication.ReplicationWorker;
import org.apache.bookkeeper.stats.ThreadRegistry;
import org.apache.zookeeper.ZooKeeper;
import org.junit.After;
import org.junit.Before;
import org.junit.Rule;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.TestInfo;
import org.junit.rules.TestName;
import org.junit.rules.Timeout;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import outside.NeedsApachesProcess;
import outside.OutsideBookie;
import outside.OutsideConfiguration;

/**
 * Stands in for Apache's class of this name: what its tests stand on. ZooKeeper, clients and autorecovery are in the
 * process of the test as there; the bookies are outside, but for those that a test makes itself and hands in.
 */
public abstract class BookKeeperClusterTestCase {
    static final Logger LOG = LoggerFactory.getLogger(BookKeeperClusterTestCase.class);
    private static final int START_WAIT_S = 30;

    @Rule public final TestName runtime = new TestName();
    @Rule public final Timeout globalTimeout;

    protected String testName;
    protected final ZooKeeperCluster zkUtil;
    protected ZooKeeper zkc;
    protected String metadataServiceUri;
    protected final TmpDirs tmpDirs = new TmpDirs();
    protected final List<ServerTester> servers = new LinkedList<>();
    protected int numBookies;
    protected BookKeeperTestClient bkc;
    protected boolean useUUIDasBookieId = true;
    protected final ServerConfiguration baseConf = TestBKConfiguration.newServerConfiguration();
    protected final ClientConfiguration baseClientConf = TestBKConfiguration.newClientConfiguration();
    private final Queue<Throwable> captured = new ConcurrentLinkedQueue<>();
    private boolean isAutoRecoveryEnabled;

    protected BookKeeperClusterTestCase(int numBookies) {
        this(numBookies, 120);
    }

    protected BookKeeperClusterTestCase(int numBookies, int testTimeoutSecs) {
        this(numBookies, 1, testTimeoutSecs);
    }

    protected BookKeeperClusterTestCase(int numBookies, int numOfZKNodes, int testTimeoutSecs) {
        this.numBookies = numBookies;
        this.globalTimeout = Timeout.seconds(testTimeoutSecs);
        try {
            this.zkUtil = numOfZKNodes == 1 ? new ZooKeeperUtil() : new ZooKeeperClusterUtil(numOfZKNodes);
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    protected void captureThrowable(Runnable c) {
        try {
            c.run();
        } catch (Throwable error) {
            captured.add(error);
        }
    }

    @Before
    @BeforeEach
    public void setUp() throws Exception {
        setUp("/ledgers");
    }

    @Before
    public void setTestNameJunit4() {
        testName = runtime.getMethodName();
    }

    @BeforeEach
    void setTestNameJunit5(TestInfo testInfo) {
        testName = testInfo.getDisplayName();
    }

    protected void setUp(String ledgersRootPath) throws Exception {
        InMemoryMetaStore.reset();
        setMetastoreImplClass(baseConf);
        setMetastoreImplClass(baseClientConf);
        startZKCluster();
        metadataServiceUri = getMetadataServiceUri(ledgersRootPath);
        startBKCluster(metadataServiceUri);
    }

    @After
    @AfterEach
    public void tearDown() throws Exception {
        Exception failed = null;
        for (Step step : new Step[] {this::stopBKCluster, this::stopZKCluster, tmpDirs::cleanup}) {
            try {
                step.run();
            } catch (Exception error) {
                LOG.error("tear down", error);
                failed = error;
            }
        }
        assertTrue("thrown on the side: " + captured, captured.isEmpty());
        if (failed != null) {
            throw failed;
        }
    }

    private interface Step {
        void run() throws Exception;
    }

    @After
    public void clearMetricsThreadRegistry() throws Exception {
        ThreadRegistry.clear();
    }

    // Clusters
    protected String getMetadataServiceUri(String ledgersRootPath) {
        return zkUtil.getMetadataServiceUri(ledgersRootPath);
    }

    protected String newMetadataServiceUri(String ledgersRootPath) {
        return zkUtil.getMetadataServiceUri(ledgersRootPath);
    }

    protected String newMetadataServiceUri(String ledgersRootPath, String type) {
        return zkUtil.getMetadataServiceUri(ledgersRootPath, type);
    }

    protected void startZKCluster() throws Exception {
        zkUtil.startCluster();
        zkc = zkUtil.getZooKeeperClient();
    }

    protected void stopZKCluster() throws Exception {
        zkUtil.killCluster();
    }

    protected void startBKCluster(String uri) throws Exception {
        baseConf.setMetadataServiceUri(uri);
        baseClientConf.setMetadataServiceUri(uri);
        baseClientConf.setAllocatorPoolingPolicy(PoolingPolicy.UnpooledHeap);
        if (numBookies > 0) {
            bkc = null; // that of a cluster before is closed
            client();
        }
        for (int i = 0; i < numBookies; i++) {
            startNewBookie();
        }
    }

    protected void stopBKCluster() throws Exception {
        if (bkc != null) {
            bkc.close();
        }
        stopServers();
    }

    protected void stopAllBookies() throws Exception {
        stopAllBookies(true);
    }

    protected void stopAllBookies(boolean shutdownClient) throws Exception {
        stopServers();
        if (shutdownClient && bkc != null) {
            bkc.close();
            bkc = null;
        }
    }

    private void stopServers() throws Exception {
        stopReplicationService();
        for (ServerTester tester : servers) {
            tester.shutdown();
        }
        servers.clear();
    }

    private BookKeeperTestClient client() throws Exception {
        if (bkc == null) {
            bkc = new BookKeeperTestClient(baseClientConf, new TestStatsProvider());
        }
        return bkc;
    }

    public void setMetastoreImplClass(AbstractConfiguration conf) {
        conf.setMetastoreImplClass(InMemoryMetaStore.class.getName());
    }

    // Settings
    protected ServerConfiguration newServerConfiguration() throws Exception {
        File folder = tmpDirs.createNew("bookie", "test");
        return newServerConfiguration(OutsideBookie.freePort(), folder, new File[] {folder});
    }

    protected ClientConfiguration newClientConfiguration() {
        return new ClientConfiguration(baseClientConf);
    }

    protected ServerConfiguration newServerConfiguration(int port, File journalDir, File[] ledgerDirs) {
        ServerConfiguration conf = new ServerConfiguration(baseConf);
        conf.setBookiePort(port);
        conf.setJournalDirName(journalDir.getPath());
        List<String> names = new ArrayList<>();
        for (File folder : ledgerDirs) {
            names.add(folder.getPath());
        }
        conf.setLedgerDirNames(names.toArray(new String[0]));
        conf.setEnableTaskExecutionStats(true);
        conf.setAllocatorPoolingPolicy(PoolingPolicy.UnpooledHeap);
        return conf;
    }

    // Who there is
    public BookieId getBookie(int index) throws Exception {
        return servers.get(index).getServer().getBookieId();
    }

    protected BookieId addressByIndex(int index) throws Exception {
        return getBookie(index);
    }

    protected List<BookieId> bookieAddresses() throws Exception {
        List<BookieId> ids = new ArrayList<>();
        for (ServerTester tester : servers) {
            ids.add(tester.getServer().getBookieId());
        }
        return ids;
    }

    protected List<File> bookieLedgerDirs() throws Exception {
        throw new NeedsApachesProcess("files of bookies: bookieLedgerDirs");
    }

    protected List<File> bookieJournalDirs() throws Exception {
        throw new NeedsApachesProcess("files of bookies: bookieJournalDirs");
    }

    protected BookieServer serverByIndex(int index) throws Exception {
        return servers.get(index).getServer();
    }

    protected ServerConfiguration confByIndex(int index) throws Exception {
        return servers.get(index).getConfiguration();
    }

    public ServerConfiguration getBkConf(BookieId addr) throws Exception {
        return confByIndex(indexOf(addr));
    }

    protected int indexOfServer(BookieServer b) throws Exception {
        for (int i = 0; i < servers.size(); i++) {
            if (servers.get(i).getServer() == b) {
                return i;
            }
        }
        return -1;
    }

    private int indexOf(BookieId addr) throws Exception {
        return bookieAddresses().indexOf(addr);
    }

    protected int lastBookieIndex() {
        return servers.size() - 1;
    }

    protected int bookieCount() {
        return servers.size();
    }

    public boolean isCreatedFromIp(BookieId bookieId) {
        return bkc.getBookieAddressResolver().resolve(bookieId).getSocketAddress().toString().startsWith("/");
    }

    public void resetBookieOpLoggers() {
        throw new NeedsApachesProcess("figures of bookies: resetBookieOpLoggers");
    }

    public TestStatsProvider getStatsProvider(BookieId addr) {
        throw new NeedsApachesProcess("figures of bookies: getStatsProvider");
    }

    public TestStatsProvider getStatsProvider(int index) throws Exception {
        throw new NeedsApachesProcess("figures of bookies: getStatsProvider");
    }

    // What is done to them
    public ServerConfiguration killBookie(BookieId addr) throws Exception {
        int index = indexOf(addr);
        return index < 0 ? null : killBookie(index);
    }

    public ServerConfiguration killBookie(int index) throws Exception {
        ServerTester tester = servers.remove(index);
        tester.shutdown();
        return new ServerConfiguration(tester.getConfiguration());
    }

    public ServerConfiguration killBookieAndWaitForZK(int index) throws Exception {
        String path = ZKMetadataDriverBase.resolveZkLedgersRootPath(baseConf) + "/" + AVAILABLE_NODE + "/"
                + getBookie(index);
        ServerConfiguration conf = killBookie(index);
        while (zkc.exists(path, false) != null) {
            Thread.sleep(100);
        }
        return conf;
    }

    public void setBookieToReadOnly(BookieId addr) throws Exception {
        int index = indexOf(addr);
        if (index >= 0) {
            serverByIndex(index).getBookie().getStateManager().transitionToReadOnlyMode().get();
        }
    }

    public CountDownLatch sleepBookie(BookieId addr, int seconds) throws Exception {
        CountDownLatch asleep = new CountDownLatch(1);
        sleep(addr, asleep, () -> Thread.sleep(seconds * 1000L));
        return asleep;
    }

    public void sleepBookie(BookieId addr, CountDownLatch l) throws InterruptedException, IOException {
        CountDownLatch asleep = new CountDownLatch(1);
        sleepBookie(addr, l, asleep);
        asleep.await();
    }

    public void sleepBookie(BookieId addr, CountDownLatch l, CountDownLatch suspendLatch)
            throws InterruptedException, IOException {
        sleep(addr, suspendLatch, l::await);
    }

    private void sleep(BookieId addr, CountDownLatch asleep, Step until) throws IOException {
        BookieServer server;
        try {
            int index = indexOf(addr);
            if (index < 0) {
                throw new IOException("Bookie not found");
            }
            server = serverByIndex(index);
        } catch (IOException error) {
            throw error;
        } catch (Exception error) {
            throw new IOException(error);
        }
        new Thread(() -> {
            try {
                server.suspendProcessing();
                if (asleep != null) {
                    asleep.countDown();
                }
                until.run();
                server.resumeProcessing();
            } catch (Exception error) {
                LOG.error("sleep of {}", addr, error);
            }
        }).start();
    }

    public void restartBookies() throws Exception {
        restartBookies(conf -> conf);
    }

    public void restartBookie(BookieId addr) throws Exception {
        int index = indexOf(addr);
        if (index < 0) {
            throw new IOException("Bookie not found");
        }
        ServerConfiguration conf = killBookie(index);
        Thread.sleep(1000);
        startAndAddBookie(conf);
    }

    public void restartBookies(Function<ServerConfiguration, ServerConfiguration> reconfFunction)
            throws Exception {
        List<ServerConfiguration> confs = new ArrayList<>();
        stopReplicationService();
        while (!servers.isEmpty()) {
            confs.add(killBookie(0));
        }
        Thread.sleep(1000);
        for (ServerConfiguration conf : confs) {
            startAndAddBookie(reconfFunction.apply(conf));
        }
    }

    public int startNewBookie() throws Exception {
        return startNewBookieAndReturnAddress().getPort();
    }

    public BookieSocketAddress startNewBookieAndReturnAddress() throws Exception {
        return startAndAddBookie(newServerConfiguration()).getServer().getLocalAddress();
    }

    public BookieId startNewBookieAndReturnBookieId() throws Exception {
        return startAndAddBookie(newServerConfiguration()).getServer().getBookieId();
    }

    protected ServerTester startAndAddBookie(ServerConfiguration conf) throws Exception {
        ServerTester tester = startBookie(conf);
        servers.add(tester);
        return tester;
    }

    protected ServerTester startAndAddBookie(ServerConfiguration conf, Bookie b) throws Exception {
        ServerTester tester = startBookie(conf, b);
        servers.add(tester);
        return tester;
    }

    protected ServerTester startBookie(ServerConfiguration conf) throws Exception {
        return started(new ServerTester(conf), conf);
    }

    protected ServerTester startBookie(ServerConfiguration conf, Bookie b) throws Exception {
        return started(new ServerTester(conf, b), conf);
    }

    private ServerTester started(ServerTester tester, ServerConfiguration conf) throws Exception {
        BookieId id = tester.getServer().getBookieId();
        Future<?> isThere =
                conf.isForceReadOnlyBookie() ? client().waitForReadOnlyBookie(id) : client().waitForWritableBookie(id);
        tester.getServer().start();
        isThere.get(START_WAIT_S, TimeUnit.SECONDS);
        if (isAutoRecoveryEnabled) {
            tester.startAutoRecovery();
        }
        return tester;
    }

    // Autorecovery, in the process of the test
    public void setAutoRecoveryEnabled(boolean isEnabled) {
        isAutoRecoveryEnabled = isEnabled;
    }

    public boolean isAutoRecoveryEnabled() {
        return isAutoRecoveryEnabled;
    }

    public void startReplicationService() throws Exception {
        for (ServerTester tester : servers) {
            tester.startAutoRecovery();
        }
    }

    public void stopReplicationService() throws Exception {
        for (ServerTester tester : servers) {
            tester.stopAutoRecovery();
        }
    }

    public Auditor getAuditor(int timeout, TimeUnit unit) throws Exception {
        long deadline = System.nanoTime() + unit.toNanos(timeout);
        while (System.nanoTime() < deadline) {
            for (ServerTester tester : servers) {
                if (tester.recovers()) {
                    Thread.sleep(tester.getConfiguration().getDeathWatchInterval() + 1000);
                    if (tester.recovers()) {
                        return tester.getAuditor();
                    }
                }
            }
            Thread.sleep(100);
        }
        throw new Exception("No auditor found");
    }

    /** One bookie: outside, or the one that a test has made. */
    public class ServerTester {
        private final ServerConfiguration conf;
        private final OutsideBookie outside;
        private final BookieServer server;
        private final BookieSocketAddress address;
        private AutoRecoveryMain autoRecovery;

        public ServerTester(ServerConfiguration conf) throws Exception {
            if (conf.getBookiePort() == 0) {
                conf.setBookiePort(OutsideBookie.freePort());
            }
            this.conf = new OutsideConfiguration(conf);
            outside = new OutsideBookie(this.conf);
            server = outside.server();
            address = outside.address();
        }

        public ServerTester(ServerConfiguration conf, Bookie b) throws Exception {
            OutsideBookie.handOver(conf);
            this.conf = conf;
            outside = null;
            server = new BookieServer(conf, b, new TestStatsProvider().getStatsLogger(""),
                    BookieResources.createAllocator(conf), new MockUncleanShutdownDetection());
            address = BookieImpl.getBookieAddress(conf);
        }

        public void startAutoRecovery() throws Exception {
            autoRecovery = new AutoRecoveryMain(conf);
            autoRecovery.start();
        }

        public void stopAutoRecovery() {
            if (autoRecovery != null) {
                autoRecovery.shutdown();
            }
        }

        public Auditor getAuditor() {
            return autoRecovery == null ? null : autoRecovery.getAuditor();
        }

        public ReplicationWorker getReplicationWorker() {
            return autoRecovery == null ? null : autoRecovery.getReplicationWorker();
        }

        private boolean recovers() {
            Auditor auditor = getAuditor();
            ReplicationWorker worker = getReplicationWorker();
            return auditor != null && auditor.isRunning() && worker != null && worker.isRunning();
        }

        public ServerConfiguration getConfiguration() {
            return conf;
        }

        public BookieServer getServer() {
            return server;
        }

        public TestStatsProvider getStatsProvider() {
            throw new NeedsApachesProcess("figures of bookies: getStatsProvider");
        }

        public BookieSocketAddress getAddress() {
            return address;
        }

        public void shutdown() throws Exception {
            server.shutdown();
            stopAutoRecovery();
        }
    }
}
