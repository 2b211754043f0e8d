"""Opens the metadata store of a URL; servers, clients, repair and the operator all use it.

`zk://host:port[,host:port]/ledgers` is a ZooKeeper ensemble and the cluster's root path, `zks://`
the same under TLS; all users of `memory://name` in this process share one store. Settings that are
left open come from the environment, only here: some programs that open stores have no settings of
their own, such as Spark's workers.
"""

import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Final

from bookie.errors import BadRequestError, SettingsError
from bookie.metadata.memory import MemoryStore, named_cluster
from bookie.metadata.session import ZooKeeperSettings
from bookie.metadata.store import MetadataStore
from bookie.metadata.zookeeper import ZooKeeperStore
from bookie.tls.environment import ACCEPTED, DIRECTORY_VARIABLE, MODE_VARIABLE

PLAIN, TLS = "zk", "zks"
HOST: Final = r"([^,/:\[\]]+|\[[0-9a-fA-F:.]+\]):\d{1,5}"
"""A name, an IPv4 address, or an IPv6 address in brackets, with a port."""
LOGIN_VARIABLE: Final = "BOOKIE_ZOOKEEPER__CREDENTIALS_FILE"
HOSTS: Final = re.compile(rf"{HOST}(,{HOST})*")
PORT: Final = re.compile(r":(\d+)(?:,|$)")


async def open_store(url: str, *, settings: ZooKeeperSettings | None = None) -> MetadataStore:
    """Open a store with its own session; `close()` ends it.

    SettingsError for a malformed URL or credentials that cannot be used; UnavailableError when no
    server answers.
    """
    check_url(url)
    scheme, _, rest = url.partition("://")
    if scheme == "memory":
        return MemoryStore(named_cluster(rest))
    hosts, _, path = rest.partition("/")
    found = _completed(settings or ZooKeeperSettings(), scheme)
    try:
        return await ZooKeeperStore.open(hosts, f"/{path.rstrip('/')}", settings=found)
    except SettingsError:
        raise
    except BadRequestError as error:
        raise _not_a_url(url) from error


def check_url(url: str) -> None:
    """Raise SettingsError when the URL is malformed; it does not connect."""
    scheme, _, rest = url.partition("://")
    hosts, slash, _path = rest.partition("/")
    has_ports = all(0 < int(port) < 2**16 for port in PORT.findall(hosts))
    is_ensemble = scheme in (PLAIN, TLS) and slash and HOSTS.fullmatch(hosts) and has_ports
    if not is_ensemble and not (scheme == "memory" and rest):
        raise _not_a_url(url)


def _completed(settings: ZooKeeperSettings, scheme: str) -> ZooKeeperSettings:
    """Complete the settings from the environment. A plain URL means no TLS, whatever the
    environment says.
    """
    login = settings.login or _path_in(LOGIN_VARIABLE)
    is_open = settings.open_access or os.environ.get(MODE_VARIABLE) == ACCEPTED
    tls = settings.tls or _path_in(DIRECTORY_VARIABLE)
    if scheme != TLS:
        return replace(settings, tls=None, login=login, open_access=is_open)
    if tls is None:
        raise SettingsError(
            f"found a metadata URL with {TLS}:// and no credentials, expected a folder with "
            f"tls.crt, tls.key and ca.crt: name it with --tls or {DIRECTORY_VARIABLE}"
        )
    return replace(settings, tls=tls, login=login, open_access=is_open)


def _path_in(variable: str) -> Path | None:
    found = os.environ.get(variable)
    return Path(found) if found else None


def _not_a_url(url: str) -> SettingsError:
    return SettingsError(
        f"metadata URL is {url!r}, expected zk://host:port[,host:port]/ledgers (an IPv6 address "
        "in brackets), zks:// with TLS, or memory://name"
    )
