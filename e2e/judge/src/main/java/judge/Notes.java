package judge;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/**
 * What a writer noted, read back. A line a fact:
 *
 * <pre>
 * judge 1                             the format, always first
 * create LEDGER WIRE LAYOUT DIGEST    before its first entry is sent: create 7 v3 4/3/2 CRC32C
 * ack LEDGER FIRST LAST               acknowledged; of each ledger in order and without gaps
 * close LEDGER LAST LENGTH            close() came back with this end
 * deleting LEDGER                     before it is asked for: it may be gone from now on
 * deleted LEDGER                      it was answered
 * left LEDGER WHY                     no more is written: it stays open, or an add failed
 * end COUNT                           the writer ended by itself, with so many acknowledged entries
 * </pre>
 *
 * A last line without its newline was torn by a crash: it was never forced, so nothing counts on it.
 * Anything else that does not fit is damage, and damaged notes are no evidence.
 */
final class Notes {
    static final String FORMAT = "judge 1";

    private final Map<Long, Ledger> ledgers = new TreeMap<>();
    private boolean hasTornLine;
    private boolean hasEnd;

    /** One ledger as its writer knew it. */
    static final class Ledger {
        final long id;
        final String wire;
        final Layout layout;
        final String digest;
        /** Last acknowledged entry; -1 before the first. */
        long acked = -1;
        /** The end that close() gave; -2 when it never came back. */
        long closedLast = NEVER;
        long closedLength = NEVER;
        boolean isDoomed;
        boolean isDeleted;

        static final long NEVER = -2;

        Ledger(long id, String wire, Layout layout, String digest) {
            this.id = id;
            this.wire = wire;
            this.layout = layout;
            this.digest = digest;
        }

        boolean wasClosed() {
            return closedLast != NEVER;
        }

        private void ack(long first, long last) throws DamagedNotes {
            if (first != acked + 1 || last < first) {
                throw new DamagedNotes("acks " + first + " to " + last + " after " + acked);
            }
            acked = last;
        }
    }

    /** Of all files together; a ledger stands in one of them. */
    static Notes read(List<Path> files) throws DamagedNotes, IOException {
        Notes notes = new Notes();
        for (Path file : files) {
            notes.take(Files.readString(file, StandardCharsets.UTF_8), file.toString());
        }
        return notes;
    }

    static Notes parse(String text) throws DamagedNotes {
        Notes notes = new Notes();
        notes.take(text, "notes");
        return notes;
    }

    Collection<Ledger> ledgers() {
        return ledgers.values();
    }

    long acknowledged() {
        return ledgers.values().stream().mapToLong(ledger -> ledger.acked + 1).sum();
    }

    boolean hasTornLine() {
        return hasTornLine;
    }

    boolean hasEnd() {
        return hasEnd;
    }

    private void take(String text, String where) throws DamagedNotes {
        int whole = text.lastIndexOf('\n') + 1;
        hasTornLine |= whole < text.length();
        String[] lines = whole == 0 ? new String[0] : text.substring(0, whole - 1).split("\n", -1);
        if (lines.length > 0 && !lines[0].equals(FORMAT)) {
            throw new DamagedNotes(where + ":1: found '" + lines[0] + "', expected '" + FORMAT + "'");
        }
        for (int number = 1; number < lines.length; number++) {
            try {
                line(lines[number].split(" ", -1));
            } catch (DamagedNotes | RuntimeException error) {
                throw new DamagedNotes(
                        where + ":" + (number + 1) + ": '" + lines[number] + "': " + error.getMessage());
            }
        }
    }

    private void line(String[] words) throws DamagedNotes {
        switch (words[0] + " " + (words.length - 1)) {
            case "create 4" -> {
                long id = Long.parseLong(words[1]);
                Ledger made = new Ledger(id, words[2], Layout.parse(words[3]), words[4]);
                if (ledgers.putIfAbsent(id, made) != null) {
                    throw new DamagedNotes("created twice");
                }
            }
            case "ack 3" -> ledger(words).ack(Long.parseLong(words[2]), Long.parseLong(words[3]));
            case "close 3" -> {
                ledger(words).closedLast = Long.parseLong(words[2]);
                ledger(words).closedLength = Long.parseLong(words[3]);
            }
            case "deleting 1" -> ledger(words).isDoomed = true;
            case "deleted 1" -> ledger(words).isDeleted = true;
            case "left 2" -> ledger(words);
            case "end 1" -> {
                Long.parseLong(words[1]);
                hasEnd = true;
            }
            default -> throw new DamagedNotes("no such note");
        }
    }

    private Ledger ledger(String[] words) throws DamagedNotes {
        Ledger found = ledgers.get(Long.parseLong(words[1]));
        if (found == null) {
            throw new DamagedNotes("of a ledger that was not created");
        }
        return found;
    }

    /** The file is not what a writer leaves, not even one that was killed. */
    static final class DamagedNotes extends Exception {
        private static final long serialVersionUID = 1;

        DamagedNotes(String message) {
            super(message);
        }
    }
}
