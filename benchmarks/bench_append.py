"""Appends: our client on real bookies against a bare fan-out to disk, in turn.

One sender pushes about the bytes that our client would send to one or three sinks, which write them
to disk with direct writes (`probes`). Then the client appends the same payload to bookies of every
durability mode (one: 1/1/1; three: ensemble 3, write quorum 3, ack quorum 2). All take turns within
one repeat; what counts is their ratio there. With the watermark, `append_many` and one wait for the
last entry; at depth n a future for each entry and at most n of them open. In memory mode up to a
ring (32 MiB a bookie) may still be on its way to the disk at the end: that is what the mode means.
"""

import asyncio
import os
import statistics
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from typing import Final

from bookie.client.bookkeeper_client import Client
from bookie.client.writer import LedgerWriter
from bookie.frames.build import build_run
from bookie.frames.entry import ENTRY_HEADER
from bookie.ids import EntryId, LedgerId

from benchmarks.fleet import BOOKIES, MODES, Fleet, store_of, workplace
from benchmarks.load import append_all
from benchmarks.probes import Sinks, ping, stream
from benchmarks.rows import KIB, MIB, Options, Repeat, Row, over_probe, size_name

FANS: Final = {1: (1, 1, 1), BOOKIES: (3, 3, 2)}
WATERMARK: Final = 0
"""The depth of an append without a future for each entry."""
SETTLE_S: Final = 0.3
"""After a turn: flushers write out what they hold before the next one is measured."""


