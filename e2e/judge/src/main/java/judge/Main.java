package judge;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * The judge: the stock client of Apache BookKeeper writes, notes, reads back and asks for single copies.
 *
 * Exit codes: 0 whole; 2 usage; 3 an acknowledged entry is lost or wrong; 4 a copy is missing or corrupt;
 * 5 it could not judge: nothing noted, nothing looked at, somebody unreachable or silent, notes damaged;
 * 6 all is whole, and the status says otherwise.
 */
public final class Main {
    private static final String USAGE = """
            judge write  --metadata URI [--tls DIRECTORY] --notes FILE [--seconds 60] [--bytes 0] [--seed 1]
                         [--rate 400] [--writers 3] [--layouts 3/3/2,4/3/2] [--entries 2000] [--wires v2,v3]
                         [--json FILE]
            judge check  --metadata URI [--tls DIRECTORY] --notes FILE [--notes FILE ...] [--seconds 900]
                         [--wires v2,v3] [--json FILE] [--status FILE [--faults N]]
            judge status-against --verdict FILE --status FILE [--faults N] [--json FILE]""";
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int USAGE_CODE = 2;
    private static final int UNJUDGED = 5;
    private static final int CONTRADICTED = 6;
    private static final long STOP_S = 75;

    private Main() {}

    public static void main(String[] words) throws Exception {
        // Else a SIGTERM ends logging first, and calls of the client that log on their way never come back.
        System.setProperty("log4j2.shutdownHookEnabled", "false");
        int code;
        try {
            code = run(Arrays.asList(words));
        } catch (Options.UsageError | IllegalArgumentException error) {
            System.err.println("judge: " + error.getMessage() + "\n" + USAGE);
            code = USAGE_CODE;
        } catch (Notes.DamagedNotes error) {
            System.out.println("judge: the notes are damaged: " + error.getMessage());
            code = UNJUDGED;
        } catch (IOException | org.apache.bookkeeper.client.BKException error) {
            System.out.println("judge: " + error);
            code = UNJUDGED;
        }
        System.out.flush();
        Runtime.getRuntime().halt(code); // threads of the client are no reason to stay
    }

    private static int run(List<String> words) throws Exception {
        List<String> rest = words.isEmpty() ? words : words.subList(1, words.size());
        return switch (words.isEmpty() ? "" : words.get(0)) {
            case "write" -> write(new Options(rest, List.of(
                    "metadata", "tls", "notes", "seconds", "bytes", "seed", "rate", "writers", "layouts", "entries",
                    "wires", "json")));
            case "check" -> check(new Options(rest, List.of(
                    "metadata", "tls", "notes", "seconds", "wires", "json", "status", "faults")));
            case "status-against" -> statusAgainst(new Options(rest, List.of(
                    "verdict", "status", "faults", "json")));
            default -> throw new Options.UsageError("expected write, check or status-against");
        };
    }

    private static int write(Options options) throws Exception {
        try (Cluster cluster = Cluster.of(options)) {
            return write(options, cluster);
        }
    }

    private static int write(Options options, Cluster cluster) throws Exception {
        Writing.Settings settings = new Writing.Settings(
                cluster,
                Wire.parseAll(options.text("wires", "v2,v3")),
                Layout.parseAll(options.text("layouts", "3/3/2,4/3/2")),
                (int) options.number("writers", 3),
                options.number("seed", 1),
                options.number("seconds", 60),
                options.number("bytes", 0),
                options.number("rate", 400),
                (int) Math.max(1, options.number("entries", 2000)));
        ObjectNode told = JSON.createObjectNode();
        told.put("command", "write").put("began", now());
        try (Notebook notes = new Notebook(Path.of(options.text("notes")))) {
            Writing writing = new Writing(settings, notes);
            Thread main = Thread.currentThread();
            Runtime.getRuntime().addShutdownHook(new Thread(() -> {
                writing.stop();
                try {
                    main.join(TimeUnit.SECONDS.toMillis(STOP_S));
                } catch (InterruptedException error) {
                    Thread.currentThread().interrupt();
                }
            }));
            writing.run();
            told.put("ended", now());
            writing.tell(told);
            save(options, told);
            System.out.println("judge: " + told);
            return notes.noted() > 0 ? 0 : UNJUDGED;
        } catch (FileAlreadyExistsException error) {
            throw new Options.UsageError("--notes: there is " + error.getMessage() + " already: it is evidence");
        }
    }

    private static int check(Options options) throws Exception {
        try (Cluster cluster = Cluster.of(options)) {
            return check(options, cluster);
        }
    }

    private static int check(Options options, Cluster cluster) throws Exception {
        Checking.Settings settings = new Checking.Settings(
                cluster,
                Wire.parseAll(options.text("wires", "v2,v3")),
                options.number("seconds", 900));
        Notes notes = Notes.read(options.paths("notes"));
        JsonNode status = options.has("status") ? status(options) : null;
        long faults = options.number("faults", 0);
        ObjectNode told = JSON.createObjectNode();
        told.put("command", "check").put("began", now());
        Checking checking = new Checking(settings, notes);
        checking.run();
        told.put("ended", now());
        told.put("hasTornLine", notes.hasTornLine()).put("hasEnd", notes.hasEnd());
        checking.tell(told);
        checking.print();
        int code = checking.code();
        if (status != null) {
            code = against(status, told, faults, code);
        }
        return verdict(options, told, code);
    }

    private static int statusAgainst(Options options) throws Exception {
        ObjectNode told = (ObjectNode) JSON.readTree(Path.of(options.text("verdict")).toFile());
        if (!told.path("findings").isObject()) {
            throw new Options.UsageError("--verdict: not the JSON of a check");
        }
        int code = against(
                status(options), told, options.number("faults", 0), told.path("exitCode").asInt(UNJUDGED));
        return verdict(options, told, code);
    }

    private static int against(JsonNode status, ObjectNode told, long faults, int code) {
        List<String> against = Claims.contradictions(status, told, faults);
        ArrayNode words = told.putArray("statusContradicts");
        against.forEach(words::add);
        against.forEach(word -> System.out.println("judge: the status contradicts: " + word));
        return code == 0 && !against.isEmpty() ? CONTRADICTED : code;
    }

    private static int verdict(Options options, ObjectNode told, int code) throws Exception {
        told.put("exitCode", code);
        save(options, told);
        System.out.println("judge: " + switch (code) {
            case 0 -> "whole";
            case 3 -> "an acknowledged entry is LOST or WRONG";
            case 4 -> "a copy is MISSING or CORRUPT";
            case CONTRADICTED -> "whole, and the status CONTRADICTS it";
            default -> "it could NOT be judged";
        } + ", exit code " + code);
        return code;
    }

    private static JsonNode status(Options options) throws Exception {
        JsonNode found = JSON.readTree(Path.of(options.text("status")).toFile());
        JsonNode told = found.has("status") ? found.get("status") : found;
        if (!told.path("conditions").isArray()) {
            throw new Options.UsageError("--status: no conditions are in it");
        }
        return found;
    }

    private static void save(Options options, ObjectNode told) throws Exception {
        if (options.has("json")) {
            Path file = Path.of(options.text("json"));
            Files.writeString(file, JSON.writerWithDefaultPrettyPrinter().writeValueAsString(told) + "\n");
        }
    }

    private static String now() {
        return Instant.now().truncatedTo(ChronoUnit.SECONDS).toString();
    }
}
