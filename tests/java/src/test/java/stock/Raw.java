package stock;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.ByteBufAllocator;
import io.netty.buffer.Unpooled;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.nio.NioEventLoopGroup;
import java.util.EnumSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.apache.bookkeeper.client.BookKeeperAdmin;
import org.apache.bookkeeper.client.api.WriteFlag;
import org.apache.bookkeeper.common.util.OrderedExecutor;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.apache.bookkeeper.proto.BookieClientImpl;
import org.apache.bookkeeper.proto.BookieProtocol;
import org.apache.bookkeeper.proto.LedgerMetadataFormat;
import org.apache.bookkeeper.proto.checksum.DigestManager;
import org.apache.bookkeeper.stats.NullStatsLogger;

/** Single requests to single bookies with the stock connection, to see each one's own answer. */
final class Raw implements AutoCloseable {
    private final Wire wire;
    private final EventLoopGroup events = new NioEventLoopGroup(1);
    private final OrderedExecutor workers = OrderedExecutor.newBuilder().numThreads(1).build();
    private final ScheduledExecutorService timers = Executors.newSingleThreadScheduledExecutor();
    private final BookieClientImpl bookies;

    Raw(Wire wire, BookKeeperAdmin admin) throws Exception {
        this(wire, admin, settings -> {});
    }

    Raw(Wire wire, BookKeeperAdmin admin, Consumer<ClientConfiguration> change) throws Exception {
        this.wire = wire;
        ClientConfiguration settings = wire.settings();
        change.accept(settings);
        this.bookies = new BookieClientImpl(
                settings, events, ByteBufAllocator.DEFAULT, workers, timers,
                NullStatsLogger.INSTANCE, admin.getBookieAddressResolver());
    }

    /** A code of BKException, and the bytes of an entry where it is OK. */
    record Answer(int code, byte[] entry) {}

    static byte[] key(byte[] password) throws Exception {
        return DigestManager.generateMasterKey(password);
    }

    /** The code that a normal add, or with FLAG_RECOVERY_ADD a recovery's, is answered with. */
    int add(int bookie, long ledgerId, long entryId, byte[] password, int flags) throws Exception {
        byte[] payload = Entries.of(entryId);
        DigestManager digests = DigestManager.instantiate(
                ledgerId, password, LedgerMetadataFormat.DigestType.CRC32C,
                ByteBufAllocator.DEFAULT, wire == Wire.V2);
        CompletableFuture<Integer> answer = new CompletableFuture<>();
        bookies.addEntry(
                Fleet.id(bookie), ledgerId, key(password), entryId,
                digests.computeDigestAndPackageForSending(
                        entryId, entryId - 1, payload.length, Unpooled.wrappedBuffer(payload),
                        key(password), flags),
                (code, ledger, entry, by, context) -> answer.complete(code),
                null, flags, false, EnumSet.noneOf(WriteFlag.class));
        return answer.get(Entries.BOUND_S, TimeUnit.SECONDS);
    }

    int add(int bookie, long ledgerId, long entryId) throws Exception {
        return add(bookie, ledgerId, entryId, SuiteCase.PASSWORD, BookieProtocol.FLAG_NONE);
    }

    Answer read(int bookie, long ledgerId, long entryId) throws Exception {
        return read(bookie, ledgerId, entryId, null);
    }

    /** With a password: a read that fences. */
    Answer read(int bookie, long ledgerId, long entryId, byte[] password) throws Exception {
        int flags = BookieProtocol.FLAG_NONE;
        if (password != null) {
            flags = BookieProtocol.FLAG_DO_FENCING | BookieProtocol.FLAG_HIGH_PRIORITY;
        }
        CompletableFuture<Answer> answer = new CompletableFuture<>();
        bookies.readEntry(
                Fleet.id(bookie), ledgerId, entryId,
                (code, ledger, entry, bytes, context) -> answer.complete(told(code, bytes)),
                null, flags, password == null ? null : key(password));
        return answer.get(Entries.BOUND_S, TimeUnit.SECONDS);
    }

    /** The code of READ_LAC; v3 only. */
    int readLac(int bookie, long ledgerId) throws Exception {
        CompletableFuture<Integer> answer = new CompletableFuture<>();
        bookies.readLac(
                Fleet.id(bookie), ledgerId,
                (code, ledger, lac, last, context) -> answer.complete(code), null);
        return answer.get(Entries.BOUND_S, TimeUnit.SECONDS);
    }

    /** The code of FORCE; v3 only. */
    int force(int bookie, long ledgerId) throws Exception {
        CompletableFuture<Integer> answer = new CompletableFuture<>();
        bookies.forceLedger(
                Fleet.id(bookie), ledgerId,
                (code, ledger, by, context) -> answer.complete(code), null);
        return answer.get(Entries.BOUND_S, TimeUnit.SECONDS);
    }

    private static Answer told(int code, ByteBuf bytes) {
        byte[] copy = new byte[bytes == null ? 0 : bytes.readableBytes()];
        if (bytes != null) {
            bytes.getBytes(bytes.readerIndex(), copy);
        }
        return new Answer(code, copy);
    }

    @Override
    public void close() {
        bookies.close();
        events.shutdownGracefully();
        workers.shutdown();
        timers.shutdown();
    }
}
