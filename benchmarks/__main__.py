"""Runs all benchmarks, prints their tables, writes `benchmarks/results.json`: `make bench`.

Absolute figures belong to one machine and one minute; what is kept in mind is ratios of one run.
`load_before` says how busy others kept the machine.
"""

import argparse
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

from benchmarks import bench_fanout
from benchmarks.fleet import as_json

RESULTS: Final = Path(__file__).with_name("results.json")
OTHERS: Final = {
    "encode": ["-m", "benchmarks.bench_client_encode"],
    "log": ["-m", "benchmarks.bench_log"],
    "index": ["-m", "benchmarks.bench_index", "--runs", "50000"],
}
"""Benchmarks of one part, each in a process of its own; their lines are kept as they are."""


def lines_of(arguments: list[str]) -> list[str]:
    """Run one and pass on what it prints, as it comes."""
    lines = []
    with subprocess.Popen(
        [sys.executable, *arguments], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line.rstrip())
    if process.returncode:
        raise SystemExit(f"{' '.join(arguments)} ended with {process.returncode}")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    bench_fanout.add_options(parser)
    options = parser.parse_args()
    began = time.time()
    results: dict[str, Any] = {
        "machine": {
            "cpus": os.cpu_count(),
            "python": platform.python_version(),
            "system": platform.platform(),
            "load_before": os.getloadavg(),
        }
    }
    results["fanout"] = bench_fanout.run(
        directory=options.dir, rounds=options.rounds, mib=options.mib, loop=options.loop
    )
    for name, arguments in OTHERS.items():
        print()
        results[name] = lines_of(arguments)
    results["seconds"] = round(time.time() - began, 1)
    as_json(RESULTS, results)
    print(f"\n{results['seconds']:.0f} s; written to {RESULTS}")


if __name__ == "__main__":
    main()
