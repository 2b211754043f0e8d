package stock;

import java.nio.file.Path;
import java.util.function.Consumer;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.apache.bookkeeper.tls.TLSContextFactory;

/** What puts a client under TLS; the runner makes the files (java_tls.py). */
final class Tls {
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
        Fleet.ask("tls off");
    }

    private static String file(String name, String ending) {
        return Path.of(Fleet.ask("certificates"), name + "." + ending).toString();
    }

    /** Trusts the bookies' authority and shows no certificate. */
    static Consumer<ClientConfiguration> nobody(Stores stores, String provider) {
        return settings -> {
            settings.setTLSProviderFactoryClass(TLSContextFactory.class.getName());
            settings.setTLSProvider(provider);
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

    /** Trusts whoever is of another authority than the bookies. */
    static void trustStrangers(ClientConfiguration settings) {
        settings.setTLSTrustStore(file("others", "pem"));
    }

    private static String passwordFile() {
        return Path.of(Fleet.ask("certificates"), "password").toString();
    }
}
