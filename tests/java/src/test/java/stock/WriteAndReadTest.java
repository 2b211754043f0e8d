package stock;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeper.DigestType;
import org.apache.bookkeeper.client.LedgerEntry;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.client.api.LedgerMetadata;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What was acknowledged comes back whole. */
@OnBothWires
@Bookies(3)
class WriteAndReadTest extends SuiteCase {
    private static final int MIB = 1 << 20;

    @ParameterizedTest
    @CsvSource({
        "3/3/2, CRC32", "3/3/2, CRC32C", "3/3/2, MAC", "3/3/2, DUMMY",
        "3/2/2, CRC32", "3/2/2, CRC32C", "3/2/2, MAC", "3/2/2, DUMMY",
    })
    void aClosedLedgerIsReadBackByAnybody(String layout, DigestType digest) throws Exception {
        LedgerHandle ledger = create(Layout.of(layout), digest);
        Entries.add(ledger, 100);
        ledger.close();
        Entries.check(recovered(ledger.getId()), 99);
        Entries.check(asIs(ledger.getId()), 99);
    }

    @Test
    void theWriterReadsItsOwnEntriesWhileItWrites() throws Exception {
        LedgerHandle ledger = create(Layout.ALL_OF_THREE);
        for (int count = 1; count <= 5; count++) {
            Entries.add(ledger, 1);
            Entries.check(ledger, count - 1);
        }
    }

    @Test
    void oneEntryAtATimeIsAcknowledgedInOrder() throws Exception {
        LedgerHandle ledger = create(Layout.TWO_OF_THREE);
        for (long number = 0; number < 10; number++) {
            assertEquals(number, ledger.addEntry(Entries.of(number)));
            assertEquals(number, ledger.getLastAddConfirmed());
        }
    }

    @ParameterizedTest
    @EnumSource(DigestType.class)
    void emptyEntriesAreEntries(DigestType digest) throws Exception {
        LedgerHandle ledger = create(Layout.ALL_OF_THREE, digest);
        Entries.add(ledger, 10, number -> new byte[0]);
        ledger.close();
        LedgerHandle reader = recovered(ledger.getId());
        Entries.check(reader, 9, number -> new byte[0]);
        assertEquals(0, reader.getLength());
    }

    @Test
    void aLedgerWithoutEntriesClosesEmpty() throws Exception {
        LedgerHandle ledger = create(Layout.ALL_OF_THREE);
        ledger.close();
        LedgerHandle reader = recovered(ledger.getId());
        assertEquals(-1, reader.getLastAddConfirmed());
        assertThrows(BKException.BKNoSuchEntryException.class, reader::readLastEntry);
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 100, 1024, 65_536, 65_537, MIB})
    void entriesOfAnySizeComeBackWhole(int size) throws Exception {
        LedgerHandle ledger = create(Layout.ALL_OF_THREE);
        Entries.add(ledger, 4, number -> random(size, number));
        ledger.close();
        LedgerHandle reader = recovered(ledger.getId());
        Entries.check(reader, 3, number -> random(size, number));
        assertEquals(4L * size, reader.getLength());
    }

    @Test
    void smallAndLargeEntriesMix() throws Exception {
        LedgerHandle ledger = create(Layout.TWO_OF_THREE);
        Entries.add(ledger, 60, WriteAndReadTest::mixed);
        ledger.close();
        Entries.check(recovered(ledger.getId()), 59, WriteAndReadTest::mixed);
    }

    @Test
    void thousandsOfAddsMayBeOpenAtOnce() throws Exception {
        LedgerHandle ledger = create(Layout.ALL_OF_THREE);
        Entries.add(ledger, 5000);
        ledger.close();
        Entries.check(recovered(ledger.getId()), 4999);
    }

    @Test
    void ledgersOfOneClientDoNotMix() throws Exception {
        List<LedgerHandle> ledgers = List.of(
                create(Layout.ALL_OF_THREE), create(Layout.ALL_OF_THREE, DigestType.MAC));
        for (int turn = 0; turn < 10; turn++) {
            for (LedgerHandle ledger : ledgers) {
                Entries.add(ledger, 7);
            }
        }
        for (LedgerHandle ledger : ledgers) {
            ledger.close();
            Entries.check(recovered(client, ledger.getId()), 69);
        }
    }

    @Test
    void theLastEntryIsReadByItself() throws Exception {
        LedgerHandle ledger = create(Layout.ALL_OF_THREE);
        Entries.add(ledger, 12);
        ledger.close();
        LedgerEntry last = recovered(ledger.getId()).readLastEntry();
        assertEquals(11, last.getEntryId());
        assertArrayEquals(Entries.of(11), last.getEntry());
    }

    @Test
    void lengthsAddUp() throws Exception {
        LedgerHandle ledger = create(Layout.ALL_OF_THREE);
        Entries.add(ledger, 20);
        ledger.close();
        long sum = 0;
        for (LedgerEntry entry : Collections.list(recovered(ledger.getId()).readEntries(0, 19))) {
            sum += entry.getEntry().length;
            assertEquals(sum, entry.getLength());
        }
        LedgerMetadata metadata = metadata(ledger.getId());
        assertEquals(sum, metadata.getLength());
        assertEquals(19, metadata.getLastEntryId());
        assertTrue(metadata.isClosed());
    }

    @Test
    void readsBeyondTheEndAreRefusedOrFindNothing() throws Exception {
        LedgerHandle ledger = create(Layout.ALL_OF_THREE);
        Entries.add(ledger, 5);
        ledger.close();
        LedgerHandle reader = recovered(ledger.getId());
        assertThrows(BKException.BKReadException.class, () -> reader.readEntries(0, 5));
        assertThrows(
                BKException.BKNoSuchEntryException.class, () -> reader.readUnconfirmedEntries(5, 5));
    }

    @Test
    void entriesBeyondTheLastAddConfirmedAreReadUnconfirmed() throws Exception {
        LedgerHandle ledger = create(Layout.ALL_OF_THREE);
        Entries.add(ledger, 10);
        LedgerHandle reader = asIs(ledger.getId());
        assertTrue(reader.getLastAddConfirmed() < 9, "the last entry is not known as confirmed");
        Entries.check(Collections.list(reader.readUnconfirmedEntries(0, 9)), 0, 9);
    }

    @Test
    void metadataSaysHowTheLedgerWasMade() throws Exception {
        LedgerHandle ledger = create(Layout.TWO_OF_THREE, DigestType.MAC);
        LedgerMetadata metadata = metadata(ledger.getId());
        assertEquals(3, metadata.getEnsembleSize());
        assertEquals(2, metadata.getWriteQuorumSize());
        assertEquals(2, metadata.getAckQuorumSize());
        assertEquals(LedgerMetadata.State.OPEN, metadata.getState());
        assertArrayEquals(PASSWORD, metadata.getPassword());
    }

    private static byte[] mixed(long number) {
        return random(number % 10 == 3 ? 300_000 : (int) number * 7, number);
    }

    private static byte[] random(int size, long seed) {
        byte[] bytes = new byte[size];
        new Random(seed).nextBytes(bytes);
        return Arrays.copyOf(bytes, size);
    }
}
