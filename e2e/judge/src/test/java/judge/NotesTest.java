package judge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class NotesTest {
    private static final String BEGIN = "judge 1\ncreate 7 v3 4/3/2 CRC32C\n";

    private static Notes.Ledger only(Notes notes) {
        assertEquals(1, notes.ledgers().size());
        return notes.ledgers().iterator().next();
    }

    @Test
    void acksAddUp() throws Exception {
        Notes notes = Notes.parse(BEGIN + "ack 7 0 4\nack 7 5 5\nclose 7 5 1234\nend 6\n");
        Notes.Ledger ledger = only(notes);
        assertEquals(6, notes.acknowledged());
        assertEquals(new Layout(4, 3, 2), ledger.layout);
        assertEquals(List.of(5L, 1234L), List.of(ledger.closedLast, ledger.closedLength));
        assertTrue(notes.hasEnd() && !notes.hasTornLine());
    }

    @Test
    void aLastLineThatWasTornCountsForNothing() throws Exception {
        String whole = BEGIN + "ack 7 0 4\n";
        for (String torn : List.of("a", "ack 7 5", "ack 7 5 6", "cre", "close 7 4 99", "deleting 7")) {
            Notes notes = Notes.parse(whole + torn);
            assertTrue(notes.hasTornLine(), torn);
            assertEquals(5, notes.acknowledged(), torn);
            assertFalse(only(notes).wasClosed() || only(notes).isDoomed, torn);
        }
    }

    @Test
    void nothingIsFewNotes() throws Exception {
        assertEquals(0, Notes.parse("").ledgers().size());
        assertEquals(0, Notes.parse("judge").ledgers().size());
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "ack 7 1 4", "ack 8 0 1", "ack 7 0", "ack 7 0 x", "ack 7 0 -1", "close 8 0 0", "", "create 7 v3 4/3/2 MAC",
        "create 9 v3 2/3/2 MAC", "deleted", "something 7", "judge 1"
    })
    void whatDoesNotFitIsDamage(String line) {
        assertThrows(Notes.DamagedNotes.class, () -> Notes.parse(BEGIN + line + "\n"));
    }

    @Test
    void anotherFormatIsDamage() {
        assertThrows(Notes.DamagedNotes.class, () -> Notes.parse("judge 2\n"));
    }

    @Test
    void aDeletionIsNotedBeforeAndAfter() throws Exception {
        Notes.Ledger doomed = only(Notes.parse(BEGIN + "deleting 7\n"));
        assertTrue(doomed.isDoomed && !doomed.isDeleted);
        assertTrue(only(Notes.parse(BEGIN + "deleting 7\ndeleted 7\n")).isDeleted);
    }

    @Test
    void whatIsWrittenIsReadBack(@TempDir Path folder) throws Exception {
        Path file = folder.resolve("notes");
        try (Notebook book = new Notebook(file)) {
            book.note("create 1 v2 3/3/2 MAC");
            book.note("create 2 v3 3/3/2 CRC32");
            for (long entry = 0; entry < 1000; entry++) {
                book.ack(1, entry);
                book.ack(2, entry);
            }
            book.finish();
            assertEquals(2000, book.noted());
        }
        Notes notes = Notes.read(List.of(file));
        assertEquals(2000, notes.acknowledged());
        assertTrue(notes.hasEnd());
        assertTrue(Files.size(file) < 60_000, "neighbours share a line");
        assertThrows(FileAlreadyExistsException.class, () -> new Notebook(file));
    }
}
