"""Conversations with the stock port at every bound, with many frames at once, and with answers that
wait; and how connections begin and end."""

import asyncio
import errno
import logging
import re
import struct
import zlib
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

import pytest
from bookie.frames.build import build_run
from bookie.frames.entry import ENTRY_BYTES_MAX
from bookie.ids import NO_ENTRY, EntryId, LedgerId
from bookie.protocol.status import Status
from bookie.server.state import Phase, Traffic
from bookie.server.stock import StockConnection
from bookie.wire.stock.framing import FRAME_BYTES_MAX
from server_lab import KEY, KIB, ME, ServerLab
from stock_changes import Changes, counts, taken_logs
from stock_client import NEVER, StockClient, V2Client, V3Client, entry
from syrupy.assertion import SnapshotAssertion
from transcripts import Words

NOBODYS: Final = 999
"""A ledger that nobody knows: a read of its last entry is denied at once."""
COUNTED: Final = [name for name in Traffic.__dataclass_fields__ if not name.endswith("_waits")]
FEW, MANY = 4, 60
"""Adds at once: parsed one by one, or as a block."""


def crc(data: bytes) -> str:
    return f"{len(data)} bytes {zlib.crc32(data):08x}"


class Notes:
    """Clients of one bookie by name; what each heard, and what counters and logs said then."""

    def __init__(self, server: ServerLab, caplog: pytest.LogCaptureFixture) -> None:
        self.server, self.caplog = server, caplog
        self.lines = list[str]()
        self.clients = dict[str, StockClient]()
        self.v2: Any = V2Client(None, None)  # type: ignore[arg-type]
        self.v3: Any = V3Client(None, None)  # type: ignore[arg-type]
        self._counted = Changes()

    async def client(self, name: str, kind: type[StockClient] | None = None) -> Any:
        """The one of that name, connected when it is first named; `v2...` and `v3...`."""
        if name not in self.clients:
            assert self.server.bookie is not None
            kind = kind or (V2Client if name.startswith("v2") else V3Client)
            self.clients[name] = await kind.connect(self.server.bookie.ports["stock"])
        return self.clients[name]

    async def ask(self, name: str, words: str, *frames: bytes, count: int | None = None) -> None:
        """In one write; then so many answers, one for each frame. `count` 0: they wait."""
        self.lines.append(f"{name}> {words}")
        (await self.client(name)).send(*frames)
        if count != 0:
            await self.hear(name, count or len(frames))

    async def hear(self, name: str, count: int = 1, *, more_comes: bool = False) -> None:
        """So many answers, and what is other now, unless more is under way."""
        client = await self.client(name)
        frames, is_over = list[bytes](), False
        async with asyncio.timeout(60):
            while len(frames) < count and not is_over:
                try:
                    (size,) = struct.unpack(">i", await client.reader.readexactly(4))
                    frames.append(await client.reader.readexactly(size))
                except (asyncio.IncompleteReadError, ConnectionError):
                    is_over = True
        said = [f"{name}< {self.said(client, frame)}" for frame in frames]
        if len(said) > 2 * FEW:
            counted = {
                one: said.count(one) for one in (re.sub(r" -?\d+:-?\d+.*", "", s) for s in said)
            }
            whole = {one: sum(s.startswith(one) for s in said) for one in counted}
            said = [said[0], f"   {whole}, all of them {crc(b''.join(frames))}", said[-1]]
        self.lines += said
        if is_over:
            self.lines.append(f"{name}< the end")
            await self.clients.pop(name).close()
        if not more_comes:
            self.note_changes()

    async def leave(self, name: str) -> None:
        if name in self.clients:
            await self.clients.pop(name).close()

    def said(self, client: StockClient, frame: bytes) -> str:
        answer = client.parse(frame)
        if answer.message is not None and hasattr(answer.message, "authPluginName"):
            return f"{answer.outcome.name} {answer.message.authPluginName}"
        parts = [f"{answer.outcome.name} {answer.ledger_id}:{answer.entry_id}"]
        parts += [f"lac {answer.max_lac}"] if answer.max_lac is not None else []
        parts += [f"entry {crc(answer.body)}"] if answer.body else []
        parts += [f"{len(answer.entries)} entries"] if answer.entries else []
        return f"{', '.join(parts)} | {crc(frame)}"

    def note_changes(self, *, is_silent: bool = False) -> None:
        changed = self._counted.since(counts(self.server.traffic, COUNTED))
        lines = ["   " + ", ".join(changed)] if changed else []
        lines += [f"   {level.lower()}: {said}" for level, said in taken_logs(self.caplog)]
        self.lines += [] if is_silent else lines

    async def until(self, words: str, count: str, wanted: int) -> None:
        """Until that counter has that value."""

        def is_there() -> bool:
            name, _dot, key = count.partition(".")
            value = getattr(self.server.traffic, name)
            found = {getattr(k, "name", k): n for k, n in value.items()} if key else {"": value}
            return bool(found.get(key, 0) == wanted)

        await self.server.until(is_there)
        self.lines.append(words)
        self.note_changes()

    @property
    def text(self) -> str:
        for one in (c for c in self.server.answers.owed if isinstance(c, StockConnection)):
            one._check()
            held = (one.reads_under_way, one.reply_bytes, len(one._work))
            if any(held):
                self.lines.append(f"left of a connection: {held}")
        return "\n".join(self.lines) + "\n"


