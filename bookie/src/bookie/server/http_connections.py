"""Limits connections to the HTTP port: their number, and how long one may be without an answer.

aiohttp waits without limit for the rest of a request, and for a client that does not read its
answer. This module does not look into requests: it closes a connection that has had no answer for
some time, whether its client asks slowly, reads slowly or asks nothing. Prometheus and probes
connect again.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, cast

from aiohttp import web
from aiohttp.typedefs import Handler

from bookie.server.settings import Limits
from bookie.server.state import BookieState, CutOff

log = logging.getLogger(__name__)


class HttpConnections:
    """All open connections."""

    def __init__(self, limits: Limits, state: BookieState) -> None:
        self._limits = limits
        self._state = state
        self._open: dict[asyncio.BaseTransport, HttpConnection] = {}
        """The connections by the transport that aiohttp writes to; at most
        `limits.http_connections`."""

    def factory(self, make: Callable[[], Any]) -> Callable[[], asyncio.Protocol]:
        """Make protocols for a server; `make`: makes aiohttp's own."""
        return lambda: HttpConnection(self, make())

    @web.middleware
    async def answered(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Restart the connection's time with each answer."""
        answer = await handler(request)
        connection = self._open.get(cast(Any, request.transport))
        if connection is not None:
            connection.wait_for(self._limits.http_seconds)
        return answer

    def opened(self, transport: asyncio.Transport, connection: "HttpConnection") -> bool:
        """Take a new connection; False when there is no room for it."""
        if len(self._open) >= self._limits.http_connections:
            self._cut_off(transport, f"{len(self._open)} are open")
            return False
        self._open[transport] = connection
        connection.wait_for(self._limits.http_seconds)
        return True

    def closed(self, transport: asyncio.BaseTransport) -> None:
        self._open.pop(transport, None)

    def too_late(self, transport: asyncio.Transport, *, has_asked: bool) -> None:
        """Close a connection that had no answer for too long."""
        if has_asked:
            self._cut_off(transport, f"no answer for {self._limits.http_seconds:g} s")
        else:
            transport.close()

    def _cut_off(self, transport: asyncio.Transport, why: str) -> None:
        peer = transport.get_extra_info("peername")
        log.warning("close connection from %s to port http: %s", peer, why)
        self._state.traffic.cut_off[CutOff.HTTP] += 1
        transport.abort()


class HttpConnection(asyncio.Protocol):
    """Passes everything on to aiohttp's own protocol, and watches the time."""

    def __init__(self, connections: HttpConnections, inner: Any) -> None:
        self._connections = connections
        self._inner = inner
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        """None before the connection is open, if there was no room for it, and once it is
        closed."""
        self._patience: asyncio.TimerHandle | None = None
        """The timer that closes it; None exactly while `_transport` is None."""
        self._has_asked = False
        """True when bytes arrived since the last answer."""

    def wait_for(self, seconds: float) -> None:
        """Allow so many seconds from now without an answer."""
        self._has_asked = False
        if self._patience is not None:
            self._patience.cancel()
        self._patience = self._loop.call_later(seconds, self._too_late)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        made = cast(asyncio.Transport, transport)
        if self._connections.opened(made, self):
            self._transport = made
            self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self._transport is not None:
            self._has_asked = True
            self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received() if self._transport is not None else None

    def pause_writing(self) -> None:
        if self._transport is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        if self._transport is not None:
            self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is None:
            return
        self._connections.closed(self._transport)
        self._transport = None
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None
        self._inner.connection_lost(exc)

    def _too_late(self) -> None:
        if self._transport is not None:
            writes = self._transport.get_write_buffer_size() > 0
            self._connections.too_late(self._transport, has_asked=self._has_asked or writes)