@dataclass(frozen=True, slots=True)
class Case:
    """One row. `mib`: payload of a turn; of deep and shallow futures less, they are slower."""

    size: int
    bookies: int
    mode: str
    depth: int

    @property
    def what(self) -> str:
        depth = f"depth {self.depth}" if self.depth else "watermark"
        return f"{size_name(self.size)}, {_bookies(self.bookies)}, {self.mode}, {depth}"

    @property
    def count(self) -> int:
        """Entries of a turn; one by one in memory for most of a second: at first all caches are
        cold, and a tenth of it is one whim of the scheduler.
        """
        if self.depth == 1:
            return min(64 * MIB // self.size, 10_000) if self.mode == "memory" else 1000
        payload = 256 * MIB if not self.depth else 64 * MIB if self.depth > 64 else 16 * MIB
        return min(payload // self.size, 100_000 if self.depth else 2_000_000)


GATED: Final = (
    *(Case(size, BOOKIES, mode, WATERMARK) for size in (KIB, 64 * KIB) for mode in MODES),
    Case(KIB, 1, "memory", WATERMARK),
    Case(KIB, BOOKIES, "memory", 1024),
    Case(KIB, BOOKIES, "memory", 1),
)
FULL: Final = tuple(
    Case(size, bookies, mode, depth)
    for size in (100, KIB, 4 * KIB, 64 * KIB)
    for bookies in FANS
    for depth in (WATERMARK, 1, 64, 1024)
    for mode in MODES
)


def rows(options: Options) -> Iterator[Row]:
    """All cases of one size and fan share their probe's turns."""
    cases = FULL if options.is_full else GATED
    groups: dict[tuple[int, int], list[Case]] = {}
    for case in cases:
        groups.setdefault((case.size, case.bookies), []).append(case)
    for together in groups.values():
        with asyncio.Runner(loop_factory=options.loop) as runner:
            yield from runner.run(_measure(together, options))


async def _measure(cases: list[Case], options: Options) -> list[Row]:
    with ExitStack() as stack:
        folder, zookeeper = stack.enter_context(workplace(options.directory))
        sinks = Sinks(folder, count=BOOKIES)
        stack.callback(sinks.stop)
        modes = dict.fromkeys(case.mode for case in cases)
        fleets = {
            mode: stack.enter_context(Fleet(folder, zookeeper=zookeeper, mode=mode))
            for mode in modes
        }
        repeats = await _repeats(cases, fleets, sinks, rounds=options.rounds)
    return [Row("append", case.what, tuple(repeats[case])) for case in cases]


async def _repeats(
    cases: list[Case], fleets: Mapping[str, Fleet], sinks: Sinks, *, rounds: int
) -> dict[Case, list[Repeat]]:
    found: dict[Case, list[Repeat]] = {case: [] for case in cases}
    async with AsyncExitStack() as stack:
        clients: dict[str, Client] = {}
        for mode, fleet in fleets.items():
            store = await stack.enter_async_context(store_of(fleet))
            clients[mode] = await stack.enter_async_context(Client(store))
        for number in range(rounds + 1):
            for case, ours in await _round(cases, clients, fleets, sinks):
                if number:  # the first one warms up
                    found[case].append(ours)
    return found


async def _round(
    cases: list[Case], clients: Mapping[str, Client], fleets: Mapping[str, Fleet], sinks: Sinks
) -> list[tuple[Case, Repeat]]:
    """One turn of every case and of each kind of probe."""
    probes: dict[bool, float] = {}
    found = []
    for case in cases:
        if (case.depth == 1) not in probes:
            probes[case.depth == 1] = await _probe(case, sinks)
        ours = await turn(case, clients[case.mode], fleets[case.mode])
        await asyncio.sleep(SETTLE_S)
        found.append((case, _compared(case, ours, probe=probes[case.depth == 1])))
    return found


def _compared(case: Case, ours: Repeat, *, probe: float) -> Repeat:
    """`ratio`: of the probe's rate; at depth 1 of its time, so that less is better there."""
    if case.depth == 1:
        return {**ours, "probe_p50_us": probe * 1e6, "ratio": ours["p50_us"] / (probe * 1e6)}
    return over_probe(ours, probe_mib_per_s=probe)


# The probe
async def _probe(case: Case, sinks: Sinks) -> float:
    """MiB/s of payload to each sink; at depth 1 the median seconds of one entry."""
    ports = sinks.ports[: case.bookies]
    block, count = wire_block(case.size, 1 if case.depth == 1 else max(MIB // case.size, 1))
    if case.depth == 1:
        return await ping(ports, block, count=case.count, answers=FANS[case.bookies][2])
    blocks = max(256 * MIB // (count * case.size), 1)
    seconds = stream(ports, block, total=len(block) * blocks)
    return blocks * count * case.size / MIB / seconds


def wire_block(size: int, count: int) -> tuple[bytes, int]:
    """So many entries as our client would send them."""
    entries = [ENTRY_HEADER.pack(1, i, -1, 0) + bytes(4) + os.urandom(size) for i in range(count)]
    return bytes(build_run(LedgerId(1), EntryId(0), entries, lac=EntryId(-1))), count


# Our side
async def turn(case: Case, client: Client, fleet: Fleet) -> Repeat:
    """Append to a new ledger until the last entry is acknowledged."""
    ensemble, write, ack = FANS[case.bookies]
    writer = await client.create_ledger(ensemble_size=ensemble, write_quorum=write, ack_quorum=ack)
    cpu, fleet_cpu, disk = time.process_time(), fleet.cpu_s(), fleet.written_bytes()
    began = time.perf_counter()
    latency = await _append(writer, case)
    seconds = time.perf_counter() - began
    client_us = (time.process_time() - cpu) / case.count * 1e6
    bookies_us = (fleet.cpu_s() - fleet_cpu) / case.count * 1e6
    await writer.close()
    await client.delete_ledger(writer.ledger_id)
    payload = case.count * case.size
    return {
        "mib_per_s": payload / MIB / seconds,
        "entries_per_s": case.count / seconds,
        "client_us": client_us,
        "bookies_us": bookies_us,
        "disk_bytes_per_byte": (fleet.written_bytes() - disk) / payload / case.bookies,
        "resident_mib": fleet.resident_bytes() / MIB / case.bookies,
        **latency,
    }


async def _append(writer: LedgerWriter, case: Case) -> Repeat:
    if case.depth == WATERMARK:
        await writer.wait_acked(await append_all(writer, size=case.size, count=case.count))
        return {}
    if case.depth == 1:
        return await _one_by_one(writer, case)
    payload, pending = os.urandom(case.size), deque[asyncio.Future[EntryId]]()
    for _ in range(case.count):
        if len(pending) == case.depth:
            await pending.popleft()
        pending.append(writer.append(payload))
    await asyncio.gather(*pending)
    return {}


async def _one_by_one(writer: LedgerWriter, case: Case) -> Repeat:
    payload, times = os.urandom(case.size), []
    for _ in range(case.count):
        began = time.perf_counter()
        await writer.append(payload)
        times.append(time.perf_counter() - began)
    return {
        "p50_us": statistics.median(times) * 1e6,
        "p99_us": statistics.quantiles(times, n=100)[-1] * 1e6,
    }


def _bookies(count: int) -> str:
    return "1 bookie" if count == 1 else f"{count} bookies"
