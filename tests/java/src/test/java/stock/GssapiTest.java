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
        writesReadsAndRecovers(by("Ticket"), by("Ticket"));
    }

    @Test
    void aPrincipalWritesThroughARestartAndAnEnsembleChange() throws Exception {
        writesThroughAnEnsembleChange(by("Ticket"));
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
        isUnauthorized(change, by("Ticket"));
    }
}
