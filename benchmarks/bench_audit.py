"""`make bench-audit`: what an audit costs, by entries, runs and ledgers, on either engine.

Each row is an audit of a synthetic cluster (`synthetic`) in a process of its own, from the list of
ledgers to the result object, through the product's data source and, on Spark, its job. Processor
time and memory are those of the whole process tree. Start-up is the same audit of two ledgers.
Every audit has to find exactly the losses that were planted. `--publish` puts the table into
docs/audit.md; exit code 1: a target is missed.
"""

import argparse
import asyncio
import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, Final

from bookie.protocol.availability import GROUP, HEADER_BYTES
from bookie.repair.engine.choice import INLINE, SPARK_LOCAL
from bookie.repair.jobs import audit_job
from bookie.repair.jobs.audit_job import AuditRequest
from bookie.repair.jobs.job import open_engine
from bookie.testing.figures import code_revision

from benchmarks.process_tree import Used, measured
from benchmarks.synthetic import Shape, SyntheticSource, open_synthetic

LEDGERS: Final = 100_000
DAMAGED: Final = 100
TWO_LEDGERS: Final = Shape(ledgers=2, entries=200)
ENGINES: Final = (INLINE, SPARK_LOCAL)
BYTES_MAX: Final = 3 << 30
CPU_S_MAX: Final = {INLINE: 1.0, SPARK_LOCAL: 10.0}
"""Beyond start-up, of 1e9 entries."""
TRIES: Final = {INLINE: 3, SPARK_LOCAL: 1}
"""The least of them counts: a busy neighbour costs short runs as much as they need themselves."""
STARTUP_TRIES: Final = 3
RESULTS: Final = Path(__file__).with_name("audit.json")
DOCS: Final = Path(__file__).parents[1] / "docs/audit.md"
SHAPES: Final = {
    "1e8 entries": Shape(LEDGERS, 10**8, DAMAGED),
    "1e9 entries": Shape(LEDGERS, 10**9, DAMAGED),
    "1e10 entries": Shape(LEDGERS, 10**10, DAMAGED),
    "1e9 entries, 1,000 losses": Shape(LEDGERS, 10**9, 1000),
    "1e9 entries, striped 3 of 5": Shape(LEDGERS, 10**9, DAMAGED, ensemble=5),
    "1e9 entries, 100 runs a copy": Shape(LEDGERS, 10**9, DAMAGED, runs=100),
    "1e10 entries, 1,000,000 ledgers": Shape(10 * LEDGERS, 10**10, DAMAGED),
}


@dataclass(frozen=True, slots=True)
class Row:
    """One audit. `cpu_s` is all of it, `startup_cpu_s` that of an audit of two ledgers."""

    what: str
    engine: str
    ledgers: int
    entries: int
    runs: int
    cpu_s: float
    startup_cpu_s: float
    wall_s: float
    peak_mib: float

    @property
    def net_s(self) -> float:
        return self.cpu_s - self.startup_cpu_s

    @property
    def is_held(self) -> bool:
        in_time = self.what != "1e9 entries" or self.net_s <= CPU_S_MAX[self.engine]
        return in_time and self.peak_mib * (1 << 20) < BYTES_MAX


def main() -> int:
    chosen = _arguments()
    if chosen.one is not None:
        print(json.dumps(asyncio.run(audit_once(chosen.one, chosen.engine))))
        return 0
    rows = merged(chosen.json, measure(chosen.only))
    chosen.json.write_text(json.dumps(_results(rows), indent=1) + "\n", encoding="utf-8")
    print(table(rows))
    if chosen.publish:
        publish(rows)
    return 0 if all(row.is_held for row in rows) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.bench_audit", description=__doc__)
    parser.add_argument(
        "--only", default="", metavar="WORDS", help="measure rows with WORDS in theirs anew"
    )
    parser.add_argument("--json", type=Path, default=RESULTS, help="where the figures go")
    parser.add_argument("--publish", action="store_true", help="put the table into docs/audit.md")
    parser.add_argument("--one", metavar="URL", help=argparse.SUPPRESS)
    parser.add_argument("--engine", choices=ENGINES, default=INLINE, help=argparse.SUPPRESS)
    return parser.parse_args()


