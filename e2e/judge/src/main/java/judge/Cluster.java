package judge;

import java.nio.file.Path;
import org.apache.bookkeeper.conf.ClientConfiguration;

/** Where a cluster's metadata is, as Apache writes it, and what its clients come with; null: in plain. */
record Cluster(String uri, Tls tls) implements AutoCloseable {
    private static final String SECURE = "zks://";

    /**
     * `zk://a:1,b:2/ledgers`, as the product prints it, is `zk+hierarchical://a:1;b:2/ledgers` to Apache;
     * `zks://` is the same under TLS, which its ZooKeeper client is set to for the whole JVM. `credentials`:
     * a folder, or null.
     */
    static Cluster of(String url, Path credentials) throws Exception {
        boolean isSecure = url.startsWith(SECURE);
        if (isSecure && credentials == null) {
            throw new Options.UsageError("found " + url + ", expected --tls DIRECTORY with it");
        }
        Tls tls = credentials == null ? null : Tls.of(credentials);
        if (isSecure) {
            tls.secureZooKeeper();
        }
        String uri = url.replaceFirst("^zks?://", "zk+hierarchical://").replace(',', ';');
        return new Cluster(uri, tls);
    }

    static Cluster of(Options options) throws Exception {
        return of(options.text("metadata"), options.has("tls") ? Path.of(options.text("tls")) : null);
    }

    void reach(ClientConfiguration settings) {
        settings.setMetadataServiceUri(uri);
        if (tls != null) {
            tls.secure(settings);
        }
    }

    @Override
    public void close() throws Exception {
        if (tls != null) {
            tls.close();
        }
    }
}
