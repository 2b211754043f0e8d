package stock;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.util.function.Consumer;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeper.DigestType;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Bookies that want TLS with certificates of both sides; ours also refuse whoever goes without. */
@OnBothWires
@Bookies(3)
class TlsTest extends SuiteCase {
    @BeforeAll
    static void requireTls() {
        Access.assumeBothAreServed(Sasl.ALWAYS);
        Tls.require();
    }

    @AfterAll
    static void goOnWithoutTls() {
        Tls.end();
    }

    @ParameterizedTest
    @CsvSource({"PEM, OpenSSL", "PEM, JDK", "PKCS12, JDK", "JKS, JDK"})
    void clientsOfTheAuthorityWriteReadAndRecover(Tls.Stores stores, String provider)
            throws Exception {
        Consumer<ClientConfiguration> change = Tls.as("client", stores, provider);
        writesReadsAndRecovers(another(change), another(change));
    }

    @Test
    void largeEntriesGoThroughTls() throws Exception {
        BookKeeper by = another(Tls.as("client"));
        LedgerHandle ledger = create(by, Layout.TWO_OF_THREE, DigestType.CRC32C);
        Entries.add(ledger, 20, number -> new byte[300_000 + (int) number]);
        Entries.check(ledger, 19, number -> new byte[300_000 + (int) number]);
    }

    @Test
    void anEnsembleChangesUnderTls() throws Exception {
        writesThroughAnEnsembleChange(another(Tls.as("client")));
    }

    @Test
    void theNameInTheCertificateMayBeChecked() throws Exception {
        Consumer<ClientConfiguration> change = Tls.as("client", Tls.Stores.PEM, "JDK");
        write(another(change.andThen(set -> set.setHostnameVerificationEnabled(true))), 5);
    }

    @Test
    void aClientWithoutTlsIsRefused() throws Exception {
        assumeTrue(Fleet.KIND.equals("ours"), "Apache's bookies need a plugin for it");
        BookKeeper by = another(Tls.plain());
        addsNothing(by);
        LedgerHandle there = write(another(Tls.as("client")), 5);
        assertThrows(BKException.class, () -> asIs(by, there.getId()).readUnconfirmedEntries(0, 4));
        assertThrows(BKException.class, () -> recovered(by, there.getId()));
        Entries.add(there, 5);
    }

    @Test
    void aClientWithoutACertificateIsRefused() throws Exception {
        refused(Tls.nobody(Tls.Stores.PEM, "OpenSSL"));
        refused(Tls.nobody(Tls.Stores.PEM, "JDK"));
    }

    @Test
    void aClientOfAnotherAuthorityIsRefused() throws Exception {
        refused(Tls.as("stranger"));
    }

    @Test
    void aClientLeavesBookiesOfAnotherAuthorityAlone() throws Exception {
        refused(Tls.as("client").andThen(Tls::trustStrangers));
    }

    private void refused(Consumer<ClientConfiguration> change) throws Exception {
        LedgerHandle ledger = create(another(change), Layout.ALL_OF_THREE, DigestType.CRC32C);
        assertThrows(
                BKException.BKNotEnoughBookiesException.class, () -> ledger.addEntry(new byte[9]));
    }
}
