import java.io.FileReader;
import java.io.Reader;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeperAdmin;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.net.BookieId;

/**
 * Who still knows of ledgers: {@code SETTINGS LEDGER...}. A line for each: {@code LEDGER known|gone
 * COPIES ASKED}, the number of bookies that hold entries of it by their own word, of those asked.
 */
public final class Copies {
    private static final long WAIT_S = 30;

    private Copies() {}

    public static void main(String[] words) throws Exception {
        Properties settings = new Properties();
        try (Reader file = new FileReader(words[0])) {
            settings.load(file);
        }
        ClientConfiguration configuration = new ClientConfiguration();
        settings.forEach((name, value) -> configuration.setProperty(name.toString(), value));
        try (BookKeeper client = new BookKeeper(configuration);
                BookKeeperAdmin admin = new BookKeeperAdmin(client)) {
            for (int index = 1; index < words.length; index++) {
                long ledger = Long.parseLong(words[index]);
                int copies = 0;
                int asked = 0;
                for (BookieId bookie : admin.getAvailableBookies()) {
                    copies += holds(admin, bookie, ledger) ? 1 : 0;
                    asked += 1;
                }
                String state = isKnown(client, ledger) ? "known" : "gone";
                System.out.println(ledger + " " + state + " " + copies + " " + asked);
            }
            System.exit(0); // its threads would be waited for
        }
    }

    private static boolean isKnown(BookKeeper client, long ledger) throws Exception {
        try {
            client.getLedgerManager().readLedgerMetadata(ledger).get(WAIT_S, TimeUnit.SECONDS);
            return true;
        } catch (java.util.concurrent.ExecutionException error) {
            return unlessGone(error);
        }
    }

    private static boolean holds(BookKeeperAdmin admin, BookieId bookie, long ledger)
            throws Exception {
        try {
            return admin.asyncGetListOfEntriesOfLedger(bookie, ledger)
                            .get(WAIT_S, TimeUnit.SECONDS)
                            .getTotalNumOfAvailableEntries()
                    > 0;
        } catch (java.util.concurrent.ExecutionException error) {
            return unlessGone(error);
        }
    }

    /** False where it is a denial; whatever else it is is thrown. */
    private static boolean unlessGone(java.util.concurrent.ExecutionException error)
            throws Exception {
        if (error.getCause() instanceof BKException refused
                && (refused.getCode() == BKException.Code.NoSuchLedgerExistsException
                        || refused.getCode()
                                == BKException.Code.NoSuchLedgerExistsOnMetadataServerException)) {
            return false;
        }
        throw error;
    }
}
