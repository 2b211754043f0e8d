"""`local watch`: show a cluster and its events, from the files that its operator writes.

Without an operator that looks it shows the last published status, and a line that says so.
"""

import time
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, NoReturn

from bookie_operator.local.live_view import EVENTS_SHOWN
from bookie_operator.local.stored import known_cluster, why_not_current
from bookie_operator.local.up import Screen
from bookie_operator.plan.actions import Event
from bookie_operator.platform.folders import LocalFolders

LOOK_S: Final = 1.0


def watch(
    folders: LocalFolders, screen: Screen, *, pause: Callable[[float], Any] = time.sleep
) -> NoReturn:
    """Show the status and the events as they change, until `pause` raises.

    LocalError: no cluster was ever started there.
    """
    shown, was_kept = 0, True
    while True:
        cluster = known_cluster(folders)
        events = list(folders.events())
        if len(events) < shown:  # the oldest file has been dropped
            shown = max(len(events) - EVENTS_SHOWN, 0)
        for row in events[shown or -EVENTS_SHOWN :]:
            screen.show_event(_event_of(row), at=datetime.fromisoformat(row["at"]))
        shown = len(events)
        why = why_not_current(folders)
        if was_kept and why:
            screen.show_event(Event("NoOperator", why, type="Warning"))
        was_kept = not why
        screen.show_cluster(cluster)
        pause(LOOK_S)


def _event_of(row: dict[str, Any]) -> Event:
    return Event(row["reason"], row["message"], bookie=row["bookie"], type=row["type"])
