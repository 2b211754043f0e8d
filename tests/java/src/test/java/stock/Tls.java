package stock;

import java.nio.file.Path;
import java.util.function.Consumer;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.apache.bookkeeper.tls.TLSContextFactory;

/** What puts a client under TLS; the runner makes the files (java_tls.py). */
final class Tls {
    /** Every client of every test comes so. */
    static final boolean ALWAYS = Boolean.getBoolean("fleet.tls");

    private static final String FACTORY_SETTING = "tlsProviderFactoryClass";
    private static final String ZOOKEEPERS_KEY_STORE = "zookeeper.ssl.keyStore.location";

    /** Of the files that a client reads. */
    enum Stores {
        PEM("key", "pem"),
        PKCS12("p12", "p12"),
        JKS("jks", "jks");

        private final String key;
        private final String trust;

        Stores(String key, String trust) {
            this.key = key;
            this.trust = trust;
        }
    }

    private Tls() {}

    /** Bookies that end, and offer it from their next start on; ours refuse whoever goes without. */
    static void require() {
        Fleet.ask("tls required");
    }

    static void end() {
        Fleet.ask("tls usual");
    }

    private static String file(String name, String ending) {
        return Path.of(Fleet.ask("certificates"), name + "." + ending).toString();
    }

    /** Trusts the bookies' authority and shows no certificate. */
    static Consumer<ClientConfiguration> nobody(Stores stores, String provider) {
        return settings -> {
            settings.setTLSProviderFactoryClass(TLSContextFactory.class.getName());
            settings.setTLSProvider(provider);
            settings.setTLSClientAuthentication(false);
            settings.setTLSTrustStoreType(stores.name());
            settings.setTLSTrustStore(file("ours", stores.trust));
            settings.setTLSTrustStorePasswordPath(passwordFile());
        };
    }

    /** Shows this certificate as well. */
    static Consumer<ClientConfiguration> as(String name, Stores stores, String provider) {
        return nobody(stores, provider).andThen(settings -> {
            settings.setTLSClientAuthentication(true);
            settings.setTLSKeyStoreType(stores.name());
            settings.setTLSKeyStore(file(name, stores.key));
            settings.setTLSCertificatePath(file(name, "pem"));
            if (stores != Stores.PEM) {
                settings.setTLSKeyStorePasswordPath(passwordFile());
            }
        });
    }

    static Consumer<ClientConfiguration> as(String name) {
        return as(name, Stores.PEM, "OpenSSL");
    }

    static Consumer<ClientConfiguration> plain() {
        return settings -> settings.clearProperty(FACTORY_SETTING);
    }

    /** Whose certificate ZooKeeper is shown by clients that are made from now on. */
    static void comeToZooKeeperAs(String name) {
        if (ALWAYS) {
            System.setProperty(ZOOKEEPERS_KEY_STORE, file(name, "keystore"));
        }
    }

    /** Trusts whoever is of another authority than the bookies. */
    static void trustStrangers(ClientConfiguration settings) {
        settings.setTLSTrustStore(file("others", "pem"));
    }

    private static String passwordFile() {
        return Path.of(Fleet.ask("certificates"), "password").toString();
    }
}
