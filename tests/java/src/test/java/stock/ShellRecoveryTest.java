package stock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Set;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.bookkeeper.net.BookieId;
import org.apache.bookkeeper.replication.AutoRecoveryMain;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;

/** `bookkeeper shell` where copies are moved, by the command or by Apache's own autorecovery. */
@OnV3
@ByAPerson
@Bookies(value = 4, lastIsNew = true)
class ShellRecoveryTest extends SuiteCase {
    /** Not of the first three, which hold what every other class wrote: an autorecovery takes up all
     * ledgers of a bookie that is gone, and waits for 5 s after each that cannot be mended. */
    private static final BookieId GONE = Fleet.id(3);

    private LedgerHandle orphan;

    /** A ledger on the two first and one that then goes away; the third comes in its place. */
    @BeforeEach
    void loseABookie() throws Exception {
        Fleet.ask("keep-cookie " + GONE);
        Fleet.stop(2);
        areSeen(Set.of(Fleet.id(0), Fleet.id(1), GONE));
        orphan = create(Layout.TWO_OF_THREE);
        Entries.add(orphan, 40);
        orphan.close();
        Fleet.start(2);
        Fleet.stop(3);
        areSeen(Set.of(Fleet.id(0), Fleet.id(1), Fleet.id(2)));
        Set<BookieId> ended = Set.of(GONE, Fleet.id(4));
        assertEquals(Set.of(orphan.getId()), admin.getLedgersContainBookies(ended).keySet(),
                "a ledger of another class is on a bookie that is gone");
    }

    @AfterEach
    void giveTheCookieBack() {
        Fleet.ask("restore-cookie " + GONE);
    }

    private void areSeen(Set<BookieId> bookies) throws Exception {
        Await.until(bookies + " seen", () -> Set.copyOf(admin.getAvailableBookies()).equals(bookies));
    }

    private boolean isMoved() throws Exception {
        return !metadata(orphan.getId()).getAllEnsembles().get(0L).contains(GONE);
    }

    @Test
    void recoverMovesALedgerOffADeadBookie() throws Exception {
        Shell.Said said = Shell.run("recover", "-f", "-l", orphan.getId() + "", GONE.toString());
        assertEquals(0, said.code(), said.text());
        assertTrue(isMoved());
        Entries.check(asIs(orphan.getId()), 39);
    }

    @Test
    void apachesAutorecoveryFindsAndMovesThemBesideUs() throws Exception {
        for (String command : new String[] {"whoisauditor", "triggeraudit"}) {
            assertFalse(said(command).startsWith("0"), "there is no auditor yet");
        }
        whileItRuns(() -> {
            assertTrue(said("clusterinfo").contains("\"auditorElected\" : true"));
            assertTrue(said("triggeraudit").startsWith("0"));
            Await.until("it is moved", this::isMoved);
        });
        Entries.check(asIs(orphan.getId()), 39);
    }

    /** Not in every fleet: the command itself sleeps for 30 s. */
    @Test
    @EnabledIfSystemProperty(named = "fleet.kind", matches = "ours|apache")
    void decommissionbookieIsContentAndDeletesTheCookie() throws Exception {
        whileItRuns(() -> {
            // After the 30 s it looks again only after 10 s more for each ledger that it finds.
            Await.until("all are moved",
                    () -> admin.getLedgersContainBookies(Set.of(GONE)).isEmpty());
            Shell.Said said = Shell.run("decommissionbookie", "-bookieid", GONE.toString());
            assertEquals(0, said.code(), said.text());
        });
        assertTrue(isMoved());
        assertEquals("none", Fleet.ask("cookie " + GONE));
    }

    private interface Act {
        void run() throws Exception;
    }

    private static void whileItRuns(Act act) throws Exception {
        AutoRecoveryMain autorecovery = autorecovery();
        try {
            Await.until("an auditor is elected", () -> said("whoisauditor").contains("=auditor"));
            act.run();
        } finally {
            autorecovery.shutdown();
        }
    }

    private static AutoRecoveryMain autorecovery() throws Exception {
        ServerConfiguration settings = new ServerConfiguration();
        settings.setMetadataServiceUri("zk+hierarchical://" + Fleet.ROOT);
        settings.setBookieId("auditor");
        settings.setAllowLoopback(true);
        settings.setAuditorPeriodicCheckInterval(0);
        settings.setOpenLedgerRereplicationGracePeriod("100");
        Access.apply(settings);
        AutoRecoveryMain made = new AutoRecoveryMain(settings);
        made.start();
        return made;
    }

    /** Code and text, or what it raised. */
    private static String said(String... words) {
        try {
            Shell.Said said = Shell.run(words);
            return said.code() + " " + said.text();
        } catch (Exception error) {
            return error.toString();
        }
    }
}
