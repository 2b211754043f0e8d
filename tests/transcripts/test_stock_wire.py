"""Conversations with BookKeeper's own wire, both versions: each answer, and what it left behind."""

import asyncio
import logging
import struct
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any, Final

import pytest
from bookie.ids import LedgerId
from bookie.protocol.availability import EntrySet
from bookie.server.state import BookieState, Phase, ReadOnlyReason
from bookie.server.stock import StockConnection
from bookie.storage.records import Boundary
from bookie.storage.storage import Storage
from bookie.wire.stock import bookkeeper_protocol_pb2 as proto
from bookie.wire.stock.messages import Outcome
from google.protobuf.message import DecodeError
from server_lab import KEY, ME, ServerLab, frame
from stock_changes import Changes, counts, taken_logs
from stock_client import (
    BATCH_READ,
    FENCING,
    NEVER,
    StockClient,
    V2Client,
    V3Client,
    lac_body,
)
from syrupy.assertion import SnapshotAssertion
from transcripts import Words

FEW, MANY = 3, 60
"""Adds at once: parsed one by one, or as a block."""
KEYS: Final = {KEY: "KEY", NEVER: "NEVER", b"": "none"}
OPS_V2: Final = {1: "ADD", 2: "READ", 3: "AUTH", 7: "BATCH"}
CODES_V2: Final = {outcome.v2: outcome.name for outcome in reversed(Outcome)}
"""One number of two codes has the name of the first."""
SHOWN_MAX: Final = 8
"""More answers than these are written down together."""


# ---- what frames say, read from their bytes ------------------------------------------------------


def blob(data: bytes) -> str:
    """A key, an entry, a signed LAC, or just bytes."""
    if data in KEYS:
        return KEYS[data]
    if len(data) < 16:
        return data.hex()
    ids, crc = struct.unpack_from(">qq", data), f"{len(data)} bytes {zlib.crc32(data):08x}"
    if data == lac_body(*ids):
        return f"lac {ids[0]}:{ids[1]}"
    if len(data) < 32 or not 0 < ids[0] < 2000:
        return f"({crc})"
    return f"entry {ids[0]}:{ids[1]} lac {struct.unpack_from('>q', data, 16)[0]} ({crc})"


def listed(data: bytes) -> str:
    """What a list of entries says: a head of 64 bytes, then 24 for each group."""
    groups = [struct.unpack_from(">qqii", data, at) for at in range(64, len(data), 24)]
    return f"{struct.unpack_from('>ii', data)} {groups}"


def fields(message: Any) -> Iterator[str]:
    for field, value in message.ListFields():
        if field.message_type is not None:
            yield f"{field.name}({' '.join(fields(value))})"
        elif field.name == "availabilityOfEntriesOfLedger":
            yield f"{field.name}={listed(value)}"
        elif field.enum_type is not None:
            known = field.enum_type.values_by_number.get(value)
            yield f"{field.name}={known.name if known else value}"
        else:
            yield f"{field.name}={blob(value) if isinstance(value, bytes) else value}"


def v2_words(frame: bytes, *, is_answer: bool) -> str:
    (word,) = struct.unpack_from(">I", frame)
    version, op, flags, at = word >> 24, word >> 16 & 0xFF, word & 0xFFFF, 4
    said = f"v{version} {OPS_V2.get(op, op)}" + (f" flags {flags}" if flags else "")
    if op == 3:
        return f"{said} {' '.join(fields(proto.AuthMessage.FromString(frame[4:])))}"
    if is_answer:
        (code,) = struct.unpack_from(">i", frame, 4)
        said, at = f"{said} {code} {CODES_V2[code]}", 8
    elif op == 1:
        return f"{said} {blob(frame[4:24])} {blob(frame[24:])}"
    said += " {}:{}".format(*struct.unpack_from(">qq", frame, at))
    at += 16
    if op == BATCH_READ:
        shape = ">q" if is_answer else ">qiq"
        said += f" {struct.unpack_from(shape, frame, at)}"
        at += struct.calcsize(shape)
        while is_answer and at < len(frame):
            (size,) = struct.unpack_from(">i", frame, at)
            said, at = f"{said} [{blob(frame[at + 4 : at + 4 + size])}]", at + 4 + size
    return said + (f" {blob(frame[at:])}" if frame[at:] else "")


