package outside;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;

/** Asks the runner for bookies (java_control.py); every step waits until it is done. */
public final class Control {
    private static final String REFUSED = "error NotOursError: ";

    private Control() {}

    /** The words after `ok`; NeedsApachesProcess where these bookies have no such thing. */
    public static String ask(String line) throws IOException {
        int port = Integer.getInteger("outside.control");
        try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), port);
                PrintWriter out = new PrintWriter(
                        socket.getOutputStream(), true, StandardCharsets.UTF_8);
                BufferedReader in = new BufferedReader(
                        new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8))) {
            out.println(line);
            String answer = in.readLine();
            if (answer != null && answer.startsWith(REFUSED)) {
                throw new NeedsApachesProcess(answer.substring(REFUSED.length()));
            }
            if (answer == null || !answer.startsWith("ok")) {
                throw new IOException(line + ": " + answer);
            }
            return answer.substring(2).strip();
        }
    }
}
