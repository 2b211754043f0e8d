"""What bounds and slows clients, by itself: one connection on a socket that a tape stands for, room
for replies, connections that are looked at, and the pace of bulk work."""

import asyncio
import struct
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import pytest
from bookie.errors import FrameError
from bookie.frames.buffers import FrameBuffers
from bookie.frames.entry import Buffer
from bookie.frames.frame import RUN_ENTRIES_MAX
from bookie.ids import EntryId, LedgerId
from bookie.server.connections import DataConnection
from bookie.server.handshakes import feed
from bookie.server.pacing import BusyRates, Pacing
from bookie.server.replies import ReplyLimits, ReplyRoom, Unread
from bookie.server.sessions import RequestLimits, Sessions
from bookie.server.state import Traffic
from bookie.server.stock_adds import ENTRIES_BYTES_MAX, AddGather
from bookie.server.waits import LacWaits
from bookie.wire.native import LacRequest
from bookie.wire.stock.messages import Add, Outcome
from bookie.wire.stock.v2 import V2
from server_lab import KEY
from stock_client import NEVER
from syrupy.assertion import SnapshotAssertion
from transcripts import Words

MIB: Final = 1024 * 1024


class Tape(asyncio.Transport):
    """A socket that takes as much as a test says, and writes down all that is asked of it."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__({"peername": ("peer", 1)})
        self.lines = lines
        self.untaken = 0
        self.takes_all = True
        self._is_closing = False

    def write(self, data: Buffer) -> None:
        self.lines.append(f"   write {bytes(data)[:40]!r}")
        self.untaken += 0 if self.takes_all else len(data)

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        parts = [bytes(part) for part in list_of_data]
        self.lines.append(
            f"   writelines {[part if len(part) < 9 else len(part) for part in parts]}"
        )
        self.untaken += 0 if self.takes_all else sum(map(len, parts))

    def get_write_buffer_size(self) -> int:
        return self.untaken

    def is_closing(self) -> bool:
        return self._is_closing

    def pause_reading(self) -> None:
        self.lines.append("   pause reading")

    def resume_reading(self) -> None:
        self.lines.append("   resume reading")

    def close(self) -> None:
        self.lines.append("   close")
        self._is_closing = True

    def abort(self) -> None:
        self.lines.append("   abort")
        self._is_closing = True


class Plain(DataConnection):
    """Messages have a length of one byte. `f`: full, `b`: malformed, `r`: a reply of 5 bytes that
    is owed, `x`: close behind it, `?`: its length is not known yet; else its own letter."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__(lambda: lines.append("   the lease is checked"))
        self.lines, self.has_room = lines, True

    def _opened(self) -> None:
        self.lines.append("   opened")

    def _closed(self) -> None:
        self.lines.append("   closed")

    def _left(self, size: int) -> None:
        self.lines.append(f"   {size} bytes have left")

    def _take_next(self, view: memoryview) -> int:
        size = view[0]
        if len(view) < 1 + size:
            self._expect(1 + size)
            return 0
        message = bytes(view[1 : 1 + size])
        if message[:1] == b"b":
            raise FrameError("this is malformed")
        if message[:1] == b"f" and not self.has_room:
            self._block()
            return 0
        if message[:1] == b"r":
            self.owe(5)
        self._send([message, b"."])
        if message[:1] == b"x":
            self.close()
        return 1 + size


class Line:
    """One connection on a tape, and its state after each step."""

    def __init__(self) -> None:
        self.lines = list[str]()
        self.tape, self.one = Tape(self.lines), Plain(self.lines)
        self.one.connection_made(self.tape)

    async def step(
        self, words: str, do: Callable[[], object] | None = None, *messages: bytes
    ) -> None:
        """What is done or comes, and how the connection is then."""
        self.lines.append(words)
        if do is not None:
            do()
        if messages:
            feed(self.one, b"".join(bytes((len(message),)) + message for message in messages))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        self.one._check()
        one = self.one
        begun = one.unfinished_since is not None
        self.lines.append(
            f"   holds {one.bytes_held} bytes in {one.buffer_bytes}, asked {one.has_asked}, "
            f"begun {begun}, untaken for long {one.has_left_unread(one._loop.time() + 99, 50)}"
        )


