"""What replies to reads hold in memory: from the reading until their client has taken them.

A reply may be megabytes, and a client that asks and does not read would have the bookie keep as
many as it asks for. So a read needs room before it is begun, of its connection and of all together
(`ReplyRoom`), which is given back when the reply has left (`Unread`); a client that leaves one for
too long is cut off (`sessions`). So nobody waits for ever: what is read leaves, or goes with its
connection.
"""

from collections import deque
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from bookie.frames.frame import FRAME_BYTES_MAX
from bookie.server.state import Traffic

MIB: Final = 1024 * 1024
SHORT_PATIENCE_S: Final = 5.0
"""A few clients that hang must not keep all others from reading for longer than this."""


@dataclass(frozen=True, slots=True)
class ReplyLimits:
    """`per_connection` and `total`: bytes of replies held. `seconds`: how long a client may leave
    one untaken."""

    per_connection: int = 16 * MIB
    total: int = 64 * MIB
    seconds: float = 30.0


class Holder(Protocol):
    """A connection, as far as its replies go."""

    reply_bytes: int
    """Of its reads under way and of replies that it has not taken; kept by `ReplyRoom`."""


class ReplyRoom:
    """Bytes of replies of all connections. Used in the event loop's thread."""

    def __init__(self, limits: ReplyLimits, traffic: Traffic) -> None:
        self._limits = limits
        self._traffic = traffic
        self.wants_spare = False
        """A long reply waits: others leave the room that it needs."""
        self._is_short = False
        """Who asked last for room among all found none, and waits for it."""

    def has(self, holder: Holder, wanted: int) -> bool:
        """True when so much more may be held for this connection.

        A single reply always may, however long: it would wait for ever.
        """
        mine, every = holder.reply_bytes, self._traffic.reply_bytes
        if mine and mine + wanted > self._limits.per_connection:
            return False
        spare = FRAME_BYTES_MAX if self.wants_spare else 0
        self._is_short = bool(every) and every + wanted + spare > self._limits.total
        return not self._is_short

    def patience_s(self) -> float:
        """How long a reply may be left untaken, as of now: shorter while others wait for room."""
        seconds = self._limits.seconds
        return min(seconds, SHORT_PATIENCE_S) if self._is_short else seconds

    def take(self, holder: Holder, size: int) -> None:
        holder.reply_bytes += size
        self._traffic.reply_bytes += size

    def give_back(self, holder: Holder, size: int) -> None:
        holder.reply_bytes -= size
        self._traffic.reply_bytes -= size
        assert holder.reply_bytes >= 0, "a connection gave back more than it held"
        assert self._traffic.reply_bytes >= 0


class _Written(NamedTuple):
    """One write: its bytes, those of them (or behind them) that count as held, and when."""

    size: int
    held: int
    at: float


class Unread:
    """Of one connection: what was written, with replies to reads in it, and not taken yet.

    Sockets take bytes in order, so how many are left says which writes they are of.
    """

    def __init__(self) -> None:
        self._writes: deque[_Written] = deque()
        """What the socket has not taken, oldest first."""
        self._size = 0
        """Bytes of `_writes`; 0 exactly when there are none."""

    def __bool__(self) -> bool:
        return bool(self._writes)

    @property
    def since(self) -> float | None:
        """When the oldest of them was written."""
        return self._writes[0].at if self._writes else None

    def wrote(self, size: int, held: int, *, at: float) -> None:
        """Some of it may be left."""
        self._writes.append(_Written(size, held, at))
        self._size += size

    def taken(self, left: int) -> int:
        """Takes how many written bytes are unsent; returns how many reserved ones were released."""
        freed = 0
        while self._writes and (not left or self._size - self._writes[0].size >= left):
            oldest = self._writes.popleft()
            self._size -= oldest.size
            freed += oldest.held
        return freed

    def _check(self) -> None:
        """For tests, between two events of the loop."""
        assert self._size == sum(write.size for write in self._writes)
        assert bool(self._size) == bool(self._writes), "an empty write would never be taken"
        times = [write.at for write in self._writes]
        assert times == sorted(times), "sockets take bytes in order"
