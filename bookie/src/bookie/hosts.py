"""IPv4 and IPv6 hosts: how to write one beside a port, and which families this machine has.

A host by itself is written without brackets everywhere (`::1`), because Apache's clients read it so
in registrations. Only a text with a port behind the host, and Spark, need brackets.
"""

import errno
import logging
import socket
from contextlib import suppress
from typing import Final

log = logging.getLogger(__name__)

WILDCARDS: Final = frozenset({"0.0.0.0", "::"})
"""Each of the two means every address of this machine, of both families, as it does in gRPC. So
pods get the same text wherever they run; older versions know only the first one."""
NO_IPV6: Final = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT})


def bracketed(host: str) -> str:
    """Write a host as in a URL: an IPv6 address gets brackets, anything else stays as it is."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def at_port(host: str, port: int) -> str:
    """`host:port`, where `host` may be a name or a bare address of either family."""
    return f"{bracketed(host)}:{port}"


def bare(host: str) -> str:
    """Remove the brackets around the host of a URL, if it has any."""
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host


def is_wildcard(host: str) -> bool:
    return bare(host) in WILDCARDS


def loopback() -> str:
    """Return 127.0.0.1, or ::1 on a machine that has no IPv4 at all."""
    with suppress(OSError), socket.socket(socket.AF_INET) as probe:
        probe.bind(("127.0.0.1", 0))
        return "127.0.0.1"
    return "::1"


def listen_everywhere(port: int) -> socket.socket:
    """Open a listening socket on every address of this machine, for both families where it has
    both.

    One socket serves both families, so that port 0 (any free port) gives one port and not two.
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
