package judge;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.util.Arrays;
import java.util.Collection;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.apache.bookkeeper.tls.TLSContextFactory;

/**
 * A folder of credentials (`tls.crt`, `tls.key`, `ca.crt`, in PEM) for the stock client and its ZooKeeper client.
 *
 * The stock client reads the folder itself. ZooKeeper's wants key and certificates in one file, and of the
 * authorities in a PEM file it keeps one for each name, so that it gets two files of its own in `stores`. Both
 * clients take what was renewed for their next connections.
 */
final class Tls implements AutoCloseable {
    static final String KEYSTORE = "keystore.pem";
    static final String TRUSTSTORE = "truststore.jks";
    private static final String PKCS8 = "-----BEGIN PRIVATE KEY-----";
    private static final long LOOK_S = 5;

    private final Path folder;
    private final Path stores;
    private final ScheduledExecutorService renewal = Executors.newSingleThreadScheduledExecutor(task -> {
        Thread thread = new Thread(task, "renewal");
        thread.setDaemon(true);
        return thread;
    });

    /** `stores`: a folder for the user's eyes alone. */
    Tls(Path folder, Path stores) {
        this.folder = folder;
        this.stores = stores;
    }

    /** UsageError when the folder's files cannot be used. */
    static Tls of(Path folder) throws Exception {
        Tls made = new Tls(folder, Files.createTempDirectory("judge-tls-"));
        try {
            made.renew();
            return made;
        } catch (IOException | GeneralSecurityException error) {
            made.close();
            throw new Options.UsageError("--tls: found " + folder + ", whose files cannot be used (" + error
                    + "), expected tls.crt, tls.key in PKCS#8, and ca.crt, in PEM");
        }
    }

    /** Of connections to bookies. */
    void secure(ClientConfiguration settings) {
        settings.setTLSProviderFactoryClass(TLSContextFactory.class.getName());
        settings.setTLSClientAuthentication(true);
        settings.setTLSKeyStoreType("PEM");
        settings.setTLSKeyStore(folder.resolve("tls.key").toString());
        settings.setTLSCertificatePath(folder.resolve("tls.crt").toString());
        settings.setTLSTrustStoreType("PEM");
        settings.setTLSTrustStore(folder.resolve("ca.crt").toString());
        settings.setTLSCertFilesRefreshDurationSeconds(LOOK_S);
    }

    /** Every ZooKeeper client of this JVM connects under TLS from now on. */
    void secureZooKeeper() {
        zookeeper().forEach(System::setProperty);
        renewal.scheduleWithFixedDelay(this::renewOrKeep, LOOK_S, LOOK_S, TimeUnit.SECONDS);
    }

    Map<String, String> zookeeper() {
        return Map.of(
                "zookeeper.client.secure", "true",
                "zookeeper.clientCnxnSocket", "org.apache.zookeeper.ClientCnxnSocketNetty",
                "zookeeper.ssl.enabledProtocols", "TLSv1.3,TLSv1.2",
                "zookeeper.ssl.keyStore.type", "PEM",
                "zookeeper.ssl.keyStore.location", stores.resolve(KEYSTORE).toString(),
                "zookeeper.ssl.trustStore.type", "JKS",
                "zookeeper.ssl.trustStore.location", stores.resolve(TRUSTSTORE).toString());
    }

    /** Writes what ZooKeeper's client reads, where it differs from what is there. */
    void renew() throws IOException, GeneralSecurityException {
        String key = Files.readString(folder.resolve("tls.key"));
        if (!key.contains(PKCS8)) {
            throw new IOException("tls.key does not begin with " + PKCS8);
        }
        // Whom it trusts first: a certificate of a new authority is then shown to those who know it.
        replace(TRUSTSTORE, truststore(Files.readAllBytes(folder.resolve("ca.crt"))));
        String both = key.strip() + "\n" + Files.readString(folder.resolve("tls.crt"));
        replace(KEYSTORE, both.getBytes(StandardCharsets.US_ASCII));
    }

    private void renewOrKeep() {
        try {
            renew();
        } catch (IOException | GeneralSecurityException error) {
            System.out.println("judge: the credentials of before stay in use: " + error);
        }
    }

    private static byte[] truststore(byte[] pem) throws IOException, GeneralSecurityException {
        Collection<? extends Certificate> authorities =
                CertificateFactory.getInstance("X.509").generateCertificates(new ByteArrayInputStream(pem));
        if (authorities.isEmpty()) {
            throw new IOException("no certificate is in ca.crt");
        }
        KeyStore trusted = KeyStore.getInstance("JKS");
        trusted.load(null, null);
        for (Certificate authority : authorities) {
            trusted.setCertificateEntry("authority-" + trusted.size(), authority);
        }
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        trusted.store(bytes, new char[0]);
        return bytes.toByteArray();
    }

    /** All at once, so that nobody reads half of it. */
    private void replace(String name, byte[] content) throws IOException {
        Path file = stores.resolve(name);
        if (Files.exists(file) && Arrays.equals(Files.readAllBytes(file), content)) {
            return;
        }
        Path fresh = stores.resolve("." + name + ".new");
        Files.write(fresh, content);
        Files.move(fresh, file, StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
    }

    /** Nothing of a key stays behind. */
    @Override
    public void close() throws IOException {
        renewal.shutdownNow();
        for (String name : new String[] {KEYSTORE, TRUSTSTORE}) {
            Files.deleteIfExists(stores.resolve(name));
            Files.deleteIfExists(stores.resolve("." + name + ".new"));
        }
        Files.deleteIfExists(stores);
    }
}
