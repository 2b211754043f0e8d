package stock;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.TestPlan;

/** A line for each failure as it happens, with the claim that did not hold, for each test that is skipped, with
 * the reason, and for slow ones. */
public final class Progress implements TestExecutionListener {
    private static final double SLOW_S = 5;

    private final Map<String, Long> began = new ConcurrentHashMap<>();
    private TestPlan plan;

    @Override
    public void testPlanExecutionStarted(TestPlan started) {
        plan = started;
    }

    @Override
    public void executionStarted(TestIdentifier test) {
        began.put(test.getUniqueId(), System.nanoTime());
    }

    @Override
    public void executionFinished(TestIdentifier test, TestExecutionResult result) {
        double seconds = (System.nanoTime() - began.remove(test.getUniqueId())) / 1e9;
        if (result.getStatus() == TestExecutionResult.Status.FAILED) {
            result.getThrowable().ifPresent(why -> tell("FAILED", test, seconds, why.toString()));
        } else if (result.getStatus() == TestExecutionResult.Status.ABORTED) {
            result.getThrowable().ifPresent(why -> tell("skipped", test, seconds, why.getMessage()));
        } else if (test.isTest() && seconds > SLOW_S) {
            tell("slow", test, seconds, "");
        }
    }

    @Override
    public void executionSkipped(TestIdentifier test, String reason) {
        tell("skipped", test, 0, reason);
    }

    private void tell(String what, TestIdentifier test, double seconds, String why) {
        StringBuilder name = new StringBuilder(test.getDisplayName());
        plan.getParent(test).ifPresent(parent -> before(name, parent));
        String first = why.lines().findFirst().orElse("");
        System.out.printf("  %s %s, %.1f s %s%n", what, name, seconds, first);
    }

    private void before(StringBuilder name, TestIdentifier parent) {
        if (plan.getParent(parent).isPresent()) {
            name.insert(0, parent.getDisplayName() + " > ");
            plan.getParent(parent).ifPresent(next -> before(name, next));
        }
    }
}
