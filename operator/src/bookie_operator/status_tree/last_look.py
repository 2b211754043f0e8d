"""The line that says that a status is not about now, since the operator does not look any more."""

from datetime import datetime

from rich.text import Text

from bookie_operator.model.looks import is_ahead, not_looked_for
from bookie_operator.model.status import ClusterStatus
from bookie_operator.status_tree.ages import span


def no_look(status: ClusterStatus, now: datetime) -> str:
    """Why the status may no longer be true; empty: the operator keeps it current."""
    if is_ahead(status.looked_at, now):
        return (
            f"the operator looked last at {status.looked_at:%Y-%m-%dT%H:%M:%SZ}, which is in the "
            "future by the clock here: one of the two clocks is wrong, or was then"
        )
    length = not_looked_for(status.looked_at, now)
    return f"the operator has not looked at the cluster for {span(length)}" if length else ""


def look_lines(status: ClusterStatus, now: datetime) -> list[Text]:
    """What stands above everything else that the status says; empty: it is of now."""
    why = no_look(status, now)
    return [Text(f"! {why}: this is the last known status", "bold yellow")] if why else []
