package stock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeper.DigestType;
import org.apache.bookkeeper.client.LedgerHandle;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** A ledger is its password's; what a bookie itself refuses is in BookieAnswersTest. */
@OnBothWires
@Bookies(3)
class PasswordTest extends SuiteCase {
    private static final byte[] OTHER = new byte[] {1, 2, 3};

    @ParameterizedTest
    @EnumSource(DigestType.class)
    void anotherPasswordOpensNothingAndFencesNobody(DigestType digest) throws Exception {
        LedgerHandle ledger = create(Layout.ALL_OF_THREE, digest);
        Entries.add(ledger, 5);
        BookKeeper other = another();
        assertThrows(BKException.BKUnauthorizedAccessException.class,
                () -> other.openLedger(ledger.getId(), digest, OTHER));
        assertThrows(BKException.BKUnauthorizedAccessException.class,
                () -> other.openLedgerNoRecovery(ledger.getId(), digest, OTHER));
        Entries.add(ledger, 5);
        ledger.close();
        Entries.check(recovered(ledger.getId()), 9);
    }

    @Test
    void anotherDigestOpensNothing() throws Exception {
        BookKeeper strict = another(settings -> settings.setEnableDigestTypeAutodetection(false));
        LedgerHandle ledger = create(strict, Layout.ALL_OF_THREE, DigestType.MAC);
        Entries.add(ledger, 5);
        ledger.close();
        assertThrows(BKException.BKDigestMatchException.class,
                () -> strict.openLedger(ledger.getId(), DigestType.CRC32, PASSWORD));
    }

    @Test
    void noPasswordIsOneAsWell() throws Exception {
        LedgerHandle ledger = client.createLedger(3, 3, 2, DigestType.CRC32C, new byte[0]);
        Entries.add(ledger, 5);
        assertThrows(BKException.BKUnauthorizedAccessException.class,
                () -> another().openLedger(ledger.getId(), DigestType.CRC32C, PASSWORD));
        LedgerHandle reader =
                another().openLedger(ledger.getId(), DigestType.CRC32C, new byte[0]);
        assertEquals(4, reader.getLastAddConfirmed());
    }
}
