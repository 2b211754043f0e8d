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

/** Bookies that ask for a ticket of Kerberos, by SASL GSSAPI. */
@OnBothWires
@Bookies(3)
class GssapiTest extends SuiteCase {
    @BeforeAll
    static void requireTickets() {
        assumeTrue(Sasl.HAS_TICKETS, "there is no KDC, no library, or bookies are Apache's");
        Sasl.requireTickets();
    }

    @AfterAll
    static void goOnAsBefore() {
        Sasl.end();
    }

    /** Of clients of this class that are to be let in, and of those that are not. */
    Consumer<ClientConfiguration> connected(Consumer<ClientConfiguration> change) {
        return change;
    }

    @Test
    void aPrincipalWithATicketWritesReadsAndRecovers() throws Exception {
        LedgerHandle open = write(by("Ticket"), 200);
        LedgerHandle recovered = recovered(by("Ticket"), open.getId());
        Entries.check(recovered, 199);
        assertThrows(BKException.BKLedgerFencedException.class, () -> open.addEntry(new byte[9]));
    }

    @Test
    void aPrincipalWritesThroughARestartAndAnEnsembleChange() throws Exception {
        BookKeeper by = by("Ticket");
        LedgerHandle ledger = write(by, 20);
        Fleet.start(4); // the fourth is to be new to ShellRecoveryTest
        BookKeeperAdmin seen = new BookKeeperAdmin(by);
        Await.until("one more is seen", () -> seen.getAvailableBookies().size() == 4);
        Fleet.kill(1);
        Entries.add(ledger, 20);
        ledger.close();
        Entries.check(recovered(by, ledger.getId()), 39);
    }

    @Test
    void everyOneOfManyConnectionsIsLetIn() throws Exception {
        for (int number = 0; number < 10; number++) {
            Entries.check(recovered(by("Ticket"), closed(by("Ticket"))), 4);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"TicketOfAStranger", "TicketOfAnotherRealm"})
    void whoseTicketIsNoWayInIsUnauthorized(String section) throws Exception {
        refused(connected(Sasl.as(section)));
    }

    @Test
    void aTicketToAnotherServiceIsUnauthorized() throws Exception {
        Sasl.service("elsewhere");
        try {
            LedgerHandle ledger = create(by("Ticket"), Layout.ALL_OF_THREE, DigestType.CRC32C);
            assertThrows(BKException.BKUnauthorizedAccessException.class,
                    () -> ledger.addEntry(new byte[9]));
        } finally {
            Sasl.service("bookkeeper");
        }
    }

    @Test
    void aTicketThatTheKdcDoesNotGiveIsUnauthorized() throws Exception {
        Sasl.service("nowhere");
        try {
            LedgerHandle ledger = create(by("Ticket"), Layout.ALL_OF_THREE, DigestType.CRC32C);
            assertThrows(BKException.class, () -> ledger.addEntry(new byte[9]));
        } finally {
            Sasl.service("bookkeeper");
        }
    }

    @Test
    void aPasswordIsUnauthorized() throws Exception {
        refused(connected(Sasl.user()));
    }

    @Test
    void aClientWithoutAPluginIsUnauthorized() throws Exception {
        refused(connected(Sasl.nobody()));
    }

    BookKeeper by(String section) throws Exception {
        return another(connected(Sasl.as(section)));
    }

    private long closed(BookKeeper by) throws Exception {
        try (LedgerHandle ledger = write(by, 5)) {
            return ledger.getId();
        }
    }

    private void refused(Consumer<ClientConfiguration> change) throws Exception {
        BookKeeper by = another(change);
        LedgerHandle ledger = create(by, Layout.ALL_OF_THREE, DigestType.CRC32C);
        assertThrows(
                BKException.BKUnauthorizedAccessException.class, () -> ledger.addEntry(new byte[9]));
        LedgerHandle there = write(by("Ticket"), 5);
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
