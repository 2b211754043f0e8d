package stock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.ArrayList;
import java.util.List;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeper.DigestType;
import org.apache.bookkeeper.client.LedgerHandle;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** A deleted ledger is gone, and stays so. */
@OnBothWires
@Bookies(3)
class DeletionTest extends SuiteCase {
    static List<Integer> bookie() {
        return Fleet.victims();
    }

    @Test
    void aDeletedLedgerCannotBeOpened() throws Exception {
        LedgerHandle ledger = create(Layout.ALL_OF_THREE);
        Entries.add(ledger, 5);
        ledger.close();
        client.deleteLedger(ledger.getId());
        assertThrows(
                BKException.BKNoSuchLedgerExistsOnMetadataServerException.class,
                () -> client.openLedger(ledger.getId(), DigestType.CRC32C, PASSWORD));
        assertFalse(listed(ledger.getId()));
    }

    @Test
    void deletingTwiceDoesNoHarm() throws Exception {
        LedgerHandle ledger = create(Layout.ALL_OF_THREE);
        ledger.close();
        client.deleteLedger(ledger.getId());
        client.deleteLedger(ledger.getId());
        assertFalse(listed(ledger.getId()));
    }

    @Test
    void aWriterDoesNotBringItsLedgerBack() throws Exception {
        LedgerHandle ledger = create(Layout.ALL_OF_THREE);
        Entries.add(ledger, 5);
        another().deleteLedger(ledger.getId());
        assertThrows(BKException.class, ledger::close);
        assertFalse(listed(ledger.getId()));
    }

    @ParameterizedTest
    @MethodSource("bookie")
    void itsEntriesGoAndALateAddDoesNotBringItBack(int bookie) throws Exception {
        Raw raw = closing(new Raw(wire, admin));
        LedgerHandle ledger = create(Layout.ALL_OF_THREE);
        Entries.add(ledger, 5);
        recovered(ledger.getId());
        client.deleteLedger(ledger.getId());
        Await.until("collected", () -> raw.read(bookie, ledger.getId(), 0).code()
                == BKException.Code.NoSuchLedgerExistsException);
        assertNotEquals(BKException.Code.OK, raw.add(bookie, ledger.getId(), 5));
        assertEquals(
                BKException.Code.NoSuchLedgerExistsException,
                raw.read(bookie, ledger.getId(), 5).code());
    }

    private boolean listed(long ledgerId) throws Exception {
        List<Long> found = new ArrayList<>();
        admin.listLedgers().forEach(found::add);
        return found.contains(ledgerId);
    }
}
