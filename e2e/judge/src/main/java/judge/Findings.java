package judge;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;

/** What is wrong: counted by kind, the first ones of each named. */
final class Findings {
    static final int NAMED_MAX = 20;

    /** `code`: the exit code that one of them alone makes. */
    enum Kind {
        /** Acknowledged, or below the end of a closed ledger, and not there. */
        LOST(3),
        /** There, and not what was written; or an end or length that is another one. */
        WRONG(3),
        /** A bookie of the write set denies its copy. */
        MISSING(4),
        /** A bookie's copy whose digest does not verify. */
        CORRUPT(4),
        /** A bookie could not or would not say. */
        UNKNOWN(5),
        /** A ledger that could not be opened or read, so that nothing is known of its entries. */
        UNJUDGED(5);

        final int code;

        Kind(int code) {
            this.code = code;
        }

        @Override
        public String toString() {
            return name().toLowerCase();
        }
    }

    private final Map<Kind, Long> counts = new EnumMap<>(Kind.class);
    private final Map<Kind, List<String>> named = new EnumMap<>(Kind.class);

    synchronized void add(Kind kind, long count, String what) {
        counts.merge(kind, count, Long::sum);
        List<String> names = named.computeIfAbsent(kind, key -> new ArrayList<>());
        if (names.size() < NAMED_MAX) {
            names.add(what);
        }
    }

    void add(Kind kind, String what) {
        add(kind, 1, what);
    }

    synchronized long count(Kind kind) {
        return counts.getOrDefault(kind, 0L);
    }

    /** The gravest: 3 before 4 before 5; 0 where nothing was found. */
    synchronized int code() {
        return counts.keySet().stream().mapToInt(kind -> kind.code).min().orElse(0);
    }

    synchronized void tell(ObjectNode into) {
        for (Kind kind : Kind.values()) {
            into.put(kind.toString(), count(kind));
        }
        ArrayNode words = into.putArray("first");
        named.forEach((kind, names) -> names.forEach(name -> words.add(kind + ": " + name)));
    }

    synchronized void print() {
        named.forEach((kind, names) -> {
            System.out.println("judge: " + kind + " " + count(kind));
            names.stream().limit(5).forEach(name -> System.out.println("  " + name));
        });
    }
}
