"""Scale: one bookie with 100,000 open ledgers, and a ledger that is larger than its memory.

Two bookies in memory mode. One of them takes a run of a few small entries for each of the ledgers,
then one more for each in another order; then a few of the ledgers get a run, which is what a
checkpoint of little costs while there are many. Frames go straight to the bookie, at most
`IN_FLIGHT` unanswered: the ledgers need no metadata for that, and no collection runs meanwhile.
Memory is told after a checkpoint, and after one ledger has filled the ring and the allocator.

The same stream into one ledger then goes to the full bookie and to the empty one in turns; `ratio`
is that of their rates.

The large ledger is several times all that a bookie may hold of it (ring, rows of the index), and is
read at random after a restart with a cold page cache. `grown_mib`: resident memory at its end over
that after its first sixteenth, when ring and buffers are in use.

In the whole table only, or by name.
"""

import asyncio
import random
import shutil
import statistics
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from bookie.client.bookkeeper_client import Client
from bookie.client.pool import BookiePool
from bookie.frames.build import build_run
from bookie.frames.entry import ENTRY_HEADER
from bookie.ids import NO_ENTRY, BookieId, EntryId, LedgerId
from bookie.metadata.store import MetadataStore
from bookie.protocol.status import Status
from bookie.wire.native import LacRequest

from benchmarks.fleet import Fleet, lone_fleet, store_of
from benchmarks.load import append_all
from benchmarks.rows import KIB, MIB, Options, Repeat, Row, size_name
from benchmarks.source import forget

LEDGERS: Final = 100_000
ENTRIES: Final = 4
"""Of one run: what a slow writer's entries are joined to on their way."""
SIZE: Final = 100
IN_FLIGHT: Final = 512
KEY: Final = bytes(20)
FEW: Final = 1000
"""Ledgers that change before the checkpoint of little."""
FULL, EMPTY = 0, 1
"""Bookies."""
SHUFFLE_SEED: Final = 6
ROUNDS_MAX: Final = 3

ONE_ENTRIES: Final = 64
ONE_SIZE: Final = KIB
ONE_RUNS: Final = 2048
ONE_TURNS: Final = 5
WARM_UP: Final = LedgerId(LEDGERS + 1)
ONE: Final = LedgerId(LEDGERS + 2)

LARGE_BYTES: Final = 1536 * MIB
LARGE_PARTS: Final = 16
READS: Final = 2000
FREE_BYTES: Final = 4 * LARGE_BYTES
"""Room on the disk without which nothing is begun."""

MIXED: Final = {"storage": {"collectIntervalSeconds": 86400.0}}


@dataclass(frozen=True, slots=True)
class Group:
    """Ledgers that get a run each, from `first` on."""

    ledgers: tuple[LedgerId, ...]
    first: EntryId

    def frames(self) -> Iterator[bytearray]:
        return (_frame(one, self.first, ENTRIES, size=SIZE) for one in self.ledgers)

    @property
    def payload(self) -> int:
        return len(self.ledgers) * ENTRIES * SIZE


def rows(options: Options) -> Iterator[Row]:
    """Fresh bookies for each repeat."""
    free = shutil.disk_usage(options.directory).free
    if free < FREE_BYTES:
        raise SystemExit(f"{options.directory}: {free} bytes are free, the scale rows take a part "
                         f"of {FREE_BYTES}")  # fmt: skip
    rounds = range(min(options.rounds, ROUNDS_MAX))
    with asyncio.Runner(loop_factory=options.loop) as runner:
        found = [runner.run(_many(options)) for _ in rounds]
        for what in found[0]:
            yield Row("scale", what, tuple(one[what] for one in found))
        yield Row("scale", _large_name(), tuple(runner.run(_large(options)) for _ in rounds))


# Many ledgers
async def _many(options: Options) -> dict[str, Repeat]:
    with lone_fleet(options.directory, count=2, more=MIXED) as (_folder, fleet):
        async with store_of(fleet) as store:
            pool = BookiePool(store)
            try:
                return await _Many(fleet, pool).measure()
            finally:
                await pool.close()


