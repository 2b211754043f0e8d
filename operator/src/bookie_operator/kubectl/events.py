"""The events that the operator records on a cluster object, newest last."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from bookie.rows import Cell, Rows
from rich.text import Text

from bookie_operator.kubectl.client import Kubectl, Tree
from bookie_operator.status_tree.ages import ago


def events_of(kubectl: Kubectl, cluster: str) -> list[Tree]:
    selector = f"involvedObject.kind=BookieCluster,involvedObject.name={cluster}"
    return sorted(kubectl.get_all("events", selector=selector), key=moment)


def moment(event: Tree) -> datetime:
    """When it was seen last: the field depends on the API that recorded it."""
    series: dict[str, Any] = event.get("series") or {}
    text = (
        series.get("lastObservedTime")
        or event.get("lastTimestamp")
        or event.get("eventTime")
        or event["metadata"]["creationTimestamp"]
    )
    return datetime.fromisoformat(text)


def event_table(events: list[Tree], *, now: datetime) -> Rows:
    rows: list[Sequence[Cell]] = []
    for event in events:
        kind = event.get("type", "")
        count = (event.get("series") or event).get("count") or 1
        rows.append(
            (
                ago(moment(event), now),
                Text(kind, "yellow" if kind == "Warning" else ""),
                event.get("reason", ""),
                f"{event.get('message', '')}{f' (x{count})' if count > 1 else ''}",
            )
        )
    return Rows(("LAST SEEN", "TYPE", "REASON", "MESSAGE"), rows)
