package stock;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.util.function.Consumer;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeper.DigestType;
import org.apache.bookkeeper.client.LedgerHandle;
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
        Consumer<ClientConfiguration> change = Tls.plain().andThen(Sasl.user());
        LedgerHandle ledger = create(another(change), Layout.ALL_OF_THREE, DigestType.CRC32C);
        assertThrows(
                BKException.BKUnauthorizedAccessException.class, () -> ledger.addEntry(new byte[9]));
    }

    private void writesAndReads(Consumer<ClientConfiguration> change) throws Exception {
        LedgerHandle open = create(another(change), Layout.ALL_OF_THREE, DigestType.CRC32C);
        Entries.add(open, 50);
        Entries.check(recovered(another(change), open.getId()), 49);
    }
}
