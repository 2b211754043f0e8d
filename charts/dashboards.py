"""Grafana's dashboards of the operator's chart, from a few lines each: run by `make dashboards`.

Grafana's JSON says thirty things of a panel that are the same in all of them. `dashboards.toml` has
what differs: title, queries with their legends, unit. A test holds the files equal to what is made.
"""

import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

PANELS: Final = Path(__file__).with_suffix(".toml")
TARGET: Final = Path(__file__).parent / "bookie-operator" / "files" / "dashboards"
WIDTH: Final = 24
"""Columns of Grafana's grid."""
HEIGHT: Final = 8
SOURCE: Final = {"type": "prometheus", "uid": "${source}"}


@dataclass(frozen=True, slots=True)
class Panel:
    """One graph, or one table of numbers. `queries`: PromQL and its legend."""

    title: str
    queries: Sequence[Sequence[str]]
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 12
    text: str = ""
    """What to think of it, shown beside the title."""


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One page. `labels`: of which metric the choices at its top are taken, and which of them."""

    name: str
    title: str
    labels: Sequence[Sequence[str]]
    panels: Sequence[Panel]


def dashboards() -> list[Dashboard]:
    """What `dashboards.toml` has, in its order."""
    pages = tomllib.loads(PANELS.read_text(encoding="utf-8"))
    return [
        Dashboard(name, page["title"], page["labels"], [Panel(**panel) for panel in page["panels"]])
        for name, page in pages.items()
    ]


def grafana(dashboard: Dashboard) -> str:
    """The file's text."""
    source = {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    whole = {
        "uid": f"bookie-operator-{dashboard.name}",
        "title": dashboard.title,
        "tags": ["bookkeeper"],
        "editable": True,
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [source, *map(_choice, dashboard.labels)]},
        "panels": _placed(dashboard.panels),
    }
    return json.dumps(whole, indent=1) + "\n"


def _choice(label: Sequence[str]) -> dict[str, Any]:
    name, metric = label
    return {
        "name": name, "type": "query", "datasource": SOURCE, "refresh": 2, "sort": 1,
        "query": f"label_values({metric}, {name})",
        "includeAll": True, "multi": True, "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }  # fmt: skip


def _placed(panels: Sequence[Panel]) -> list[dict[str, Any]]:
    """From left to right, then the next row."""
    placed: list[dict[str, Any]] = []
    x = y = 0
    for number, panel in enumerate(panels, 1):
        if x + panel.width > WIDTH:
            x, y = 0, y + HEIGHT
        placed.append(_panel(panel, number, {"x": x, "y": y, "w": panel.width, "h": HEIGHT}))
        x += panel.width
    return placed


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    is_table = panel.kind == "table"
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.text,
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + at), "expr": expr, "legendFormat": legend,
                "datasource": SOURCE, "instant": is_table,
                "format": "table" if is_table else "time_series",
            }
            for at, (expr, legend) in enumerate(panel.queries)
        ],
    }  # fmt: skip


def main() -> None:
    TARGET.mkdir(parents=True, exist_ok=True)
    for dashboard in dashboards():
        (TARGET / f"{dashboard.name}.json").write_text(grafana(dashboard), encoding="utf-8")


if __name__ == "__main__":
    main()