async def audit_once(url: str, engine: str) -> dict[str, Any]:
    """One audit in this process: the counts it ended with."""
    engines = partial(open_engine, source=SyntheticSource)
    async with open_synthetic(url) as cluster:
        found = await audit_job.audit(cluster, AuditRequest(engine=engine), engines=engines)
    counts: dict[str, Any] = found["audit"]
    return counts


# Measuring
def measure(only: str) -> list[Row]:
    """Each row as it comes, on stderr too."""
    chosen = [(w, s, e) for w, s in SHAPES.items() for e in ENGINES if only in f"{w} {e}"]
    engines = {engine for _what, _shape, engine in chosen}
    startup = {e: _run(TWO_LEDGERS, e, tries=STARTUP_TRIES).cpu_s for e in engines}
    rows = []
    for what, shape, engine in chosen:
        rows.append(_row(what, shape, engine, startup[engine]))
        print(_line(rows[-1]), file=sys.stderr, flush=True)
    return rows


def merged(path: Path, fresh: Sequence[Row]) -> list[Row]:
    """These rows, and of earlier runs the others, in the order of SHAPES."""
    rows = {(row.what, row.engine): row for row in [*_earlier(path), *fresh]}
    order = [(what, engine) for what in SHAPES for engine in ENGINES]
    return [rows[place] for place in order if place in rows]


def _earlier(path: Path) -> list[Row]:
    if not path.exists():
        return []
    names = {field.name for field in fields(Row)}
    found = json.loads(path.read_text(encoding="utf-8"))["rows"]
    return [Row(**{name: row[name] for name in names}) for row in found]


def _row(what: str, shape: Shape, engine: str, startup_cpu_s: float) -> Row:
    used = _run(shape, engine, tries=TRIES[engine])
    copies = shape.ledgers * shape.ensemble
    return Row(
        what=what,
        engine=engine,
        ledgers=shape.ledgers,
        entries=shape.entries,
        runs=copies * ((len(shape.whole[0]) - HEADER_BYTES) // GROUP.itemsize),
        cpu_s=round(used.cpu_s, 2),
        startup_cpu_s=round(startup_cpu_s, 2),
        wall_s=round(used.wall_s, 1),
        peak_mib=round(used.peak_bytes / (1 << 20)),
    )


def _run(shape: Shape, engine: str, *, tries: int) -> Used:
    command = ["-m", "benchmarks.bench_audit", "--one", shape.url, "--engine", engine]
    each = [measured([sys.executable, *command]) for _ in range(tries)]
    used = min(each, key=lambda used: used.cpu_s)
    found = json.loads(used.said)
    assert (found["ledgers"], found["entries"]) == (shape.ledgers, shape.entries)
    assert found["missing"] == shape.damaged, "exactly what was planted"
    assert found["ok"] == shape.entries - shape.damaged
    return used


# Telling
def _line(row: Row) -> str:
    return f"{row.what}, {row.engine}: {row.net_s:.2f} CPU-s + {row.startup_cpu_s:.2f} to start"


def table(rows: Sequence[Row]) -> str:
    """Markdown."""
    head = "| audit | engine | ledgers | runs | CPU-s | of that start-up | wall s | peak MiB |"
    lines = [head, "|---|---|---:|---:|---:|---:|---:|---:|"]
    lines += [
        f"| {row.what} | {row.engine} | {row.ledgers:,} | {row.runs:,} | {row.cpu_s:.2f} "
        f"| {row.startup_cpu_s:.2f} | {row.wall_s:.1f} | {row.peak_mib:,.0f} |"
        for row in rows
    ]
    return "\n".join(lines)


def _results(rows: Sequence[Row]) -> dict[str, Any]:
    machine = {
        "revision": code_revision(),
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "system": platform.platform(),
        "load": os.getloadavg()[0],
        "at": int(time.time()),
    }
    return {"machine": machine, "rows": [asdict(row) | {"held": row.is_held} for row in rows]}


def publish(rows: Sequence[Row]) -> None:
    """Put the table between the marks of docs/audit.md."""
    text = DOCS.read_text(encoding="utf-8")
    before, _, rest = text.partition("<!-- bench-audit -->")
    _, _, after = rest.partition("<!-- end -->")
    marked = f"<!-- bench-audit -->\n{table(rows)}\n<!-- end -->"
    DOCS.write_text(f"{before}{marked}{after}", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
