"""`make bench-java`: the stock Java client on three of our bookies, on three of Apache's, in turn.

The same program, settings and machine, 3/3/2, CRC32C; only the bookies differ, in modes that
promise the same: with a journal, and without one (theirs then on DbLedgerStorage, the only storage
on which Apache has protected that). Deep turns hold 2,000 adds open over 4 ledgers; at depth 1 the
next add waits for the last. Prints one JSON object: for each wire, mode and size both sides'
medians and their ratios, ours over theirs: of entries/s more is better, of all else less.

What a turn leaves unwritten is written before the next begins, and counted for its bookies.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bookie.testing.apache import ApacheError
from bookie.testing.figures import code_revision

from benchmarks.apache_fleet import (
    ApacheFleet,
    FailedTurnError,
    Load,
    StockClient,
    classpath,
)
from benchmarks.bench_apache import JOURNAL, NO_JOURNAL, Storage
from benchmarks.bench_append import SETTLE_S
from benchmarks.fleet import BOOKIES, Fleet, store_of, workplace
from benchmarks.rows import KIB, Repeat, size_name

WIRES: Final = ("v3", "v2")
DEEP, ALONE = 2000, 1
TURN_BYTES: Final = 256 * KIB * KIB
"""Payload of a deep turn at most; of small entries fewer."""
DEEP_COUNT_MAX: Final = 200_000
ALONE_COUNT: Final = 1000
WARM_UPS: Final = 3
"""Turns of each client that do not count: JVMs gain speed up to about the 600,000th entry."""
ROUNDS: Final = 3
TRIES_MAX: Final = 3
"""Of one turn: on a busy machine a bookie may be late, and there is no spare one."""
FIGURES: Final = ("entries_per_s", "p50_us", "client_us", "bookies_us", "disk_bytes_per_byte")


@dataclass(frozen=True, slots=True)
class Setting:
    """Bookies that promise the same. `mode`: ours."""

    name: str
    theirs: Storage
    mode: str


SETTINGS: Final = (
    Setting("journal", JOURNAL, "journal"),
    Setting("no journal", NO_JOURNAL, "memory"),
)
LOADS: Final = tuple(
    Load(
        size,
        ALONE_COUNT if window == ALONE else min(TURN_BYTES // size, DEEP_COUNT_MAX),
        window=window,
        ledgers=1 if window == ALONE else 4,
    )
    for size in (100, KIB, 64 * KIB)
    for window in (DEEP, ALONE)
)

AnyFleet = ApacheFleet | Fleet


@dataclass(slots=True)
class Side:
    """Bookies with a client of each wire."""

    fleet: AnyFleet
    clients: Mapping[str, StockClient]
    written: int = 0

    def turn(self, wire: str, load: Load) -> Repeat:
        """One turn, tried again where the client met a bookie that was late."""
        for _ in range(TRIES_MAX - 1):
            try:
                return self._try(wire, load)
            except FailedTurnError as error:
                print(f"a turn is repeated: {error}", file=sys.stderr, flush=True)
        return self._try(wire, load)

    def _try(self, wire: str, load: Load) -> Repeat:
        client = self.clients[wire]
        self.settle()
        cpu, fleet_cpu = client.cpu_s(), self.fleet.cpu_s()
        told = client.turn(load)
        client_us = (client.cpu_s() - cpu) / told.entries * 1e6
        before = self.written
        self.settle()
        return {
            "entries_per_s": told.entries / told.seconds,
            "p50_us": told.p50_us,
            "client_us": client_us,
            "bookies_us": (self.fleet.cpu_s() - fleet_cpu) / told.entries * 1e6,
            "disk_bytes_per_byte": (self.written - before) / told.entries / load.size / BOOKIES,
        }

    def settle(self) -> None:
        os.sync()
        time.sleep(SETTLE_S)
        self.written = self.fleet.written_bytes()


def compared(ours: Mapping[str, float], theirs: Mapping[str, float]) -> dict[str, float]:
    """Ours over theirs, figure by figure."""
    return {figure: round(ours[figure] / theirs[figure], 3) for figure in FIGURES if theirs[figure]}


Result = dict[str, Any]


def measure(setting: Setting, jars: str, directory: Path, *, rounds: int) -> Iterator[Result]:
    """One result for each wire and load."""
    with ExitStack() as stack:
        sides = _sides(setting, jars, directory, stack)
        for side in sides.values():
            for wire in WIRES:
                for _ in range(WARM_UPS):
                    side.turn(wire, Load(KIB, DEEP_COUNT_MAX, window=DEEP, ledgers=4))
        for wire in WIRES:
            for load in LOADS:
                yield _result(setting, wire, load, _rounds(sides, wire, load, rounds=rounds))


def _rounds(
    sides: Mapping[str, Side], wire: str, load: Load, *, rounds: int
) -> dict[str, dict[str, float]]:
    """Medians of each side; its first turn of a load warms up."""
    found: dict[str, list[Repeat]] = {name: [] for name in sides}
    for _ in range(rounds + 1):
        for name, side in sides.items():
            found[name].append(side.turn(wire, load))
    return {
        name: {figure: statistics.median(one[figure] for one in turns[1:]) for figure in FIGURES}
        for name, turns in found.items()
    }


def _result(
    setting: Setting, wire: str, load: Load, found: Mapping[str, dict[str, float]]
) -> Result:
    sides = {
        name: {key: round(value, 2) for key, value in one.items()} for name, one in found.items()
    }
    return {
        "wire": wire,
        "mode": setting.name,
        "entry": size_name(load.size),
        "open": load.window,
        "ratios": compared(found["ours"], found["apache"]),
        **sides,
    }


def _sides(setting: Setting, jars: str, directory: Path, stack: ExitStack) -> dict[str, Side]:
    """Both, beside one ZooKeeper; all processes end with the stack."""
    folder, zookeeper = stack.enter_context(workplace(directory))
    apache = ApacheFleet(
        folder, zookeeper=zookeeper, classpath=jars, settings=setting.theirs.settings
    )
    stack.enter_context(apache)
    ours = stack.enter_context(Fleet(folder, zookeeper=zookeeper, mode=setting.mode))
    asyncio.run(_until_registered(ours))
    clients = {}
    for wire in WIRES:
        clients[wire] = StockClient(
            f"{zookeeper}/{setting.mode}", wire=wire, classpath=jars, folder=folder
        )
        stack.callback(clients[wire].stop)
    theirs = {wire: apache.client(wire=wire) for wire in WIRES}
    return {"apache": Side(apache, theirs), "ours": Side(ours, clients)}


async def _until_registered(fleet: Fleet) -> None:
    async with store_of(fleet):
        pass  # it opens once all of them serve


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.bench_java", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="turns of each side that count")
    modes = [setting.name for setting in SETTINGS]
    parser.add_argument("--mode", choices=modes, action="append", help="of both sides; else all")
    parser.add_argument("--json", type=Path, help="where the object goes as well")
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()))
    chosen = parser.parse_args()
    results = []
    try:
        jars = classpath()
        for setting in (each for each in SETTINGS if each.name in (chosen.mode or modes)):
            for result in measure(setting, jars, chosen.dir, rounds=chosen.rounds):
                print(_line(result), file=sys.stderr, flush=True)
                results.append(result)
    except ApacheError as error:
        sys.exit(f"bench-java: {error}")
    said = json.dumps({"revision": code_revision(), "results": results}, indent=1)
    if chosen.json:
        chosen.json.write_text(said + "\n", encoding="utf-8")
    print(said)
    return 0


def _line(result: Mapping[str, Any]) -> str:
    ratios = ", ".join(f"{figure} {value}" for figure, value in result["ratios"].items())
    return f"{result['wire']}, {result['mode']}, {result['entry']}, {result['open']} open: {ratios}"


if __name__ == "__main__":
    sys.exit(main())
