"""The open connections of all data ports together: how many there may be, and their common end."""

import asyncio
import contextlib
import logging
from typing import Final, Protocol

from bookie.server.replies import ReplyLimits, ReplyRoom
from bookie.server.state import Traffic

log = logging.getLogger(__name__)

LOOK_INTERVAL_S: Final = 1.0
"""Between looks for clients that do not take their replies."""
LAST_REPLIES_S: Final = 2.0
"""How long a stop waits for clients to take the replies that were given."""


class Session(Protocol):
    """A connection, as far as its end goes."""

    def close(self) -> None:
        """Send what was answered, take nothing more."""

    def abort(self) -> None: ...

    def has_left_unread(self, now: float, patience_s: float) -> bool:
        """True when a reply has been untaken for longer than this."""

    @property
    def peer(self) -> str:
        """Its address."""

    @property
    def reply_bytes(self) -> int:
        """Of replies that it has not taken, and of reads under way."""


class Sessions:
    """Those that are open, in the order in which they came.

    A client that leaves replies untaken is cut off: they are room that others wait for.
    """

    def __init__(
        self, traffic: Traffic, *, connections_max: int, room: ReplyRoom | None = None
    ) -> None:
        self._traffic = traffic
        self._room = room or ReplyRoom(ReplyLimits(), traffic)
        self._looking: asyncio.TimerHandle | None = None
        """The next look at them; None while there are none."""
        self._connections_max = connections_max
        self._open: dict[Session, None] = {}
        """Connections, oldest first; Traffic.connections of them. One beyond connections_max leaves
        as soon as it is closed."""
        self._one_closed = asyncio.Event()
        """Set whenever one has closed: who ends the sessions waits for the last."""

    def opened(self, session: Session) -> None:
        self._open[session] = None
        self._traffic.connections = len(self._open)
        if self._looking is None:
            self._schedule_look()
        if len(self._open) > self._connections_max:
            log.warning("refuse a connection: %d are open", self._connections_max)
            session.close()

    def closed(self, session: Session) -> None:
        self._open.pop(session, None)
        self._one_closed.set()
        self._traffic.connections = len(self._open)

    def _schedule_look(self) -> None:
        loop = asyncio.get_running_loop()
        self._looking = loop.call_later(LOOK_INTERVAL_S, self._look) if self._open else None

    def _look(self) -> None:
        now, patience_s = asyncio.get_running_loop().time(), self._room.patience_s()
        for session in [s for s in self._open if s.has_left_unread(now, patience_s)]:
            log.warning(
                "cut off %s: it has left replies untaken for more than %g s; they and its reads "
                "under way hold %d bytes",
                session.peer,
                patience_s,
                session.reply_bytes,
            )
            self._traffic.slow_clients += 1
            session.abort()
        self._schedule_look()

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
        if self._looking is not None:
            self._looking.cancel()
