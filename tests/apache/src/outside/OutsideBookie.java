package outside;

import static org.mockito.Mockito.mock;
import static org.mockito.Mockito.withSettings;

import java.io.IOException;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Iterator;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.bookkeeper.bookie.BookieImpl;
import org.apache.bookkeeper.bookie.BookieStateManager;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.bookkeeper.net.BookieId;
import org.apache.bookkeeper.net.BookieSocketAddress;
import org.apache.bookkeeper.proto.BookieServer;
import org.mockito.invocation.InvocationOnMock;
import org.mockito.stubbing.Answer;

/** One bookie in a process outside, and the objects of Apache's that stand for it in a test. */
public final class OutsideBookie {
    /** These are looked at by clients and autorecovery, which are in the process of the test. */
    private static final Set<String> OF_THE_TEST = Set.of("metastoreImplClass", "clientAuthProviderFactoryClass");
    private static final boolean IS_FOREIGN = "ours".equals(System.getProperty("outside.fleet"));
    private static final Set<BookieId> STARTED = ConcurrentHashMap.newKeySet();
    private static boolean wasTouched;
    private static boolean wasHandedOver;
    private final ServerConfiguration conf;
    private final BookieId id;
    private final BookieSocketAddress address;
    private boolean runs;

    public OutsideBookie(ServerConfiguration conf) throws IOException {
        this.conf = conf;
        this.id = BookieImpl.getBookieId(conf);
        this.address = BookieImpl.getBookieAddress(conf);
        if (conf.isEnableLocalTransport() || conf.isDisableServerSocketBind()) {
            throw new NeedsApachesProcess("a bookie without a port");
        }
        if (conf.getPreserveMdcForTaskExecution()) {
            throw new NeedsApachesProcess("the log of a bookie");
        }
        for (Iterator<String> keys = conf.getKeys(); keys.hasNext(); ) {
            String key = keys.next();
            if (!OF_THE_TEST.contains(key) && isOfTests(conf.getString(key))) {
                throw new NeedsApachesProcess("a class of the test within the bookie: " + key);
            }
        }
    }

    /** Of those that no connection of this machine gets for its own end. */
    public static int freePort() throws IOException {
        return Integer.parseInt(Control.ask("port"));
    }

    /** A bookie that the test has made takes over. In directories of ours it finds nothing of its forerunner. */
    public static void handOver(ServerConfiguration conf) throws IOException {
        if (IS_FOREIGN && STARTED.contains(BookieImpl.getBookieId(conf))) {
            wasHandedOver = true;
        }
    }

    static boolean handedOver() {
        boolean handedOver = wasHandedOver;
        wasHandedOver = false;
        return handedOver;
    }

    /** Whether a test had a look at the object of a bookie since the last call. */
    static boolean touched() {
        boolean touched = wasTouched;
        wasTouched = false;
        return touched;
    }

    public BookieSocketAddress address() {
        return address;
    }

    public void stop() throws IOException {
        if (runs) {
            runs = false;
            Control.ask("stop " + id);
        }
    }

    /** A BookieServer for tests: what can be done from outside is done, all else is refused. */
    public BookieServer server() {
        return standIn(BookieServer.class, this::onServer);
    }

    private Object onServer(InvocationOnMock call) throws Throwable {
        switch (call.getMethod().getName()) {
            case "getBookieId":
                return id;
            case "getLocalAddress":
                return address;
            case "toString":
                return "outside:" + id;
            case "isRunning":
            case "isBookieRunning":
                return runs;
            case "start":
                start();
                return null;
            case "shutdown":
                stop();
                return null;
            case "suspendProcessing":
                Control.ask("freeze " + id);
                return null;
            case "resumeProcessing":
                Control.ask("thaw " + id);
                return null;
            case "getBookie":
                wasTouched = true;
                return standIn(BookieImpl.class, this::onBookie);
            default:
                throw refused(call);
        }
    }

    private Object onBookie(InvocationOnMock call) {
        switch (call.getMethod().getName()) {
            case "getStateManager":
                return standIn(BookieStateManager.class, this::onState);
            case "isRunning":
                return runs;
            case "toString":
                return "outside:" + id;
            default:
                throw refused(call);
        }
    }

    private Object onState(InvocationOnMock call) throws IOException {
        switch (call.getMethod().getName()) {
            case "transitionToReadOnlyMode":
            case "doTransitionToReadOnlyMode":
                Control.ask("read-only " + id);
                break;
            case "transitionToWritableMode":
            case "doTransitionToWritableMode":
                Control.ask("writable " + id);
                break;
            default:
                throw refused(call);
        }
        return call.getMethod().getReturnType() == void.class ? null : CompletableFuture.completedFuture(null);
    }

    private void start() throws IOException {
        Path file = Files.createTempFile("outside-", ".properties");
        try (Writer out = Files.newBufferedWriter(file, StandardCharsets.UTF_8)) {
            for (Iterator<String> keys = conf.getKeys(); keys.hasNext(); ) {
                String key = keys.next();
                out.write(key + "=" + String.join(",", conf.getStringArray(key)) + "\n");
            }
        }
        Control.ask(String.join(" ", "start", id.toString(), address.getHostName(),
                Integer.toString(address.getPort()), file.toString()));
        runs = true;
        STARTED.add(id);
    }

    private static boolean isOfTests(String value) {
        if (value == null || !value.startsWith("org.apache.bookkeeper.")) {
            return false;
        }
        try {
            Class<?> named = Class.forName(value, false, OutsideBookie.class.getClassLoader());
            return named.getProtectionDomain().getCodeSource().getLocation().getPath().endsWith("-tests.jar");
        } catch (ClassNotFoundException error) {
            return false;
        }
    }

    private static NeedsApachesProcess refused(InvocationOnMock call) {
        Class<?> asked = call.getMethod().getDeclaringClass();
        return new NeedsApachesProcess(asked.getSimpleName() + "." + call.getMethod().getName());
    }

    private static <T> T standIn(Class<T> kind, Answer<Object> answers) {
        return mock(kind, withSettings().stubOnly().defaultAnswer(answers));
    }
}
