package judge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.List;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ClusterTest {
    private static final String SOCKET = "zookeeper.clientCnxnSocket";
    @TempDir Path folder;

    @AfterEach
    void goOnInPlain() {
        System.getProperties().keySet().removeIf(name -> name.toString().startsWith("zookeeper."));
    }

    @Test
    void addressesAreWrittenAsApacheHasThem() throws Exception {
        assertEquals("zk+hierarchical://a:1;b:2/ledgers", Cluster.of("zk://a:1,b:2/ledgers", null).uri());
        assertEquals("zk+hierarchical://a:1/x", Cluster.of("zk+hierarchical://a:1/x", null).uri());
    }

    @Test
    void withoutCredentialsNobodyIsUnderTls() throws Exception {
        ClientConfiguration settings = Wire.V3.settings(Cluster.of("zk://a:1/ledgers", null));
        assertNull(settings.getTLSProviderFactoryClass());
        assertNull(System.getProperty(SOCKET));
    }

    @Test
    void credentialsAloneAreForBookies() throws Exception {
        try (Cluster cluster = Cluster.of("zk://a:1/ledgers", TlsTest.made(folder, "ours"))) {
            assertEquals(folder.resolve("ca.crt").toString(), Wire.V2.settings(cluster).getTLSTrustStore());
            assertNull(System.getProperty(SOCKET));
        }
    }

    @Test
    void zooKeeperIsUnderTlsWhereItsAddressSaysSo() throws Exception {
        Options options = new Options(
                List.of("--metadata", "zks://a:1/ledgers", "--tls", TlsTest.made(folder, "ours").toString()),
                List.of("metadata", "tls"));
        try (Cluster cluster = Cluster.of(options)) {
            assertEquals("zk+hierarchical://a:1/ledgers", cluster.uri());
            assertEquals("org.apache.zookeeper.ClientCnxnSocketNetty", System.getProperty(SOCKET));
        }
    }

    @Test
    void anAddressUnderTlsNeedsCredentials() {
        Exception error =
                assertThrows(Options.UsageError.class, () -> Cluster.of("zks://a:1/ledgers", null));
        assertTrue(error.getMessage().contains("--tls DIRECTORY"), error.getMessage());
    }
}
