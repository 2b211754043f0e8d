"""What leaves the event loop's thread to ask the disks, and the room for what they answer.

Bounded by count, of one connection and of all, and by the bytes of the replies (`replies`). How
long a reply will be is not known before it is read: a read reserves what it is likely to need, and
one that turns out longer while there is no room is let go of and read again when there is.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from bookie.server.replies import Holder, ReplyRoom
from bookie.storage.durations import Durations
from bookie.storage.reading import StoredRead
from bookie.storage.storage import Storage
from bookie.wire.native import MESSAGE_BYTES_MAX, ReadRequest

READ_BYTES_MAX: Final = MESSAGE_BYTES_MAX // 2
"""Most bytes one read is answered with, whatever it asks for; one run more may come on top."""
READS_PER_CONNECTION_MAX: Final = 16
ENTRY_BYTES_EXPECTED: Final = 64 * 1024
"""What one entry is expected to need, with what comes along from its run."""

Result = TypeVar("Result")
Found = Callable[[StoredRead | None, BaseException | None], None]
"""Called once: what was read, or why nothing was."""


class Reader(Holder, Protocol):
    """A connection, as far as its reads go."""

    reads_under_way: int
    """Kept here, and bounded."""

    def owe(self, size: int) -> None:
        """What is answered next holds so many bytes, until it has left."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A read under way. `size`: what is reserved for its reply, or what that is known to need."""

    reader: Reader
    request: ReadRequest
    size: int
    found: Found
    at: float
    """Loop time when it was asked for."""


class DiskReads:
    """Reads of one bookie. `on_room`: there may be room for another one."""

    def __init__(
        self,
        storage: Storage,
        executor: Executor,
        room: ReplyRoom,
        *,
        in_flight_max: int,
        on_room: Callable[[], None],
        waits: Durations,
    ) -> None:
        self._waits = waits
        """How long each read took, until its entries were found or it failed."""
        self._storage = storage
        self._executor = executor
        self._room = room
        self._in_flight_max = in_flight_max
        self._on_room = on_room
        self._in_flight = 0
        """Reads that the threads have, and replies in `_too_long`; in_flight_max at most."""
        self._too_long: list[_Asked] = []
        """Replies that found no room; they count as in flight, and are bounded so."""
        self._loop = asyncio.get_running_loop()

    def has_room(self, reader: Reader, wanted: int = 0) -> bool:
        """Whether one more may be begun, that reserves so many bytes."""
        return (
            self._in_flight < self._in_flight_max
            and reader.reads_under_way < READS_PER_CONNECTION_MAX
            and self._room.has(reader, wanted)
        )

    def begin(self, reader: Reader, reserved: int = 0) -> None:
        self._in_flight += 1
        reader.reads_under_way += 1
        self._room.take(reader, reserved)

    def end(self, reader: Reader, reserved: int = 0) -> None:
        self._in_flight -= 1
        reader.reads_under_way -= 1
        self._room.give_back(reader, reserved)
        self._on_room()

    def ask(
        self,
        work: Callable[..., Result],
        *args: Any,
        then: Callable[["asyncio.Future[Result]"], None],
    ) -> None:
        """Anything else that takes a thread's time."""
        self._loop.run_in_executor(self._executor, partial(work, *args)).add_done_callback(then)

    def read(self, reader: Reader, request: ReadRequest, reserved: int, found: Found) -> None:
        """Read entries; `begin` was called, this ends it."""
        self.ask(
            self._read,
            request,
            then=partial(self._finish, _Asked(reader, request, reserved, found, self._loop.time())),
        )

    def _read(self, request: ReadRequest) -> StoredRead:
        return self._storage.read(
            request.ledger_id,
            first=request.first,
            last=request.last,
            bytes_max=min(request.bytes_max, READ_BYTES_MAX),
        )

    def _finish(self, asked: _Asked, reading: "asyncio.Future[StoredRead]") -> None:
        reader, reserved = asked.reader, asked.size
        error = reading.exception()
        if error is not None:
            self._waits.observe(self._loop.time() - asked.at)
            asked.found(None, error)
            self.end(reader, reserved)
            return
        read = reading.result()
        size = sum(map(len, read.runs))
        if size > reserved and not self._room.has(reader, size - reserved):
            self._room.give_back(reader, reserved)
            self._too_long.append(replace(asked, size=size))
            self._room.wants_spare = True
            self._on_room()
            return
        self._waits.observe(self._loop.time() - asked.at)
        self._room.take(reader, size - reserved)
        reader.owe(size)
        asked.found(read, None)
        self._in_flight -= 1
        reader.reads_under_way -= 1
        self._on_room()

    @property
    def are_waiting(self) -> bool:
        """Some wait for room for their replies."""
        return bool(self._too_long)

    def read_again(self) -> None:
        """Those for whose replies there is room now."""
        if not self._too_long:
            return
        self._room.wants_spare = False
        waiting, self._too_long = self._too_long, []
        for asked in waiting:
            if self._room.has(asked.reader, asked.size):
                self._room.take(asked.reader, asked.size)
                self.read(asked.reader, asked.request, asked.size, asked.found)
            else:
                self._too_long.append(asked)
        self._room.wants_spare = bool(self._too_long)

    def _check(self) -> None:
        """For tests, between two events of the loop."""
        assert len(self._too_long) <= self._in_flight <= self._in_flight_max
        assert self._room.wants_spare is bool(self._too_long)
        assert all(asked.reader.reads_under_way > 0 for asked in self._too_long)

    def forget(self, reader: Reader) -> None:
        """The connection is gone: its answer is not read again."""
        gone = [asked for asked in self._too_long if asked.reader is reader]
        self._too_long = [asked for asked in self._too_long if asked.reader is not reader]
        self._room.wants_spare = bool(self._too_long)
        for _asked in gone:
            self.end(reader)


def expected_bytes(request: ReadRequest) -> int:
    """What a reply to it is likely to need."""
    entries = request.last - request.first + 1
    return max(0, min(request.bytes_max, READ_BYTES_MAX, entries * ENTRY_BYTES_EXPECTED))
