"""From a URL to a metadata store: the one door for servers, clients, repair and the operator.

`zk://host:port[,host:port]/ledgers` is a ZooKeeper ensemble and the cluster's root path;
`memory://name` is shared by everything in this process that opens the same name.
"""

from bookie.metadata.memory import MemoryStore, named_cluster
from bookie.metadata.store import MetadataStore
from bookie.protocol.errors import SettingsError


async def open_store(url: str) -> MetadataStore:
    """A store with a session of its own; end it with `close()`.

    SettingsError for a URL of another form, UnavailableError when nobody answers there.
    """
    scheme, separator, rest = url.partition("://")
    if separator and scheme == "memory":
        return MemoryStore(named_cluster(rest))
    raise SettingsError(
        f"metadata URL is {url!r}, expected zk://host:port[,host:port]/ledgers or memory://name"
    )
