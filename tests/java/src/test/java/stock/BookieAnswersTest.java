package stock;

import static org.apache.bookkeeper.client.BKException.Code.LedgerFencedException;
import static org.apache.bookkeeper.client.BKException.Code.NoSuchEntryException;
import static org.apache.bookkeeper.client.BKException.Code.NoSuchLedgerExistsException;
import static org.apache.bookkeeper.client.BKException.Code.OK;
import static org.apache.bookkeeper.client.BKException.Code.UnauthorizedAccessException;
import static org.apache.bookkeeper.proto.BookieProtocol.FLAG_NONE;
import static org.apache.bookkeeper.proto.BookieProtocol.FLAG_RECOVERY_ADD;
import static org.apache.bookkeeper.proto.BookieProtocol.LAST_ADD_CONFIRMED;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.List;
import org.apache.bookkeeper.client.BookKeeperAdmin;
import org.apache.bookkeeper.client.LedgerHandle;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** What one bookie answers to one request; on a mixed fleet both kinds are asked. */
@OnBothWires
@Bookies(3)
class BookieAnswersTest extends SuiteCase {
    private static final byte[] OTHER = new byte[] {7};
    private static final int NO_SUCH_LEDGER = NoSuchLedgerExistsException;

    private Raw raw;
    /** It exists, and no entry of it does: a bookie would drop what belongs to none. */
    private long ledgerId;

    @BeforeEach
    void createLedger() throws Exception {
        raw = closing(new Raw(wire, admin));
        ledgerId = create(Layout.ALL_OF_THREE).getId();
    }

    static List<Integer> bookie() {
        return Fleet.victims();
    }

    @ParameterizedTest
    @MethodSource("bookie")
    void anEntryComesBackByteForByte(int bookie) throws Exception {
        assertEquals(OK, raw.add(bookie, ledgerId, 0));
        byte[] first = raw.read(bookie, ledgerId, 0).entry();
        assertEquals(OK, raw.add(bookie, ledgerId, 1));
        byte[] second = raw.read(bookie, ledgerId, 1).entry();
        byte[] payload = Entries.of(1);
        assertArrayEquals(
                payload, Arrays.copyOfRange(second, second.length - payload.length, second.length));
        assertEquals(32 + 4, first.length, "header, CRC32C, and no byte of payload");
    }

    @ParameterizedTest
    @MethodSource("bookie")
    void anAddThatComesTwiceIsAnsweredTwice(int bookie) throws Exception {
        assertEquals(OK, raw.add(bookie, ledgerId, 1));
        assertEquals(OK, raw.add(bookie, ledgerId, 1));
        assertEquals(OK, raw.read(bookie, ledgerId, 1).code());
    }

    @ParameterizedTest
    @MethodSource("bookie")
    void entriesMayComeInAnyOrderAndWithGaps(int bookie) throws Exception {
        for (long entry : new long[] {9, 2, 5, 1}) {
            assertEquals(OK, raw.add(bookie, ledgerId, entry));
        }
        for (long entry : new long[] {1, 2, 5, 9}) {
            assertEquals(OK, raw.read(bookie, ledgerId, entry).code());
        }
        assertEquals(NoSuchEntryException, raw.read(bookie, ledgerId, 3).code());
    }

    @ParameterizedTest
    @MethodSource("bookie")
    void anEntryThatWasNeverWrittenIsDenied(int bookie) throws Exception {
        assertEquals(OK, raw.add(bookie, ledgerId, 0));
        assertEquals(NoSuchEntryException, raw.read(bookie, ledgerId, 1).code());
    }

    @ParameterizedTest
    @MethodSource("bookie")
    void aLedgerThatWasNeverWrittenIsDenied(int bookie) throws Exception {
        assertEquals(NO_SUCH_LEDGER, raw.read(bookie, ledgerId, 0).code());
    }

    @ParameterizedTest
    @MethodSource("bookie")
    void theHighestEntryIsReadWithoutItsNumber(int bookie) throws Exception {
        for (long entry : new long[] {1, 6, 3}) {
            raw.add(bookie, ledgerId, entry);
        }
        byte[] highest = raw.read(bookie, ledgerId, LAST_ADD_CONFIRMED).entry();
        assertArrayEquals(raw.read(bookie, ledgerId, 6).entry(), highest);
    }

