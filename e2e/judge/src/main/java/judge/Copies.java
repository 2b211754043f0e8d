package judge;

import com.fasterxml.jackson.databind.node.ObjectNode;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.ByteBufAllocator;
import io.netty.buffer.Unpooled;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.nio.NioEventLoopGroup;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.Semaphore;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.api.DigestType;
import org.apache.bookkeeper.client.api.LedgerMetadata;
import org.apache.bookkeeper.common.util.OrderedExecutor;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.apache.bookkeeper.net.BookieId;
import org.apache.bookkeeper.proto.BookieAddressResolver;
import org.apache.bookkeeper.proto.BookieClientImpl;
import org.apache.bookkeeper.proto.BookieProtocol;
import org.apache.bookkeeper.proto.LedgerMetadataFormat;
import org.apache.bookkeeper.proto.checksum.DigestManager;
import org.apache.bookkeeper.stats.NullStatsLogger;

/**
 * Asks every bookie of every write set for its own copy of every entry, on each wire, by plain reads
 * that fence nothing, and verifies digest and payload. What is not held is asked for again before it
 * counts: a third copy may be on its way, a connection may have broken.
 */
final class Copies implements AutoCloseable {
    private static final int IN_FLIGHT = 128;
    /** What a bookie in limbo answers of what it may have forgotten, on version 3. */
    static final String LIMBO = Codes.name(BKException.Code.DataUnknownException);

    private static final long[] AGAIN_AFTER_MS = {1_000, 4_000};

    /** The gravest last: answers on two wires become one. */
    private enum Answer {
        HELD, UNKNOWN, MISSING, CORRUPT, WRONG
    }

    private record Copy(long ledger, long entry, BookieId bookie) {}

    private record Asked(Copy copy, Channel by, DigestManager digests, Answer answer, String why) {}

    /** Of one bookie. */
    private static final class Tally {
        long owed;
        final long[] answers = new long[Answer.values().length];
        final Map<String, Long> reasons = new TreeMap<>();
    }

    private final List<Channel> channels = new ArrayList<>();
    private final EventLoopGroup events = new NioEventLoopGroup(2);
    private final OrderedExecutor workers = OrderedExecutor.newBuilder().numThreads(2).build();
    private final ScheduledExecutorService timers = Executors.newSingleThreadScheduledExecutor();
    private final Map<String, Tally> bookies = new TreeMap<>();
    private final List<Asked> notHeld = Collections.synchronizedList(new ArrayList<>());
    private final Findings findings;
    private final Instant end;

    Copies(List<Wire> wires, Cluster cluster, BookieAddressResolver addresses, Findings findings, Instant end)
            throws Exception {
        this.findings = findings;
        this.end = end;
        for (Wire wire : wires) {
            channels.add(new Channel(wire, wire.settings(cluster), addresses));
        }
    }

    /** All of one ledger; `metadata` is that of a closed one. */
    void ask(LedgerMetadata metadata) throws Exception {
        WriteSets sets = WriteSets.of(metadata);
        List<DigestManager> digests = new ArrayList<>();
        for (Channel channel : channels) {
            digests.add(channel.digests(metadata));
        }
        for (long entry = 0; entry <= metadata.getLastEntryId(); entry++) {
            for (BookieId bookie : sets.of(entry)) {
                bookies.computeIfAbsent(bookie.toString(), key -> new Tally()).owed++;
                Copy copy = new Copy(metadata.getLedgerId(), entry, bookie);
                for (int i = 0; i < channels.size(); i++) {
                    channels.get(i).ask(copy, digests.get(i));
                }
            }
        }
    }

    /** Waits for the answers, asks again for what is not held, and tells of what stays so. */
    void finish() throws InterruptedException {
        drain();
        for (long pause : AGAIN_AFTER_MS) {
            if (notHeld.isEmpty()) {
                break;
            }
            Thread.sleep(pause);
            List<Asked> again = new ArrayList<>(notHeld);
            notHeld.clear();
            for (Asked asked : again) {
                asked.by.ask(asked.copy, asked.digests);
            }
            drain();
        }
        Map<Copy, Asked> gravest = new java.util.LinkedHashMap<>();
        for (Asked asked : notHeld) {
            gravest.merge(asked.copy, asked, Copies::graver);
        }
        gravest.values().forEach(this::take);
        bookies.values().forEach(tally -> tally.answers[Answer.HELD.ordinal()] =
                tally.owed - Arrays.stream(tally.answers).sum());
    }

    /** Of two that are as grave, that of the newer wire: version 2 has no word for limbo. */
    private static Asked graver(Asked one, Asked other) {
        int compared = one.answer.compareTo(other.answer);
        return compared > 0 || (compared == 0 && one.by.wire.compareTo(other.by.wire) > 0) ? one : other;
    }

