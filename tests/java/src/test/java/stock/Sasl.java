package stock;

import java.util.function.Consumer;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.apache.bookkeeper.sasl.SASLClientProviderFactory;
import org.apache.bookkeeper.sasl.SaslConstants;

/** What has a client come with a password; the runner makes the JAAS file (java_sasl.py). */
final class Sasl {
    /** Every client of every test comes with one. */
    static final boolean ALWAYS = Boolean.getBoolean("fleet.sasl");

    /** There is a KDC, and the bookies may be asked to take its tickets (java_tickets.py). */
    static final boolean HAS_TICKETS = Boolean.getBoolean("fleet.tickets") && Fleet.KIND.equals("ours");

    static final String FACTORY = SASLClientProviderFactory.class.getName();

    private static final String FACTORY_SETTING = "clientAuthProviderFactoryClass";

    private Sasl() {}

    /** Bookies that end, and ask for a password from their next start on. */
    static void require() {
        Fleet.ask("authentication digest-md5");
    }

    /** Bookies that end, and let in whoever shows a certificate from their next start on. */
    static void requireCertificates() {
        Fleet.ask("authentication tls");
    }

    /** Bookies that end, and ask for a ticket from their next start on. */
    static void requireTickets() {
        Fleet.ask("authentication gssapi");
    }

    /** To which clients get tickets from now on. */
    static void service(String name) {
        System.setProperty("bookkeeper.sasl.servicename", name);
    }

    static void end() {
        Fleet.ask("authentication usual");
    }

    /** User and password of this section of the file. */
    static Consumer<ClientConfiguration> as(String section) {
        return settings -> {
            settings.setClientAuthProviderFactoryClass(FACTORY);
            settings.setProperty(SaslConstants.JAAS_CLIENT_SECTION_NAME, section);
        };
    }

    static Consumer<ClientConfiguration> user() {
        return as("BookKeeper");
    }

    static Consumer<ClientConfiguration> nobody() {
        return settings -> settings.clearProperty(FACTORY_SETTING);
    }
}
