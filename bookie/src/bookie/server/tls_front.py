"""Reads the first bytes of a connection to a data port that has TLS: a handshake, or a client
without TLS.

A TLS handshake begins with the byte 22. No message of ours or of BookKeeper's does: both begin with
a length, and 22 as its first byte would mean 352 MiB or more. So one port takes both kinds while a
fleet moves to TLS, and a port that requires TLS can still tell a client that it does (`requests`,
`stock`). Connections that send nothing, or do not finish their handshake, are closed after
`handshake_s`; their number is bounded.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, cast

from bookie.server.connections import DataConnection
from bookie.server.handshakes import feed, shake_hands
from bookie.server.port_tls import PortTls
from bookie.server.state import Traffic
from bookie.wire.stock.opening import HANDSHAKE

log = logging.getLogger(__name__)

FIRST_BYTES: Final = 16 * 1024
"""How many bytes are read before the connection gets its protocol."""


class TlsFronts:
    """The state that the fronts of one port share."""

    def __init__(
        self,
        tls: PortTls,
        make: Callable[[], DataConnection],
        *,
        port: str,
        traffic: Traffic,
        waiting_max: int,
    ) -> None:
        """`waiting_max`: how many connections may be without a finished handshake at once."""
        self.tls = tls
        self.make = make
        self.port = port
        self._traffic = traffic
        self._waiting_max = waiting_max
        self._waiting: dict[TlsFront, None] = {}
        """The connections without a finished handshake, in order of arrival."""

    def front(self) -> "TlsFront":
        """Make the front of a new connection."""
        return TlsFront(self)

    def came(self, front: "TlsFront") -> None:
        """Note a new connection; if too many wait, close the one that has waited longest.

        An honest client needs milliseconds, so the one that has waited longest is probably not one.
        """
        self._waiting[front] = None
        if len(self._waiting) > self._waiting_max:
            next(iter(self._waiting)).give_way()

    def left(self, front: "TlsFront") -> None:
        """Note that a connection no longer waits."""
        self._waiting.pop(front, None)

    def failed(self, peer: str, why: str) -> None:
        """Count and log a connection that failed before TLS."""
        self._traffic.tls_failures[self.port] += 1
        log.warning("close connection from %s to port %s: no TLS: %s", peer, self.port, why)


class TlsFront(asyncio.BufferedProtocol):
    """Reads the first bytes, then passes the connection to its protocol."""

    def __init__(self, fronts: TlsFronts) -> None:
        self._fronts = fronts
        self._loop = asyncio.get_running_loop()
        self._buffer = memoryview(bytearray(FIRST_BYTES))
        """The buffer for the first read."""
        self._transport: asyncio.Transport | None = None
        """None before the connection is open, and once it is passed on or gone."""
        self._patience: asyncio.TimerHandle | None = None
        """The timer that ends a silent connection; None exactly while no first byte is awaited."""
        self._upgrade: asyncio.Task[None] | None = None
        """The handshake; None when there is none."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._fronts.came(self)
        self._patience = self._loop.call_later(self._fronts.tls.handshake_s, self._too_late)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        transport, first = self._transport, bytes(self._buffer[:nbytes])
        if transport is None or self._patience is None:
            return
        self._patience.cancel()
        self._patience = None
        if first[0] == HANDSHAKE:
            self._upgrade = self._loop.create_task(self._shake_hands(transport, first))
            return
        self._end()
        connection = self._fronts.make()
        transport.set_protocol(connection)
        connection.connection_made(transport)
        feed(connection, first)

    async def _shake_hands(self, transport: asyncio.Transport, first: bytes) -> None:
        connection, tls, peer = self._fronts.make(), self._fronts.tls, self._peer()
        connection.wait_for_handshake()
        transport.pause_reading()
        try:
            secured = await shake_hands(
                transport, connection, tls.context(),
                first=first, why_not=tls.why_not, seconds=tls.handshake_s,
            )  # fmt: skip
        except Exception as error:  # `ssl` parses what a stranger wrote: it raises ValueError, too
            if self._transport is not None:  # else `give_way` has logged it
                self._fronts.failed(peer, str(error) or repr(error))
            transport.abort()
        else:
            connection.begin(secured, below=transport)
        finally:
            self._end()

    def give_way(self) -> None:
        """Close the connection, since too many have not finished their handshake."""
        transport = self._transport
        assert transport is not None
        self._fronts.failed(self._peer(), "too many connections have unfinished handshakes")
        self._end()
        transport.abort()

    def _too_late(self) -> None:
        self._patience = None
        if self._transport is not None:
            self._fronts.failed(self._peer(), f"silent for {self._fronts.tls.handshake_s:g} s")
            self._transport.abort()

    def _peer(self) -> str:
        assert self._transport is not None
        return str(self._transport.get_extra_info("peername"))

    def _end(self) -> None:
        """End the front: the connection is passed on or gone."""
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        if self._transport is not None:
            self._transport = None
            self._fronts.left(self)
