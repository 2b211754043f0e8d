"""docs/apache-tests.md: the report as a list for people."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from apache_expected import APACHE, OURS, Expected, differs
from apache_report import OUTCOMES, Report
from apache_results import split

PAGE: Final = Path(__file__).parents[2] / "docs" / "apache-tests.md"
FLEETS: Final = {OURS: "ours", APACHE: "Apache's"}
WORDS_MAX: Final = 160
NAMED_MAX: Final = 3
HEAD: Final = """\
# Apache's own tests on our bookies, one by one

`make test-apache PUBLISH=yes` writes this page from [the report](proof/apache-tests.json);
[compatibility](compatibility.md#apaches-own-tests) says what the results mean. *needs* names what
a test needs of a bookie in the test's own process: such a test does not apply, and counts as
nothing else. *second run*: the test failed once beside others, and passed alone.
"""


def page(report: Report, expected: Expected) -> str:
    return (
        "\n".join([HEAD, *_figures(report), *_reasons(report, expected), *_classes(report)]) + "\n"
    )


def _figures(report: Report) -> Iterator[str]:
    yield f"| bookies | {' | '.join(OUTCOMES)} | tests | runs: classes, seconds, revision, date |"
    yield "|" + "---|" * (len(OUTCOMES) + 3)
    for fleet, name in FLEETS.items():
        counts = list(report.counts(fleet).values())
        runs = "<br>".join(_run(run) for run in report.runs.get(fleet, []))
        yield f"| {' | '.join(map(str, [name, *counts, sum(counts), runs]))} |"
    ours_alone = [row for row in report.tests.values() if differs(row)]
    yield f"\nFailed on ours and passed on Apache's: {len(ours_alone)}.\n"


def _run(run: Mapping[str, Any]) -> str:
    classes = run["classes"]
    if classes != "all":
        few = len(classes) <= NAMED_MAX
        classes = f"`{'`, `'.join(classes)}`" if few else f"{len(classes)} classes"
    return f"{classes}: {run['seconds']}, {run['revision']}, {run['date']}"


def _reasons(report: Report, expected: Expected) -> Iterator[str]:
    yield "## Which do not pass, and why"
    yield "| fails on | tests | why |"
    yield "|---|---|---|"
    for reason in expected.reasons:
        names = "<br>".join(f"`{test}`" for test in reason.tests)
        yield f"| {FLEETS.get(reason.section, reason.section)} | {names} | {reason.why} |"


def _classes(report: Report) -> Iterator[str]:
    before = ""
    for test, row in sorted(report.tests.items()):
        of_class, name = split(test)
        if of_class != before:
            yield f"\n## {of_class}"
            yield "| test | ours | Apache's |"
            yield "|---|---|---|"
            before = of_class
        yield f"| `{name}` | {_cell(row, OURS)} | {_cell(row, APACHE)} |"


def _cell(row: Mapping[str, str], fleet: str) -> str:
    words = row.get(fleet, "not run")
    words = words if len(words) <= WORDS_MAX else f"{words[:WORDS_MAX]} …"
    return words.replace("|", "\\|").replace("<", "&lt;")