    @ParameterizedTest
    @MethodSource("bookie")
    void anAddWithAnotherPasswordIsRefused(int bookie) throws Exception {
        assertEquals(OK, raw.add(bookie, ledgerId, 0));
        assertEquals(
                UnauthorizedAccessException, raw.add(bookie, ledgerId, 1, OTHER, FLAG_NONE));
        assertEquals(OK, raw.add(bookie, ledgerId, 1), "and the ledger is as it was");
    }

    @ParameterizedTest
    @MethodSource("bookie")
    void aFenceWithAnotherPasswordIsRefused(int bookie) throws Exception {
        assertEquals(OK, raw.add(bookie, ledgerId, 0));
        assertEquals(UnauthorizedAccessException, raw.read(bookie, ledgerId, 0, OTHER).code());
        assertEquals(OK, raw.add(bookie, ledgerId, 1), "and fences nobody");
    }

    @ParameterizedTest
    @MethodSource("bookie")
    void afterAFenceOnlyRecoveryAdds(int bookie) throws Exception {
        assertEquals(OK, raw.add(bookie, ledgerId, 0));
        assertEquals(OK, raw.read(bookie, ledgerId, 0, PASSWORD).code());
        assertEquals(LedgerFencedException, raw.add(bookie, ledgerId, 1));
        assertEquals(NoSuchEntryException, raw.read(bookie, ledgerId, 1).code());
        assertEquals(OK, raw.add(bookie, ledgerId, 1, PASSWORD, FLAG_RECOVERY_ADD));
        assertEquals(OK, raw.read(bookie, ledgerId, 1).code());
        assertEquals(LedgerFencedException, raw.add(bookie, ledgerId, 2));
    }

    @ParameterizedTest
    @MethodSource("bookie")
    void aFenceMayComeBeforeTheFirstEntry(int bookie) throws Exception {
        int code = raw.read(bookie, ledgerId, LAST_ADD_CONFIRMED, PASSWORD).code();
        assertTrue(code == NoSuchEntryException || code == NO_SUCH_LEDGER, "code " + code);
        assertEquals(LedgerFencedException, raw.add(bookie, ledgerId, 0));
        assertEquals(OK, raw.add(bookie, ledgerId, 0, PASSWORD, FLAG_RECOVERY_ADD));
    }

    @ParameterizedTest
    @MethodSource("bookie")
    void aReadOfAMissingEntryFencesAsWell(int bookie) throws Exception {
        assertEquals(OK, raw.add(bookie, ledgerId, 0));
        assertEquals(NoSuchEntryException, raw.read(bookie, ledgerId, 5, PASSWORD).code());
        assertEquals(LedgerFencedException, raw.add(bookie, ledgerId, 1));
    }

    @ParameterizedTest
    @MethodSource("bookie")
    void aFenceIsForOneLedger(int bookie) throws Exception {
        LedgerHandle other = create(Layout.ALL_OF_THREE);
        assertEquals(OK, raw.add(bookie, ledgerId, 0));
        assertEquals(OK, raw.read(bookie, ledgerId, 0, PASSWORD).code());
        assertEquals(OK, raw.add(bookie, other.getId(), 0));
    }

    @ParameterizedTest
    @MethodSource("bookie")
    void aFenceOutlivesAKill(int bookie) throws Exception {
        assertEquals(OK, raw.add(bookie, ledgerId, 0));
        assertEquals(OK, raw.read(bookie, ledgerId, 0, PASSWORD).code());
        Fleet.kill(bookie);
        Fleet.start(bookie);
        Raw raw = closing(new Raw(wire, new BookKeeperAdmin(another(), wire.settings())));
        assertEquals(LedgerFencedException, raw.add(bookie, ledgerId, 1));
        assertEquals(
                UnauthorizedAccessException,
                raw.add(bookie, ledgerId, 1, OTHER, FLAG_RECOVERY_ADD),
                "and so does the password");
    }
}
