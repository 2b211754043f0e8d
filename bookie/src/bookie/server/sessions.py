"""The open connections of all data ports together: how many there may be, and their common end."""

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from typing import Final, Protocol

from bookie.server.replies import ReplyLimits, ReplyRoom
from bookie.server.state import CutOff, Traffic

log = logging.getLogger(__name__)

LOOK_INTERVAL_S: Final = 1.0
"""Between looks for clients that do not take their replies."""
LAST_REPLIES_S: Final = 2.0
"""How long a stop waits for clients to take the replies that were given."""


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """What messages that are not complete may cost."""

    total: int = 256 * 1024 * 1024
    """Bytes of all connections' buffers."""
    seconds: float = 60.0
    """From a message's first byte to its last."""


class Session(Protocol):
    """A connection, as far as its end goes."""

    def close(self) -> None:
        """Send what was answered, take nothing more."""

    def abort(self) -> None: ...

    def has_left_unread(self, now: float, patience_s: float) -> bool:
        """True when a reply has been untaken for longer than this."""

    @property
    def has_asked(self) -> bool:
        """A whole message came of it."""

    @property
    def unfinished_since(self) -> float | None:
        """When the message was begun that is not complete; None: there is none."""

    @property
    def buffer_bytes(self) -> int:
        """What its requests have taken of the memory."""

    def shrink(self) -> None:
        """Give back what no bytes are in."""

    @property
    def peer(self) -> str:
        """Its address."""

    @property
    def reply_bytes(self) -> int:
        """Of replies that it has not taken, and of reads under way."""


class Sessions:
    """Those that are open, in the order in which they came.

    A client that leaves replies untaken is cut off: they are room that others wait for. So is one
    that does not end a message it began. Where no place is free, the oldest of those goes that have
    never asked anything.
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
        """The next look at them; None while there are none."""
        self._connections_max = connections_max
        self._open: dict[Session, None] = {}
        """Connections, oldest first; Traffic.connections of them."""
        self._leaving: set[Session] = set()
        """Those of `_open` that had to go for another, or found no place, and are not closed yet.
        All others are connections_max at most."""
        self._one_closed = asyncio.Event()
        """Set whenever one has closed: who ends the sessions waits for the last."""

    def opened(self, session: Session) -> None:
        self._open[session] = None
        self._traffic.connections = len(self._open)
        if self._looking is None:
            self._schedule_look()
        if len(self._open) - len(self._leaving) > self._connections_max:
            self._make_room_for(session)

    def _make_room_for(self, session: Session) -> None:
        # A burst comes within one turn of the loop, and nothing closes before the next one.
        silent = next(one for one in self._open if one is session or self._may_go(one))
        self._leaving.add(silent)
        if silent is session:
            log.warning("refuse a connection: %d are open", self._connections_max)
            self._traffic.cut_off[CutOff.FULL] += 1
            session.close()
            return
        log.warning("cut off %s for another: it has never asked anything", silent.peer)
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
                "cut off %s: it has left replies untaken for more than %g s; they and its reads "
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
            "cut off %s: it has begun a message and not ended it (%s)", session.peer, cause.value
        )
        self._traffic.cut_off[cause] += 1
        session.abort()

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
