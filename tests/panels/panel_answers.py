"""What the dashboards' queries returned, as `docs/proof/dashboards.json` has it. Pure.

A query without a series is listed with its reason; one without a reason is a finding, and so is
a reason that is not true any more.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from dashboards import Dashboard, Panel

SERIES_SHOWN: Final = 3
FIGURES: Final = 4
"""Significant digits."""
LABEL: Final = re.compile(r"\{\{(\w+)\}\}")
UNKNOWN: Final = "not known: the query is wrong, or the story is"
Reasons = Mapping[tuple[str, str], str]
"""Panels and legends of queries that return nothing, and why."""
EMPTY: Final[Reasons] = {}
"""In this story none does."""

Series = Mapping[str, Any]
"""`metric`: its labels; `values`: from the first scrape to the last."""


def shown_answer(
    dashboard: Dashboard,
    panel: Panel,
    query: Sequence[str],
    series: Sequence[Series],
    *,
    reasons: Reasons = EMPTY,
) -> dict[str, Any]:
    """One query's part of the file."""
    expr, legend = query
    head = {"dashboard": dashboard.title, "panel": panel.title, "query": expr, "unit": panel.unit}
    if not series:
        return head | {"series": 0, "reason": reasons.get((panel.title, legend), UNKNOWN)}
    # Those that move say more than those that rest.
    told = sorted(series, key=lambda one: min(one["values"]) == max(one["values"]))
    shown = {_filled(legend, one["metric"]): _values(one["values"]) for one in told[:SERIES_SHOWN]}
    return head | {"series": len(series), "shown": shown}


def findings(answered: Mapping[tuple[str, str], int], *, reasons: Reasons = EMPTY) -> list[str]:
    """What is wrong; `answered`: series of each panel and legend."""
    empty = {key for key, count in answered.items() if not count}
    return [
        *(f"{panel} ({legend}): found no series" for panel, legend in sorted(empty - set(reasons))),
        *(
            f"{panel} ({legend}): found series, its reason to have none is not true any more"
            for panel, legend in sorted(set(reasons) - empty)
        ),
    ]


def _filled(legend: str, labels: Mapping[str, str]) -> str:
    return LABEL.sub(lambda label: labels.get(label[1], ""), legend)


def _values(values: Sequence[float]) -> dict[str, float]:
    ends = {"first": values[0], "least": min(values), "most": max(values), "last": values[-1]}
    return {name: float(f"{value:.{FIGURES}g}") for name, value in ends.items()}
