package stock;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.netty.buffer.Unpooled;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.client.api.DigestType;
import org.apache.bookkeeper.client.api.WriteAdvHandle;
import org.apache.bookkeeper.client.api.WriteFlag;
import org.apache.bookkeeper.client.api.WriteHandle;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Adds that may be acknowledged before they are durable, and the force that makes them so. */
@OnV3
@Bookies(3)
class DeferredSyncTest extends SuiteCase {
    private WriteHandle deferred(Layout layout, DigestType digest) throws Exception {
        return client.newCreateLedgerOp()
                .withEnsembleSize(layout.ensemble())
                .withWriteQuorumSize(layout.write())
                .withAckQuorumSize(layout.ack())
                .withDigestType(digest)
                .withPassword(PASSWORD)
                .withWriteFlags(WriteFlag.DEFERRED_SYNC)
                .execute().get(Entries.BOUND_S, TimeUnit.SECONDS);
    }

    private static void add(WriteHandle ledger, long first, int count) throws Exception {
        for (long number = first; number < first + count; number++) {
            assertEquals(number, ledger.append(Unpooled.wrappedBuffer(Entries.of(number))));
        }
    }

    @ParameterizedTest
    @CsvSource({"3/3/2, CRC32C", "3/2/2, MAC", "3/3/2, CRC32", "3/3/2, DUMMY"})
    void onlyAForceConfirms(String layout, DigestType digest) throws Exception {
        WriteHandle ledger = deferred(Layout.of(layout), digest);
        add(ledger, 0, 10);
        assertEquals(-1, ledger.getLastAddConfirmed());
        ledger.force().get(Entries.BOUND_S, TimeUnit.SECONDS);
        assertEquals(9, ledger.getLastAddConfirmed());
        add(ledger, 10, 5);
        assertEquals(9, ledger.getLastAddConfirmed());
        ledger.force().get(Entries.BOUND_S, TimeUnit.SECONDS);
        ledger.close();
        Entries.check(recovered(ledger.getId()), 14);
    }

    @Test
    void whatWasForcedOutlivesTheKillOfEveryBookie() throws Exception {
        WriteHandle ledger = deferred(Layout.ALL_OF_THREE, DigestType.CRC32C);
        add(ledger, 0, 20);
        ledger.force().get(Entries.BOUND_S, TimeUnit.SECONDS);
        ledger.close();
        for (int number = 0; number < 3; number++) {
            Fleet.kill(number);
        }
        Fleet.heal(3);
        Entries.check(recovered(ledger.getId()), 19);
    }

    @Test
    void anEmptyLedgerMayBeForced() throws Exception {
        WriteHandle ledger = deferred(Layout.ALL_OF_THREE, DigestType.CRC32C);
        ledger.force().get(Entries.BOUND_S, TimeUnit.SECONDS);
        assertEquals(-1, ledger.getLastAddConfirmed());
    }

    @Test
    void anyLedgerMayBeForced() throws Exception {
        LedgerHandle ledger = create(Layout.ALL_OF_THREE);
        Entries.add(ledger, 10);
        ledger.force().get(Entries.BOUND_S, TimeUnit.SECONDS);
        Raw raw = closing(new Raw(wire, admin));
        for (int number : Fleet.victims()) {
            assertEquals(BKException.Code.OK, raw.force(number, ledger.getId()));
        }
    }

    @Test
    void entriesWithChosenNumbersAreConfirmedUpToTheFirstGap() throws Exception {
        WriteAdvHandle ledger = client.newCreateLedgerOp()
                .withEnsembleSize(3).withWriteQuorumSize(3).withAckQuorumSize(2)
                .withDigestType(DigestType.CRC32C).withPassword(PASSWORD)
                .withWriteFlags(WriteFlag.DEFERRED_SYNC).makeAdv()
                .execute().get(Entries.BOUND_S, TimeUnit.SECONDS);
        for (long number : new long[] {1, 0, 2}) {
            ledger.writeAsync(number, Unpooled.wrappedBuffer(Entries.of(number)));
        }
        ledger.write(3, Unpooled.wrappedBuffer(Entries.of(3)));
        ledger.force().get(Entries.BOUND_S, TimeUnit.SECONDS);
        assertEquals(3, ledger.getLastAddConfirmed());
        ledger.close();
        Entries.check(recovered(ledger.getId()), 3);
    }
}
