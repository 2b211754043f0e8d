"""Two bookies are killed under many open ledgers, few of which are written: who notices?

Four real bookies (3/3/2, memory mode, flushed every half second). A client opens a thousand
ledgers, writes an entry into each and lets them rest until notes are gone; fifty of them are
written all the time, and fifty others now and then: every three seconds, which some do not do
while the bookie is down. One bookie gets SIGKILL and starts again. `in_doubt` and `limbo` are what
its control plane says of its boot. Then a repair clears what it has, as after any crash, and each
writer appends again: `idle_cut_off` counts the idle ones whose ledger was closed meanwhile,
`active_cut_off` and `slow_cut_off` the others, `copied` the entries that the repair copied.
`active_p99_ms` and `active_max_ms` are over all appends of the fifty from the rest to the end of
the repair.

Once all that has ended, the same is done to a second bookie, by the writers that are left. Those
that replaced the first one have only it to replace the second one with. The figures of this round
begin with `again_`; its `cut_off` do not count again who was cut off in the first one.

The second row is the same where bookies keep no notes, as before there were any. The rows of
`stock_rows` have fewer ledgers, and the stock Java client as their writer, one for each version of
its wire; they are there only where Maven and a JDK are on PATH. Where a refusal comes after the
append's acknowledgement, that client replaces the bookie only when its next append begins, which
may be too late for a slow one.

`first_ms` and `next_ms` are appends to a ledger after a rest and right after that, one at a time,
`sync_first_ms` and `sync_next_ms` those of a fleet that syncs each entry: what a note costs, beside
what a rest costs anyway.
"""

import asyncio
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from bookie.client.bookkeeper_client import Client
from bookie.client.writer import LedgerWriter
from bookie.metadata.store import MetadataStore
from bookie.testing.apache import ApacheError

from benchmarks.apache_fleet import classpath
from benchmarks.bench_boot import health_of
from benchmarks.bench_latency import SIZE as COPIED_SIZE
from benchmarks.bench_latency import mend
from benchmarks.crash_writers import SIZE, Crowd, Opening, Writers, ours, stock
from benchmarks.fleet import BOOKIES, Fleet, epoch_of, store_of, workplace
from benchmarks.load import new_ledger
from benchmarks.rows import Options, Repeat, Row

COUNT: Final = 4
"""One more than an ensemble has: writers can replace the one that is gone."""
OURS: Final = Crowd(active=50, slow=50, idle=900)
STOCK: Final = Crowd(active=50, slow=20, idle=130)
WIRES: Final = ("v3", "v2")
FLUSH_S: Final = 0.5
REST_S: Final = 4.0
"""Longer than notes stay: the flushes that they outlast, and two more."""
BOOT_WAIT_S: Final = 60.0
SINGLES: Final = 15
"""Appends of each kind, one at a time."""
ROUNDS_MAX: Final = 3
NOTES: Final = 2
"""Flushes that a note outlasts."""
CASES: Final[dict[str, int | None]] = {"with notes": NOTES, "without notes": None}


def rows(options: Options) -> Iterator[Row]:
    """Under writers of ours; and what a note costs."""
    with _bench(options) as bench:
        for what, idle_flushes in CASES.items():
            yield bench.row(what, OURS, ours(OURS), idle_flushes)
        yield Row("crash", "first append after a rest", tuple(bench.firsts()))


def stock_rows(options: Options) -> Iterator[Row]:
    """Under writers of the stock client. None, or fewer, and a line that says why: without Maven or
    a JDK, or when a JVM failed."""
    try:
        jars = classpath()
        with _bench(options) as bench:
            for wire in WIRES:
                opening = stock(STOCK, wire=wire, classpath=jars, folder=bench.folder)
                yield bench.row(f"with notes, stock client {wire}", STOCK, opening, NOTES)
    except ApacheError as error:
        print(f"crash: the stock client is left out, {error}", flush=True)