@pytest.fixture
async def notes(
    idle_server: ServerLab,
    caplog: pytest.LogCaptureFixture,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Notes]:
    """A bookie that does nothing by itself; a test's parameter has more settings."""
    monkeypatch.setattr("bookie.server.housekeeping.SPACE_INTERVAL_S", 3600.0)
    idle_server.tree["lease"] = {"seconds": 36000, "confirmSeconds": 3600}
    idle_server.tree["storage"] = {"collectIntervalSeconds": 3600}
    wanted = dict(getattr(request, "param", {}))
    idle_server.sizes |= wanted.pop("sizes", {})
    for name, more in wanted.items():
        idle_server.tree[name] = idle_server.tree.get(name, {}) | more
    await idle_server.start()
    made = Notes(idle_server, caplog)
    caplog.set_level(logging.DEBUG, logger="bookie.server")
    made.note_changes(is_silent=True)
    yield made
    for client in made.clients.values():
        await client.close()


def settings(**more: Any) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("notes", [more], indirect=True, ids=[""])


# ---- bounds --------------------------------------------------------------------------------------


@settings(sizes={"ring_bytes": 16384 * KIB, "log_file_bytes": 16384 * KIB})
@pytest.mark.parametrize("version", [2, 3])
async def test_sizes(notes: Notes, version: int, snapshot: SnapshotAssertion) -> None:
    """The longest entry and frame, and one byte more; then what is wrong with a length alone."""
    name, make = f"v{version}", notes.v2 if version == 2 else notes.v3
    for words, size in (
        ("shortest", 36),
        ("longest", ENTRY_BYTES_MAX),
        ("too long", ENTRY_BYTES_MAX + 1),
    ):
        add = make.add(7, size % 5, payload=bytes(size - 36))
        await notes.ask(name, f"the {words} entry", add)
        await notes.ask(name, "read it", make.read(7, size % 5))
    for size in (FRAME_BYTES_MAX - 4, FRAME_BYTES_MAX - 3):
        frame = make.read(7, 1)
        if version == 3:  # a field that nobody knows, with bytes of this length
            rest = size - len(frame) - 6
            septets = bytes(rest >> shift & 0x7F | 0x80 * (shift < 21) for shift in (0, 7, 14, 21))
            frame += b"\xfa\x07" + septets
        await notes.ask(name, f"a frame of {size} bytes", frame.ljust(size, b"\0"))
    for length in (-1, 0, -(2**31), 2**31 - 1):
        (await notes.client(name)).writer.write(struct.pack(">i", length))
        notes.lines.append(f"{name}> a length of {length}")
        await notes.hear(name)
    assert snapshot(extension_class=Words) == notes.text