async def test_a_connection_that_finds_no_room(snapshot: SnapshotAssertion) -> None:
    """What comes meanwhile stays; then room for one, for all; then malformed bytes."""
    line = Line()
    await line.step("two messages", None, b"a", b"bc"[1:])
    line.one.has_room = False
    await line.step("one, one for which there is no room, one", None, b"d", b"f1", b"e")
    await line.step("one more", None, b"g")
    await line.step("resumed without room", line.one.resume)
    line.one.has_room = True
    await line.step("resumed with room", line.one.resume)
    await line.step("resumed once more", line.one.resume)
    feed(line.one, b"\x05h")
    await line.step("the begin of a message")
    line.one.shrink()
    await line.step("is shrunk")
    feed(line.one, b"ello")
    await line.step("its end")
    line.one.shrink()
    await line.step("is shrunk")
    await line.step("a message, malformed bytes, a message", None, b"i", b"b", b"j")
    await line.step("one more", None, b"k")
    await line.step("resumed", line.one.resume)
    await line.step("lost", partial(line.one.connection_lost, None))
    await line.step("lost again", partial(line.one.connection_lost, None))
    assert snapshot(extension_class=Words) == "\n".join(line.lines) + "\n"


async def test_a_client_that_takes_nothing(snapshot: SnapshotAssertion) -> None:
    """Replies stay until the socket takes them; what is left is counted by whole writes."""
    line = Line()
    await line.step("a reply that is taken", None, b"r")
    line.tape.takes_all = False
    await line.step("one that is not", None, b"r")
    await line.step("two in one write, one is no reply to a read", None, b"r", b"a")
    await line.step("writing is paused", line.one.pause_writing)
    await line.step("a message comes", None, b"r")
    await line.step("room that it does not want", line.one.resume)
    line.tape.untaken = 5
    await line.step("most is taken", line.one.resume_writing)
    line.tape.untaken = 1
    await line.step("all but a byte", line.one.resume_writing)
    line.tape.untaken = 0
    await line.step("all", line.one.resume_writing)
    await line.step("one more, and its end", None, b"r", b"x", b"a")
    await line.step("aborted", line.one.abort)
    await line.step("a read ends late", partial(line.one.owe, 7))
    await line.step("lost", partial(line.one.connection_lost, None))
    await line.step("a read ends when it is gone", partial(line.one.owe, 7))
    line.one._send([b"nobody's"])
    await line.step("its reply, to nobody", line.one.abort)
    line.lines.append(line.one.peer)
    assert snapshot(extension_class=Words) == "\n".join(line.lines) + "\n"


def test_room_for_replies(snapshot: SnapshotAssertion) -> None:
    """Of one and of all, with room kept for a long one; and how patient that makes."""
    traffic, lines = Traffic(), list[str]()
    room = ReplyRoom(ReplyLimits(per_connection=10, total=20 * MIB, seconds=30.0), traffic)
    tight = ReplyRoom(ReplyLimits(per_connection=100, total=20, seconds=3.0), traffic)
    one, two = Held(), Held()
    steps: list[tuple[Held, int, bool]] = [
        (one, 11, False), (one, 5, False), (one, 5, False), (one, 1, False), (two, 20, False),
        (two, 10, False), (two, 5, True), (one, -10, False), (two, 10, False), (one, 10, False),
    ]  # fmt: skip
    for holder, size, spare in steps:
        room.wants_spare = tight.wants_spare = spare
        if size < 0:
            room.give_back(holder, -size)
        answers = room.has(holder, size), tight.has(holder, size)
        if answers[0] and size > 0:
            room.take(holder, size)
        lines.append(f"{size} of {'one' if holder is one else 'two'}, spare {spare}: {answers}, "
                     f"{one.reply_bytes} and {two.reply_bytes} of {traffic.reply_bytes}, "
                     f"{room.patience_s():g} and {tight.patience_s():g} s")  # fmt: skip
    assert snapshot(extension_class=Words) == "\n".join(lines) + "\n"


@dataclass
class Held:
    reply_bytes: int = 0


def test_writes_that_are_not_taken(snapshot: SnapshotAssertion) -> None:
    """Each step: a write and what it holds, or how many bytes are left; what that frees."""
    unread, lines = Unread(), list[str]()
    for at, (size, held, left) in enumerate(
        [(10, 4, 10), (20, 5, 30), (5, 0, 35), (0, 0, 26), (0, 0, 25), (0, 0, 24), (7, 7, 12),
         (0, 0, 8), (0, 0, 7), (0, 0, 1), (0, 0, 0), (3, 1, 3), (0, 0, 0)]
    ):  # fmt: skip
        if size:
            unread.wrote(size, held, at=float(at))
        freed = unread.taken(left)
        unread._check()
        lines.append(
            f"{size} written, {held} held, {left} left: frees {freed}, since {unread.since}"
        )
    assert snapshot(extension_class=Words) == "\n".join(lines) + "\n"


