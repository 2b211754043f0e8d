"""Connections to the HTTP port: how many, and for how long one may go without an answer.

aiohttp waits without an end for the rest of a request, and for who does not read its answer.
Nothing here looks into a request: a connection is closed once it has had no answer for some time,
be it that it asks slowly, reads slowly or has nothing to ask. Prometheus and probes come again.
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
    """All that are open."""

    def __init__(self, limits: Limits, state: BookieState) -> None:
        self._limits = limits
        self._state = state
        self._open: dict[asyncio.BaseTransport, HttpConnection] = {}
        """By what aiohttp writes to; at most `limits.http_connections`."""

    def factory(self, make: Callable[[], Any]) -> Callable[[], asyncio.Protocol]:
        """Protocols for a server; `make`: aiohttp's own."""
        return lambda: HttpConnection(self, make())

    @web.middleware
    async def answered(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Each answer gives its connection another stretch of time."""
        answer = await handler(request)
        connection = self._open.get(cast(Any, request.transport))
        if connection is not None:
            connection.wait_for(self._limits.http_seconds)
        return answer

    def opened(self, transport: asyncio.Transport, connection: "HttpConnection") -> bool:
        """False when there is no room for it."""
        if len(self._open) >= self._limits.http_connections:
            self._cut_off(transport, f"{len(self._open)} are open")
            return False
        self._open[transport] = connection
        connection.wait_for(self._limits.http_seconds)
        return True

    def closed(self, transport: asyncio.BaseTransport) -> None:
        self._open.pop(transport, None)

    def too_late(self, transport: asyncio.Transport, *, has_asked: bool) -> None:
        """It had no answer for too long."""
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
    """Passes all on to aiohttp's own protocol, and looks at the time."""

    def __init__(self, connections: HttpConnections, inner: Any) -> None:
        self._connections = connections
        self._inner = inner
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        """None before it is connected, where there was no room, and once it is closed."""
        self._patience: asyncio.TimerHandle | None = None
        """When it is closed; None exactly while `_transport` is."""
        self._has_asked = False
        """Bytes came since the last answer."""

    def wait_for(self, seconds: float) -> None:
        """So long from now on it may be without an answer."""
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