def words(frame: bytes, *, is_answer: bool) -> str:
    try:
        if frame[:1] != b"\x0a":  # as every message of version 3 begins
            return v2_words(frame, is_answer=is_answer)
        message = (proto.Response if is_answer else proto.Request).FromString(frame)
    except (struct.error, DecodeError):
        return f"? {blob(frame)}"
    said = [one for one in fields(message) if not one.startswith("header(")]
    op = proto.OperationType.Name(message.header.operation)
    return " ".join((f"v3 #{message.header.txnId} {op}", *said))


# ---- what they leave behind ----------------------------------------------------------------------


def record_words(storage: Storage, ledger_id: LedgerId) -> str:
    record, held = storage.record(ledger_id), storage.held(ledger_id)
    ids = " ".join(f"{first}-{last}" for first, last in held.ranges())
    kept = f"held {ids or 'none'}, lac {storage.lac(ledger_id)}"
    if record is None:
        return f"{kept}, no record"
    flags = [name for name in ("fenced", "limbo", "deleted", "noted") if getattr(record, name)]
    flags += ["unchecked"] if storage.is_unchecked(ledger_id) else []
    numbers = record.mark_epoch, record.checked_epoch, record.explicit_lac, record.returns
    key = "no" if record.master_key is None else KEYS.get(record.master_key, "another")
    body = f", body {blob(record.lac_body)}" if record.lac_body else ""
    return f"{kept}, {key} key, {' '.join(flags) or 'no mark'}, {numbers}{body}"


DUTIES: Final = ("register", "write_boot", "barrier", "ledger_ids", "read_ledgers")
"""What the bookie asks of the metadata store by itself, when it comes to it: it says what it is,
confirms its claim, and counts the ledgers that name it while it drains."""


class Talk:
    """Clients of one bookie; each line of `text` is a request, an answer, or what it changed."""

    def __init__(self, server: ServerLab, caplog: pytest.LogCaptureFixture) -> None:
        self.server, self.caplog = server, caplog
        self.lines = list[str]()
        self.clients = dict[str, Any]()
        self.v2: Any = V2Client(None, None)  # type: ignore[arg-type]
        self.v3: Any = V3Client(None, None)  # type: ignore[arg-type]
        self._counted = Changes()
        self._kept = dict[LedgerId, str]()
        """What was last said of each ledger."""
        self._calls = 0

    @property
    def storage(self) -> Storage:
        assert self.server.bookie is not None and self.server.bookie.control.booted is not None
        return self.server.bookie.control.booted.storage

    @property
    def state(self) -> BookieState:
        assert self.server.bookie is not None
        return self.server.bookie.state

    async def tell(self, frame: bytes) -> None:
        """One request in front of the conversation."""
        (client := await self.client("z")).send(frame)
        await client.reader.readexactly(*struct.unpack(">i", await client.reader.readexactly(4)))

    def say(self, *lines: str) -> None:
        self.lines += lines

    async def client(self, name: str = "a") -> StockClient:
        """The one of that name, connected when it is first named."""
        if name not in self.clients:
            assert self.server.bookie is not None
            self.clients[name] = await StockClient.connect(self.server.bookie.ports["stock"])
        return self.clients[name]  # type: ignore[no-any-return]

    async def send(self, *frames: bytes, by: str = "a") -> None:
        """In one write, answers come when they are awaited."""
        shown = [words(frame, is_answer=False) for frame in frames]
        self.say(*self._few([f"{by}> {one}" for one in shown], frames))
        (await self.client(by)).send(*frames)

    async def hear(
        self, count: int = 1, *, by: str = "a", until: str = "\0", in_order: bool = True
    ) -> int:
        """So many answers, or up to one that says `until`, and what is other now; how many."""
        reader, frames = (await self.client(by)).reader, list[bytes]()
        async with asyncio.timeout(30):
            while len(frames) < count and (head := await reader.read(4)):
                frames.append(await reader.readexactly(struct.unpack(">i", head)[0]))
                if until in words(frames[-1], is_answer=True):
                    break
        heard = [
            f"{by}< {words(f, is_answer=True)} | {len(f)} bytes {zlib.crc32(f):08x}" for f in frames
        ]
        self.say(*(self._few(heard, frames) if in_order else sorted(heard)))
        if reader.at_eof():
            self.say(f"{by}< the end")
            (await self.clients.pop(by).close())
        self.say_changes()
        return len(frames)

    def _few(self, lines: list[str], frames: Iterable[bytes]) -> list[str]:
        if len(lines) <= SHOWN_MAX:
            return lines
        whole = b"".join(frames)
        more = f"   ... {len(lines)} of them, {len(whole)} bytes {zlib.crc32(whole):08x}"
        return [lines[0], more, lines[-1]]

    async def ask(self, *frames: bytes, by: str = "a") -> None:
        await self.send(*frames, by=by)
        await self.hear(len(frames), by=by)

    def say_changes(self) -> None:
        """What is other in the ledgers and counters than when this was last called."""
        kept = {i: record_words(self.storage, i) for i in self.storage.ledger_ids()}
        self.say(*(f"   ledger {i}: {kept[i]}" for i in kept if kept[i] != self._kept.get(i)))
        calls = [call for call in self.server.metadata.calls[self._calls :] if call not in DUTIES]
        parts = self._counted.since(counts(self.server.traffic))
        parts += [f"store: {call}" for call in calls]
        if parts:
            self.say("   " + ", ".join(parts))
        self._kept, self._calls = kept, len(self.server.metadata.calls)
        for level, said in taken_logs(self.caplog):
            self.say(f"   {level.lower()}: {said}")

    def forget_changes(self) -> None:
        """What was done until now is not written down."""
        kept = list(self.lines)
        self.say_changes()
        self.lines = kept

    @property
    def text(self) -> str:
        """With what is left under way: nothing, where every count has found its way back."""
        for one in (c for c in self.server.answers.owed if isinstance(c, StockConnection)):
            parts = one._service._operations
            for part in (parts._facts, parts._waits, parts._reads):
                part._check()
            held = (one.reads_under_way, one.reply_bytes, one.bytes_held, len(one._work))
            under_way = (
                parts._facts._waiting, parts._reads._in_flight, len(parts._askers._waiting),
                len(parts._delayed._waiting), len(parts._first_fences._lookups),
            )  # fmt: skip
            if any(held) or any(under_way):
                self.say(f"left: of the connection {held}, of all {under_way}")
        return "\n".join(self.lines) + "\n"


