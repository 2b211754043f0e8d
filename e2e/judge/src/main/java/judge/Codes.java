package judge;

import org.apache.bookkeeper.client.BKException;

/** What the stock client's codes are called. */
final class Codes {
    private Codes() {}

    /** One word, with its number. */
    static String name(int code) {
        return String.valueOf(BKException.codeLogger(code)).replace(" ", "");
    }

    static String name(Throwable error) {
        Throwable cause = error;
        while (cause.getCause() != null && !(cause instanceof BKException)) {
            cause = cause.getCause();
        }
        if (cause instanceof BKException known) {
            return name(known.getCode());
        }
        return cause.getClass().getSimpleName() + ": " + cause.getMessage();
    }

    /** The code, or one that means nothing in particular. */
    static int of(Throwable error) {
        Throwable cause = error;
        while (cause.getCause() != null && !(cause instanceof BKException)) {
            cause = cause.getCause();
        }
        return cause instanceof BKException known
                ? known.getCode() : BKException.Code.UnexpectedConditionException;
    }
}
