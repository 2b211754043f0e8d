package stock;

import java.util.function.Consumer;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Bookies that want both: TLS, and a user's password under it. */
@OnBothWires
@Bookies(3)
class SaslUnderTlsTest extends SuiteCase {
    @BeforeAll
    static void requireBoth() {
        Access.assumeBothAreServed(true);
        Tls.require();
        Sasl.require();
    }

    @AfterAll
    static void goOnAsBefore() {
        Sasl.end();
        Tls.end();
    }

    @Test
    void aUserUnderTlsWritesReadsAndRecovers() throws Exception {
        Consumer<ClientConfiguration> both = Tls.as("client").andThen(Sasl.user());
        writesReadsAndRecovers(another(both), another(both));
    }

    @Test
    void aWrongPasswordUnderTlsIsUnauthorized() throws Exception {
        refused(Tls.as("client").andThen(Sasl.as("WrongPassword")));
    }

    @Test
    void aPasswordWithoutTlsIsNotEnough() throws Exception {
        refused(Tls.plain().andThen(Sasl.user()));
    }

    private void refused(Consumer<ClientConfiguration> change) throws Exception {
        addsNothing(another(change));
    }
}
