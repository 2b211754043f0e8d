"""From a URL to a metadata store: the one door for servers, clients, repair and the operator.

`zk://host:port[,host:port]/ledgers` is a ZooKeeper ensemble and the cluster's root path, `zks://`
the same under TLS; `memory://name` is shared by everything in this process that opens that name.
What settings leave open comes from the environment, here and nowhere else: stores are opened by
programs that have no settings of their own, such as Spark's workers.
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
"""A name or an IPv4 address, or an IPv6 address in brackets, each with a port."""
LOGIN_VARIABLE: Final = "BOOKIE_ZOOKEEPER__CREDENTIALS_FILE"
HOSTS: Final = re.compile(rf"{HOST}(,{HOST})*")


async def open_store(url: str, *, settings: ZooKeeperSettings | None = None) -> MetadataStore:
    """A store with a session of its own; end it with `close()`.

    SettingsError for a URL of another form, or credentials that cannot be used; UnavailableError
    when nobody answers there.
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
    """SettingsError when the URL has another form; nothing is connected to."""
    scheme, _, rest = url.partition("://")
    hosts, slash, _path = rest.partition("/")
    is_ensemble = scheme in (PLAIN, TLS) and slash and HOSTS.fullmatch(hosts)
    if not is_ensemble and not (scheme == "memory" and rest):
        raise _not_a_url(url)


def _completed(settings: ZooKeeperSettings, scheme: str) -> ZooKeeperSettings:
    """The settings with what they leave to the environment. A plain URL is plain, whatever is set:
    it says so."""
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
