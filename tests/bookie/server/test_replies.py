"""A9: what replies hold is bounded, and who does not take them does not hold up the others."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bookie.frames.build import build_run
from bookie.frames.entry import DigestType, EntryCodec
from bookie.ids import EntryId, LedgerId
from bookie.protocol.status import Status
from bookie.server.disk_reads import DiskReads
from bookie.server.replies import ReplyLimits, ReplyRoom, Unread
from bookie.server.state import Traffic
from bookie.storage.durations import Durations
from bookie.wire.identity import Identity
from bookie.wire.native import Op, ReadRequest, envelope_header
from bookie.wire.stock.framing import FRAME_LENGTH
from server_lab import KEY, ME, PASSWORD, ServerLab
from stock_client import StockLab, V2Client, V3Client
from storage_kit import StorageKit, run

ENTRY_BYTES = 400_000
ENTRIES = 8
MIB = 1024 * 1024
LIMITS = ReplyLimits(per_connection=3 * MIB, total=6 * MIB, seconds=0.2)
Hang = Callable[..., Any]


@pytest.fixture
def peak(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The most that all connections, and the most that one, ever held."""
    most, take = [0, 0], ReplyRoom.take

    def noted(room: ReplyRoom, holder: Any, size: int) -> None:
        take(room, holder, size)
        most[0] = max(most[0], room._traffic.reply_bytes)
        most[1] = max(most[1], holder.reply_bytes)

    monkeypatch.setattr(ReplyRoom, "take", noted)
    return most


@pytest.fixture
async def narrow(
    idle_server: ServerLab, monkeypatch: pytest.MonkeyPatch, peak: list[int]
) -> ServerLab:
    """A bookie with room for a few replies and little patience."""
    monkeypatch.setattr("bookie.server.lifecycle.reply_limits", lambda _limits: LIMITS)
    monkeypatch.setattr("bookie.server.sessions.LOOK_INTERVAL_S", 0.01)
    monkeypatch.setattr("bookie.server.replies.SHORT_PATIENCE_S", 0.05)
    await idle_server.start()
    return idle_server


async def big_ledger(lab: ServerLab) -> LedgerId:
    ledger = await lab.ledger()
    codec = EntryCodec(ledger, DigestType.CRC32C, PASSWORD)
    for i in map(EntryId, range(ENTRIES)):
        body = codec.encode(i, bytes(ENTRY_BYTES), lac=EntryId(i - 1), length=0)
        assert await lab.send(build_run(ledger, i, [body], lac=EntryId(i - 1))) is Status.OK
    return ledger


@pytest.fixture
async def hang(narrow: ServerLab) -> AsyncIterator[Hang]:
    """Connects, sends what it is given, and reads nothing until it is told to."""
    sockets: list[socket.socket] = []

    async def connect(port: str, *frames: bytes) -> socket.socket:
        assert narrow.bookie is not None
        own = socket.socket()
        sockets.append(own)
        own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
        own.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(own, ("127.0.0.1", narrow.bookie.ports[port]))
        await loop.sock_sendall(own, b"".join(frames))
        return own

    yield connect
    for own in sockets:
        own.close()


def native_reads(lab: ServerLab, ledger: LedgerId, count: int, *, bytes_max: int) -> list[bytes]:
    hello = Identity(lab.cluster.instance_id or "", ME).encode()
    frames = [envelope_header(Op.HELLO, 0, 0, len(hello)) + hello]
    for number in range(count):
        at = EntryId(number % ENTRIES)
        body = ReadRequest(ledger, at, at, bytes_max, KEY).encode()
        frames.append(envelope_header(Op.READ, 0, number, len(body)) + body)
    return frames


def reads_of(lab: ServerLab, port: str, kind: Any, ledger: LedgerId) -> list[bytes]:
    if port == "run":
        return native_reads(lab, ledger, 200, bytes_max=MIB)
    frames = kind(None, None)
    return [framed(frames.read(ledger, i % ENTRIES)) for i in range(200)]


def framed(frame: bytes) -> bytes:
    return FRAME_LENGTH.pack(len(frame)) + frame


