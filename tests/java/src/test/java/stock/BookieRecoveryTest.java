package stock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeper.DigestType;
import org.apache.bookkeeper.client.LedgerChecker;
import org.apache.bookkeeper.client.LedgerFragment;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.net.BookieId;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** The stock tools find lost copies, and move a dead bookie's ledgers to others. */
@OnBothWires
@Bookies(4)
class BookieRecoveryTest extends SuiteCase {
    static List<Integer> victim() {
        return Fleet.victims();
    }

    @ParameterizedTest
    @MethodSource("victim")
    void aDeadBookiesLedgersAreCopiedToTheSpareOne(int victim) throws Exception {
        LedgerHandle closed = create(Layout.ALL_OF_THREE, DigestType.MAC);
        Entries.add(closed, 30);
        closed.close();
        LedgerHandle striped = create(Layout.TWO_OF_THREE);
        Entries.add(striped, 30);
        striped.close();
        Await.until("the third copy is there", () -> missing(closed).isEmpty());

        Fleet.stop(victim);
        Await.until("it is seen to be gone", () -> admin.getAvailableBookies().size() == 3);
        assertFalse(missing(closed).isEmpty());
        BookieId gone = Fleet.id(victim);
        for (LedgerHandle ledger : List.of(closed, striped)) {
            admin.recoverBookieData(ledger.getId(), Set.of(gone), false, false);
            LedgerHandle reader = recovered(client, ledger.getId());
            assertFalse(metadata(ledger.getId()).getAllEnsembles().get(0L).contains(gone));
            Await.until("every copy is there", () -> missing(reader).isEmpty());
            Entries.check(reader, 29);
        }
    }

    /** Fragments that the stock checker cannot read everywhere. */
    private Set<LedgerFragment> missing(LedgerHandle ledger) throws Exception {
        CompletableFuture<Set<LedgerFragment>> found = new CompletableFuture<>();
        new LedgerChecker(client).checkLedger(ledger, (code, fragments) -> {
            assertEquals(BKException.Code.OK, code);
            found.complete(fragments);
        }, 100);
        return found.get(Entries.BOUND_S, TimeUnit.SECONDS);
    }
}
