"""Reads from the disks, which run in threads, and the memory that their replies may take.

Reads are bounded by number, per connection and in total, and by the bytes of their replies
(`replies`). The length of a reply is unknown before the read, so a read reserves what it will
probably need. If the reply is longer and there is no room, it is dropped and read again when there
is room.
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
"""The longest reply to one read, in bytes, whatever it asks for; one more run may exceed it."""
READS_PER_CONNECTION_MAX: Final = 16
ENTRY_BYTES_EXPECTED: Final = 64 * 1024
"""How many bytes a reply probably needs per entry, with the other entries of its run that are sent
along."""

Result = TypeVar("Result")
Found = Callable[[StoredRead | None, BaseException | None], None]
"""Called once, with what was read or with the error."""


class Reader(Holder, Protocol):
    """A connection that reads."""

    reads_under_way: int
    """How many of its reads are under way; `DiskReads` counts and bounds them."""

    def owe(self, size: int) -> None:
        """Note that the next reply holds so many bytes of memory until it has left."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A read under way. `size`: bytes reserved for its reply, or its length once that is known."""

    reader: Reader
    request: ReadRequest
    size: int
    found: Found
    at: float
    """When the read was requested, by the loop's clock."""


class DiskReads:
    """The reads of one bookie. It calls `on_room` when there may be room for another one."""

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
        """How long each read took until its entries were found or it failed."""
        self._storage = storage
        self._executor = executor
        self._room = room
        self._in_flight_max = in_flight_max
        self._on_room = on_room
        self._in_flight = 0
        """How many reads are in the threads or in `_too_long`; at most in_flight_max."""
        self._too_long: list[_Asked] = []
        """Reads whose reply found no room; they count as in flight, which bounds them."""
        self._loop = asyncio.get_running_loop()

    def has_room(self, reader: Reader, wanted: int = 0) -> bool:
        """True when the connection may begin another read that reserves `wanted` bytes."""
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
        """Run other work in a thread; `then` gets the finished future."""
        self._loop.run_in_executor(self._executor, partial(work, *args)).add_done_callback(then)

    def read(self, reader: Reader, request: ReadRequest, reserved: int, found: Found) -> None:
        """Read entries in a thread, and end what `begin`, which was called before, has begun."""
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
        """True when reads wait for room for their replies."""
        return bool(self._too_long)

    def read_again(self) -> None:
        """Repeat the reads for whose replies there is room now."""
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
        """Assert the invariants between two events of the loop; for tests."""
        assert len(self._too_long) <= self._in_flight <= self._in_flight_max
        assert self._room.wants_spare is bool(self._too_long)
        assert all(asked.reader.reads_under_way > 0 for asked in self._too_long)

    def forget(self, reader: Reader) -> None:
        """Forget a connection that is gone: its waiting reads are not repeated."""
        gone = [asked for asked in self._too_long if asked.reader is reader]
        self._too_long = [asked for asked in self._too_long if asked.reader is not reader]
        self._room.wants_spare = bool(self._too_long)
        for _asked in gone:
            self.end(reader)


def expected_bytes(request: ReadRequest) -> int:
    """How many bytes the reply to a read will probably need."""
    entries = request.last - request.first + 1
    return max(0, min(request.bytes_max, READ_BYTES_MAX, entries * ENTRY_BYTES_EXPECTED))