async def test_batches(notes: Notes, snapshot: SnapshotAssertion) -> None:
    """So many entries and so many bytes as fit, and one less; entries of 43 bytes at 0-4 and 6."""
    await notes.server.add(7, 0, 5)
    await notes.server.add(7, 6)
    notes.note_changes(is_silent=True)
    whole = 36 + 5 * 47
    for first, count, size in ((0, 0, whole), (0, 0, whole - 1), (0, -1, whole), (0, 3, whole),
                               (0, 1, 36 + 47), (0, 2, 36 + 93), (0, 0, 0), (0, 0, -5), (0, 9, 1),
                               (3, 0, 2**62), (3, 2**31 - 1, 999), (4, 2, 999), (5, 0, 999),
                               (6, 5, 999), (7, 0, 999), (2**62, 0, 999)):  # fmt: skip
        frame = notes.v2.batch(7, first, count=count & 0xFFFFFFFF, size=size)
        await notes.ask("v2", f"{count} from {first}, {size} bytes", frame)
    many = [notes.v2.batch(7, number) for number in range(3)]
    await notes.ask("v2", "three at once", *many)
    assert snapshot(extension_class=Words) == notes.text


async def test_a_batch_longer_than_a_frame(notes: Notes, snapshot: SnapshotAssertion) -> None:
    """A read finds more than a frame holds: its last run is read whole."""
    for first, sizes in ((0, [2_500_000]), (1, [900_000] * 4)):
        bodies = [entry(7, first + at, payload=bytes(size)) for at, size in enumerate(sizes)]
        run = build_run(LedgerId(7), EntryId(first), bodies, lac=NO_ENTRY)
        assert await notes.server.send(bytes(run)) is Status.OK
    notes.note_changes(is_silent=True)
    for count, room in (
        (0, 2**62),
        (0, FRAME_BYTES_MAX),
        (3, 2**62),
        (0, 2_500_200),
        (0, 3_400_200),
    ):
        frame = notes.v2.batch(7, 0, count=count, size=room)
        await notes.ask("v2", f"{count} in {room} bytes", frame)
    await notes.ask("v2", "each", *[notes.v2.read(7, number) for number in range(6)])
    assert snapshot(extension_class=Words) == notes.text


