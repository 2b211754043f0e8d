package stock;

import org.apache.bookkeeper.conf.ClientConfiguration;
import org.apache.commons.configuration2.Configuration;

/** What every client of a run comes with, as far as the runner says so: TLS, a user's password. */
final class Access {
    private Access() {}

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
