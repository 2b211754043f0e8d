"""The figures of docs/safety.md: tables made of what the proving commands wrote to docs/proof.

`make proof RESULTS=docs/proof` (and soak, and the mutants in the simulation) write the JSON files;
`make safety-page` puts these tables between the page's markers. Nobody types a figure.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "safety.md"
PROOF: Final = ROOT / "docs" / "proof"
BEGIN: Final = "<!-- figures: made by `make safety-page`, not by hand -->"
END: Final = "<!-- end of the figures -->"

Figures = Mapping[str, Any]


def rendered(page: str, found: Mapping[str, Figures]) -> str:
    """The page with fresh figures between its markers; ValueError when it has no markers."""
    before, begin, rest = page.partition(BEGIN)
    _old, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no place for its figures: {BEGIN} ... {END}")
    return f"{before}{BEGIN}\n{tables(found)}{END}{after}"


def read_figures(folder: Path) -> dict[str, Figures]:
    """What there is, by the name of its file."""
    files = sorted(folder.glob("*.json"))
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in files}


def tables(found: Mapping[str, Figures]) -> str:
    """One section for each command whose figures are there, in the order of the page."""
    return "".join(
        f"\n### {title}\n{_source(found[name])}\n{render(found[name])}"
        for name, title, render in _SECTIONS
        if name in found
    )


def _source(figures: Figures) -> str:
    if "revision" not in figures:
        return ""
    return f"Revision {figures['revision']}, Python {figures['python']}.\n"


def _table(head: str, rows: Iterable[Iterable[object]]) -> str:
    columns = head.count("|") - 1
    lines = [head, "|" + "---|" * columns]
    lines += ["| " + " | ".join(map(_cell, row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def _model(figures: Figures) -> str:
    models = _table(
        "| model | states | transitions | depth | whole | violation | stuck states |",
        (
            (m["model"], m["states"], m["edges"], m["depth"], m["complete"],
             m["violation"] or "none", m["stuck"])
            for m in figures["models"]
        ),
    )  # fmt: skip
    broken = _table(
        "| rule taken away | shortest violation | what is violated |",
        (
            (f"{m['mutant']} ({m['breaks']})", f"{m['steps']} steps" if m["steps"] else "",
             m["violation"] or _without_violation(m))
            for m in figures["mutants"]
        ),
    )  # fmt: skip
    return f"{models}\n{broken}"


def _without_violation(mutant: Figures) -> str:
    if mutant["stuck"]:
        return f"none; {mutant['stuck']:,} states from which no close can be reached"
    return "not seen by the model; by " + ", ".join(mutant["directed"])


def _simulation(figures: Figures) -> str:
    return _table(
        "| seeds | hours simulated | faults | entries acknowledged | entries read | seeds failed |",
        [
            (figures["seeds"], figures["simulated_hours"], sum(figures["faults"].values()),
             figures["entries_acknowledged"], figures["entries_read"], len(figures["failed"]))
        ],
    ) + "\nFaults: " + _counts(figures["faults"]) + ".\n"  # fmt: skip


def _total(figures: Figures) -> str:
    return (
        f"{figures['schedules']:,} schedules in {len(figures['runs'])} runs, "
        f"{figures['simulated_hours']:,} hours simulated; the aim is 1,000,000.\n"
    )


def _crash_images(figures: Figures) -> str:
    runs = figures["runs"]
    return _table(
        "| protocol runs | crash points | images booted | rightly refused | wrong |",
        [
            (len(runs), figures["crash_points"], figures["images"],
             sum(sum(run["refused"].values()) for run in runs), figures["wrong"])
        ],
    )  # fmt: skip


def _mutants(figures: Figures) -> str:
    return _table(
        "| planted | caught | survived |",
        [(figures["planted"], figures["caught"], figures["survived"])],
    ) + "".join(
        f"\nSurvivor: {one['name']}.\n" for one in figures["mutants"] if one["verdict"] != "caught"
    )


def _mutants_in_simulation(figures: Figures) -> str:
    return (
        f"{figures['found']} of {figures['simulated']} mutants that a whole cluster can meet were "
        f"found by {figures['seeds']} seeds as they come and {figures['hunts']} that hunt.\n"
    )


def _soak(figures: Figures) -> str:
    faults = figures["faults"]
    return _table(
        "| minutes | faults | acknowledged | checked | lost | wrong | limbo clear after (median) |",
        [
            (figures["minutes"], sum(faults.values()), figures["acked"], figures["checked"],
             figures["lost"], figures["wrong"], f"{figures['limbo_cleared_s']['median']} s")
        ],
    ) + "\nFaults: " + _counts(faults) + ".\n"  # fmt: skip


def _counts(faults: Mapping[str, int]) -> str:
    return ", ".join(f"{kind} {count:,}" for kind, count in sorted(faults.items()))


_SECTIONS: Final[tuple[tuple[str, str, Callable[[Figures], str]], ...]] = (
    ("model", "Model (`make model`)", _model),
    ("model-nightly", "Larger models (`make model-nightly`)", _model),
    ("simulation", "Simulation (`make sim`)", _simulation),
    ("total", "Schedules so far (`make sim TOTAL=docs/proof/total.json`)", _total),
    ("crash-images", "Crash images (`make crash-images`)", _crash_images),
    ("mutants", "Planted bugs (`make mutants`)", _mutants),
    ("mutants-sim", "Planted bugs in the simulation (`make mutants-sim`)", _mutants_in_simulation),
    ("soak", "Real processes (`make soak`)", _soak),
)
