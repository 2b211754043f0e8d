package judge;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import java.util.NavigableMap;
import java.util.Random;
import java.util.TreeMap;
import org.apache.bookkeeper.net.BookieId;
import org.junit.jupiter.api.Test;

class WriteSetsTest {
    /** The rule of the protocol, word by word: entry i goes to i, i + 1, ... of its fragment's ensemble. */
    private static List<BookieId> oracle(
            Layout layout, NavigableMap<Long, List<BookieId>> ensembles, long entry) {
        List<BookieId> ensemble = null;
        for (long first : ensembles.keySet()) {
            if (first <= entry) {
                ensemble = ensembles.get(first);
            }
        }
        List<BookieId> members = new ArrayList<>();
        for (int i = 0; i < layout.write(); i++) {
            members.add(ensemble.get((int) ((entry + i) % layout.ensemble())));
        }
        return members;
    }

    @Test
    void areThoseOfTheDumbOracle() {
        Random random = new Random(1);
        for (int round = 0; round < 500; round++) {
            int ensemble = 1 + random.nextInt(6);
            int write = 1 + random.nextInt(ensemble);
            Layout layout = new Layout(ensemble, write, 1 + random.nextInt(write));
            NavigableMap<Long, List<BookieId>> ensembles = new TreeMap<>();
            long first = 0;
            for (int fragment = random.nextInt(4); fragment >= 0; fragment--) {
                List<BookieId> members = new ArrayList<>();
                for (int i = 0; i < ensemble; i++) {
                    members.add(BookieId.parse("bookie-" + first + "-" + i));
                }
                ensembles.put(first, members);
                first += 1 + random.nextInt(9);
            }
            WriteSets sets = new WriteSets(layout, ensembles);
            for (long entry = 0; entry < first + 20; entry++) {
                assertEquals(oracle(layout, ensembles, entry), sets.of(entry), layout + " entry " + entry);
            }
        }
    }
}