@pytest.fixture
async def talk(
    idle_server: ServerLab, caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest
) -> AsyncIterator[Talk]:
    """With a bookie that serves, calm, in memory mode; a test's parameter may add settings."""
    idle_server.tree["lease"] = {"seconds": 36000, "confirmSeconds": 3600}
    idle_server.tree["storage"] = {"collectIntervalSeconds": 3600}
    for name, more in getattr(request, "param", {}).items():
        idle_server.tree[name] = idle_server.tree.get(name, {}) | more
    await idle_server.start()
    made = Talk(idle_server, caplog)
    caplog.set_level(logging.DEBUG, logger="bookie.server")
    made.forget_changes()
    yield made
    for client in made.clients.values():
        await client.close()


# ---- what every request gets from every kind of ledger -------------------------------------------


async def entries(talk: Talk) -> LedgerId:
    ledger = await talk.server.ledger()
    await talk.server.add(ledger, 0, 3, lac=1)
    return ledger


def marked(
    *, limbo: bool = False, fences_lost: bool = False, is_checked: bool = False
) -> Callable[[Talk], Any]:
    async def make(talk: Talk) -> LedgerId:
        ledger, maintenance = await entries(talk), talk.storage.maintenance
        boundary = Boundary(1, LedgerId(0), frozenset({ledger}))
        maintenance.mark(boundary, [ledger] if limbo else [], fences_lost=fences_lost)
        if is_checked:
            maintenance.finish_unchecked(1)
        return ledger

    return make


def then(change: Callable[[Talk, LedgerId], Any]) -> Callable[[Talk], Any]:
    """A ledger with entries to which that was done."""

    async def make(talk: Talk) -> LedgerId:
        ledger = await entries(talk)
        done = change(talk, ledger)
        if asyncio.iscoroutine(done):
            await done
        return ledger

    return make


async def unknown(talk: Talk) -> LedgerId:
    return LedgerId(1000 + await talk.server.ledger())