class _Many:
    """One repeat: a full and an empty bookie."""

    def __init__(self, fleet: Fleet, pool: BookiePool) -> None:
        self._fleet = fleet
        self._pool = pool

    async def measure(self) -> dict[str, Repeat]:
        ledgers = [LedgerId(number) for number in range(1, LEDGERS + 1)]
        for number in (FULL, EMPTY):
            await self._stream(number, WARM_UP)
            await self._checkpoint(number)
        before = self._fleet.bookies[FULL].resident_bytes()
        found: dict[str, Repeat] = {}
        for name in ("first", "second"):
            group = Group(tuple(ledgers), EntryId(0 if name == "first" else ENTRIES))
            passed = await self._pass(group)
            grown = self._fleet.bookies[FULL].resident_bytes() - before
            found[f"{LEDGERS} ledgers, {name} run of each"] = {
                **passed, "resident_bytes_per_ledger": grown / LEDGERS
            }  # fmt: skip
            random.Random(SHUFFLE_SEED).shuffle(ledgers)
        found[f"{FEW} of {LEDGERS} ledgers"] = await self._pass(
            Group(tuple(ledgers[:FEW]), EntryId(2 * ENTRIES))
        )
        found[f"one ledger beside {LEDGERS}"] = await self._beside()
        return found

    async def _pass(self, group: Group) -> Repeat:
        bookie, entries = self._fleet.bookies[FULL], len(group.ledgers) * ENTRIES
        cpu, disk, began = bookie.cpu_s(), bookie.written_bytes(), time.perf_counter()
        await send(self._pool, self._fleet.bookie_id(FULL), group.frames())
        seconds, adds_cpu = time.perf_counter() - began, bookie.cpu_s() - cpu
        checkpoint_s = await self._checkpoint(FULL)
        return {
            "entries_per_s": entries / seconds,
            "bookies_us": adds_cpu / entries * 1e6,
            "checkpoint_ms": checkpoint_s * 1000,
            "cpu_us_with_checkpoint": (bookie.cpu_s() - cpu) / entries * 1e6,
            "disk_bytes_per_byte": (bookie.written_bytes() - disk) / group.payload,
        }

    async def _beside(self) -> Repeat:
        seconds: dict[int, list[float]] = {FULL: [], EMPTY: []}
        cpu_s = {FULL: 0.0, EMPTY: 0.0}
        for turn in range(ONE_TURNS):
            for number in (FULL, EMPTY) if turn % 2 else (EMPTY, FULL):
                cpu = self._fleet.bookies[number].cpu_s()
                seconds[number].append(await self._stream(number, LedgerId(ONE + turn)))
                cpu_s[number] += self._fleet.bookies[number].cpu_s() - cpu
        count = ONE_RUNS * ONE_ENTRIES
        full, empty = (count / statistics.median(seconds[number]) for number in (FULL, EMPTY))
        return {
            "entries_per_s": full,
            "empty_entries_per_s": empty,
            "ratio": full / empty,
            "bookies_us": cpu_s[FULL] / ONE_TURNS / count * 1e6,
            "empty_bookies_us": cpu_s[EMPTY] / ONE_TURNS / count * 1e6,
        }

    async def _stream(self, number: int, ledger_id: LedgerId) -> float:
        """Seconds of the adds to one ledger."""
        firsts = range(0, ONE_RUNS * ONE_ENTRIES, ONE_ENTRIES)
        frames = [_frame(ledger_id, EntryId(i), ONE_ENTRIES, size=ONE_SIZE) for i in firsts]
        began = time.perf_counter()
        await send(self._pool, self._fleet.bookie_id(number), frames)
        return time.perf_counter() - began

    async def _checkpoint(self, number: int) -> float:
        began = time.perf_counter()
        status = await self._pool.force(self._fleet.bookie_id(number), LacRequest(WARM_UP, KEY))
        assert status is Status.OK
        return time.perf_counter() - began


def _frame(ledger_id: LedgerId, first: EntryId, count: int, *, size: int) -> bytearray:
    """The digest is left out: a bookie does not look at it."""
    payload = bytes(4 + size)
    entries = [ENTRY_HEADER.pack(ledger_id, first + i, -1, 0) + payload for i in range(count)]
    return build_run(ledger_id, first, entries, lac=NO_ENTRY)


async def send(pool: BookiePool, bookie_id: BookieId, frames: Iterable[bytearray]) -> None:
    """All of them to one bookie, in order; returns when every one is acknowledged."""
    room = asyncio.Semaphore(IN_FLIGHT)

    def answered(status: Status) -> None:
        assert status is Status.OK, status
        room.release()

    for frame in frames:
        await room.acquire()
        pool.add_run(bookie_id, master_key=KEY, frame=frame, on_reply=answered)
    for _ in range(IN_FLIGHT):
        await room.acquire()


# A large ledger
def _large_name() -> str:
    return f"one ledger of {LARGE_BYTES // MIB} MiB, {size_name(KIB)}"


async def _large(options: Options) -> Repeat:
    with lone_fleet(options.directory, count=1) as (_folder, fleet):
        async with store_of(fleet) as store:
            ledger_id, wrote = await _write_large(fleet, store)
            fleet.bookies[0].stop()
            forget(fleet.ledger_directory(0).glob("**/*.log"))
            fleet.restart(0)
            await fleet.until_registered(store)
            return {**wrote, **await _read_large(fleet, store, ledger_id)}


async def _write_large(fleet: Fleet, store: MetadataStore) -> tuple[LedgerId, Repeat]:
    count, disk = LARGE_BYTES // KIB // LARGE_PARTS, fleet.written_bytes()
    early = 0
    async with Client(store) as client:
        writer = await client.create_ledger(ensemble_size=1, write_quorum=1, ack_quorum=1)
        began = time.perf_counter()
        for _ in range(LARGE_PARTS):
            await writer.wait_acked(await append_all(writer, size=KIB, count=count))
            early = early or fleet.resident_bytes()
        seconds = time.perf_counter() - began
        await writer.close()
        resident = fleet.resident_bytes()
    return writer.ledger_id, {
        "mib_per_s": LARGE_BYTES / MIB / seconds,
        "disk_bytes_per_byte": (fleet.written_bytes() - disk) / LARGE_BYTES,
        "resident_mib": resident / MIB,
        "grown_mib": (resident - early) / MIB,
    }


async def _read_large(fleet: Fleet, store: MetadataStore, ledger_id: LedgerId) -> Repeat:
    """Entries at random, one at a time, from a bookie that has just started."""
    chosen, before, times = random.Random(SHUFFLE_SEED), fleet.resident_bytes(), []
    async with Client(store) as client:
        reader = await client.open_ledger(ledger_id)
        for _ in range(READS):
            wanted = EntryId(chosen.randrange(LARGE_BYTES // KIB))
            began = time.perf_counter()
            (entry,) = await reader.read(wanted, wanted)
            times.append(time.perf_counter() - began)
            assert (entry.entry_id, len(entry.payload)) == (wanted, KIB)
    return {
        "p50_us": statistics.median(times) * 1e6,
        "p99_us": statistics.quantiles(times, n=100)[-1] * 1e6,
        "read_grown_mib": (fleet.resident_bytes() - before) / MIB,
    }
