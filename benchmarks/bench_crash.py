"""A bookie is killed under many open ledgers, few of which are written: who notices?

Four real bookies (3/3/2, memory mode, flushed every half second). A client opens a thousand
ledgers, writes an entry into each and lets them rest until notes are gone; fifty of them are
written all the time, and fifty others now and then: every three seconds, which some do not do
while the bookie is down. One bookie gets SIGKILL and starts again. `in_doubt` and `limbo` are what
its control plane says of its boot. Then a repair clears what it has, as after any crash, and each
writer appends once more: `idle_cut_off` counts the idle ones whose ledger was closed meanwhile,
`active_cut_off` and `slow_cut_off` the others, `copied` the entries that the repair copied.
`active_p99_ms` is over all appends of the fifty during crash, boot and repair.

The second row is the same where bookies keep no notes, as before there were any. `first_ms` and
`next_ms` are appends to a ledger after a rest and right after that, one at a time, `sync_first_ms`
and `sync_next_ms` those of a fleet that syncs each entry: what a note costs, beside what a rest
costs anyway.
"""

import asyncio
import statistics
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from bookie.client.bookkeeper_client import Client
from bookie.client.writer import LedgerWriter
from bookie.errors import BookieError

from benchmarks.bench_boot import health_of
from benchmarks.bench_latency import SIZE as COPIED_SIZE
from benchmarks.bench_latency import mend
from benchmarks.fleet import BOOKIES, Fleet, epoch_of, store_of, workplace
from benchmarks.load import new_ledger
from benchmarks.rows import KIB, Options, Repeat, Row

COUNT: Final = 4
"""One more than an ensemble has: writers can replace the one that is gone."""
LEDGERS: Final = 1000
ACTIVE: Final = 50
SLOW: Final = 50
AT_ONCE: Final = 50
"""Ledgers that are opened, or written, side by side."""
SIZE: Final = KIB
FLUSH_S: Final = 0.5
REST_S: Final = 4.0
"""Longer than notes stay: the flushes that they outlast, and two more."""
PAUSE_S: Final = 0.1
"""Between two appends of an active writer."""
SLOW_PAUSE_S: Final = 3.0
"""Between two appends of a slow one: longer than a bookie is down, and not longer than that and a
repair's grace."""
BOOT_WAIT_S: Final = 60.0
SINGLES: Final = 15
"""Appends of each kind, one at a time."""
ROUNDS_MAX: Final = 3
CASES: Final[dict[str, int | None]] = {"with notes": 2, "without notes": None}


def rows(options: Options) -> Iterator[Row]:
    """A fleet of its own for each repeat: a boundary stays for ever."""
    with asyncio.Runner(loop_factory=options.loop) as runner, ExitStack() as stack:
        folder, zookeeper = stack.enter_context(workplace(options.directory))
        mender = stack.enter_context(ProcessPoolExecutor(1, mp_context=get_context("spawn")))
        for what, idle_flushes in CASES.items():
            repeats = []
            for number in range(min(options.rounds, ROUNDS_MAX)):
                name = f"{what.replace(' ', '-')}-{number}"
                with _fleet(folder / name, zookeeper, idle_flushes, count=COUNT) as fleet:
                    repeats.append(runner.run(_crash(fleet, mender)))
            yield Row(
                "crash",
                f"{LEDGERS} open ledgers, {ACTIVE} active, {SLOW} slow, {what}",
                tuple(repeats),
            )
        yield Row(
            "crash", "first append after a rest", tuple(_first(options, runner, folder, zookeeper))
        )


def _fleet(
    folder: Path,
    zookeeper: str,
    idle_flushes: int | None,
    *,
    mode: str = "memory",
    count: int = BOOKIES,
) -> Fleet:
    """One with a folder and a root of its own, so that none finds what another one left."""
    folder.mkdir()
    durability = {
        "journalWriteData": False,
        "ack": mode,
        "flushIntervalSeconds": FLUSH_S,
        "noteIdleFlushes": idle_flushes,
    }
    address, more = f"{zookeeper}/{folder.name}", {"durability": durability}
    return Fleet(folder, zookeeper=address, mode=mode, count=count, more=more)


async def _crash(fleet: Fleet, mender: ProcessPoolExecutor) -> Repeat:
    loop = asyncio.get_running_loop()
    async with store_of(fleet) as store, Client(store) as client:
        writers = [await new_ledger(client) for _ in range(LEDGERS)]
        await _append_each(writers)
        idle = writers[ACTIVE + SLOW :]
        active = [asyncio.create_task(_write_on(one, PAUSE_S)) for one in writers[:ACTIVE]]
        slow = [
            asyncio.create_task(_write_on(one, SLOW_PAUSE_S))
            for one in writers[ACTIVE : ACTIVE + SLOW]
        ]
        await asyncio.sleep(REST_S)
        victim = fleet.bookie_id(0)
        before = epoch_of((await store.bookies())[victim])
        began = time.perf_counter()
        fleet.bookies[0].kill()
        fleet.restart(0)
        info = await fleet.until_booted_again(store, 0, after=before, wait_s=BOOT_WAIT_S)
        health = await health_of(info)
        served_s = time.perf_counter() - began
        work = await loop.run_in_executor(mender, mend, fleet.url, victim)
        cleared_s = time.perf_counter() - began
        for task in (*active, *slow):
            task.cancel()
        ended = await asyncio.gather(*active)
        await asyncio.gather(*slow)
        idle_cut_off = await _append_each(idle)
        # What the killed bookie answers to an append comes after the others' acknowledgements.
        active_cut_off = await _append_each(writers[:ACTIVE])
        slow_cut_off = await _append_each(writers[ACTIVE : ACTIVE + SLOW])
    boot = health.boot
    assert boot is not None and not boot.clean, health
    waits = sorted(wait for found in ended for wait in found)
    return {
        "in_doubt": boot.ledgers_in_limbo + boot.ledgers_unchecked,
        "limbo": boot.ledgers_in_limbo,
        "idle_cut_off": idle_cut_off,
        "active_cut_off": active_cut_off,
        "slow_cut_off": slow_cut_off,
        "active_p99_ms": 1000 * waits[len(waits) * 99 // 100],
        "copied": work.copied_bytes / COPIED_SIZE,
        "served_s": served_s,
        "cleared_s": cleared_s,
    }


async def _append_each(writers: Sequence[LedgerWriter]) -> int:
    """One entry into each; how many were refused."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(writer: LedgerWriter) -> bool:
        async with slots:
            try:
                await writer.append(bytes(SIZE))
            except BookieError:
                return True
        return False

    return sum(await asyncio.gather(*map(one, writers)))


async def _write_on(writer: LedgerWriter, pause_s: float) -> list[float]:
    """Append until it is cancelled, or refused; how long each append took."""
    waits: list[float] = []
    try:
        while True:
            began = time.perf_counter()
            await writer.append(bytes(SIZE))
            waits.append(time.perf_counter() - began)
            await asyncio.sleep(pause_s)
    except (asyncio.CancelledError, BookieError):
        return waits


# What a note costs
def _first(
    options: Options, runner: asyncio.Runner, folder: Path, zookeeper: str
) -> Iterator[Repeat]:
    for number in range(min(options.rounds, ROUNDS_MAX)):
        found: dict[str, float] = {}
        for mode in ("memory", "sync"):
            with _fleet(folder / f"first-{mode}-{number}", zookeeper, 1, mode=mode) as fleet:
                found |= runner.run(_singles(fleet, mode))
        yield {**found, "first_over_sync": found["first_ms"] / found["sync_first_ms"]}


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
