"""The addresses at which clients elsewhere reach a bookie, from its settings or else from a file.

A load balancer or a node port gets its address long after the bookie's pod was created. The
platform then writes the file, perhaps only after the bookie has begun to serve, and the bookie
registers these addresses beside its own.
"""

import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bookie.metadata.store import (
    RPC_ADVERTISED,
    RPC_ENDPOINT,
    RUN_ADVERTISED,
    RUN_ENDPOINT,
    Endpoint,
)
from bookie.server.placed_file import PlacedFile

ADDRESS: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9][A-Za-z0-9.-]*)):([0-9]{1,5})")
"""`books.example.org:31811`, `192.0.2.7:31811`, `[2001:db8::7]:31811`."""
TEXT_CHARACTERS_MAX: Final = 1024
PORT_MAX: Final = 65535
PROTOCOLS: Final[Mapping[str, tuple[str, str]]] = {
    "stock": (RPC_ADVERTISED, RPC_ENDPOINT),
    "run": (RUN_ADVERTISED, RUN_ENDPOINT),
}
"""By name of a port: id and protocol of the endpoint that advertises it. The control plane has
none, as clients elsewhere must not call it."""

log = logging.getLogger(__name__)


def endpoints_of(addresses: Mapping[str, str]) -> tuple[Endpoint, ...]:
    """Make endpoints from addresses by name of the port, `stock` or `run`. ValueError names an
    address that is malformed.
    """
    found = []
    for name, address in sorted(addresses.items(), key=lambda one: list(PROTOCOLS).index(one[0])):
        matched = ADDRESS.fullmatch(address)
        if matched is None or not 0 < int(matched[3]) <= PORT_MAX:
            raise ValueError(f"{name}: found {address!r:.100}, expected host:port or [IPv6]:port")
        endpoint_id, protocol = PROTOCOLS[name]
        found.append(Endpoint(endpoint_id, matched[1] or matched[2], int(matched[3]), protocol))
    return tuple(found)


def addresses_of(text: str) -> dict[str, str]:
    """Parse `stock=host:port run=host:port`, either or both. ValueError when the text
    is malformed.
    """
    addresses = {}
    for part in text.split():
        name, _, address = part.partition("=")
        if name not in PROTOCOLS or name in addresses:
            known = " and ".join(PROTOCOLS)
            raise ValueError(f"found {part!r:.100}, expected {known}, once each, as name=host:port")
        addresses[name] = address
    return addresses


class Advertised:
    """The addresses of one bookie for clients elsewhere, as known now."""

    def __init__(self, named: Mapping[str, str], file: Path) -> None:
        """`named`: addresses in the settings, which take precedence over the file; empty = none."""
        self._named = endpoints_of(named)
        self._file = PlacedFile(file, characters_max=TEXT_CHARACTERS_MAX)

    def read(self) -> tuple[Endpoint, ...]:
        """Return the endpoints to register beside the bookie's own; empty = none. Blocking."""
        if self._named:
            return self._named
        said = self._file.read()
        if said is None:
            return ()
        try:
            if len(said) > TEXT_CHARACTERS_MAX:
                raise ValueError(f"found more than {TEXT_CHARACTERS_MAX} characters")
            return endpoints_of(addresses_of(said))
        except ValueError as error:
            if self._file.is_news(said):
                log.warning("%s names no addresses: %s", self._file.path, error)
            return ()
