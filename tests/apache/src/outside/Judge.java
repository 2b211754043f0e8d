package outside;

import static org.junit.platform.engine.discovery.DiscoverySelectors.selectClass;
import static org.junit.platform.engine.discovery.DiscoverySelectors.selectUniqueId;

import java.io.PrintStream;
import java.lang.reflect.Modifier;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import org.apache.bookkeeper.test.BookKeeperClusterTestCase;
import org.junit.platform.engine.DiscoverySelector;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.LauncherDiscoveryRequest;
import org.junit.platform.launcher.TagFilter;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.TestPlan;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

/**
 * `list`: the test classes that stand on the cluster base, one a line. `run FILE CLASS` or `run FILE UNIQUE-ID...`:
 * runs them and writes what became of each test, one line of fields between tabs.
 */
public final class Judge implements TestExecutionListener {
    private static final int WHY_LENGTH = 300;
    private static final String TIMEOUT = "junit.jupiter.execution.timeout.testable.method.default";
    private final PrintStream out;
    private final Map<String, Long> began = new HashMap<>();

    private Judge(PrintStream out) {
        this.out = out;
    }

    public static void main(String[] words) throws Exception {
        if (words[0].equals("list")) {
            classes().forEach(System.out::println);
            System.exit(0);
        }
        List<DiscoverySelector> selectors = new ArrayList<>();
        for (String word : List.of(words).subList(2, words.length)) {
            selectors.add(word.startsWith("[") ? selectUniqueId(word) : selectClass(word));
        }
        LauncherDiscoveryRequest request = LauncherDiscoveryRequestBuilder.request()
                .selectors(selectors)
                .filters(TagFilter.excludeTags("flaky")) // as Apache's own build does
                .configurationParameter(TIMEOUT, "300 s")
                .build();
        try (PrintStream out = new PrintStream(words[1])) {
            LauncherFactory.create().execute(request, new Judge(out));
        }
        Runtime.getRuntime().halt(0); // some tests leave threads behind
    }

    private static TreeSet<String> classes() throws Exception {
        Path jar = Path.of(org.apache.bookkeeper.conf.TestBKConfiguration.class
                .getProtectionDomain().getCodeSource().getLocation().toURI());
        TreeSet<String> found = new TreeSet<>();
        try (JarFile file = new JarFile(jar.toFile())) {
            for (var entry : (Iterable<JarEntry>) file.stream()::iterator) {
                String name = entry.getName();
                if (name.startsWith("org/apache/bookkeeper/") && name.endsWith(".class")
                        && !name.contains("$")) {
                    String of = name.substring(0, name.length() - ".class".length()).replace('/', '.');
                    Class<?> kind = Class.forName(of, false, Judge.class.getClassLoader());
                    if (BookKeeperClusterTestCase.class.isAssignableFrom(kind)
                            && !Modifier.isAbstract(kind.getModifiers())) {
                        found.add(of);
                    }
                }
            }
        }
        return found;
    }

    @Override
    public void testPlanExecutionStarted(TestPlan plan) {
        plan.getRoots().forEach(root -> plan.getDescendants(root).stream()
                .filter(TestIdentifier::isTest)
                .forEach(test -> say("planned", test, "", "")));
    }

    @Override
    public void executionStarted(TestIdentifier test) {
        if (test.isTest()) {
            NeedsApachesProcess.taken();
            OutsideBookie.touched();
            OutsideBookie.handedOver();
            began.put(test.getUniqueId(), System.nanoTime());
            say("started", test, "", "");
        }
    }

    @Override
    public void executionSkipped(TestIdentifier test, String reason) {
        say("skipped", test, reason, "");
    }

    @Override
    public void executionFinished(TestIdentifier test, TestExecutionResult result) {
        Throwable why = result.getThrowable().orElse(null);
        if (!test.isTest()) {
            if (why != null) {
                say("failed", test, why.toString(), "");
            }
            return;
        }
        long ms = (System.nanoTime() - began.remove(test.getUniqueId())) / 1_000_000;
        List<String> needs = NeedsApachesProcess.taken();
        boolean touched = OutsideBookie.touched();
        boolean handedOver = OutsideBookie.handedOver();
        if (!needs.isEmpty()) {
            say("needs", test, needs.get(0), Long.toString(ms));
        } else if (touched && why instanceof NullPointerException) {
            say("needs", test, "fields of the object of a bookie", Long.toString(ms));
        } else if (handedOver && result.getStatus() == TestExecutionResult.Status.FAILED) {
            say("needs", test, "files of a bookie, for one that the test has made", Long.toString(ms));
        } else {
            switch (result.getStatus()) {
                case SUCCESSFUL -> say("passed", test, "", Long.toString(ms));
                case ABORTED -> say("skipped", test, String.valueOf(why), Long.toString(ms));
                default -> say("failed", test, String.valueOf(why), Long.toString(ms));
            }
        }
        if (why != null) {
            why.printStackTrace();
        }
    }

    private void say(String what, TestIdentifier test, String why, String ms) {
        String line = why.replaceAll("[\\t\\r\\n]+", " ");
        line = line.substring(0, Math.min(WHY_LENGTH, line.length()));
        out.println(String.join("\t", what, name(test), line, ms, test.getUniqueId()));
        out.flush();
    }

    /** The method, and which of its runs where it has several. */
    private static String name(TestIdentifier test) {
        String shown = test.getDisplayName();
        String method = test.getSource()
                .filter(MethodSource.class::isInstance)
                .map(source -> ((MethodSource) source).getMethodName())
                .orElse(shown);
        return shown.startsWith(method) ? shown.replace("()", "") : method + " " + shown;
    }
}
