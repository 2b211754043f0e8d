package outside;

import java.io.File;
import org.apache.bookkeeper.conf.ServerConfiguration;

/** Settings of a bookie outside. What lies in its directories is nothing to a test: `killBookie` gives a plain copy. */
public final class OutsideConfiguration extends ServerConfiguration {
    public OutsideConfiguration(ServerConfiguration conf) {
        super(conf);
    }

    @Override
    public File[] getLedgerDirs() {
        throw new NeedsApachesProcess("files of a running bookie: getLedgerDirs");
    }

    @Override
    public File[] getJournalDirs() {
        throw new NeedsApachesProcess("files of a running bookie: getJournalDirs");
    }

    @Override
    public File[] getIndexDirs() {
        throw new NeedsApachesProcess("files of a running bookie: getIndexDirs");
    }
}
