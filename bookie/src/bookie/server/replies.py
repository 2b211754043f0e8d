"""Bounds the memory of replies to reads, from the read until the client has taken the reply.

A reply may have megabytes, and a client that sends reads but does not receive replies would make
the bookie keep them all. So a read needs room before it begins, of its connection and of all
connections together (`ReplyRoom`). The room is released when the reply has left (`Unread`); a
client that does not take a reply for too long is cut off (`sessions`). So no read waits endlessly:
every reply leaves, or ends with its connection.
"""

from collections import deque
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from bookie.frames.frame import FRAME_BYTES_MAX
from bookie.server.state import Traffic

MIB: Final = 1024 * 1024
SHORT_PATIENCE_S: Final = 5.0
"""Seconds for which a few hanging clients may keep all others from reading."""


@dataclass(frozen=True, slots=True)
class ReplyLimits:
    """`per_connection` and `total`: limits for the bytes of replies in memory. `seconds`: how long
    a client may leave a reply untaken.
    """

    per_connection: int = 16 * MIB
    total: int = 64 * MIB
    seconds: float = 30.0


class Holder(Protocol):
    """A connection that holds replies."""

    reply_bytes: int
    """Bytes of its reads under way and of replies that its client has not taken; `ReplyRoom` counts
    them."""


class ReplyRoom:
    """Counts the bytes of replies of all connections. Use it in the event loop's thread."""

    def __init__(self, limits: ReplyLimits, traffic: Traffic) -> None:
        self._limits = limits
        self._traffic = traffic
        self.wants_spare = False
        """True while a long reply waits for room: then other reads must leave room for it."""
        self._is_short = False
        """True when the last read that asked found no room in the total."""

    def has(self, holder: Holder, wanted: int) -> bool:
        """True when this connection may hold `wanted` bytes more.

        A single reply is always allowed, however long, or it would never leave.
        """
        mine, every = holder.reply_bytes, self._traffic.reply_bytes
        if mine and mine + wanted > self._limits.per_connection:
            return False
        spare = FRAME_BYTES_MAX if self.wants_spare else 0
        self._is_short = bool(every) and every + wanted + spare > self._limits.total
        return not self._is_short

    def patience_s(self) -> float:
        """How many seconds a reply may be left untaken now: fewer while other reads
        wait for room.
        """
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
    """One write: its size, how many bytes of room it releases when it has left, and its time."""

    size: int
    held: int
    at: float


class Unread:
    """The writes of one connection that contain replies to reads and that the socket has not taken
    yet.

    Sockets take bytes in order, so the number of bytes left shows which writes are complete.
    """

    def __init__(self) -> None:
        self._writes: deque[_Written] = deque()
        """The writes that the socket has not taken completely, oldest first."""
        self._size = 0
        """Total size of `_writes`; 0 exactly when there are none."""

    def __bool__(self) -> bool:
        return bool(self._writes)

    @property
    def since(self) -> float | None:
        """When the oldest of these writes was made; None when there are none."""
        return self._writes[0].at if self._writes else None

    def wrote(self, size: int, held: int, *, at: float) -> None:
        """Note a write of which the socket may not have taken all bytes."""
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
        """Assert the invariants between two events of the loop; for tests."""
        assert self._size == sum(write.size for write in self._writes)
        assert bool(self._size) == bool(self._writes), "an empty write would never be taken"
        times = [write.at for write in self._writes]
        assert times == sorted(times), "sockets take bytes in order"
