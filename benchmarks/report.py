"""The table and the plot of docs/performance.md: made of one run's JSON, never typed.

`make bench-full` ends with it; `python -m benchmarks.report` makes both again of the JSON that is
committed.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.plot import Bar, bars
from benchmarks.rows import Row

DOCS: Final = Path(__file__).parents[1] / "docs"
PAGE: Final = DOCS / "performance.md"
FIGURES: Final = DOCS / "performance.json"
PLOT: Final = DOCS / "performance.svg"
BEGIN: Final = "<!-- figures: made by `make bench-full`, not by hand -->"
END: Final = "<!-- end of the figures -->"
UNITS: Final = {
    "mib_per_s": "MiB/s", "probe_mib_per_s": "probe MiB/s", "entries_per_s": "entries/s",
    "client_us": "client us/entry", "bookies_us": "bookies us/entry",
    "disk_bytes_per_byte": "disk bytes per byte and copy", "resident_mib": "MiB a bookie",
    "p50_us": "p50 us", "p99_us": "p99 us", "probe_p50_us": "probe p50 us",
    "second_p99_us": "p99 us, median second", "background_mib_per_s": "MiB/s beside",
    "seconds": "s", "ledgers_per_s": "ledgers/s", "ms": "ms",
    "ours_entries_per_s": "our entries/s", "ours_over_apache": "ours over Apache",
    "memory_over_apache": "our memory mode over Apache",
}  # fmt: skip
"""How a figure is headed; any other by its own name."""
RATIOS: Final = frozenset({"ratio", "ours_over_apache", "memory_over_apache"})
"""Shown first, and with their spread."""


def publish(results: Mapping[str, Any]) -> None:
    """JSON, plot and the page's tables, of one run."""
    rows = [Row.from_json(found) for found in results["rows"]]
    FIGURES.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    PLOT.write_text(plot(rows), encoding="utf-8")
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(rendered(page, rows, machine=results["machine"]), encoding="utf-8")


def rendered(page: str, rows: Sequence[Row], *, machine: Mapping[str, Any]) -> str:
    """The page with fresh tables between its markers; ValueError when it has no markers."""
    before, begin, rest = page.partition(BEGIN)
    _old, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no place for its figures: {BEGIN} ... {END}")
    tables = "".join(f"\n### {group}\n{_table(found)}" for group, found in _grouped(rows).items())
    return f"{before}{BEGIN}\n{_source(machine)}{tables}{END}{after}"


def _source(machine: Mapping[str, Any]) -> str:
    said = ", ".join(f"{name} {value}" for name, value in machine.items())
    return f"Measured on: {said}.\n\n![ratios]({PLOT.name})\n"


def _grouped(rows: Iterable[Row]) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row.group, []).append(row)
    return groups


def _table(rows: Sequence[Row]) -> str:
    """One column for each figure that any of the rows has; the ratios first, with their spread."""
    figures = list(dict.fromkeys(figure for row in rows for figure in row.figures))
    figures.sort(key=lambda figure: figure not in RATIOS)
    lines = [f"| what | {' | '.join(UNITS.get(figure, figure) for figure in figures)} |"]
    lines.append("|---" * (len(figures) + 1) + "|")
    for row in rows:
        lines.append(f"| {row.what} | {' | '.join(_cell(row, figure) for figure in figures)} |")
    return "\n".join(lines) + "\n"


def _cell(row: Row, figure: str) -> str:
    if figure not in row.figures:
        return ""
    values = row.values(figure)
    if figure in RATIOS:
        return f"**{row.median(figure):.2f}** ({min(values):.2f}-{max(values):.2f})"
    median = row.median(figure)
    return f"{median:,.0f}" if median >= 100 else f"{median:.3g}"


def plot(rows: Sequence[Row]) -> str:
    """Every row that has a ratio of rates, as a bar with its spread."""
    shown = [row for row in rows if "ratio" in row.figures and not row.what.endswith("depth 1")]
    return bars(
        "Ours over the bare probe, same run",
        [
            Bar(row.name, row.median("ratio"), min(row.values("ratio")), max(row.values("ratio")))
            for row in shown
        ],
    )


if __name__ == "__main__":
    publish(json.loads(FIGURES.read_text(encoding="utf-8")))