@pytest.mark.parametrize(
    ("port", "kind"), [("run", None), ("stock", V2Client), ("stock", V3Client)]
)
async def test_a9_who_asks_and_does_not_read_is_held_to_its_bound_and_cut_off(
    narrow: ServerLab, hang: Hang, peak: list[int], port: str, kind: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    ledger = await big_ledger(narrow)
    own = await hang(port, *reads_of(narrow, port, kind, ledger))
    address = str(own.getsockname()[1])
    await narrow.until(lambda: narrow.traffic.slow_clients == 1)
    await narrow.until(lambda: narrow.traffic.reply_bytes == 0)
    assert LIMITS.per_connection - 2 * ENTRY_BYTES < peak[1] <= LIMITS.per_connection
    (line,) = [r.getMessage() for r in caplog.records if "cut off" in r.getMessage()]
    assert address in line


async def test_a9_a_client_that_was_cut_off_holds_nothing_any_more(
    narrow: ServerLab, hang: Hang
) -> None:
    ledger = await big_ledger(narrow)
    await hang("run", *native_reads(narrow, ledger, 200, bytes_max=MIB))
    async with asyncio.timeout(5):
        await narrow.until(lambda: narrow.traffic.slow_clients > 0)
        await narrow.until(lambda: narrow.traffic.reply_bytes == 0)


async def test_a9_readers_wait_for_room_and_go_on_when_those_who_hang_are_cut_off(
    narrow: ServerLab, hang: Hang, peak: list[int]
) -> None:
    ledger = await big_ledger(narrow)
    for _client in range(6):
        await hang("run", *native_reads(narrow, ledger, 200, bytes_max=MIB))
    await narrow.until(lambda: narrow.traffic.reply_bytes > LIMITS.total - 2 * ENTRY_BYTES)
    async with asyncio.timeout(20):
        found = await asyncio.gather(*(narrow.read(ledger, i, i) for i in range(ENTRIES)))
    assert {status for status, _reply in found} == {Status.OK}
    assert narrow.traffic.slow_clients > 0 and peak[0] <= LIMITS.total


async def test_a9_replies_longer_than_was_reserved_are_read_again_when_there_is_room(
    narrow: ServerLab, hang: Hang, peak: list[int]
) -> None:
    ledger = await big_ledger(narrow)
    own = await hang("run", *native_reads(narrow, ledger, 32, bytes_max=1))
    loop, got = asyncio.get_running_loop(), 0
    while got < 32 * ENTRY_BYTES:
        got += len(await loop.sock_recv(own, MIB))
    assert peak[1] <= LIMITS.per_connection and narrow.traffic.slow_clients == 0


async def test_a9_a_reply_is_no_longer_than_the_bookies_own_bound_however_much_is_asked_for(
    server: ServerLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bookie.server.disk_reads.READ_BYTES_MAX", 1500)
    ledger = await server.ledger()
    for number in range(40):
        await server.add(ledger, number)
    request = ReadRequest(ledger, EntryId(0), EntryId(39), 2**32 - 1, KEY)
    status, reply = await server.pool.read(ME, request)
    assert status is Status.OK and reply is not None and 0 < reply.answered_through < 39
    assert sum(map(len, reply.runs[:-1])) <= 1500, "one more run may exceed it"


async def test_a9_long_polls_that_are_answered_wait_for_room_like_any_read(
    narrow: ServerLab, hang: Hang, peak: list[int]
) -> None:
    ledger = await big_ledger(narrow)
    frames = V3Client(None, None)  # type: ignore[arg-type]
    polls = [framed(frames.poll(ledger, previous=ENTRIES - 2)) for _ in range(50)]
    await hang("stock", *polls)
    await narrow.until(lambda: narrow.traffic.long_polls == 50)
    await narrow.add(ledger, ENTRIES, lac=ENTRIES - 1)
    await narrow.until(lambda: narrow.traffic.slow_clients == 1)
    assert ENTRY_BYTES <= peak[1] <= LIMITS.per_connection
    await narrow.until(lambda: narrow.traffic.reply_bytes == 0)


async def test_a9_who_takes_its_replies_keeps_its_connection_and_owes_nothing(
    narrow: ServerLab,
) -> None:
    ledger = await big_ledger(narrow)
    for _round in range(4):
        found = await asyncio.gather(*(narrow.read(ledger, i, i) for i in range(ENTRIES)))
        assert {status for status, _reply in found} == {Status.OK}
    await narrow.until(lambda: narrow.traffic.reply_bytes == 0)
    assert narrow.traffic.slow_clients == 0


@pytest.mark.parametrize(
    "ask",
    [
        lambda make, ledger: make.read(ledger, 0),
        lambda make, ledger: make.read(ledger, -1),
        lambda make, ledger: make.read(ledger, ENTRIES),
        lambda make, ledger: make.read(ledger, 0, fence=True),
        lambda make, ledger: make.poll(ledger, previous=-1, timeout_ms=60_000),
        lambda make, ledger: make.list_entries(ledger),
        lambda make, ledger: make.force(ledger),
        lambda make, _ledger: make.info(),
    ],
    ids=["entry", "last", "absent", "fence", "poll", "list", "force", "space"],
)
async def test_a9_no_answer_of_any_kind_holds_room_once_it_was_taken(
    narrow: ServerLab, ask: Callable[[Any, LedgerId], bytes]
) -> None:
    ledger, stock = await big_ledger(narrow), StockLab(narrow, V3Client)
    await stock.ask(*[ask(stock.frames, ledger)] * 3)
    await narrow.until(lambda: narrow.traffic.reply_bytes == 0)
    await stock.close()


async def test_a9_who_is_gone_while_its_reply_waits_for_room_gives_its_turn_to_others(
    tmp_path: Path,
) -> None:
    kit, traffic, dropped = StorageKit(tmp_path / "bookie"), Traffic(), asyncio.Event()
    kit.add(run(7, 0))
    room = ReplyRoom(ReplyLimits(per_connection=10, total=10), traffic)
    room.take(holder(), 10)
    with ThreadPoolExecutor(1) as threads:
        reads = DiskReads(
            kit.storage, threads, room, in_flight_max=1, on_room=dropped.set, waits=Durations()
        )
        gone = SimpleNamespace(reply_bytes=0, reads_under_way=0)
        reads.begin(gone)
        request = ReadRequest(LedgerId(7), EntryId(0), EntryId(0), 1, KEY)
        reads.read(gone, request, 0, lambda *_found: None)
        await dropped.wait()
        reads.forget(gone)
    assert reads.has_room(SimpleNamespace(reply_bytes=0, reads_under_way=0))
    kit.end()


# ---- the room and the order ---------------------------------------------------------------------


def holder() -> Any:
    return SimpleNamespace(reply_bytes=0)


def test_a_lone_reply_has_room_however_long_it_is() -> None:
    room = ReplyRoom(ReplyLimits(per_connection=10, total=20), Traffic())
    one, two = holder(), holder()
    assert room.has(one, 1000)
    room.take(one, 1000)
    assert not room.has(one, 1) and not room.has(two, 1)
    room.give_back(one, 1000)
    assert room.has(two, 1000)


def test_patience_is_short_while_somebody_waits_for_room() -> None:
    room = ReplyRoom(ReplyLimits(per_connection=10, total=20, seconds=30.0), Traffic())
    one, two = holder(), holder()
    room.take(one, 20)
    assert room.patience_s() == 30.0
    assert not room.has(two, 1)
    assert [room.patience_s(), room.patience_s()] == [5.0, 5.0]
    room.give_back(one, 20)
    assert room.has(two, 1) and room.patience_s() == 30.0


def test_patience_that_the_settings_make_shorter_is_no_longer_while_somebody_waits() -> None:
    room = ReplyRoom(ReplyLimits(per_connection=10, total=20, seconds=2.0), Traffic())
    room.take(holder(), 20)
    assert not room.has(holder(), 1) and room.patience_s() == 2.0


def test_what_was_written_first_is_taken_first() -> None:
    unread = Unread()
    unread.wrote(100, 80, at=1.0)
    unread.wrote(50, 0, at=2.0)
    unread.wrote(100, 90, at=3.0)
    unread._check()
    assert unread.taken(200) == 0 and unread.since == 1.0
    assert unread.taken(150) == 80 and unread.since == 2.0
    assert unread.taken(99) == 0 and unread.since == 3.0
    assert unread.taken(0) == 90 and unread.since is None
    unread._check()
