package judge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.netty.buffer.ByteBufAllocator;
import io.netty.handler.ssl.SslHandler;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.KeyStore;
import java.util.Base64;
import java.util.List;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.apache.bookkeeper.tls.SecurityHandlerFactory.NodeType;
import org.apache.bookkeeper.tls.TLSContextFactory;
import org.apache.zookeeper.client.ZKClientConfig;
import org.apache.zookeeper.common.ClientX509Util;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class TlsTest {
    private static final char[] SECRET = "secret".toCharArray();
    @TempDir Path folder;

    /** Credentials in this folder: a certificate that is its own authority. */
    static Path made(Path folder, String name) throws Exception {
        Path store = folder.resolve(name + ".p12");
        List<String> words = List.of(
                System.getProperty("java.home") + "/bin/keytool", "-genkeypair", "-keyalg", "EC", "-groupname",
                "secp256r1", "-dname", "CN=same", "-alias", "it", "-keystore", store.toString(),
                "-storetype", "PKCS12", "-storepass", new String(SECRET));
        assertEquals(0, new ProcessBuilder(words).redirectErrorStream(true)
                .redirectOutput(ProcessBuilder.Redirect.DISCARD).start().waitFor());
        KeyStore found = KeyStore.getInstance("PKCS12");
        try (InputStream in = Files.newInputStream(store)) {
            found.load(in, SECRET);
        }
        String certificate = pem("CERTIFICATE", found.getCertificate("it").getEncoded());
        Files.writeString(folder.resolve("tls.key"), pem("PRIVATE KEY", found.getKey("it", SECRET).getEncoded()));
        Files.writeString(folder.resolve("tls.crt"), certificate);
        Files.writeString(folder.resolve("ca.crt"), certificate);
        return folder;
    }

    private static String pem(String kind, byte[] content) {
        String text = Base64.getMimeEncoder(64, new byte[] {'\n'}).encodeToString(content);
        return "-----BEGIN " + kind + "-----\n" + text + "\n-----END " + kind + "-----\n";
    }

    private static Path stores(Tls tls) {
        return Path.of(tls.zookeeper().get("zookeeper.ssl.keyStore.location")).getParent();
    }

    private static int trusted(Tls tls) throws Exception {
        KeyStore found = KeyStore.getInstance("JKS");
        try (InputStream in = Files.newInputStream(stores(tls).resolve(Tls.TRUSTSTORE))) {
            found.load(in, new char[0]);
        }
        return found.size();
    }

    @Test
    void theStockClientTakesThem() throws Exception {
        try (Tls tls = Tls.of(made(folder, "ours"))) {
            ClientConfiguration settings = new ClientConfiguration();
            tls.secure(settings);
            TLSContextFactory factory = new TLSContextFactory();
            factory.init(NodeType.Client, settings, ByteBufAllocator.DEFAULT);
            SslHandler handler = factory.newTLSHandler("bookie-0", 3181);
            assertTrue(handler.engine().getUseClientMode());
        }
    }

    @Test
    void zooKeepersClientTakesThem() throws Exception {
        try (Tls tls = Tls.of(made(folder, "ours")); ClientX509Util util = new ClientX509Util()) {
            ZKClientConfig settings = new ZKClientConfig();
            tls.zookeeper().forEach(settings::setProperty);
            assertNotNull(util.createSSLContext(settings));
            assertEquals(1, trusted(tls));
        }
    }

    @Test
    void bothAuthoritiesOfOneNameAreTrusted() throws Exception {
        String before = Files.readString(made(folder, "old").resolve("ca.crt"));
        made(folder, "new");
        Files.writeString(folder.resolve("ca.crt"), before, StandardOpenOption.APPEND);
        try (Tls tls = Tls.of(folder)) {
            assertEquals(2, trusted(tls));
        }
    }

    @Test
    void whatWasRenewedIsWrittenAgain() throws Exception {
        try (Tls tls = Tls.of(made(folder, "old"))) {
            made(folder, "new");
            tls.renew();
            String key = Files.readString(folder.resolve("tls.key"));
            String certificate = Files.readString(folder.resolve("tls.crt"));
            assertEquals(key + certificate, Files.readString(stores(tls).resolve(Tls.KEYSTORE)));
        }
    }

    @Test
    void onlyTheUserReadsAKeyAndNothingOfItStays() throws Exception {
        Tls tls = Tls.of(made(folder, "ours"));
        Path stores = stores(tls);
        assertEquals("rwx------", PosixFilePermissions.toString(Files.getPosixFilePermissions(stores)));
        tls.close();
        assertFalse(Files.exists(stores));
    }

    @Test
    void aKeyOfAnotherFormIsRefusedByName() throws Exception {
        Path key = made(folder, "ours").resolve("tls.key");
        Files.writeString(key, Files.readString(key).replace("PRIVATE KEY", "EC PRIVATE KEY"));
        Exception error = assertThrows(Options.UsageError.class, () -> Tls.of(folder));
        assertTrue(error.getMessage().contains("tls.key does not begin with"), error.getMessage());
    }
}
