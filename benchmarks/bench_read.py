"""Reads: our client on three real bookies against one bare source of the same bytes, in turn.

A closed ledger (3/3/2, memory mode) is read from its first entry to its last, as an application
does that catches up; every payload is verified against its digest. The probe: one process sends a
file of the bytes that our client would be sent, over loopback, to one receiver (`source`).
`cached`: the page cache and the bookies' rings hold what they can. `from disk`: the bookies were
started anew, and what the page cache held of their log files and of the probe's file was dropped.

The tail: one client appends at a fixed moderate rate, another one follows; `p50_us` and `p99_us`
are from the call of `append` to the entry in the follower's hands. An entry is confirmed to readers
by the LAC that the next one carries, so no reader can have it sooner than one interval plus a
message to the bookies. `ratio`: of the interval plus the median of a bare message to three sinks
until two have answered; less is better there.
"""

import asyncio
import os
import statistics
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final

from bookie.client.bookkeeper_client import Client
from bookie.client.reader import LedgerReader
from bookie.client.writer import LedgerWriter
from bookie.ids import EntryId, LedgerId
from bookie.metadata.store import MetadataStore

from benchmarks.bench_append import wire_block
from benchmarks.fleet import BOOKIES, Fleet, lone_fleet, store_of
from benchmarks.load import append_all, new_ledger
from benchmarks.probes import Sinks, ping
from benchmarks.rows import KIB, MIB, Options, Repeat, Row, over_probe, size_name
from benchmarks.source import Source, forget, receive

GATED_BYTES: Final = 64 * MIB
FULL_BYTES: Final = 256 * MIB
ENTRIES_MAX: Final = 500_000
FIRST: Final = EntryId(0)

TAIL_BYTES: Final = KIB
TAIL_PER_S: Final = 1000
TAIL_S: Final = 6.0
TAIL_SKIPPED: Final = TAIL_PER_S
"""Entries of the first second, which a follower begins before any bookie knows the ledger."""
PINGS: Final = 1000


