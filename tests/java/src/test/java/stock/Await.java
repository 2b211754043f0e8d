package stock;

import java.time.Duration;
import java.util.concurrent.Callable;

/** Waits for what is going to happen, and not longer than a bound. */
final class Await {
    private static final Duration BOUND = Duration.ofSeconds(30);
    private static final long POLL_MS = 20;

    private Await() {}

    static void until(String what, Callable<Boolean> holds) throws Exception {
        long deadline = System.nanoTime() + BOUND.toNanos();
        while (!holds.call()) {
            if (System.nanoTime() > deadline) {
                throw new AssertionError("not within " + BOUND.toSeconds() + " s: " + what);
            }
            Thread.sleep(POLL_MS);
        }
    }
}
