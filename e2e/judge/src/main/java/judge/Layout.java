package judge;

import java.util.Arrays;
import java.util.List;

/** Ensemble, write quorum and ack quorum of a ledger, written `4/3/2`. */
record Layout(int ensemble, int write, int ack) {
    static Layout parse(String text) {
        String[] parts = text.split("/");
        try {
            Layout layout = new Layout(
                    Integer.parseInt(parts[0]), Integer.parseInt(parts[1]), Integer.parseInt(parts[2]));
            if (parts.length == 3 && layout.isPossible()) {
                return layout;
            }
        } catch (NumberFormatException | ArrayIndexOutOfBoundsException error) {
            // said below
        }
        throw new IllegalArgumentException(
                "found layout " + text + ", expected ENSEMBLE/WRITE/ACK as in 4/3/2, falling");
    }

    /** `3/3/2,4/3/2` */
    static List<Layout> parseAll(String text) {
        return Arrays.stream(text.split(",")).map(Layout::parse).toList();
    }

    private boolean isPossible() {
        return ensemble >= write && write >= ack && ack >= 1;
    }

    @Override
    public String toString() {
        return ensemble + "/" + write + "/" + ack;
    }
}
