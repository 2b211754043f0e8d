package stock;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.util.function.Consumer;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Bookies that ask for a user's password, by SASL DIGEST-MD5. */
@OnBothWires
@Bookies(3)
class SaslTest extends SuiteCase {
    @BeforeAll
    static void requirePasswords() {
        Access.assumeBothAreServed(Tls.ALWAYS);
        Sasl.require();
    }

    @AfterAll
    static void goOnAsBefore() {
        Sasl.end();
    }

    @Test
    void aUserWritesReadsAndRecovers() throws Exception {
        writesReadsAndRecovers(another(Sasl.user()), another(Sasl.user()));
    }

    @Test
    void aUserWritesThroughARestartAndAnEnsembleChange() throws Exception {
        writesThroughAnEnsembleChange(another(Sasl.user()));
    }

    @ParameterizedTest
    @ValueSource(strings = {"WrongPassword", "Stranger"})
    void whoeverHasNoPasswordOfAUserIsUnauthorized(String section) throws Exception {
        assumeTrue(Fleet.KIND.equals("ours"), "Apache's bookies do not answer, up to the timeout");
        refused(Sasl.as(section));
    }

    @Test
    void aClientWithoutAPluginIsUnauthorized() throws Exception {
        refused(Sasl.nobody());
    }

    private void refused(Consumer<ClientConfiguration> change) throws Exception {
        isUnauthorized(change, another(Sasl.user()));
    }
}