def shuffled(make: Any, count: int) -> Iterator[tuple[str, list[bytes]]]:
    """Adds in one write; each list is of ledgers 7 and 8, which have entry 0."""

    def add(ledger: int, number: int, size: int = 1, **more: Any) -> bytes:
        return make.add(ledger, number, payload=bytes(size), **more)  # type: ignore[no-any-return]

    ids = range(count)
    yield "one ledger", [add(7, i) for i in ids]
    yield "again", [add(7, i) for i in ids]
    yield "falling", [add(7, i) for i in reversed(ids)]
    yield "each twice", [add(7, i // 2) for i in range(2 * count)]
    yield "two ledgers in turn", [add(7 + i % 2, i) for i in ids]
    yield "a stripe", [add(7, 3 * i) for i in ids]
    yield "with LACs", [add(8, i, lac=i * 7 % count) for i in ids]
    yield "two sizes", [add(8, i, 1 + i % 2) for i in ids]
    yield "two keys", [add(8, i, key=KEY if i % 3 else NEVER) for i in ids]
    yield "some of recovery", [add(8, i, recovery=i % 3 == 0) for i in ids]
    yield "all of recovery", [add(8, 2 + i, recovery=True) for i in ids]
    yield (
        "the second ledger by a wrong key",
        [add(7 + i % 2, i, key=NEVER if i % 2 else KEY) for i in ids],
    )
    yield "two ledgers unevenly", [add(7 + (i * i % 3 > 0), i) for i in ids]
    same = [add(7, 202 + i) for i in ids]
    yield "others in front and behind", [add(7, 200, 3), *same, add(7, 400, 4), add(7, 199)]
    yield "from 100 on", [add(7, 100 + i) for i in ids]
    yield "from 2**32 on", [add(7, 2**32 - 3 + i) for i in ids]
    yield "up to the highest id and beyond", [add(7, 2**63 - count + i) for i in ids]
    yield "a read in between", [*(add(7, i) for i in ids), make.read(NOBODYS, -1), add(8, 0)]


@pytest.mark.parametrize("count", [FEW, MANY])
@pytest.mark.parametrize("version", [2, 3])
async def test_many_adds(
    notes: Notes, version: int, count: int, snapshot: SnapshotAssertion
) -> None:
    """One by one and as blocks, by their ids, keys, sizes and kinds."""
    name, make = f"v{version}", notes.v2 if version == 2 else notes.v3
    await notes.ask(name, "first adds", make.add(7, 0), make.add(8, 0))
    for words, frames in shuffled(make, count):
        await notes.ask(name, words, *frames)
    for ledger in (7, 8):
        read = [make.read(ledger, number) for number in (*range(0, 3 * count, 5), -1)]
        await notes.ask(name, f"reads of {ledger}", *read)
    await notes.server.fence(7)
    for words, by_recovery in (("adds to what is fenced", False), ("by recovery", True)):
        adds = [make.add(7, 500 + i, recovery=by_recovery) for i in range(count)]
        await notes.ask(name, words, *adds)
    await notes.ask(name, "reads that fall", *[make.read(7, n) for n in (3, 2, 1, 0, 20, 40, 99)])
    assert snapshot(extension_class=Words) == notes.text


# ---- what is awaited -----------------------------------------------------------------------------


async def test_long_polls(
    notes: Notes, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    """Two ledgers, three askers, the bound of all, and one who leaves."""
    monkeypatch.setattr("bookie.server.waits.WAITS_MAX", 4)
    first, second = 7, 8
    for ledger in (first, second):
        await notes.server.add(ledger, 0)
    notes.note_changes(is_silent=True)
    make, poll = notes.v3, notes.v3.poll
    await notes.ask(
        "v3 one", "above -1 and above 0", poll(first, previous=-1), poll(first, previous=0), count=0
    )
    await notes.ask(
        "v3 two",
        "without a piggyback",
        poll(first, previous=-1, piggyback=False, entry_id=0),
        count=0,
    )
    await notes.ask("v3 gone", "of the other ledger", poll(second, previous=-1), count=0)
    await notes.until("four wait", "long_polls", 4)
    await notes.ask("v3 two", "a fifth", poll(second, previous=-1))
    await notes.ask("v3 two", "one that need not wait", poll(second, previous=-5))
    await notes.leave("v3 gone")
    await notes.until("one leaves", "long_polls", 3)
    await notes.ask("v3 two", "a fourth", poll(second, previous=3), count=0)
    await notes.until("four wait", "long_polls", 4)
    for words, asker, frames, heard in (
        ("LAC 0 of the first", "v3 one", [make.add(first, 1, lac=0)], 2),
        ("LAC 0 again", "", [make.add(first, 2, lac=0)], 0),
        ("an explicit LAC 1", "v3 one", [make.write_lac(first, 1)], 1),
        ("LAC 2 of the second", "", [make.add(second, 3, lac=2)], 0),
        ("LAC 4 of it, by recovery", "v3 two", [make.add(second, 5, lac=4, recovery=True)], 1),
    ):
        await notes.ask("v3 writer", words, *frames, count=0)
        if heard:
            await notes.hear(asker, more_comes=True)
        if heard == 2:
            await notes.hear("v3 two", more_comes=True)
        await notes.hear("v3 writer")
    await notes.ask("v3 one", "for a millisecond", poll(first, previous=1, timeout_ms=1))
    await notes.ask("v3 one", "for none", poll(first, previous=1, timeout_ms=0))
    assert snapshot(extension_class=Words) == notes.text


async def test_the_lease_ends_while_answers_wait(notes: Notes, snapshot: SnapshotAssertion) -> None:
    """What was taken before, and is durable after, is nobody's word."""
    ledger, make = await notes.server.ledger(), notes.v3
    await notes.server.add(ledger, 0)
    state = notes.server.bookie.state  # type: ignore[union-attr]
    notes.note_changes(is_silent=True)
    with notes.server.disk.held_syncs():
        waiting = [
            make.write_lac(ledger, 0),
            make.add(ledger, 1),
            make.read(ledger, -1, fence=True),
        ]
        waiting += [make.read(ledger, 0, fence=True), make.read(NOBODYS, -1)]
        await notes.ask("v3", "a LAC, an add, two fences", *waiting, count=1)
        state.lease_until = -1.0
    await notes.hear("v3", 4)
    await notes.ask("v3", "an add and a read", notes.v3.add(ledger, 2), notes.v3.read(ledger, 0))
    state.extend_lease(float("inf"))
    await notes.ask("v3", "confirmed again", notes.v3.add(ledger, 2), notes.v3.read(ledger, 5))
    state.phase = Phase.STOPPING
    asked = [make.add(ledger, 2), make.read(ledger, 0), make.read(ledger, 1), make.auth()]
    await notes.ask("v3", "it stops", *asked, make.start_tls())
    state.phase = Phase.SERVING
    await notes.ask("v3", "it serves again", notes.v3.read(ledger, 0))
    assert snapshot(extension_class=Words) == notes.text


async def test_first_fences(
    notes: Notes, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    """The store has it, lacks it, is away; too many; afterwards."""
    known = [await notes.server.ledger() for _ in range(9)]
    await notes.server.store.delete_ledger(known[1])
    fence = [notes.v3.read(ledger, 0, fence=True) for ledger in known]
    await notes.ask("v3", "known, twice", fence[0])
    await notes.ask("v3", "again", fence[0])
    await notes.ask("v3", "deleted there", fence[1])
    monkeypatch.setattr("bookie.server.first_fences.LOOKUPS_MAX", 0)
    await notes.ask("v3", "no lookup may begin", fence[2])
    await notes.ask("v3", "but for one that is fenced", fence[0])
    monkeypatch.setattr("bookie.server.first_fences.LOOKUPS_MAX", 256)
    monkeypatch.setattr("bookie.protocol.admission.UNCONFIRMED_FENCES_MAX", 2)
    notes.server.metadata.is_out = True
    for number in (2, 3, 4):
        await notes.ask("v3", "the store is out", fence[number])
    notes.server.metadata.is_out = False
    await notes.ask("v3", "it is back", fence[4])
    notes.server.metadata.is_out = True
    await notes.ask("v3", "out again", fence[5])
    assert snapshot(extension_class=Words) == notes.text


# ---- disks ---------------------------------------------------------------------------------------


async def test_a_disk_that_reads_badly(notes: Notes, snapshot: SnapshotAssertion) -> None:
    """An entry of two on the disk, then both; what else is there is served."""
    for ledger in (7, 8):
        await notes.server.add(ledger, 0, 2)
    await notes.server.flush()
    await notes.server.stop()
    bookie = await notes.server.start()
    notes.clients.clear()
    bookie.state.traffic.reads = 0
    notes.note_changes(is_silent=True)
    for words, times in (("once", 1), ("as often as it tries", 9)):
        notes.server.disk.fail("read", pattern="*.log*", error=errno.EIO, times=times)
        await notes.ask("v2", f"reads fail {words}", notes.v2.read(7, 0))
        await notes.ask("v2", "again", notes.v2.read(7, 0))
        await notes.ask("v2", "a batch", notes.v2.batch(8, 0))
    assert snapshot(extension_class=Words) == notes.text


@settings(sizes={"journal_file_bytes": 16 * KIB})
async def test_a_full_journal(notes: Notes, snapshot: SnapshotAssertion) -> None:
    """Facts find no room and are refused, entries are taken; then there is room again."""
    ledgers = [await notes.server.ledger() for _ in range(3)]
    await notes.server.add(ledgers[0], 0)
    disk = notes.server.disk
    capacity, disk.capacity_bytes = disk.capacity_bytes, 0
    filler = await notes.server.ledger()
    while await notes.server.pool.write_lac(ME, notes.server.lac_request(filler)) is Status.OK:
        """Until nothing more fits."""
    notes.note_changes(is_silent=True)
    held, fresh, make = ledgers[0], ledgers[1], notes.v3
    for words, frame in (
        ("a LAC", make.write_lac(held, 0)), ("an add", make.add(held, 1)),
        ("a fence", make.read(held, 0, fence=True)), ("again", make.read(held, 0, fence=True)),
        ("an add", make.add(held, 2)), ("a first add", make.add(fresh, 0)),
        ("again", make.add(fresh, 0)), ("the LAC", make.read_lac(held)),
        ("force", make.force(held)),
    ):  # fmt: skip
        await notes.ask("v3", words, frame)
    disk.capacity_bytes = capacity
    await notes.server.flush()
    await notes.ask("v3", "there is room: the fence", notes.v3.read(ledgers[0], 0, fence=True))
    await notes.ask("v3", "a first add", notes.v3.add(ledgers[1], 1))
    assert snapshot(extension_class=Words) == notes.text


# ---- connections ---------------------------------------------------------------------------------


@settings(limits={"connections": 2})
async def test_more_connections_than_there_are_places(
    notes: Notes, snapshot: SnapshotAssertion
) -> None:
    """Who has never asked goes, the oldest first; who comes while all have asked goes itself."""
    for name in ("v2 silent", "v3 silent"):
        await notes.client(name)
    await notes.until("two are open", "connections", 2)
    await notes.ask("v3 asks", "a read", notes.v3.read(NOBODYS, -1))
    await notes.hear("v2 silent")
    await notes.ask("v2 asks", "a read", notes.v2.read(NOBODYS, -1))
    await notes.hear("v3 silent")
    notes.lines.append("v3 late> comes")
    await notes.hear("v3 late")
    await notes.leave("v2 asks")
    await notes.until("one leaves", "connections", 1)
    await notes.ask("v3 late", "a read", notes.v3.read(NOBODYS, -1))
    await notes.ask("v3 asks", "a read", notes.v3.read(NOBODYS, -1))
    assert snapshot(extension_class=Words) == notes.text


async def test_a_connection_that_changes_its_version(
    notes: Notes, snapshot: SnapshotAssertion
) -> None:
    """From 3 to 2, and never back; counted as it began. START_TLS and AUTH have nobody here."""
    await notes.ask(
        "v3",
        "AUTH, START_TLS",
        notes.v3.auth(),
        notes.v3.start_tls(),
        notes.v3.auth(b"x" * 99, plugin="sasl"),
    )
    client: Any = V2Client(notes.clients["v3"].reader, notes.clients["v3"].writer)
    notes.clients["v3"] = client
    await notes.ask("v3", "a read and AUTH of version 2", client.read(NOBODYS, -1), client.auth())
    await notes.ask("v3", "a read of version 3", notes.v3.read(NOBODYS, -1))
    await notes.ask("v2", "a read and AUTH", notes.v2.read(NOBODYS, -1), notes.v2.auth())
    await notes.until("both are closed", "connections", 1)
    assert snapshot(extension_class=Words) == notes.text
