"""Times in the last status that are later than now, since the clock was set back, or another
operator's is ahead of this one's. Pure.

What happened before a pass counts as of now then. So what happens later is later by its time, too:
an audit of before proves nothing about it, and the next audit proves what there was before.
"""

from datetime import datetime
from typing import Any, Final, TypeVar

from bookie_operator.model.base import Resource, whole_milliseconds
from bookie_operator.model.status import ClusterStatus

Part = TypeVar("Part", bound=Resource)

_JOB: Final = ("started_at", "finished_at")
_SECTIONS: Final = {
    "audit": (*_JOB, "asked_at"),
    "mend": _JOB,
    "scrub": (*_JOB, "scheduled_at"),
    "rereplication": _JOB,
    "drain": ("started_at",),
    "tls": ("since",),
}
"""Sections of the status, and their times that are compared with now or with those of other
events."""
_LISTS: Final = {
    "incidents": ("stopped_at", "detected_at", "cleared_at"),
    "bookies": ("state_since", "silent_since", "gone_since", "rereplicated_at"),
    "blocked": ("since",),
    "conditions": ("last_transition_time",),
}
"""The same, of the lists in the status."""


def put_right(status: ClusterStatus, now: datetime) -> ClusterStatus:
    """The status without times in the future of events that are past."""
    now = whole_milliseconds(now)
    status = _of_now(status, ("generation_since",), now)
    update: dict[str, Any] = {
        name: after
        for name, times in _SECTIONS.items()
        if (before := getattr(status, name)) is not None
        and (after := _of_now(before, times, now)) is not before
    }
    for name, times in _LISTS.items():
        parts = getattr(status, name)
        put = tuple(_of_now(one, times, now) for one in parts)
        if any(one is not before for one, before in zip(put, parts, strict=True)):
            update[name] = put
    return status.model_copy(update=update) if update else status


def _of_now(part: Part, times: tuple[str, ...], now: datetime) -> Part:
    late = [name for name in times if (at := getattr(part, name)) is not None and at > now]
    return part.model_copy(update=dict.fromkeys(late, now)) if late else part
