package stock;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.bookkeeper.client.BKException.BKNotEnoughBookiesException;
import org.apache.bookkeeper.client.RackawareEnsemblePlacementPolicy;
import org.apache.bookkeeper.net.BookieId;

/** Places ledgers on the bookies with the lowest numbers, so that a test knows whom to kill. */
public final class LowestNumbers extends RackawareEnsemblePlacementPolicy {
    private volatile Set<BookieId> writable = Set.of();

    @Override
    public Set<BookieId> onClusterChanged(Set<BookieId> writable, Set<BookieId> readOnly) {
        this.writable = Set.copyOf(writable);
        return super.onClusterChanged(writable, readOnly);
    }

    @Override
    public PlacementResult<List<BookieId>> newEnsemble(
            int ensembleSize, int writeQuorum, int ackQuorum, Map<String, byte[]> custom,
            Set<BookieId> excluded) throws BKNotEnoughBookiesException {
        List<BookieId> free = new ArrayList<>(writable);
        free.removeAll(excluded);
        free.sort(Comparator.comparing(BookieId::toString));
        if (free.size() < ensembleSize) {
            throw new BKNotEnoughBookiesException();
        }
        List<BookieId> chosen = new ArrayList<>(free.subList(0, ensembleSize));
        return PlacementResult.of(chosen, PlacementPolicyAdherence.MEETS_STRICT);
    }

    @Override
    public PlacementResult<BookieId> replaceBookie(
            int ensembleSize, int writeQuorum, int ackQuorum, Map<String, byte[]> custom,
            List<BookieId> ensemble, BookieId replaced, Set<BookieId> excluded)
            throws BKNotEnoughBookiesException {
        Set<BookieId> others = new HashSet<>(excluded);
        others.addAll(ensemble);
        others.add(replaced);
        BookieId chosen = newEnsemble(1, 1, 1, custom, others).getResult().get(0);
        return PlacementResult.of(chosen, PlacementPolicyAdherence.MEETS_STRICT);
    }
}
