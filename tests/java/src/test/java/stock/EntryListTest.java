package stock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeperAdmin;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.net.BookieId;
import org.apache.bookkeeper.util.AvailabilityOfEntriesOfLedger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A bookie's list of the entries that it keeps of a ledger. */
@OnV3
@Bookies(3)
class EntryListTest extends SuiteCase {
    private AvailabilityOfEntriesOfLedger list(BookieId bookie, long ledgerId) throws Exception {
        return admin.asyncGetListOfEntriesOfLedger(bookie, ledgerId)
                .get(Entries.BOUND_S, TimeUnit.SECONDS);
    }

    /** Each bookie lists its write sets' entries below `count`, and no others. */
    private void checkLists(long ledgerId, Layout layout, int count) throws Exception {
        var ensemble = metadata(ledgerId).getAllEnsembles().get(0L);
        for (int place = 0; place < ensemble.size(); place++) {
            AvailabilityOfEntriesOfLedger found = list(ensemble.get(place), ledgerId);
            long kept = 0;
            for (long entry = 0; entry < count; entry++) {
                boolean isKept = layout.keeps(place, entry);
                assertEquals(isKept, found.isEntryAvailable(entry), "entry " + entry);
                kept += isKept ? 1 : 0;
            }
            assertEquals(kept, found.getTotalNumOfAvailableEntries());
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"3/3/2", "3/2/2", "3/1/1", "2/2/2"})
    void aBookieListsExactlyWhatItKeeps(String words) throws Exception {
        Layout layout = Layout.of(words);
        LedgerHandle ledger = create(layout);
        for (long number = 0; number < 20; number++) {
            ledger.addEntry(Entries.of(number));
        }
        ledger.close();
        Await.until("every copy is there", () -> copies(ledger) == 20L * layout.write());
        checkLists(ledger.getId(), layout, 20);
    }

    @Test
    void anOpenLedgerIsListedAsFarAsItIsWritten() throws Exception {
        LedgerHandle ledger = create(Layout.ALL_OF_THREE);
        Entries.add(ledger, 10);
        Await.until("every copy is there", () -> copies(ledger) == 30);
        checkLists(ledger.getId(), Layout.ALL_OF_THREE, 10);
    }

    @Test
    void theListOutlivesARestart() throws Exception {
        LedgerHandle ledger = create(Layout.TWO_OF_THREE);
        Entries.add(ledger, 30);
        ledger.close();
        Await.until("every copy is there", () -> copies(ledger) == 60);
        for (int number : Fleet.victims()) {
            Fleet.stop(number);
        }
        Fleet.heal(3);
        admin = new BookKeeperAdmin(another(), wire.settings());
        checkLists(ledger.getId(), Layout.TWO_OF_THREE, 30);
    }

    @Test
    void entriesWithGapsAreListedWithThem() throws Exception {
        long ledgerId = create(Layout.ALL_OF_THREE).getId();
        Raw raw = closing(new Raw(wire, admin));
        for (int number : Fleet.victims()) {
            for (long entry : new long[] {8, 1, 2, 4}) {
                raw.add(number, ledgerId, entry);
            }
            AvailabilityOfEntriesOfLedger found = list(Fleet.id(number), ledgerId);
            assertEquals(4, found.getTotalNumOfAvailableEntries());
            assertTrue(found.isEntryAvailable(1) && found.isEntryAvailable(2));
            assertTrue(found.isEntryAvailable(4) && found.isEntryAvailable(8));
        }
    }

    @Test
    void aLedgerThatIsNotThereHasNoList() throws Exception {
        long ledgerId = create(Layout.ALL_OF_THREE).getId();
        for (int number : Fleet.victims()) {
            ExecutionException error = assertThrows(
                    ExecutionException.class, () -> list(Fleet.id(number), ledgerId));
            assertEquals(
                    BKException.Code.NoSuchLedgerExistsException,
                    ((BKException) error.getCause()).getCode());
        }
    }

    private long copies(LedgerHandle ledger) throws Exception {
        long found = 0;
        for (BookieId bookie : metadata(ledger.getId()).getAllEnsembles().get(0L)) {
            try {
                found += list(bookie, ledger.getId()).getTotalNumOfAvailableEntries();
            } catch (ExecutionException error) {
                // nothing of it there yet
            }
        }
        return found;
    }
}
