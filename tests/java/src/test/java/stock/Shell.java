package stock;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.apache.bookkeeper.bookie.BookieShell;
import org.apache.bookkeeper.util.EntryFormatter;
import org.apache.bookkeeper.util.LedgerIdFormatter;
import org.apache.commons.configuration2.CompositeConfiguration;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.core.LoggerContext;
import org.apache.logging.log4j.core.appender.WriterAppender;
import org.apache.logging.log4j.core.config.LoggerConfig;
import org.apache.logging.log4j.core.layout.PatternLayout;

/** `bookkeeper shell COMMAND...`, within this JVM: its exit code, and what it prints. */
final class Shell {
    /** Commands tell through their log, which the stock script sends to the console. */
    private static final List<String> TELLERS =
            List.of("org.apache.bookkeeper.tools", "org.apache.bookkeeper.bookie.BookieShell");

    /** As in the settings of a bookie of ours, which has no more to do with the stock shell. */
    private static final Map<String, Object> SETTINGS = Map.of(
            "bookieId", Fleet.id(0).toString(),
            "allowLoopback", true);

    private Shell() {}

    record Said(int code, String text) {
        boolean has(String... words) {
            return List.of(words).stream().allMatch(text::contains);
        }

        boolean isGood() {
            return code == 0;
        }
    }

    static Said run(String... words) throws Exception {
        return at(Fleet.ROOT, words);
    }

    /** Of the cluster at this place in ZooKeeper. */
    static Said at(String root, String... words) throws Exception {
        CompositeConfiguration settings = new CompositeConfiguration();
        SETTINGS.forEach(settings::addProperty);
        settings.addProperty("metadataServiceUri", "zk+hierarchical://" + root);
        Access.apply(settings);
        StringWriter told = new StringWriter();
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        PrintStream before = System.out;
        listen(told);
        System.setOut(new PrintStream(printed, true, StandardCharsets.UTF_8));
        try {
            // Made here: some commands keep the stream that they are made with.
            BookieShell shell = new BookieShell(
                    LedgerIdFormatter.LONG_LEDGERID_FORMATTER, EntryFormatter.STRING_FORMATTER);
            shell.setConf(settings);
            int code = shell.run(words);
            return new Said(code, told + printed.toString(StandardCharsets.UTF_8));
        } finally {
            System.setOut(before);
        }
    }

    private static void listen(StringWriter told) {
        LoggerContext context = (LoggerContext) LogManager.getContext(false);
        PatternLayout layout = PatternLayout.newBuilder().withPattern("%m %X%n").build();
        WriterAppender appender = WriterAppender.newBuilder()
                .setName("shell").setTarget(told).setLayout(layout).build();
        appender.start();
        for (String name : TELLERS) {
            LoggerConfig teller = new LoggerConfig(name, Level.INFO, false);
            teller.addAppender(appender, null, null);
            context.getConfiguration().removeLogger(name);
            context.getConfiguration().addLogger(name, teller);
        }
        context.updateLoggers();
    }
}