def test_the_pace_of_bulk_work(snapshot: SnapshotAssertion) -> None:
    """By size and time since the last normal add: what is owed, kept, forgiven; one pace each."""
    now, lines = [100.0], list[str]()
    pacing = Pacing(BusyRates(recovery=1000.0, compaction=500.0), clock=lambda: now[0])
    for pause, is_add, size in (
        (0, False, 10**6), (0, True, 50), (0, False, 10), (0, False, 100), (0.01, False, 100),
        (0.5, False, 100), (0.499, False, 100), (0.001, False, 100), (0, True, 5000),
        (0.1, True, 100), (0, False, 100), (1, False, 10), (0, True, 10), (9, True, 60),
    ):  # fmt: skip
        now[0] += pause
        if is_add:
            pacing.normal_add()
        recovery, compaction = pacing.recovery_delay_s(size), pacing.compaction_delay_s(size)
        add = ", a normal add" if is_add else ""
        lines.append(f"{pause} s{add}, {size} bytes: {recovery:.3f} and {compaction:.3f} s")
    assert snapshot(extension_class=Words) == "\n".join(lines) + "\n"


@dataclass(eq=False)
class Visitor:
    """A connection as those see it who look at all of them."""

    name: str
    lines: list[str] = field(repr=False)
    has_asked: bool = True
    unfinished_since: float | None = None
    buffer_bytes: int = 0
    unread_s: float = 0.0
    reply_bytes: int = 0

    @property
    def peer(self) -> str:
        return self.name

    def shrink(self) -> None:
        self.lines.append(f"   {self.name} shrinks")
        self.buffer_bytes = min(self.buffer_bytes, 100)

    def abort(self) -> None:
        self.lines.append(f"   {self.name} is cut off")

    def close(self) -> None:
        self.lines.append(f"   {self.name} is closed")

    def has_left_unread(self, now: float, patience_s: float) -> bool:
        return self.unread_s > patience_s


async def test_connections_that_are_looked_at(
    caplog: pytest.LogCaptureFixture, snapshot: SnapshotAssertion
) -> None:
    """Late messages, too much memory, replies left; then more than there are places."""
    lines, traffic = list[str](), Traffic()
    room = ReplyRoom(ReplyLimits(seconds=30.0), traffic)
    requests = RequestLimits(total=1000, seconds=60.0)
    sessions = Sessions(traffic, connections_max=6, room=room, requests=requests)
    now = asyncio.get_running_loop().time()
    made: dict[str, dict[str, Any]] = {
        "late": {"unfinished_since": now - 60.5, "buffer_bytes": 900},
        "old": {"unfinished_since": now - 30, "buffer_bytes": 90},
        "older": {"unfinished_since": now - 40, "buffer_bytes": 800},
        "new": {"unfinished_since": now + 9, "buffer_bytes": 90},
        "deaf": {"unread_s": 31.0, "reply_bytes": 77},
        "slow": {"unread_s": 29.0, "buffer_bytes": 900, "has_asked": False},
    }
    visitors = {name: Visitor(name, lines, **more) for name, more in made.items()}

    def note(words: str) -> None:
        counts = {cause.name: n for cause, n in traffic.cut_off.items()}
        lines.append(f"{words}: {traffic.connections} open, {counts}, {traffic.slow_clients} slow")
        lines.extend(f"   {record.getMessage()}" for record in caplog.records)
        caplog.clear()

    for visitor in visitors.values():
        sessions.opened(visitor)
    note("six come")
    for words in ("looked at", "again"):
        assert sessions._looking is not None
        sessions._looking.cancel()
        sessions._look()
        note(words)
        for name in ("late", "deaf", "older"):
            if name in visitors:
                sessions.closed(visitors.pop(name))
    for name in ("a", "b", "c", "d", "e", "f"):
        visitors[name] = Visitor(name, lines, has_asked=name < "d")
        sessions.opened(visitors[name])
        note(f"{name} comes")
    sessions.closed(visitors["slow"])
    sessions.closed(visitors["slow"])
    note("one goes, twice")
    ending = asyncio.create_task(sessions.end())
    await asyncio.sleep(0)
    for name in visitors:
        sessions.closed(visitors[name])
    await ending
    note("the end")
    assert snapshot(extension_class=Words) == "\n".join(lines) + "\n"


