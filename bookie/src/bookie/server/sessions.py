"""The open connections of all data ports together: limits their number, and ends them at a stop."""

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from typing import Final, Protocol

from bookie.server.replies import ReplyLimits, ReplyRoom
from bookie.server.state import CutOff, Traffic

log = logging.getLogger(__name__)

LOOK_INTERVAL_S: Final = 1.0
"""Seconds between two looks for clients that do not take their replies."""
LAST_REPLIES_S: Final = 2.0
"""Seconds for which a stop waits for clients to take their replies."""


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Limits for incomplete messages."""

    total: int = 256 * 1024 * 1024
    """Bytes of the buffers of all connections."""
    seconds: float = 60.0
    """Seconds from a message's first byte to its last."""


class Session(Protocol):
    """A connection, as `Sessions` sees it."""

    def close(self) -> None:
        """Send the queued replies, take no further message, and close."""

    def abort(self) -> None: ...

    def has_left_unread(self, now: float, patience_s: float) -> bool:
        """True when the client has left a reply untaken for longer than `patience_s`."""

    @property
    def has_asked(self) -> bool:
        """True once it has sent a whole message."""

    @property
    def unfinished_since(self) -> float | None:
        """When an incomplete message began to arrive; None when there is none."""

    @property
    def buffer_bytes(self) -> int:
        """How much memory its buffer occupies."""

    def shrink(self) -> None:
        """Release the buffer if it holds no bytes."""

    @property
    def peer(self) -> str:
        """The client's address, for messages."""

    @property
    def reply_bytes(self) -> int:
        """Bytes of replies that the client has not taken, and of reads under way."""


class Sessions:
    """The open connections, in the order in which they came.

    It cuts off a client that leaves replies untaken, as others wait for their room, and a client
    that does not finish a message. If all places are taken and another client connects, the oldest
    connection that has never asked anything is cut off.
    """

    def __init__(
        self,
        traffic: Traffic,
        *,
        connections_max: int,
        room: ReplyRoom | None = None,
        requests: RequestLimits | None = None,
    ) -> None:
        self._traffic = traffic
        self._requests = requests or RequestLimits()
        self._room = room or ReplyRoom(ReplyLimits(), traffic)
        self._looking: asyncio.TimerHandle | None = None
        """The timer of the next look at the connections; None while there are none."""
        self._connections_max = connections_max
        self._open: dict[Session, None] = {}
        """The connections, oldest first; Traffic.connections is their number."""
        self._leaving: set[Session] = set()
        """Connections of `_open` that were cut off for another one, or found no place, and are not
        closed yet. The others are connections_max at most."""
        self._one_closed = asyncio.Event()
        """Set whenever a connection has closed; `end` waits for it."""

    def opened(self, session: Session) -> None:
        self._open[session] = None
        self._traffic.connections = len(self._open)
        if self._looking is None:
            self._schedule_look()
        if len(self._open) - len(self._leaving) > self._connections_max:
            self._make_room_for(session)

    def _make_room_for(self, session: Session) -> None:
        # A burst of connections arrives within one turn of the loop, and none closes before the
        # next turn.
        silent = next(one for one in self._open if one is session or self._may_go(one))
        self._leaving.add(silent)
        if silent is session:
            log.warning("refuse a connection: %d are open", self._connections_max)
            self._traffic.cut_off[CutOff.FULL] += 1
            session.close()
            return
        log.warning("cut off %s for a new connection: it has sent no request", silent.peer)
        self._traffic.cut_off[CutOff.SILENT] += 1
        silent.abort()

    def _may_go(self, session: Session) -> bool:
        return not session.has_asked and session not in self._leaving

    def closed(self, session: Session) -> None:
        self._open.pop(session, None)
        self._leaving.discard(session)
        self._one_closed.set()
        self._traffic.connections = len(self._open)

    def _schedule_look(self) -> None:
        loop = asyncio.get_running_loop()
        self._looking = loop.call_later(LOOK_INTERVAL_S, self._look) if self._open else None

    def _look(self) -> None:
        now, patience_s = asyncio.get_running_loop().time(), self._room.patience_s()
        self._look_at_requests(now)
        for session in [s for s in self._open if s.has_left_unread(now, patience_s)]:
            log.warning(
                "cut off %s: it has not taken its replies for more than %g s; they and its reads "
                "under way hold %d bytes",
                session.peer,
                patience_s,
                session.reply_bytes,
            )
            self._traffic.slow_clients += 1
            session.abort()
        self._schedule_look()

    def _look_at_requests(self, now: float) -> None:
        limits, begun = self._requests, []
        for session in self._open:
            if (since := session.unfinished_since) is not None:
                begun.append((since, session))
        begun.sort(key=lambda pair: pair[0])
        late = [one for since, one in begun if now - since > limits.seconds]
        for session in late:
            self._cut_off(session, CutOff.UNFINISHED)
        held = sum(session.buffer_bytes for session in self._open if session not in late)
        if held <= limits.total:
            return
        for session in self._open:
            session.shrink()
        held = sum(session.buffer_bytes for session in self._open if session not in late)
        for since, session in begun[len(late) :]:
            if held <= limits.total or now - since < LOOK_INTERVAL_S:
                break
            held -= session.buffer_bytes
            self._cut_off(session, CutOff.MEMORY)

    def _cut_off(self, session: Session, cause: CutOff) -> None:
        log.warning(
            "cut off %s: it has begun a message and not finished it (%s)", session.peer, cause.value
        )
        self._traffic.cut_off[cause] += 1
        session.abort()

    async def end(self) -> None:
        """Close all connections; a client that does not take its last replies in time
        is cut off.
        """
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
