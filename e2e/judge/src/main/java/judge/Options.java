package judge;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** `--name value` of a command line; a name may come again. */
final class Options {
    private final Map<String, List<String>> values = new TreeMap<>();

    /** UsageError for a name that the command does not know. */
    Options(List<String> words, List<String> known) throws UsageError {
        for (int i = 0; i < words.size(); i += 2) {
            String name = words.get(i);
            if (!name.startsWith("--") || !known.contains(name.substring(2))) {
                throw new UsageError("found " + name + ", expected --" + String.join(", --", known));
            }
            if (i + 1 == words.size()) {
                throw new UsageError(name + " needs a value");
            }
            values.computeIfAbsent(name.substring(2), key -> new ArrayList<>()).add(words.get(i + 1));
        }
    }

    boolean has(String name) {
        return values.containsKey(name);
    }

    String text(String name) throws UsageError {
        List<String> found = values.get(name);
        if (found == null || found.size() != 1) {
            throw new UsageError("--" + name + " is needed, once");
        }
        return found.get(0);
    }

    String text(String name, String otherwise) throws UsageError {
        return has(name) ? text(name) : otherwise;
    }

    long number(String name, long otherwise) throws UsageError {
        String text = text(name, Long.toString(otherwise));
        try {
            long number = Long.parseLong(text);
            if (number >= 0) {
                return number;
            }
        } catch (NumberFormatException error) {
            // said below
        }
        throw new UsageError("--" + name + ": found " + text + ", expected a number from 0 on");
    }

    List<Path> paths(String name) throws UsageError {
        if (!has(name)) {
            throw new UsageError("--" + name + " is needed");
        }
        return values.get(name).stream().map(Path::of).toList();
    }

    /** The command line cannot be meant. */
    static final class UsageError extends Exception {
        private static final long serialVersionUID = 1;

        UsageError(String message) {
            super(message);
        }
    }
}
