"""From a URL to a metadata store: the one door for servers, clients, repair and the operator.

`zk://host:port[,host:port]/ledgers` is a ZooKeeper ensemble and the cluster's root path;
`memory://name` is shared by everything in this process that opens the same name.
"""

import re
from typing import Final

from bookie.errors import BadRequestError, SettingsError
from bookie.metadata.memory import MemoryStore, named_cluster
from bookie.metadata.session import ZooKeeperSettings
from bookie.metadata.store import MetadataStore
from bookie.metadata.zookeeper import ZooKeeperStore

HOST: Final = r"([^,/:\[\]]+|\[[0-9a-fA-F:.]+\]):\d{1,5}"
"""A name or an IPv4 address, or an IPv6 address in brackets, each with a port."""
HOSTS: Final = re.compile(rf"{HOST}(,{HOST})*")


async def open_store(url: str, *, settings: ZooKeeperSettings | None = None) -> MetadataStore:
    """A store with a session of its own; end it with `close()`.

    SettingsError for a URL of another form, UnavailableError when nobody answers there.
    """
    check_url(url)
    scheme, _, rest = url.partition("://")
    if scheme == "memory":
        return MemoryStore(named_cluster(rest))
    hosts, _, path = rest.partition("/")
    try:
        return await ZooKeeperStore.open(hosts, f"/{path.rstrip('/')}", settings=settings)
    except BadRequestError as error:
        raise _not_a_url(url) from error


def check_url(url: str) -> None:
    """SettingsError when the URL has another form; nothing is connected to."""
    scheme, _, rest = url.partition("://")
    hosts, slash, _path = rest.partition("/")
    is_ensemble = scheme == "zk" and slash and HOSTS.fullmatch(hosts)
    if not is_ensemble and not (scheme == "memory" and rest):
        raise _not_a_url(url)


def _not_a_url(url: str) -> SettingsError:
    return SettingsError(
        f"metadata URL is {url!r}, expected zk://host:port[,host:port]/ledgers (an IPv6 address "
        "in brackets) or memory://name"
    )
