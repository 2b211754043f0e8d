"""Appends: Apache's stock client on Apache's bookies, and ours on ours, in turn.

1 KiB entries, 3/3/2, CRC32C. Theirs: three stock bookies and the stock client, one JVM each, that
stay for all rounds; at most 2,000 asynchronous adds open over 4 ledgers. Ours: `bench_append`'s
turn with the watermark, beside the same ZooKeeper. `ours_over_apache` compares our entries per
second in the mode that promises what theirs does: with Apache's journal sync (on disk before it is
acknowledged), without it memory. Beside the journal, their default, stands our default as well:
`memory_over_apache`.

What a turn leaves unwritten is written before the next one begins, and counted for its bookies.
Rows only where Maven and a JDK are on PATH.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final

from bookie.client.bookkeeper_client import Client
from bookie.testing.apache import ApacheError

from benchmarks.apache_fleet import (
    ApacheFleet,
    FailedTurnError,
    Load,
    StockClient,
    classpath,
)
from benchmarks.bench_append import SETTLE_S, WATERMARK, Case, turn
from benchmarks.fleet import BOOKIES, Fleet, store_of, workplace
from benchmarks.rows import KIB, MIB, Options, Repeat, Row, size_name

SIZE: Final = KIB
COUNT: Final = Case(SIZE, BOOKIES, "memory", WATERMARK).count
"""Entries of one of their turns: as many as of ours."""
WARM_UPS: Final = 3
"""Turns of theirs before the rounds: JVMs gain speed up to about the 600,000th entry."""
LOAD: Final = Load(SIZE, COUNT, window=2000, ledgers=4)
TRIES_MAX: Final = 3
"""Of one turn of theirs: on a busy machine a bookie may be late, and there is no spare one."""
START_LIMIT_S: Final = 400.0
ROUND_LIMIT_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class Storage:
    """How Apache's bookies keep entries. `modes`: ours to compare it with, its equal first."""

    name: str
    modes: tuple[str, ...]
    settings: Mapping[str, str]


JOURNAL: Final = Storage("journal on, default storage", ("sync", "memory"), {})
NO_JOURNAL: Final = Storage(
    "journal off, DbLedgerStorage",
    ("memory",),
    {
        "journalWriteData": "false",
        "ledgerStorageClass": "org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage",
    },
)


def rows(options: Options) -> Iterator[Row]:
    """None, or fewer, and a line that says why: without Maven or a JDK, or when a JVM failed."""
    try:
        jars = classpath()
        for storage in (JOURNAL, NO_JOURNAL):
            with asyncio.Runner(loop_factory=options.loop) as runner:
                yield from runner.run(measure(storage, jars, options))
    except ApacheError as error:
        print(f"apache: left out, {error}", flush=True)


async def measure(storage: Storage, jars: str, options: Options) -> list[Row]:
    """One row for each wire protocol, of one fleet of theirs."""
    wires = ("v3", "v2") if options.is_full else ("v3",)
    found: dict[str, list[Repeat]] = {wire: [] for wire in wires}
    limit = START_LIMIT_S + (options.rounds + 1) * ROUND_LIMIT_S
    async with asyncio.timeout(limit), _sides(storage, wires, jars, options) as (theirs, ours):
        for _ in range(WARM_UPS):
            await theirs.turns()
        for number in range(options.rounds + 1):
            for wire, repeat in (await _round(theirs, ours)).items():
                if number:  # the first one warms up
                    found[wire].append(repeat)
    return [Row("apache", what(storage, wire), tuple(found[wire])) for wire in wires]


def what(storage: Storage, wire: str) -> str:
    return f"{size_name(SIZE)}, {BOOKIES} bookies, {storage.name}, {wire}"


class Theirs:
    """Apache's fleet and one client for each wire protocol."""

    def __init__(self, fleet: ApacheFleet, wires: tuple[str, ...]) -> None:
        self._fleet = fleet
        self._clients = {wire: fleet.client(wire=wire) for wire in wires}
        self._written = fleet.written_bytes()

    async def turns(self) -> dict[str, Repeat]:
        return {wire: await self._turn(client) for wire, client in self._clients.items()}

    async def _turn(self, client: StockClient) -> Repeat:
        for _ in range(TRIES_MAX - 1):
            try:
                return await self._try(client)
            except FailedTurnError as error:
                print(f"apache: a turn is repeated, {error}", flush=True)
        return await self._try(client)

    async def _try(self, client: StockClient) -> Repeat:
        """As `bench_append.turn`, but the bytes are those since the last one ended."""
        cpu, fleet_cpu = client.cpu_s(), self._fleet.cpu_s()
        told = await asyncio.to_thread(client.turn, LOAD)
        self._fleet.check()
        client_us = (client.cpu_s() - cpu) / told.entries * 1e6
        bookies_us = (self._fleet.cpu_s() - fleet_cpu) / told.entries * 1e6
        await _settle()
        written, self._written = self._written, self._fleet.written_bytes()
        payload = told.entries * SIZE
        return {
            "mib_per_s": payload / MIB / told.seconds,
            "entries_per_s": told.entries / told.seconds,
            "client_us": client_us,
            "bookies_us": bookies_us,
            "disk_bytes_per_byte": (self._written - written) / payload / BOOKIES,
            "resident_mib": self._fleet.resident_bytes() / MIB / BOOKIES,
        }


Ours = Mapping[str, tuple[Client, Fleet]]
"""Durability mode -> our side of it."""


@asynccontextmanager
async def _sides(
    storage: Storage, wires: tuple[str, ...], jars: str, options: Options
) -> AsyncIterator[tuple[Theirs, Ours]]:
    """Both, beside one ZooKeeper; all processes end with it."""
    async with AsyncExitStack() as stack:
        folder, zookeeper = stack.enter_context(workplace(options.directory))
        apache = ApacheFleet(folder, zookeeper=zookeeper, classpath=jars, settings=storage.settings)
        theirs = Theirs(stack.enter_context(apache), wires)
        ours = {}
        for mode in storage.modes:
            fleet = stack.enter_context(Fleet(folder, zookeeper=zookeeper, mode=mode))
            store = await stack.enter_async_context(store_of(fleet))
            ours[mode] = await stack.enter_async_context(Client(store)), fleet
        yield theirs, ours


async def _round(theirs: Theirs, ours: Ours) -> dict[str, Repeat]:
    """One turn of each of their clients, then one of ours in each mode."""
    stock = await theirs.turns()
    rates = {}
    for mode, (client, fleet) in ours.items():
        case = Case(SIZE, BOOKIES, mode, WATERMARK)
        rates[mode] = (await turn(case, client, fleet))["entries_per_s"]
        await _settle()
    return {wire: compared(repeat, rates) for wire, repeat in stock.items()}


async def _settle() -> None:
    """Nobody pays for what the one before left in the page cache."""
    await asyncio.to_thread(os.sync)
    await asyncio.sleep(SETTLE_S)


def compared(stock: Repeat, rates: Mapping[str, float]) -> Repeat:
    """Theirs, with how ours compare. `rates`: our entries/s, the mode that is its equal first."""
    equal, *others = rates
    ours = {"ours_entries_per_s": rates[equal], "ours_over_apache": rates[equal]}
    ours |= {f"{mode}_over_apache": rates[mode] for mode in others}
    over = {name: value / stock["entries_per_s"] for name, value in ours.items() if "over" in name}
    return {**stock, **ours, **over}
