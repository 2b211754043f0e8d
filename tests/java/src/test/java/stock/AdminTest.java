package stock;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.IntStream;
import java.util.stream.Collectors;
import org.apache.bookkeeper.bookie.Cookie;
import org.apache.bookkeeper.client.BookKeeper.DigestType;
import org.apache.bookkeeper.client.BookieInfoReader.BookieInfo;
import org.apache.bookkeeper.client.LedgerEntry;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.client.api.LedgerMetadata;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.bookkeeper.discover.BookieServiceInfo;
import org.apache.bookkeeper.meta.MetadataDrivers;
import org.apache.bookkeeper.net.BookieId;
import org.junit.jupiter.api.Test;

/** What the stock admin classes say of the cluster. */
@OnBothWires
@Bookies(3)
class AdminTest extends SuiteCase {
    private static Set<BookieId> firstThree() {
        return IntStream.range(0, 3).mapToObj(Fleet::id).collect(Collectors.toSet());
    }

    @Test
    void theBookiesThatServeAreListed() throws Exception {
        assertEquals(firstThree(), new HashSet<>(admin.getAvailableBookies()));
        assertTrue(admin.getReadOnlyBookies().isEmpty());
    }

    @Test
    void everyBookieWithACookieIsListed() throws Exception {
        assertTrue(admin.getAllBookies().containsAll(firstThree()));
    }

    @Test
    void aBookieTellsWhereItIs() throws Exception {
        for (BookieId bookie : firstThree()) {
            BookieServiceInfo info = admin.getBookieServiceInfo(bookie);
            BookieServiceInfo.Endpoint endpoint = info.getEndpoints().stream()
                    .filter(each -> each.getProtocol().equals("bookie-rpc")).findFirst().orElseThrow();
            assertEquals(Fleet.HOST, endpoint.getHost());
            assertEquals(
                    endpoint.getPort(), admin.getBookieAddressResolver().resolve(bookie).getPort());
        }
    }

    @Test
    void ledgersAreListed() throws Exception {
        long first = create(Layout.ALL_OF_THREE).getId();
        long second = create(Layout.TWO_OF_THREE).getId();
        List<Long> found = new ArrayList<>();
        admin.listLedgers().forEach(found::add);
        assertTrue(found.containsAll(List.of(first, second)));
    }

    @Test
    void theNumbersOfLedgersRise() throws Exception {
        long before = -1;
        for (int turn = 0; turn < 5; turn++) {
            long ledgerId = create(Layout.ALL_OF_THREE).getId();
            assertTrue(ledgerId > before);
            before = ledgerId;
        }
    }

    @Test
    void metadataHasWhatItsCreatorPutIntoIt() throws Exception {
        Map<String, byte[]> custom = Map.of("application", "suite".getBytes());
        LedgerHandle ledger =
                client.createLedger(3, 2, 2, DigestType.MAC, PASSWORD, custom);
        Entries.add(ledger, 3);
        ledger.close();
        LedgerMetadata metadata = admin.getLedgerMetadata(admin.openLedger(ledger.getId()));
        assertArrayEquals(
                custom.get("application"), metadata.getCustomMetadata().get("application"));
        assertEquals(2, metadata.getLastEntryId());
        assertEquals(firstThree(), new HashSet<>(metadata.getAllEnsembles().get(0L)));
        assertEquals(
                org.apache.bookkeeper.client.api.DigestType.MAC, metadata.getDigestType());
    }

    @Test
    void anAdminLooksIntoAnOpenLedgerWithoutAPassword() throws Exception {
        LedgerHandle ledger = create(Layout.ALL_OF_THREE, DigestType.MAC);
        Entries.add(ledger, 5);
        LedgerHandle seen = admin.openLedgerNoRecovery(ledger.getId());
        assertFalse(seen.isClosed());
        Entries.check(Collections.list(seen.readUnconfirmedEntries(0, 4)), 0, 4);
        Entries.add(ledger, 5);
        ledger.close();
    }

    @Test
    void anAdminReadsEntries() throws Exception {
        LedgerHandle ledger = create(Layout.TWO_OF_THREE);
        Entries.add(ledger, 8);
        ledger.close();
        List<LedgerEntry> found = new ArrayList<>();
        admin.readEntries(ledger.getId(), 2, 6).forEach(found::add);
        Entries.check(found, 2, 6);
    }

    @Test
    void ledgersOfABookieAreFound() throws Exception {
        long ledgerId = create(Layout.ALL_OF_THREE).getId();
        assertTrue(admin.getLedgersContainBookies(Set.of(Fleet.id(0))).containsKey(ledgerId));
    }

    @Test
    void cookiesAreRead() throws Exception {
        ServerConfiguration settings = new ServerConfiguration();
        settings.setMetadataServiceUri("zk+hierarchical://" + Fleet.ROOT);
        MetadataDrivers.runFunctionWithRegistrationManager(settings, registration -> {
            try {
                String instance = registration.getClusterInstanceId();
                for (BookieId bookie : firstThree()) {
                    String words = Cookie.readFromRegistrationManager(registration, bookie)
                            .getValue().toString();
                    assertTrue(words.contains("bookieHost: \"" + bookie + "\""), words);
                    assertTrue(words.contains("instanceId: \"" + instance + "\""), words);
                    assertTrue(words.contains(bookie + "/journal"), words);
                    assertTrue(words.contains(bookie + "/ledger-0"), words);
                }
                return null;
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        });
    }

    @Test
    void bookiesTellTheSpaceOnTheirDisks() throws Exception {
        assumeTrue(wire == Wire.V3, "v2 has no message for it");
        Map<BookieId, BookieInfo> found = client.getBookieInfo();
        assertEquals(firstThree(), found.keySet());
        for (BookieInfo info : found.values()) {
            assertTrue(info.getFreeDiskSpace() > 0);
            assertTrue(info.getTotalDiskSpace() >= info.getFreeDiskSpace());
        }
    }
}