@dataclass(frozen=True, slots=True)
class Case:
    """One row of catching up."""

    size: int
    payload: int
    is_cold: bool = False

    @property
    def what(self) -> str:
        return f"{size_name(self.size)}, {'from disk' if self.is_cold else 'cached'}"

    @property
    def count(self) -> int:
        return min(self.payload // self.size, ENTRIES_MAX)


GATED: Final = tuple(Case(size, GATED_BYTES) for size in (KIB, 64 * KIB))
FULL: Final = tuple(
    Case(size, FULL_BYTES, is_cold)
    for size in (100, KIB, 4 * KIB, 64 * KIB)
    for is_cold in (False, True)
)


def rows(options: Options) -> Iterator[Row]:
    """Each case with its own turns of the probe; then the tail."""
    with asyncio.Runner(loop_factory=options.loop) as runner:
        yield from runner.run(_measure(FULL if options.is_full else GATED, options))


async def _measure(cases: tuple[Case, ...], options: Options) -> list[Row]:
    with ExitStack() as stack:
        folder, fleet = stack.enter_context(lone_fleet(options.directory))
        sinks = Sinks(folder, count=BOOKIES)
        stack.callback(sinks.stop)
        found = []
        async with store_of(fleet) as store:
            for case in cases:
                block, count = wire_block(case.size, max(MIB // case.size, 1))
                source = Source(folder, name=case.what, block=block, blocks=case.count // count)
                stack.callback(source.stop)
                repeats = await _catch_up(case, fleet, store, source, rounds=options.rounds)
                found.append(Row("read", case.what, tuple(repeats)))
            repeats = [await _tail(store, sinks) for _ in range(options.rounds)]
        what = f"tail, {size_name(TAIL_BYTES)}, {TAIL_PER_S} entries/s"
        return [*found, Row("read", what, tuple(repeats))]


# Catching up
async def _catch_up(
    case: Case, fleet: Fleet, store: MetadataStore, source: Source, *, rounds: int
) -> list[Repeat]:
    async with Client(store) as client:
        ledger_id = await _written(client, case)
    found: list[Repeat] = []
    for number in range(rounds + 1):
        if case.is_cold:
            await _restart(fleet, store)
            source.forget()
        probe = source.total / MIB / receive(source)
        probe *= case.count * case.size / source.total  # of payload
        ours = await _turn(case, fleet, store, ledger_id)
        if number:  # the first round warms up
            found.append(over_probe(ours, probe_mib_per_s=probe))
    await store.delete_ledger(ledger_id)
    return found


async def _written(client: Client, case: Case) -> LedgerId:
    """A closed ledger of the case."""
    writer = await new_ledger(client)
    await append_all(writer, size=case.size, count=case.count)
    await writer.close()
    return writer.ledger_id


async def _restart(fleet: Fleet, store: MetadataStore) -> None:
    """Cleanly, so that all is on the disk; what the page cache has of it is dropped."""
    for bookie in fleet.bookies:
        bookie.stop()
    for number in range(BOOKIES):
        forget(fleet.ledger_directory(number).glob("**/*.log"))
        fleet.restart(number)
    await fleet.until_registered(store)


async def _turn(case: Case, fleet: Fleet, store: MetadataStore, ledger_id: LedgerId) -> Repeat:
    """Read all of it with a client of its own: its connections are part of catching up."""
    cpu, fleet_cpu = time.process_time(), fleet.cpu_s()
    began = time.perf_counter()
    async with Client(store) as client:
        reader = await client.open_ledger(ledger_id)
        entries = size = 0
        async for entry in reader.stream(FIRST, reader.last_entry_id):
            entries += 1
            size += len(entry.payload)
        seconds = time.perf_counter() - began
    assert (entries, size) == (case.count, case.count * case.size)
    return {
        "mib_per_s": size / MIB / seconds,
        "entries_per_s": entries / seconds,
        "client_us": (time.process_time() - cpu) / entries * 1e6,
        "bookies_us": (fleet.cpu_s() - fleet_cpu) / entries * 1e6,
    }


# The tail
async def _tail(store: MetadataStore, sinks: Sinks) -> Repeat:
    block, _count = wire_block(TAIL_BYTES, 1)
    probe_us = await ping(sinks.ports, block, count=PINGS, answers=2) * 1e6 + 1e6 / TAIL_PER_S
    sent: list[float] = []
    async with _writer(store) as writer, Client(store) as client:
        reader = await client.open_ledger(writer.ledger_id)
        following = asyncio.create_task(_follow(reader, sent))
        await _pace(writer, sent)
        await writer.close()
        delays = await following
    await store.delete_ledger(writer.ledger_id)
    assert len(delays) == len(sent)
    delays = delays[TAIL_SKIPPED:]
    p50_us = statistics.median(delays) * 1e6
    return {
        "p50_us": p50_us,
        "p99_us": statistics.quantiles(delays, n=100)[-1] * 1e6,
        "probe_us": probe_us,
        "ratio": p50_us / probe_us,
    }


@asynccontextmanager
async def _writer(store: MetadataStore) -> AsyncIterator[LedgerWriter]:
    async with Client(store) as client:
        yield await new_ledger(client)


async def _follow(reader: LedgerReader, sent: list[float]) -> list[float]:
    """Seconds of each entry from its append to its delivery, until the ledger is closed."""
    return [time.perf_counter() - sent[entry.entry_id] async for entry in reader.tail()]


async def _pace(writer: LedgerWriter, sent: list[float]) -> None:
    """Appends by the clock: one that is late does not delay those after it."""
    payload, began = os.urandom(TAIL_BYTES), time.perf_counter()
    for number in range(int(TAIL_S * TAIL_PER_S)):
        await asyncio.sleep(began + number / TAIL_PER_S - time.perf_counter())
        sent.append(time.perf_counter())
        last = writer.append_many((payload,))
    await writer.wait_acked(last)
