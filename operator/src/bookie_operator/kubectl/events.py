"""The events that the operator records on a cluster object, newest last."""

from datetime import datetime
from typing import Any

from rich.table import Table
from rich.text import Text

from bookie_operator.kubectl.ages import ago
from bookie_operator.kubectl.client import Kubectl, Tree


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


def event_table(events: list[Tree], *, now: datetime) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("LAST SEEN", "TYPE", "REASON", "MESSAGE"):
        table.add_column(column, no_wrap=column != "MESSAGE")
    for event in events:
        kind = event.get("type", "")
        count = (event.get("series") or event).get("count") or 1
        table.add_row(
            ago(moment(event), now),
            Text(kind, "yellow" if kind == "Warning" else ""),
            event.get("reason", ""),
            f"{event.get('message', '')}{f' (x{count})' if count > 1 else ''}",
        )
    return table
