package stock;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.bookkeeper.net.BookieId;

/** The bookies, as the runner lets a test handle them (java_control.py); every step waits. */
final class Fleet {
    static final String ROOT = System.getProperty("fleet.root");
    /** Where everything listens: the loopback of the family that the machine has. */
    static final String HOST = System.getProperty("fleet.host");
    static final String KIND = System.getProperty("fleet.kind");

    private Fleet() {}

    /** The first `count` bookies serve, and no others. */
    static void heal(int count) {
        ask("heal " + count);
    }

    static void start(int number) {
        ask("start " + number);
    }

    static void stop(int number) {
        ask("stop " + number);
    }

    /** SIGKILL; who asks ZooKeeper sees it for some seconds more. */
    static void kill(int number) {
        ask("kill " + number);
    }

    static void freeze(int number) {
        ask("freeze " + number);
    }

    static void thaw(int number) {
        ask("thaw " + number);
    }

    static BookieId id(int number) {
        return BookieId.parse("bookie-" + number);
    }

    /** One number for each kind of bookie in the first three: what happens to it may differ. */
    static List<Integer> victims() {
        return KIND.equals("mixed") ? List.of(0, 2) : List.of(0);
    }

    static boolean hasOurs() {
        return !KIND.equals("apache");
    }

    /** The words after `ok`. */
    static String ask(String line) {
        int port = Integer.getInteger("fleet.control");
        try (Socket socket = new Socket(HOST, port);
                PrintWriter out = new PrintWriter(
                        socket.getOutputStream(), true, StandardCharsets.UTF_8);
                BufferedReader in = new BufferedReader(
                        new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8))) {
            out.println(line);
            String answer = in.readLine();
            if (answer == null || !answer.startsWith("ok")) {
                throw new IllegalStateException(line + ": " + answer);
            }
            return answer.substring(2).strip();
        } catch (IOException error) {
            throw new IllegalStateException(line, error);
        }
    }
}
