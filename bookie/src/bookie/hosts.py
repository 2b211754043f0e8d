"""Hosts of either family: how one is written beside a port, and which of them this machine has.

A host by itself is bare everywhere (`::1`), as Apache's clients read it in registrations; only a
text that has a port behind it, and Spark, want brackets.
"""

import errno
import logging
import socket
from contextlib import suppress
from typing import Final

log = logging.getLogger(__name__)

WILDCARDS: Final = frozenset({"0.0.0.0", "::"})
"""Either means every address of this machine, of both families, as gRPC has it as well: pods get
one text wherever they run, and older versions know the first one only."""
NO_IPV6: Final = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT})


def bracketed(host: str) -> str:
    """As in a URL: an IPv6 address in brackets, anything else as it is."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def at_port(host: str, port: int) -> str:
    """`host:port`, where `host` may be a name or a bare address of either family."""
    return f"{bracketed(host)}:{port}"


def bare(host: str) -> str:
    """Without the brackets that the host of a URL has."""
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host


def is_wildcard(host: str) -> bool:
    return bare(host) in WILDCARDS


def loopback() -> str:
    """127.0.0.1, or ::1 on a machine that has no IPv4 at all."""
    with suppress(OSError), socket.socket(socket.AF_INET) as probe:
        probe.bind(("127.0.0.1", 0))
        return "127.0.0.1"
    return "::1"


def listen_everywhere(port: int) -> socket.socket:
    """A listening socket on every address of this machine, for both families where it has both.

    One socket for both, so that 0, any free port, is one port.
    """
    why: object = "its kernel makes no such socket for both"
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
        except OSError as error:
            if error.errno not in NO_IPV6:
                raise
            why = error
    log.warning("this machine has no IPv6 (%s): listening on its IPv4 addresses", why)
    return socket.create_server(("0.0.0.0", port))
