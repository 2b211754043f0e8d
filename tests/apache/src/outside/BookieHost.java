package outside;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import org.apache.bookkeeper.common.component.LifecycleComponentStack;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.bookkeeper.proto.BookieServer;
import org.apache.bookkeeper.server.EmbeddedServer;
import org.apache.bookkeeper.server.conf.BookieConfiguration;

/**
 * Apache's bookies in one process beside the tests, which has warmed up after the first. One line,
 * `VERB ID WORD...`, is answered by one: `ok`, or `error WHY`.
 */
public final class BookieHost {
    private final Map<String, BookieServer> servers = new HashMap<>();
    private final Map<String, LifecycleComponentStack> stacks = new HashMap<>();

    public static void main(String[] words) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err);
        BookieHost host = new BookieHost();
        BufferedReader asked = new BufferedReader(new InputStreamReader(System.in));
        for (String line = asked.readLine(); line != null; line = asked.readLine()) {
            answers.println(host.answer(line.split(" ")));
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private String answer(String[] words) {
        try {
            act(words);
            return "ok";
        } catch (Throwable error) {
            error.printStackTrace();
            return ("error " + error).replace("\n", " | ");
        }
    }

    private void act(String[] words) throws Exception {
        String id = words[1];
        switch (words[0]) {
            case "start" -> start(id, words[2]);
            case "stop" -> stop(id);
            case "freeze" -> servers.get(id).suspendProcessing();
            case "thaw" -> servers.get(id).resumeProcessing();
            case "read-only" -> servers.get(id).getBookie().getStateManager().transitionToReadOnlyMode().get();
            case "writable" -> servers.get(id).getBookie().getStateManager().transitionToWritableMode().get();
            default -> throw new IllegalArgumentException("no verb: " + words[0]);
        }
    }

    private void start(String id, String file) throws Exception {
        ServerConfiguration conf = new ServerConfiguration();
        conf.loadConf(Path.of(file).toUri().toURL());
        conf.setAutoRecoveryDaemonEnabled(false); // that of a test runs in its own process
        conf.setHttpServerEnabled(false);
        EmbeddedServer embedded = EmbeddedServer.builder(new BookieConfiguration(conf)).build();
        embedded.getLifecycleComponentStack().start();
        servers.put(id, embedded.getBookieService().getServer());
        stacks.put(id, embedded.getLifecycleComponentStack());
    }

    private void stop(String id) {
        BookieServer server = servers.remove(id);
        if (server != null) {
            server.resumeProcessing();
            stacks.remove(id).close();
        }
    }
}
