"""What the index costs at one row per run: taking rows in, committing them, finding them again.

    python benchmarks/bench_index.py [--runs 200000] [--ledgers 20] [--entries 64] [--dir DIR]

Per run: `add` is the event loop's share (memtable), `commit` the checkpoint's (SQLite, synced),
`get` one lookup of a random entry in the index, `scan` reading every row of a ledger. Divide by
`--entries` for the cost per entry. `dict` is a bare dict of lists of tuples doing the same, as the
yardstick of the machine. CPU time of the process and wall time, medians of three rounds.
"""

import argparse
import random
import statistics
import tempfile
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

from bookie.frames.build import build_run
from bookie.frames.entry import ENTRY_HEADER
from bookie.frames.frame import RunFrame, parse_run
from bookie.ids import EntryId, LedgerId
from bookie.storage.disk import RealDisk
from bookie.storage.index import Batch, Index
from bookie.storage.index_rows import RunRow
from bookie.storage.log_scan import Position
from bookie.storage.memtable import Memtable

ROUNDS = 3
ROWS_PER_COMMIT = 50_000
GETS = 20_000
SCANS = 20


def frames(ledgers: int, runs: int, entries: int) -> Iterator[tuple[RunFrame, Position]]:
    """Runs of the ledgers in turn; only headers count here, so that all share one small body."""
    templates = []
    for ledger in range(ledgers):
        bodies = [ENTRY_HEADER.pack(ledger, i, -1, 0) for i in range(entries)]
        templates.append(parse_run(build_run(LedgerId(ledger), EntryId(0), bodies, lac=EntryId(0))))
    for number in range(runs):
        template = templates[number % ledgers]
        first = EntryId(number // ledgers * entries)
        frame = RunFrame(
            template.ledger_id, first, EntryId(first - 1), entries, template.pattern, 0,
            template.buffer,
        )  # fmt: skip
        length = len(template.buffer)
        yield frame, Position(1 + number * length // 2**27, number * length % 2**27, length)


class Meter:
    """CPU and wall seconds of what runs inside, per unit."""

    def __init__(self) -> None:
        self.cpu: dict[str, list[float]] = defaultdict(list)
        self.wall: dict[str, list[float]] = defaultdict(list)

    def measure(self, name: str, units: int, work: Callable[[], object]) -> None:
        cpu, wall = time.process_time(), time.perf_counter()
        work()
        self.cpu[name].append((time.process_time() - cpu) / units * 1e6)
        self.wall[name].append((time.perf_counter() - wall) / units * 1e6)

    def report(self) -> None:
        print(f"{'':>14} {'CPU us':>9} {'wall us':>9}   per run (scan: per row)")
        for name, values in self.cpu.items():
            wall = statistics.median(self.wall[name])
            print(f"{name:>14} {statistics.median(values):9.2f} {wall:9.2f}")


def yardstick(meter: Meter, found: list[tuple[RunFrame, Position]], wanted: list[int]) -> None:
    """The same with nothing but a dict."""
    table: dict[int, list[tuple[int, Position]]] = defaultdict(list)

    def put() -> None:
        for frame, position in found:
            table[frame.ledger_id].append((frame.first_entry_id, position))

    def get() -> None:
        for number in wanted:
            frame = found[number][0]
            rows = table[frame.ledger_id]
            rows[bisect_right(rows, (frame.first_entry_id + 1,)) - 1]

    meter.measure("dict put", len(found), put)
    meter.measure("dict get", len(wanted), get)


def one_round(meter: Meter, folder: Path, found: list[tuple[RunFrame, Position]]) -> int:
    """Adds, commits, gets and scans everything once; bytes of the index at the end."""
    index = Index.open(folder / "index.sqlite", disk=RealDisk())
    wanted = [random.randrange(len(found)) for _ in range(GETS)]
    yardstick(meter, found, wanted)
    ledgers = len({frame.ledger_id for frame, _ in found})
    for start in range(0, len(found), ROWS_PER_COMMIT):
        part, table = found[start : start + ROWS_PER_COMMIT], Memtable()

        def add(part: list[tuple[RunFrame, Position]] = part, table: Memtable = table) -> None:
            for frame, position in part:
                table.add(frame, position)

        def commit(table: Memtable = table) -> None:
            index.commit(Batch(rows=table.ledgers), is_readable=lambda _ledger, _row: True)

        meter.measure("add", len(part), add)
        meter.measure("commit", len(part), commit)

    def get() -> None:
        for number in wanted:
            frame = found[number][0]
            middle = frame.first_entry_id + frame.count // 2
            rows: list[RunRow] = index.rows(frame.ledger_id, first=middle, last=middle)
            assert len(rows) == 1

    meter.measure("get", len(wanted), get)
    rows = len(found) // ledgers * SCANS
    meter.measure("scan", rows, lambda: [index.all_rows(LedgerId(0)) for _ in range(SCANS)])
    meter.measure("live bytes", len(found), index.live_bytes)
    index.close()
    return (folder / "index.sqlite").stat().st_size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200_000)
    parser.add_argument("--ledgers", type=int, default=20)
    parser.add_argument("--entries", type=int, default=64)
    parser.add_argument("--dir", type=Path, default=None, help="where the index lies meanwhile")
    options = parser.parse_args()
    found = list(frames(options.ledgers, options.runs, options.entries))
    meter, size = Meter(), 0
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory(dir=options.dir) as folder:
            size = one_round(meter, Path(folder), found)
    print(f"{options.runs} runs of {options.entries} entries in {options.ledgers} ledgers")
    meter.report()
    entries = options.runs * options.entries
    print(f"index: {size / options.runs:.1f} bytes per run, {size / entries:.2f} per entry")


if __name__ == "__main__":
    main()
