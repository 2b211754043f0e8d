package judge;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import org.apache.bookkeeper.client.DistributionSchedule;
import org.apache.bookkeeper.client.RoundRobinDistributionSchedule;
import org.apache.bookkeeper.client.api.LedgerMetadata;
import org.apache.bookkeeper.net.BookieId;

/** Who owes a copy of which entry, by Apache's own schedule. */
final class WriteSets {
    private final DistributionSchedule schedule;
    private final NavigableMap<Long, ? extends List<BookieId>> ensembles;

    WriteSets(Layout layout, NavigableMap<Long, ? extends List<BookieId>> ensembles) {
        this.schedule = new RoundRobinDistributionSchedule(layout.write(), layout.ack(), layout.ensemble());
        this.ensembles = ensembles;
    }

    static WriteSets of(LedgerMetadata metadata) {
        Layout layout = new Layout(
                metadata.getEnsembleSize(), metadata.getWriteQuorumSize(), metadata.getAckQuorumSize());
        return new WriteSets(layout, metadata.getAllEnsembles());
    }

    /** Those of the fragment that the entry lies in. */
    List<BookieId> of(long entry) {
        Map.Entry<Long, ? extends List<BookieId>> fragment = ensembles.floorEntry(entry);
        DistributionSchedule.WriteSet set = schedule.getWriteSet(entry);
        List<BookieId> members = new ArrayList<>(set.size());
        for (int i = 0; i < set.size(); i++) {
            members.add(fragment.getValue().get(set.get(i)));
        }
        set.recycle();
        return members;
    }
}
