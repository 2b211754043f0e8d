"""The open connections of all data ports together: how many there may be, and their common end."""

import asyncio
import contextlib
import logging
from typing import Final, Protocol

from bookie.server.state import Traffic

log = logging.getLogger(__name__)

LAST_REPLIES_S: Final = 2.0
"""How long a stop waits for clients to take the replies that were given."""


class Session(Protocol):
    """A connection, as far as its end goes."""

    def close(self) -> None:
        """Send what was answered, take nothing more."""

    def abort(self) -> None: ...


class Sessions:
    """Those that are open, in the order in which they came."""

    def __init__(self, traffic: Traffic, *, connections_max: int) -> None:
        self._traffic = traffic
        self._connections_max = connections_max
        self._open: dict[Session, None] = {}
        self._one_closed = asyncio.Event()

    def opened(self, session: Session) -> None:
        self._open[session] = None
        self._traffic.connections = len(self._open)
        if len(self._open) > self._connections_max:
            log.warning("refuse a connection: %d are open", self._connections_max)
            session.close()

    def closed(self, session: Session) -> None:
        self._open.pop(session, None)
        self._one_closed.set()
        self._traffic.connections = len(self._open)

    async def end(self) -> None:
        """Close all; whoever does not take its last replies in time is cut off."""
        for session in list(self._open):
            session.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_REPLIES_S):
                while self._open:
                    self._one_closed.clear()
                    await self._one_closed.wait()
        for session in list(self._open):
            session.abort()
