package stock;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import org.apache.bookkeeper.conf.ClientConfiguration;
import org.apache.commons.configuration2.Configuration;

/** What every client of a run comes with, as far as the runner says so: TLS, a user's password. */
final class Access {
    private Access() {}

    /** For a class that has bookies ask for the second of the two; Apache's own cannot serve both. */
    static void assumeBothAreServed(boolean isTheOtherOn) {
        assumeTrue(Fleet.KIND.equals("ours") || !isTheOtherOn,
                "Apache's bookies break off most logins that come under TLS");
    }

    /** In settings of a client, or of tools that make clients of theirs. */
    static void apply(Configuration settings) {
        ClientConfiguration wanted = new ClientConfiguration();
        if (Tls.ALWAYS) {
            Tls.as("client").accept(wanted);
        }
        if (Sasl.ALWAYS) {
            Sasl.user().accept(wanted);
        }
        wanted.getKeys().forEachRemaining(name -> settings.setProperty(name, wanted.getProperty(name)));
    }
}
