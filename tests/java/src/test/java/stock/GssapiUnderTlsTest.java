package stock;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.util.function.Consumer;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Bookies that want both: TLS, and a ticket under it. The same as without it, and one more. */
@OnBothWires
@Bookies(3)
class GssapiUnderTlsTest extends GssapiTest {
    @BeforeAll
    static void requireBoth() {
        assumeTrue(Sasl.HAS_TICKETS, "there is no KDC, no library, or bookies are Apache's");
        Tls.require();
        Sasl.requireTickets();
    }

    @AfterAll
    static void goOnAsBefore() {
        Sasl.end();
        Tls.end();
    }

    @Override
    Consumer<ClientConfiguration> connected(Consumer<ClientConfiguration> change) {
        return Tls.as("client").andThen(change);
    }

    @Test
    void aTicketWithoutTlsIsNotEnough() throws Exception {
        addsNothing(another(Tls.plain().andThen(Sasl.as("Ticket"))));
    }
}