def lose(talk: Talk, ledger: LedgerId) -> None:
    lost = EntrySet.from_ids([1, 3])
    talk.storage.maintenance.record_loss(ledger, lost, reason="no copy")


async def holes(talk: Talk) -> LedgerId:
    ledger = await entries(talk)
    await talk.server.add(ledger, 9, lac=8)
    return ledger


async def of_another(talk: Talk) -> LedgerId:
    ledger = await talk.server.ledger()
    await talk.server.send(frame(ledger, 0, 3, lac=1), key=b"x" * 20)
    return ledger


async def lac_alone(talk: Talk) -> LedgerId:
    ledger = await talk.server.ledger()
    await talk.server.pool.write_lac(ME, talk.server.lac_request(ledger, lac=5))
    return ledger


LEDGERS: Final[dict[str, Callable[[Talk], Any]]] = {
    "fresh": lambda talk: talk.server.ledger(),
    "unknown": unknown,
    "entries": entries,
    "holes": holes,
    "lac_alone": lac_alone,
    "lac_signed": then(lambda talk, ledger: talk.tell(talk.v3.write_lac(ledger, 7))),
    "fenced": then(lambda talk, ledger: talk.server.fence(ledger)),
    "limbo": marked(limbo=True),
    "limbo_behind_boundary": marked(limbo=True, fences_lost=True),
    "unchecked": marked(),
    "behind_boundary": marked(fences_lost=True, is_checked=True),
    "deleted": then(lambda talk, ledger: talk.storage.maintenance.delete_ledgers([ledger])),
    "lost": then(lose),
    "of_another": of_another,
}
"""How a ledger comes to be as its name says."""


def fencing_batch(ledger: int, first: int, key: bytes = KEY) -> bytes:
    word = 2 << 24 | BATCH_READ << 16 | FENCING
    return struct.pack(">IqqqIq", word, ledger, first, 78, 2, 1 << 20) + key


def asked_reads(client: V2Client | V3Client) -> Iterator[Callable[[int], bytes]]:
    for entry_id in (0, 1, 3, -1):
        yield lambda n, i=entry_id: client.read(n, i)  # type: ignore[misc]
        yield lambda n, i=entry_id: client.read(n, i, fence=True)  # type: ignore[misc]
    yield lambda n: client.read(n, 0, fence=True, key=NEVER)
    yield lambda n: client.read(n, -1, fence=True, key=NEVER)


def asked_v2(v2: V2Client) -> Iterator[Callable[[int], bytes]]:
    yield lambda n: v2.add(n, 3, lac=2)
    yield lambda n: v2.add(n, 3, key=NEVER)
    yield lambda n: v2.add(n, 4, recovery=True)
    yield lambda n: v2.add(n, 4, recovery=True, key=NEVER)
    yield from asked_reads(v2)
    yield lambda n: v2.batch(n, 0)
    yield lambda n: v2.batch(n, 1, count=1)
    yield lambda n: v2.batch(n, 3)
    yield lambda n: fencing_batch(n, 0)
    yield lambda n: fencing_batch(n, 3)
    yield lambda n: fencing_batch(n, 0, NEVER)


def asked_v3(v3: V3Client) -> Iterator[Callable[[int], bytes]]:
    yield lambda n: v3.add(n, 3, lac=2)
    yield lambda n: v3.add(n, 3, deferred=True)
    yield lambda n: v3.add(n, 3, key=NEVER)
    yield lambda n: v3.add(n, 4, recovery=True)
    yield lambda n: v3.add(n, 4, recovery=True, key=NEVER)
    yield from asked_reads(v3)
    for timeout_ms in (None, 1):
        for previous in (-2, -1, 0, 9):
            yield lambda n, p=previous, ms=timeout_ms: v3.poll(n, previous=p, timeout_ms=ms)  # type: ignore[misc]
        yield lambda n, ms=timeout_ms: v3.poll(  # type: ignore[misc]
            n, previous=0, timeout_ms=ms, piggyback=False, entry_id=1
        )
    yield v3.read_lac
    yield lambda n: v3.write_lac(n, 6)
    yield lambda n: v3.write_lac(n, 0)
    yield lambda n: v3.write_lac(n, 6, key=NEVER)
    yield v3.force
    yield v3.list_entries


