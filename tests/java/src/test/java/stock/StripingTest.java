package stock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.List;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeper.DigestType;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.net.BookieId;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Ledgers whose ensemble is larger than their write quorum. */
@OnBothWires
@Bookies(5)
class StripingTest extends SuiteCase {
    private static final Layout WIDE = Layout.THREE_OF_FIVE;

    @ParameterizedTest
    @EnumSource(DigestType.class)
    void aStripedLedgerIsReadBack(DigestType digest) throws Exception {
        LedgerHandle ledger = create(WIDE, digest);
        Entries.add(ledger, 100);
        ledger.close();
        Entries.check(recovered(ledger.getId()), 99);
    }

    @ParameterizedTest
    @EnumSource(DigestType.class)
    void anAbandonedStripedLedgerIsRecovered(DigestType digest) throws Exception {
        BookKeeper gone = another();
        LedgerHandle ledger = create(gone, WIDE, digest);
        Entries.add(ledger, 43);
        gone.close();
        Entries.check(recovered(ledger.getId()), 42);
    }

    @Test
    void everyBookieKeepsItsWriteSetsAndNothingElse() throws Exception {
        LedgerHandle ledger = create(WIDE);
        Entries.add(ledger, 25);
        ledger.close();
        List<BookieId> ensemble = metadata(ledger.getId()).getAllEnsembles().get(0L);
        Raw raw = closing(new Raw(wire, admin));
        for (int place = 0; place < 5; place++) {
            int bookie = List.of(
                    Fleet.id(0), Fleet.id(1), Fleet.id(2), Fleet.id(3), Fleet.id(4))
                    .indexOf(ensemble.get(place));
            for (long entry = 0; entry < 25; entry++) {
                int wanted = WIDE.keeps(place, entry)
                        ? BKException.Code.OK : BKException.Code.NoSuchEntryException;
                long number = entry;
                Await.until("entry " + entry + " on " + ensemble.get(place),
                        () -> raw.read(bookie, ledger.getId(), number).code() == wanted);
            }
        }
    }

    @Test
    void theFirstWriterIsFenced() throws Exception {
        LedgerHandle ledger = create(WIDE);
        Entries.add(ledger, 30);
        Entries.check(recovered(ledger.getId()), 29);
        assertThrows(BKException.class, () -> ledger.addEntry(new byte[1]));
        Entries.check(recovered(ledger.getId()), 29);
    }

    @Test
    void aReaderOfAnOpenLedgerLearnsWhatIsConfirmed() throws Exception {
        LedgerHandle ledger = create(WIDE);
        for (long number = 0; number < 7; number++) {
            ledger.addEntry(Entries.of(number));
        }
        LedgerHandle reader = asIs(ledger.getId());
        assertEquals(5, reader.readLastConfirmed());
    }

    @Test
    void entriesAreReadWhileTwoBookiesAreDown() throws Exception {
        LedgerHandle ledger = create(WIDE);
        Entries.add(ledger, 50);
        ledger.close();
        Fleet.stop(0);
        Fleet.stop(3);
        Entries.check(recovered(client, ledger.getId()), 49);
    }
}
