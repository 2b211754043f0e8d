"""The figures of docs/safety.md: tables made of what the proving commands wrote to docs/proof.

`make proof RESULTS=docs/proof` (and soak, and the mutants in the simulation) write the JSON files;
`make safety-page` puts these tables between the page's markers. Nobody types a figure. Each stands
beside the core that it was found on (`bookie.testing.figures.CORE`); the page says of which core it
was made, and names every figure of an earlier one.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bookie.testing.simulation.totals import seeds_of

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "safety.md"
PROOF: Final = ROOT / "docs" / "proof"
CHANGELOG: Final = ROOT / "CHANGELOG.md"
BEGIN: Final = "<!-- figures: made by `make safety-page`, not by hand -->"
END: Final = "<!-- end of the figures -->"
MADE_OF: Final = re.compile(r"^The core of this page is `(\w+)`", re.MULTILINE)
RELEASES_MAX: Final = 2
"""A figure may be of this release or of the one before; an older one fails `make lint`."""
SHOWN_MAX: Final = 10
"""Failed seeds of one core that the page names."""

Figures = Mapping[str, Any]


def rendered(page: str, found: Mapping[str, Figures], *, core: str) -> str:
    """The page with fresh figures between its markers; ValueError when it has no markers."""
    before, begin, rest = page.partition(BEGIN)
    _old, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no place for its figures: {BEGIN} ... {END}")
    made_of = (
        f"The core of this page is `{core}`; a figure that was found on another core says so. "
        "`make lint` tells\nwhich figures are not of the core that is checked out.\n"
    )
    return f"{before}{BEGIN}\n{made_of}{tables(found, core=core)}{END}{after}"


def core_of(page: str) -> str:
    """The core that the page was made of; empty when it does not say."""
    found = MADE_OF.search(page)
    return found[1] if found else ""


def read_figures(folder: Path) -> dict[str, Figures]:
    """What there is, by the name of its file."""
    files = sorted(folder.glob("*.json"))
    return {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in files}


def releases_of(changelog: str, current: str) -> list[str]:
    """Every release that the change log names, the newest first; before them, where it has no
    section yet, the one that these sources are on the way to."""
    return list(dict.fromkeys([current, *re.findall(r"^## (\d\S*)", changelog, re.MULTILINE)]))


def too_old(found: Mapping[str, Figures], releases: Sequence[str]) -> list[str]:
    """What is wrong with figures that say too little of their core, or are of too old a release."""
    wrong = []
    for name, figures in sorted(found.items()):
        sources = [figures] if name != "total" else figures["cores"][-1:]
        for source in sources:
            if not source.get("core") or not source.get("release"):
                wrong.append(f"{name}.json names no core and no release: run its command again")
            elif source["release"] not in releases[:RELEASES_MAX]:
                wrong.append(
                    f"{name}.json is of release {source['release']}, expected "
                    f"{' or '.join(releases[:RELEASES_MAX])}: run its command again"
                )
    return wrong


def of_earlier_core(found: Mapping[str, Figures], core: str) -> list[str]:
    """Files whose figures were found on another core than this one."""
    return [
        name
        for name, figures in sorted(found.items())
        if core not in [one["core"] for one in figures.get("cores", [figures]) if "core" in one]
    ]


def tables(found: Mapping[str, Figures], *, core: str) -> str:
    """One section for each command whose figures are there, in the order of the page."""
    return "".join(
        f"\n### {title}\n{_source(found[name], core)}\n{render(found[name])}"
        for name, title, render in _SECTIONS
        if name in found
    )


def _source(figures: Figures, core: str) -> str:
    if "revision" not in figures:
        return ""
    age = "" if figures.get("core") == core else ", **of an earlier core**"
    return (
        f"Revision {figures['revision']} of release {figures.get('release')}, "
        f"core `{figures.get('core')}`{age}; Python {figures['python']}.\n"
    )


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
    rows = _table(
        "| core | of release | different seeds | hours simulated | faults | seeds failed |",
        (
            (f"`{one['core']}`", one["release"], len(seeds_of(one["seeds"])),
             one["simulated_hours"], one["faults"], len(one["failed"]))
            for one in figures["cores"]
        ),
    )  # fmt: skip
    said = (
        f"\n{figures['distinct_seeds']:,} different seeds. A seed on another core is another "
        f"schedule: {figures['schedules']:,} of them; the aim is {figures['aim']:,}.\n"
    )
    return rows + said + "".join(map(_failed, figures["cores"]))


def _failed(core: Figures) -> str:
    if not core["failed"]:
        return ""
    by_reason: dict[str, list[str]] = {}
    for seed, why in list(core["failed"].items())[:SHOWN_MAX]:
        by_reason.setdefault(why, []).append(seed)
    told = "; ".join(f"{', '.join(seeds)} ({why})" for why, seeds in by_reason.items())
    return f"\nFailed on core `{core['core']}`: {told}.\n"


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
    share = figures["found"] / figures["simulated"]
    said = (
        f"Of {figures['planted']} planted bugs a simulated cluster can meet "
        f"{figures['simulated']}; the simulation alone, no test of theirs, found "
        f"{figures['found']} ({share:.0%}) within {figures['seeds']} seeds each.\n"
    )
    missed = [one["name"] for one in figures["mutants"] if not one["found_in"]]
    beyond = _table(
        "| planted bugs that it cannot meet | why |",
        (
            ("; ".join(one["name"] for one in figures["beyond"] if one["why"] == why), why)
            for why in dict.fromkeys(one["why"] for one in figures["beyond"])
        ),
    )
    return said + ("\nNot found: " + "; ".join(missed) + ".\n" if missed else "") + "\n" + beyond


def _mutation(figures: Figures) -> str:
    total = figures["total"]
    judged, drawn = total["mutants"], figures["sample"]
    said = (
        f"A sample of {drawn:,} (seed {figures['seed']})"
        f"{f', of which {judged:,} are judged so far' if judged < drawn else ''}; of "
        f"{figures['date']}. Noticed are those that a test fails for, or hangs in, of those that "
        f"change anything.\n\n"
    )
    return said + _table(
        "| package | mutants | killed | hang | equivalent | survived | noticed |",
        (
            (one["name"], one["mutants"], one["killed"], one["timeout"], one["equivalent"],
             one["survived"], f"{one['share']:.1%}")
            for one in (*figures["packages"], total)
        ),
    )  # fmt: skip


def _soak(figures: Figures) -> str:
    faults = figures["faults"]
    table = _table(
        "| minutes | faults | acknowledged | checked | lost | wrong | limbo clear after (median) |",
        [
            (figures["minutes"], sum(faults.values()), figures["acked"], figures["checked"],
             figures["lost"], figures["wrong"], f"{figures['limbo_cleared_s']['median']} s")
        ],
    )  # fmt: skip
    came = _counts(figures["asked"])
    return f"{table}\nFaults: {_counts(faults)}.\n\nWhat came of them: {came}.\n"


def _judge(figures: Figures) -> str:
    table = _table(
        "| acks | minutes | faults | acknowledged | read back | copies owed | held | exit code |",
        [
            (run["mode"], figures["minutes"], sum(run["faults"].values()), run["acknowledged"],
             run["read"], run["copies_owed"], run["copies_held"], run["exit_code"])
            for run in figures["runs"]
        ],
    )  # fmt: skip
    faults = [f"{run['mode']}: {_counts(run['faults'])}" for run in figures["runs"]]
    return f"{table}\nOf {figures['date']}, seed {figures['seed']}. {'; '.join(faults)}.\n"


def _judge_mutants(figures: Figures) -> str:
    table = _table(
        "| planted | the judge's exit code | copies not held | the product says it is whole |",
        [
            (
                row["fault"],
                row["exit_code"],
                _counts(row["not_held"]) or 0,
                row["product_says_whole"],
            )
            for row in figures["rows"]
        ],
    )
    return f"{table}\nOf {figures['date']}. Exit codes: 0 whole, 3 an entry, 4 a copy, 5 unknown.\n"


def _chaos(figures: Figures) -> str:
    last = figures["verdicts"][-1] if figures["verdicts"] else {}
    table = _table(
        "| minutes | rounds | a bookie forgot | verdicts | judged | copies | longest gap |",
        [
            (figures["minutes"], figures["rounds"], figures["bookies_made_to_forget"],
             len(figures["verdicts"]), last.get("judged", 0), last.get("copies_judged", 0),
             f"{figures['numbers'].get('longest_gap_s', 'unknown')} s")
        ],
    )  # fmt: skip
    found = figures["found"].splitlines()[0] if figures["found"] else "nothing"
    at_once = figures["strikes_at_once"].items()
    rounds = ", ".join(f"{count} of {strikes} strikes" for strikes, count in at_once)
    return (
        f"{table}\nOf {figures['date']}, seed {figures['seed']}. What was found: {found}. "
        f"Strikes: {_counts(figures['struck'])}. Rounds: {rounds}.\n"
    )


def _story_mutants(figures: Figures) -> str:
    return _table(
        "| story | planted | red by its claim | of | revision |",
        (
            (row["story"], row["bug"], "yes" if row["is_caught"] else "NO", row["date"],
             row["revision"])
            for row in figures["rows"]
        ),
    )  # fmt: skip


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
    ("mutation", "Small changes, made by a machine (`make mutation-nightly`)", _mutation),
    ("soak", "Real processes (`make soak`)", _soak),
    ("chaos", "Kubernetes under strikes (`make chaos`)", _chaos),
    ("e2e-mutants", "Planted bugs that stories must see (`make e2e-mutants`)", _story_mutants),
    ("judge", "Judged by the stock Java client (`make judge-local`)", _judge),
    ("judge-mutants", "Faults that the judge must see (`make judge-mutants`)", _judge_mutants),
)
