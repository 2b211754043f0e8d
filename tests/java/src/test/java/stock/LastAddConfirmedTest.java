package stock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Collections;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeper.DigestType;
import org.apache.bookkeeper.client.LedgerHandle;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What a reader of an open ledger learns of the last add confirmed. */
@OnBothWires
@Bookies(3)
class LastAddConfirmedTest extends SuiteCase {
    @ParameterizedTest
    @ValueSource(strings = {"3/3/2", "3/2/2"})
    void anEntryBringsTheConfirmationOfThoseBefore(String layout) throws Exception {
        LedgerHandle ledger = create(Layout.of(layout));
        for (long number = 0; number < 10; number++) {
            ledger.addEntry(Entries.of(number));
        }
        LedgerHandle reader = asIs(ledger.getId());
        assertEquals(8, reader.getLastAddConfirmed());
        Entries.check(Collections.list(reader.readEntries(0, 8)), 0, 8);
    }

    @ParameterizedTest
    @EnumSource(DigestType.class)
    void everyDigestLetsItBeRead(DigestType digest) throws Exception {
        LedgerHandle ledger = create(Layout.ALL_OF_THREE, digest);
        Entries.add(ledger, 1);
        LedgerHandle reader = asIs(ledger.getId());
        Entries.add(ledger, 1);
        assertEquals(0, reader.readLastConfirmed());
        assertEquals(0, reader.tryReadLastConfirmed());
    }

    @Test
    void aLedgerWithoutEntriesHasNone() throws Exception {
        LedgerHandle ledger = create(Layout.ALL_OF_THREE);
        LedgerHandle reader = asIs(ledger.getId());
        assertEquals(-1, reader.getLastAddConfirmed());
        assertEquals(-1, reader.readLastConfirmed());
        assertEquals(-1, reader.tryReadLastConfirmed());
    }

    @Test
    void aTailingReaderSeesEveryEntryInItsTurn() throws Exception {
        LedgerHandle ledger = create(Layout.ALL_OF_THREE);
        ledger.addEntry(Entries.of(0));
        LedgerHandle reader = asIs(ledger.getId());
        for (long number = 1; number < 20; number++) {
            ledger.addEntry(Entries.of(number));
            assertEquals(number - 1, reader.readLastConfirmed());
            Entries.check(
                    Collections.list(reader.readEntries(number - 1, number - 1)),
                    number - 1, number - 1);
        }
    }

    @Test
    void itNeverFallsForAReader() throws Exception {
        LedgerHandle ledger = create(Layout.TWO_OF_THREE);
        LedgerHandle reader = asIs(ledger.getId());
        long seen = -1;
        for (int turn = 0; turn < 20; turn++) {
            Entries.add(ledger, 3);
            long now = reader.readLastConfirmed();
            assertTrue(now >= seen && now <= ledger.getLastAddConfirmed());
            seen = now;
        }
    }

    @Test
    void aReaderLearnsThatTheLedgerWasClosed() throws Exception {
        LedgerHandle ledger = create(Layout.ALL_OF_THREE);
        Entries.add(ledger, 10);
        LedgerHandle reader = asIs(ledger.getId());
        assertFalse(reader.isClosed());
        ledger.close();
        Await.until("closed", reader::isClosed);
        assertEquals(9, reader.readLastConfirmed());
        Entries.check(Collections.list(reader.readEntries(0, 9)), 0, 9);
    }

    @Test
    void aLookDoesNotDisturbTheWriter() throws Exception {
        LedgerHandle ledger = create(Layout.ALL_OF_THREE);
        BookKeeper other = another();
        for (int turn = 0; turn < 5; turn++) {
            Entries.add(ledger, 2);
            other.openLedgerNoRecovery(ledger.getId(), DigestType.CRC32C, PASSWORD);
        }
        assertEquals(9, ledger.getLastAddConfirmed());
        assertEquals(1, metadata(ledger.getId()).getAllEnsembles().size());
    }
}