    private void take(Asked asked) {
        Tally tally = bookies.get(asked.copy.bookie.toString());
        tally.answers[asked.answer.ordinal()]++;
        tally.reasons.merge(asked.why, 1L, Long::sum);
        Findings.Kind kind = switch (asked.answer) {
            case MISSING -> Findings.Kind.MISSING;
            case CORRUPT -> Findings.Kind.CORRUPT;
            case WRONG -> Findings.Kind.WRONG;
            default -> Findings.Kind.UNKNOWN;
        };
        findings.add(kind, "copy of ledger " + asked.copy.ledger + " entry " + asked.copy.entry
                + " on " + asked.copy.bookie + ", " + asked.by.wire + ": " + asked.why);
    }

    private void drain() throws InterruptedException {
        for (Channel channel : channels) {
            channel.room.acquire(IN_FLIGHT);
            channel.room.release(IN_FLIGHT);
        }
    }

    long owed() {
        return bookies.values().stream().mapToLong(tally -> tally.owed).sum();
    }

    long held() {
        return bookies.values().stream().mapToLong(tally -> tally.answers[Answer.HELD.ordinal()]).sum();
    }

    void tell(ObjectNode into) {
        into.put("owed", owed());
        into.put("held", held());
        ObjectNode each = into.putObject("bookies");
        bookies.forEach((bookie, tally) -> {
            ObjectNode one = each.putObject(bookie);
            one.put("owed", tally.owed);
            for (Answer answer : Answer.values()) {
                one.put(answer.name().toLowerCase(), tally.answers[answer.ordinal()]);
            }
            ObjectNode reasons = one.putObject("reasons");
            tally.reasons.forEach(reasons::put);
        });
    }

    void print() {
        bookies.forEach((bookie, tally) -> System.out.printf(
                "judge: %s owes %d copies: %d held, %d missing, %d corrupt, %d wrong, %d unknown %s%n",
                bookie, tally.owed, tally.answers[Answer.HELD.ordinal()],
                tally.answers[Answer.MISSING.ordinal()], tally.answers[Answer.CORRUPT.ordinal()],
                tally.answers[Answer.WRONG.ordinal()], tally.answers[Answer.UNKNOWN.ordinal()],
                tally.reasons.isEmpty() ? "" : tally.reasons));
    }

    @Override
    public void close() {
        channels.forEach(channel -> channel.client.close());
        events.shutdownGracefully();
        workers.shutdown();
        timers.shutdown();
    }

    /** Single reads on one wire. */
    private final class Channel {
        private final Wire wire;
        private final BookieClientImpl client;
        private final Semaphore room = new Semaphore(IN_FLIGHT);

        Channel(Wire wire, ClientConfiguration settings, BookieAddressResolver addresses) throws Exception {
            this.wire = wire;
            this.client = new BookieClientImpl(
                    settings, events, ByteBufAllocator.DEFAULT, workers, timers,
                    NullStatsLogger.INSTANCE, addresses);
        }

        DigestManager digests(LedgerMetadata metadata) throws Exception {
            return DigestManager.instantiate(
                    metadata.getLedgerId(), Writing.PASSWORD, format(metadata.getDigestType()),
                    ByteBufAllocator.DEFAULT, wire == Wire.V2);
        }

        void ask(Copy copy, DigestManager digests) throws InterruptedException {
            if (Instant.now().isAfter(end)) {
                notHeld.add(new Asked(copy, this, digests, Answer.UNKNOWN, "no time left to ask"));
                return;
            }
            room.acquire();
            client.readEntry(copy.bookie, copy.ledger, copy.entry, (code, ledger, entry, bytes, context) -> {
                try {
                    answered(copy, digests, code, bytes);
                } finally {
                    room.release();
                }
            }, null, BookieProtocol.FLAG_NONE);
        }

        private void answered(Copy copy, DigestManager digests, int code, ByteBuf bytes) {
            Answer answer;
            String why = Codes.name(code);
            if (code == BKException.Code.OK) {
                answer = verified(copy, digests, bytes);
                why = answer == Answer.CORRUPT ? "its digest does not verify" : "another payload";
            } else if (code == BKException.Code.NoSuchEntryException
                    || code == BKException.Code.NoSuchLedgerExistsException) {
                answer = Answer.MISSING;
            } else {
                answer = Answer.UNKNOWN;
            }
            if (answer != Answer.HELD) {
                notHeld.add(new Asked(copy, this, digests, answer, why));
            }
        }

        private static Answer verified(Copy copy, DigestManager digests, ByteBuf bytes) {
            try {
                ByteBuf payload = digests.verifyDigestAndReturnData(copy.entry, bytes.slice());
                ByteBuf expected = Unpooled.wrappedBuffer(Payload.of(copy.ledger, copy.entry));
                return payload.equals(expected) ? Answer.HELD : Answer.WRONG;
            } catch (BKException.BKDigestMatchException | RuntimeException error) {
                return Answer.CORRUPT;
            }
        }

        private static LedgerMetadataFormat.DigestType format(DigestType type) {
            return switch (type) {
                case MAC -> LedgerMetadataFormat.DigestType.HMAC;
                case CRC32 -> LedgerMetadataFormat.DigestType.CRC32;
                case CRC32C -> LedgerMetadataFormat.DigestType.CRC32C;
                case DUMMY -> LedgerMetadataFormat.DigestType.DUMMY;
            };
        }
    }
}
