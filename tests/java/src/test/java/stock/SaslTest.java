package stock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.util.function.Consumer;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeper.DigestType;
import org.apache.bookkeeper.client.BookKeeperAdmin;
import org.apache.bookkeeper.client.LedgerHandle;
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
        LedgerHandle open = write(another(Sasl.user()), 200);
        LedgerHandle recovered = recovered(another(Sasl.user()), open.getId());
        Entries.check(recovered, 199);
        assertThrows(BKException.BKLedgerFencedException.class, () -> open.addEntry(new byte[9]));
    }

    @Test
    void aUserWritesThroughARestartAndAnEnsembleChange() throws Exception {
        BookKeeper by = another(Sasl.user());
        LedgerHandle ledger = write(by, 20);
        Fleet.start(4); // the fourth is to be new to ShellRecoveryTest
        BookKeeperAdmin seen = new BookKeeperAdmin(by);
        Await.until("one more is seen", () -> seen.getAvailableBookies().size() == 4);
        Fleet.kill(1);
        Entries.add(ledger, 20);
        ledger.close();
        Entries.check(recovered(by, ledger.getId()), 39);
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
        BookKeeper by = another(change);
        LedgerHandle ledger = create(by, Layout.ALL_OF_THREE, DigestType.CRC32C);
        assertThrows(
                BKException.BKUnauthorizedAccessException.class, () -> ledger.addEntry(new byte[9]));
        LedgerHandle there = write(another(Sasl.user()), 5);
        assertThrows(BKException.class, () -> recovered(by, there.getId()));
        Entries.add(there, 5);
        try (Raw raw = new Raw(wire, admin, change)) {
            int code = raw.read(0, there.getId(), 0).code();
            assertEquals(BKException.Code.UnauthorizedAccessException, code);
        }
    }

    private static LedgerHandle write(BookKeeper by, int count) throws Exception {
        LedgerHandle ledger = create(by, Layout.ALL_OF_THREE, DigestType.CRC32C);
        Entries.add(ledger, count);
        return ledger;
    }
}
