package judge;

import java.util.Arrays;
import java.util.List;
import org.apache.bookkeeper.conf.ClientConfiguration;

/** The protocols that a bookie's port speaks. */
enum Wire {
    V2,
    V3;

    /** `v2,v3` */
    static List<Wire> parseAll(String text) {
        return Arrays.stream(text.split(",")).map(word -> valueOf(word.toUpperCase())).toList();
    }

    /** Apache's defaults but for the cluster, the wire, time limits, and no throttle. */
    ClientConfiguration settings(Cluster cluster) {
        ClientConfiguration settings = new ClientConfiguration();
        cluster.reach(settings);
        settings.setUseV2WireProtocol(this == V2);
        settings.setThrottleValue(0);
        settings.setNumIOThreads(2);
        settings.setNumWorkerThreads(2);
        settings.setAddEntryTimeout(5);
        settings.setReadEntryTimeout(5);
        return settings;
    }

    @Override
    public String toString() {
        return name().toLowerCase();
    }
}
