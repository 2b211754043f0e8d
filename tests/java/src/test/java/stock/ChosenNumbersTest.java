package stock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.LongStream;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeper.DigestType;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.client.LedgerHandleAdv;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Writers that number their entries, and ledgers with numbers of their creator's choice. */
@OnBothWires
@Bookies(3)
class ChosenNumbersTest extends SuiteCase {
    private static final long ABOVE_31_BITS = 1L << 40;

    private LedgerHandleAdv createAdv(Layout layout) throws Exception {
        return (LedgerHandleAdv) client.createLedgerAdv(
                layout.ensemble(), layout.write(), layout.ack(), DigestType.CRC32C, PASSWORD);
    }

    /** Gives every number its entry; acknowledged when all before it are. */
    private static void addAll(LedgerHandle ledger, List<Long> numbers) throws Exception {
        List<CompletableFuture<Long>> added = new ArrayList<>();
        for (long number : numbers) {
            CompletableFuture<Long> one = new CompletableFuture<>();
            byte[] bytes = Entries.of(number);
            ledger.asyncAddEntry(number, bytes, 0, bytes.length, (code, by, entry, context) -> {
                if (code == BKException.Code.OK) {
                    one.complete(entry);
                } else {
                    one.completeExceptionally(BKException.create(code));
                }
            }, null);
            added.add(one);
        }
        for (int i = 0; i < numbers.size(); i++) {
            assertEquals(numbers.get(i), added.get(i).get(Entries.BOUND_S, TimeUnit.SECONDS));
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"3/3/2", "3/2/2"})
    void entriesMayComeInAnyOrder(String layout) throws Exception {
        LedgerHandleAdv ledger = createAdv(Layout.of(layout));
        List<Long> numbers = new ArrayList<>(LongStream.range(0, 200).boxed().toList());
        Collections.shuffle(numbers, new Random(7));
        addAll(ledger, numbers);
        ledger.close();
        Entries.check(recovered(ledger.getId()), 199);
    }

    @Test
    void anEntryIsConfirmedWhenAllBeforeItAre() throws Exception {
        LedgerHandleAdv ledger = createAdv(Layout.ALL_OF_THREE);
        CompletableFuture<Integer> second = new CompletableFuture<>();
        byte[] bytes = Entries.of(1);
        ledger.asyncAddEntry(1, bytes, 0, bytes.length,
                (code, by, entry, context) -> second.complete(code), null);
        assertEquals(-1, ledger.getLastAddConfirmed());
        ledger.addEntry(0, Entries.of(0));
        assertEquals(BKException.Code.OK, second.get(Entries.BOUND_S, TimeUnit.SECONDS));
        assertEquals(1, ledger.getLastAddConfirmed());
    }

    @Test
    void aNumberIsGivenOnce() throws Exception {
        LedgerHandleAdv ledger = createAdv(Layout.ALL_OF_THREE);
        ledger.addEntry(0, Entries.of(0));
        assertThrows(BKException.BKDuplicateEntryIdException.class,
                () -> ledger.addEntry(0, new byte[1]));
        ledger.addEntry(1, Entries.of(1));
        ledger.close();
        Entries.check(recovered(ledger.getId()), 1);
    }

    @Test
    void anEntryBeyondAGapIsNotPartOfTheLedger() throws Exception {
        LedgerHandleAdv ledger = createAdv(Layout.ALL_OF_THREE);
        addAll(ledger, List.of(0L, 1L, 2L));
        byte[] bytes = Entries.of(7);
        ledger.asyncAddEntry(7, bytes, 0, bytes.length, (code, by, entry, context) -> {}, null);
        assertEquals(2, ledger.getLastAddConfirmed());
        Entries.check(recovered(ledger.getId()), 2);
    }

    @ParameterizedTest
    @ValueSource(longs = {1_999_999_999L, ABOVE_31_BITS, Long.MAX_VALUE - 1})
    void aLedgerMayHaveAChosenNumber(long wanted) throws Exception {
        long ledgerId = wanted - wire.ordinal();
        LedgerHandle ledger = client.createLedgerAdv(
                ledgerId, 3, 3, 2, DigestType.CRC32C, PASSWORD, Map.of());
        assertEquals(ledgerId, ledger.getId());
        addAll(ledger, List.of(0L, 2L, 1L));
        Entries.check(recovered(ledgerId), 2);
        assertThrows(BKException.BKLedgerExistException.class, () -> client.createLedgerAdv(
                ledgerId, 3, 3, 2, DigestType.CRC32C, PASSWORD, Map.of()));
        client.deleteLedger(ledgerId);
    }
}
