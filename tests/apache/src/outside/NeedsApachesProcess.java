package outside;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

/**
 * A test asked for what only a bookie within its own JVM has. An Error, so that a test that catches exceptions
 * does not swallow it; noted besides, so that one that catches everything is not counted as passed.
 */
public final class NeedsApachesProcess extends Error {
    private static final List<String> NOTED = new CopyOnWriteArrayList<>();

    public NeedsApachesProcess(String what) {
        super(what);
        NOTED.add(what);
    }

    /** What was asked for since the last call, in order. */
    static List<String> taken() {
        List<String> noted = List.copyOf(NOTED);
        NOTED.clear();
        return noted;
    }
}
