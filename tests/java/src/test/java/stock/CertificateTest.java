package stock;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.util.function.Consumer;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Bookies that let in whoever shows a certificate, and nobody else. */
@OnBothWires
@Bookies(3)
class CertificateTest extends SuiteCase {
    @BeforeAll
    static void requireCertificates() {
        assumeTrue(Fleet.KIND.equals("ours"), "Apache's bookies look for a role in it");
        Tls.require();
        Sasl.requireCertificates();
    }

    @AfterAll
    static void goOnAsBefore() {
        Sasl.end();
        Tls.end();
    }

    @Test
    void aCertificateIsEnough() throws Exception {
        writesAndReads(Tls.as("client").andThen(Sasl.nobody()));
    }

    @Test
    void aPluginBesideItDoesNoHarm() throws Exception {
        writesAndReads(Tls.as("client").andThen(Sasl.as("WrongPassword")));
    }

    @Test
    void aPasswordIsNotEnough() throws Exception {
        addsNothing(another(Tls.plain().andThen(Sasl.user())));
    }

    private void writesAndReads(Consumer<ClientConfiguration> change) throws Exception {
        writesReadsAndRecovers(another(change), another(change));
    }
}