@dataclass(frozen=True, slots=True)
class _Bench:
    """Where fleets are made, and the process that repairs them."""

    runner: asyncio.Runner
    folder: Path
    zookeeper: str
    mender: ProcessPoolExecutor
    rounds: int

    def row(self, what: str, crowd: Crowd, opening: Opening, idle_flushes: int | None) -> Row:
        """A fleet of its own for each repeat: what a crash leaves behind may stay for ever."""
        repeats = []
        for number in range(self.rounds):
            name = f"{what.replace(', ', '-').replace(' ', '-')}-{number}"
            with self.fleet(name, idle_flushes, count=COUNT) as fleet:
                repeats.append(self.runner.run(_crashes(fleet, self.mender, opening)))
        open_ledgers = f"{crowd.total} open ledgers, {crowd.active} active, {crowd.slow} slow"
        return Row("crash", f"{open_ledgers}, {what}", tuple(repeats))

    def fleet(
        self, name: str, idle_flushes: int | None, *, mode: str = "memory", count: int = BOOKIES
    ) -> Fleet:
        """One with a folder and a root of its own, so that none finds what another one left."""
        folder = self.folder / name
        folder.mkdir()
        durability = {
            "journalWriteData": False,
            "ack": mode,
            "flushIntervalSeconds": FLUSH_S,
            "noteIdleFlushes": idle_flushes,
        }
        address, more = f"{self.zookeeper}/{name}", {"durability": durability}
        return Fleet(folder, zookeeper=address, mode=mode, count=count, more=more)

    def firsts(self) -> Iterator[Repeat]:
        """What a note costs."""
        for number in range(self.rounds):
            found: dict[str, float] = {}
            for mode in ("memory", "sync"):
                with self.fleet(f"first-{mode}-{number}", 1, mode=mode) as fleet:
                    found |= self.runner.run(_singles(fleet, mode))
            yield {**found, "first_over_sync": found["first_ms"] / found["sync_first_ms"]}


@contextmanager
def _bench(options: Options) -> Iterator[_Bench]:
    with asyncio.Runner(loop_factory=options.loop) as runner, ExitStack() as stack:
        folder, zookeeper = stack.enter_context(workplace(options.directory))
        mender = stack.enter_context(ProcessPoolExecutor(1, mp_context=get_context("spawn")))
        yield _Bench(runner, folder, zookeeper, mender, min(options.rounds, ROUNDS_MAX))


# Two crashes
async def _crashes(fleet: Fleet, mender: ProcessPoolExecutor, opening: Opening) -> Repeat:
    """The first crash, and the second one of another bookie."""
    async with store_of(fleet) as store, opening(fleet, store) as writers:
        refused = await writers.append_each()
        assert refused.total == 0, refused
        crash = _Crash(fleet, store, mender, writers)
        first = await crash.of(0)
        again = await crash.of(1)
    return {**first, **{f"again_{name}": value for name, value in again.items()}}


@dataclass(frozen=True, slots=True)
class _Crash:
    """What is done to a fleet under writers."""

    fleet: Fleet
    store: MetadataStore
    mender: ProcessPoolExecutor
    writers: Writers

    async def of(self, number: int) -> Repeat:
        """One bookie is killed, comes back and is repaired; the writers that then are left."""
        fleet, store, writers = self.fleet, self.store, self.writers
        victim = fleet.bookie_id(number)
        await writers.write_on()
        await asyncio.sleep(REST_S)
        before = epoch_of((await store.bookies())[victim])
        began = time.perf_counter()
        fleet.bookies[number].kill()
        fleet.restart(number)
        info = await fleet.until_booted_again(store, number, after=before, wait_s=BOOT_WAIT_S)
        health = await health_of(info)
        served_s = time.perf_counter() - began
        loop = asyncio.get_running_loop()
        work = await loop.run_in_executor(self.mender, mend, fleet.url, victim)
        cleared_s = time.perf_counter() - began
        waits = sorted(await writers.rest())
        # What the killed bookie answers to an append comes after the others' acknowledgements: the
        # second append finds it.
        cut_off = await writers.append_each() + await writers.append_each()
        boot = health.boot
        assert boot is not None and not boot.clean, health
        return {
            "in_doubt": boot.ledgers_in_limbo + boot.ledgers_unchecked,
            "limbo": boot.ledgers_in_limbo,
            "idle_cut_off": cut_off.idle,
            "active_cut_off": cut_off.active,
            "slow_cut_off": cut_off.slow,
            "active_p99_ms": 1000 * waits[len(waits) * 99 // 100],
            "active_max_ms": 1000 * waits[-1],
            "copied": work.copied_bytes / COPIED_SIZE,
            "served_s": served_s,
            "cleared_s": cleared_s,
        }


# What a note costs
async def _singles(fleet: Fleet, mode: str) -> dict[str, float]:
    async with store_of(fleet) as store, Client(store) as client:
        writer = await new_ledger(client)
        first, following = [], []
        for _ in range(SINGLES):
            await asyncio.sleep(4 * FLUSH_S)
            first.append(await _timed(writer))
            following.append(await _timed(writer))
    names = ("first_ms", "next_ms") if mode == "memory" else ("sync_first_ms", "sync_next_ms")
    medians = (1000 * statistics.median(found) for found in (first, following))
    return dict(zip(names, medians, strict=True))


async def _timed(writer: LedgerWriter) -> float:
    began = time.perf_counter()
    await writer.append(bytes(SIZE))
    return time.perf_counter() - began
