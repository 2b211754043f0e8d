package stock;

import org.apache.bookkeeper.conf.ClientConfiguration;

/** The protocols that one port speaks. */
enum Wire {
    V3,
    V2;

    ClientConfiguration settings() {
        ClientConfiguration settings = new ClientConfiguration();
        settings.setMetadataServiceUri("zk+hierarchical://" + Fleet.ROOT);
        settings.setUseV2WireProtocol(this == V2);
        settings.setEnsemblePlacementPolicy(LowestNumbers.class);
        settings.setThrottleValue(0);
        settings.setNumIOThreads(2);
        settings.setNumWorkerThreads(2);
        settings.setAddEntryTimeout(2);
        settings.setReadEntryTimeout(2);
        settings.setSpeculativeReadTimeout(500);
        settings.setBookieErrorThresholdPerInterval(1_000_000); // nobody is shunned for a test before
        Access.apply(settings);
        return settings;
    }
}
