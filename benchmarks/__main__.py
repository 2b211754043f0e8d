"""`make bench`: the gated rows; `--full`: the whole table; `--gate`: do they hold `gates.toml`?

Every row is measured in turn with its probe, or with the rows that it is compared to. Prints each
as it comes and writes all of them with what the machine is to a JSON file; `--publish` puts them
into docs/performance.md as well. Exit code 1: a gate is broken.
"""

import argparse
import json
import os
import platform
import signal
import ssl
import sys
import tempfile
import time
import timeit
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from bookie.testing.figures import code_revision

from benchmarks import (
    bench_apache,
    bench_append,
    bench_boot,
    bench_crash,
    bench_latency,
    bench_read,
    bench_recovery,
    bench_repair,
    bench_scale,
    bench_tls,
)
from benchmarks.gates import gates_of, judge, read_gates
from benchmarks.loops import loop_factory
from benchmarks.report import RATIOS, publish
from benchmarks.rows import Options, Row

RESULTS: Final = Path(__file__).with_name("results.json")
BENCHMARKS: Final[dict[str, Callable[[Options], Iterator[Row]]]] = {
    "append": bench_append.rows,
    "read": bench_read.rows,
    "recovery": bench_recovery.rows,
    "boot": bench_boot.rows,
    "crash": bench_crash.rows,
    "crash-stock": bench_crash.stock_rows,
    "repair": bench_repair.rows,
    "latency": bench_latency.rows,
    "tls": bench_tls.rows,
    "scale": bench_scale.rows,
    "apache": bench_apache.rows,
}
FULL_ONLY: Final = frozenset({"apache", "crash-stock", "scale"})
"""Not measured without `--full`, unless `--only` names them, or what stands before their hyphen."""
ROUNDS: Final = 5
WORK_REPEATS: Final = 50


def main() -> int:
    chosen = _arguments()
    # Children are ended by their context managers, which an ordinary SIGTERM would skip.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    loop_name, loop = loop_factory(chosen.loop)
    options = Options(chosen.dir, chosen.rounds, chosen.full, loop)
    began, rows = time.time(), list[Row]()
    machine = {**_machine(), "loop": loop_name}
    for name in names_of(chosen.only, is_full=chosen.full):
        for row in BENCHMARKS[name](options):
            print(line_of(row), flush=True)
            rows.append(row)
    seconds = round(time.time() - began, 1)
    results = {"machine": machine, "seconds": seconds, "rows": [row.json() for row in rows]}
    chosen.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    if chosen.publish:
        publish(results)
    print(f"{len(rows)} rows in {seconds:.0f} s ({chosen.json})")
    return _gate(rows, only=chosen.only) if chosen.gate else 0


def names_of(only: str, *, is_full: bool) -> list[str]:
    """The benchmarks to run, in order."""
    return [
        name
        for name in BENCHMARKS
        if only in name
        and (is_full or name not in FULL_ONLY or only in (name, name.partition("-")[0]))
    ]


def _gate(rows: Sequence[Row], *, only: str) -> int:
    """`only`: as chosen; empty = every gate must have its rows."""
    gates = read_gates()
    chosen = gates_of(gates, rows) if only else gates
    judged = judge(rows, chosen)
    for one in judged:
        print(one.line)
    if left := len(gates) - len(chosen):
        print(f"{left} gates of other benchmarks were not judged")
    return 0 if all(one.is_held for one in judged) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("--full", action="store_true", help="every row, not the gated ones only")
    parser.add_argument("--gate", action="store_true", help="compare with benchmarks/gates.toml")
    parser.add_argument("--publish", action="store_true", help="put them into docs/performance.md")
    parser.add_argument("--only", default="", metavar="NAME", help="benchmarks with NAME in theirs")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="repeats of each row")
    parser.add_argument(
        "--dir", type=Path, default=Path(tempfile.gettempdir()), help="where bookies write"
    )
    parser.add_argument("--loop", choices=["auto", "asyncio", "uvloop"], default="auto")
    parser.add_argument("--json", type=Path, default=RESULTS, help="where the figures go")
    return parser.parse_args()


def _machine() -> dict[str, Any]:
    """What the figures belong to. `load_before` says how busy others kept it; `python_work_us` how
    fast its Python is: one built without optimizations takes half as long again.
    """
    return {
        "revision": code_revision(),
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "openssl": ssl.OPENSSL_VERSION,
        "python_work_us": round(min(timeit.repeat(_work, number=1, repeat=WORK_REPEATS)) * 1e6),
        "system": platform.platform(),
        "load_before": os.getloadavg()[0],
    }


def _work() -> None:
    """What this project's Python does most: small objects, numbers and dictionaries."""
    found: dict[int, tuple[int, int]] = {}
    for number in range(10_000):
        found[number & 1023] = (number, len(found))


def line_of(row: Row) -> str:
    """Medians, with the spread of the ratios."""
    shown = []
    for figure in row.figures:
        values = row.values(figure)
        spread = f" ({min(values):.2f}-{max(values):.2f})" if figure in RATIOS else ""
        shown.append(f"{figure} {row.median(figure):.4g}{spread}")
    return f"{row.name}: {', '.join(shown)}"


if __name__ == "__main__":
    sys.exit(main())