async def test_polls_and_their_bounds(
    monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    """By ledger and asker: who is answered by what, who is forgotten, how long each waits."""
    monkeypatch.setattr("bookie.server.waits.WAITS_MAX", 5)
    traffic, lines = Traffic(), list[str]()
    waits, loop = LacWaits(traffic), asyncio.get_running_loop()

    def add(name: str, ledger: int, lac: int, asker: object, timeout_ms: int) -> None:
        request = LacRequest(LedgerId(ledger), b"", EntryId(lac), timeout_ms)
        is_taken = waits.add(asker, request, lambda: lines.append(f"   {name} is answered"))
        left = ""
        if is_taken:
            timer = list(waits._waits[LedgerId(ledger)])[-1].timer
            assert timer is not None
            left = f", for {timer.when() - loop.time():.0f} s"
        lines.append(f"{name} waits: {is_taken}{left}, {traffic.long_polls}")

    def moved(ledger: int, lac: int) -> None:
        lines.append(f"LAC {lac} of {ledger}")
        waits.lac_moved(LedgerId(ledger), EntryId(lac))
        waits._check()
        lines.append(f"   {traffic.long_polls} wait")

    for name, ledger, lac, asker, ms in (("a", 1, -1, "x", 5000), ("b", 1, 3, "x", 60_000),
                                         ("c", 1, -1, "y", 61_000), ("d", 2, 0, "y", 10**9),
                                         ("e", 2, 5, "x", 0), ("f", 2, 5, "x", 9)):  # fmt: skip
        add(name, ledger, lac, asker, ms)
    for ledger, lac in ((3, 9), (1, -1), (1, 0), (1, 0)):
        moved(ledger, lac)
    add("g", 1, 7, "x", 2000)
    lines.append("y is gone")
    waits.forget("y")
    for ledger, lac in ((2, 4), (2, 6), (1, 4)):
        moved(ledger, lac)
    lines.append("x is gone")
    waits.forget("x")
    moved(1, 99)
    assert snapshot(extension_class=Words) == "\n".join(lines) + "\n"


GATHERED: Final[dict[str, list[tuple[int, int, int, bytes, bool]]]] = {
    "rising": [(7, number, 40, KEY, False) for number in (0, 1, 2, 5, 6)],
    "falling": [(7, number, 40, KEY, False) for number in (2, 1, 1, 3)],
    "two ledgers, one by recovery": [(7 + n % 2, n, 40, KEY, n % 2 > 0) for n in range(6)],
    "one in the middle by recovery": [(7, n, 40, KEY, n == 2) for n in range(5)],
    "a key in between": [(7, n, 40, NEVER if n == 1 else KEY, False) for n in range(3)],
    "as long as a frame": [(7, n, (ENTRIES_BYTES_MAX - 8) // 2, KEY, False) for n in range(3)],
    "longer by a byte": [(7, n, (ENTRIES_BYTES_MAX - 8) // 2 + n, KEY, False) for n in range(2)],
    "as many as a frame": [(7, n, 32, KEY, False) for n in range(RUN_ENTRIES_MAX)],
    "one more": [(7, n, 32, KEY, False) for n in range(RUN_ENTRIES_MAX + 1)],
    "the highest id": [(7, 2**63 - 3 + n, 40, KEY, False) for n in range(2)],
    "too high": [(7, 2**63 - 2 + n, 40, KEY, False) for n in range(2)],
    "too high, with a gap": [(7, 2**63 - 7 + 3 * n, 40, KEY, False) for n in range(3)],
    "a stripe, then others": [(7, n, 40, KEY, False) for n in (0, 1, 3, 4, 6, 7, 8, 11, 14, 30)],
}
"""Adds in order: ledger, id, size, key, whether by recovery."""


def test_adds_that_are_gathered(snapshot: SnapshotAssertion) -> None:
    """Which runs they make: ids, count, LAC and flags; the LAC of each add is half its id."""
    lines = list[str]()
    for words, adds in GATHERED.items():
        gather = AddGather(V2(), FrameBuffers())
        for ledger, number, size, key, by_recovery in adds:
            head = struct.pack(">qqqq", ledger, number, number // 2 - 1, 0)
            body = memoryview(head.ljust(size, b"."))
            ids = LedgerId(ledger), EntryId(number)
            gather.add(Add(*ids, key, body, by_recovery, False, 2 << 24 | 1 << 16))
        lines.append(words)
        for run in gather.runs():
            frame, crc = run.frame, zlib.crc32(run.answers(Outcome.OK))
            lines.append(
                f"   {frame.ledger_id}:{frame.first_entry_id} {frame.count} by {frame.pattern}, "
                f"LAC {frame.lac}, {len(frame.buffer)} bytes, recovery {frame.is_recovery}, "
                f"{run.master_key == KEY}, storable {run.is_storable}, answers {crc:08x}"
            )
    assert snapshot(extension_class=Words) == "\n".join(lines) + "\n"