@pytest.mark.parametrize("kind", LEDGERS)
@pytest.mark.parametrize("version", [2, 3])
async def test_of_a_ledger(
    talk: Talk, version: int, kind: str, snapshot: SnapshotAssertion
) -> None:
    """Every request, each to a ledger of its own of that kind."""
    for make in asked_v2(talk.v2) if version == 2 else asked_v3(talk.v3):
        ledger = await LEDGERS[kind](talk)
        talk.forget_changes()
        await talk.ask(make(ledger))
    assert snapshot(extension_class=Words) == talk.text


def end_lease(talk: Talk) -> None:
    talk.state.lease_until = -1.0


def stop(talk: Talk) -> None:
    talk.state.phase = Phase.STOPPING


STATES: Final[dict[str, Callable[[Talk], None]]] = {
    "read_only": lambda talk: talk.state.switch_read_only(ReadOnlyReason.PERSON, True),
    "draining": lambda talk: talk.state.switch_read_only(ReadOnlyReason.DRAIN, True),
    "lease_over": end_lease,
    "stopping": stop,
    "store_out": lambda talk: setattr(talk.server.metadata, "is_out", True),
}


@pytest.mark.parametrize("state", STATES)
async def test_of_a_bookie(talk: Talk, state: str, snapshot: SnapshotAssertion) -> None:
    """Every request in both versions, to one that has entries and to one that it never saw."""
    ledgers = {
        make: [await entries(talk), await talk.server.ledger()]
        for make in (*asked_v2(talk.v2), *asked_v3(talk.v3))
    }
    STATES[state](talk)
    talk.forget_changes()
    for make, (held, fresh) in ledgers.items():
        by = "a" if make(held)[0] == 2 else "b"
        await talk.ask(make(held), by=by)
        await talk.ask(make(fresh), by=by)
    for requested in (0, 1):  # not how much is free: that differs with what a sync found to write
        part = proto.GetBookieInfoRequest(requested=requested)
        await talk.ask(talk.v3._request(proto.GET_BOOKIE_INFO, getBookieInfoRequest=part), by="b")
    assert snapshot(extension_class=Words) == talk.text


# ---- when answers come ---------------------------------------------------------------------------

PING: Final = 999
"""Nobody's ledger, which is answered at once: what is not answered before it waits."""
MODES: Final = {
    "memory": {"durability": {"noteIdleFlushes": 1}},
    "sync": {"durability": {"ack": "sync"}},
    "journal": {"durability": {"journalWriteData": True}},
}
of_each_mode = pytest.mark.parametrize("talk", MODES.values(), indirect=True, ids=MODES)


@of_each_mode
@pytest.mark.parametrize("version", [2, 3])
async def test_what_waits_for_the_disk(
    talk: Talk, version: int, snapshot: SnapshotAssertion
) -> None:
    """Each request while no sync ends, then what the syncs let go."""
    make: Any = talk.v2 if version == 2 else talk.v3
    held, fenced, fresh, other = [await entries(talk) for _ in range(2)] + [
        await talk.server.ledger() for _ in range(2)
    ]
    await talk.server.fence(fenced)
    plain = [make.read(ledger, 3) for ledger in (held, fenced, fresh)]
    asked = [
        make.add(held, 3), make.add(held, 3), make.add(held, 1, recovery=True), plain[0],
        make.add(fenced, 3), make.add(fenced, 3, recovery=True), plain[1],
        make.add(fresh, 0), make.add(fresh, 1, key=NEVER), make.add(fresh, 1), plain[2],
        make.read(held, 0, fence=True), make.add(held, 4), make.add(other, 0),
        make.read(other, -1, fence=True), make.add(other, 1), make.read(held, 9, fence=True),
    ]  # fmt: skip
    left = len(asked)
    talk.forget_changes()
    with talk.server.disk.held_syncs():
        for one in asked:
            if one in plain:  # it waits for a thread, not for a disk
                await talk.ask(one)
                left -= 1
            else:
                await talk.send(one, make.read(PING, -1))
                left += 1 - await talk.hear(SHOWN_MAX, until=f"{PING}")
    talk.say(f"the syncs end, {left} wait, which come in any order")
    await talk.hear(left, in_order=False)
    assert snapshot(extension_class=Words) == talk.text
