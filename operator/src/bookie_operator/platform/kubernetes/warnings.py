"""What Kubernetes says of a pod that does not come: the last warning about it, in its own words.

A controller that may not make a pod (a quota, a policy), and a kubelet that cannot mount a volume,
say so in Events alone. They are asked for only when something has not come for a while.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, TypeVar

from bookie.errors import BookieError

from bookie_operator.platform.kubernetes.api import EVENT, Api, Object

PATIENCE: Final = timedelta(seconds=10)
"""What comes within this time is not asked about, and not more often than this after it."""
Asking = TypeVar("Asking", bound=Hashable)
SLACK: Final = timedelta(seconds=30)
"""An event from so long before somebody missed the object may be about it."""


@dataclass(slots=True)
class _Missed:
    """One object that has not come."""

    since: datetime
    """When the object was first missing."""
    asked_at: datetime | None = None
    """When its events were last read; None: not yet."""
    word: str = ""
    """`Reason: message` of the last warning; empty = there was none."""

    @property
    def last_at(self) -> datetime:
        """When something became known of it; later than now, where the clock went back since."""
        return self.asked_at or self.since


class Warnings:
    """Reads warning events in one namespace."""

    def __init__(self, api: Api, clock: Callable[[], datetime]) -> None:
        self._api = api
        self._clock = clock
        self._missed: dict[str, _Missed] = {}
        """Objects that are missing now, by name."""

    async def about(self, subjects: Mapping[Asking, str]) -> dict[Asking, str]:
        """`subjects`: whose word is wanted, and the object that has not come. Empty words are left
        out."""
        now = self._clock()
        wanted = set(subjects.values())
        known = {name: one for name, one in self._missed.items() if one.last_at <= now}
        self._missed = {n: known.get(n) or _Missed(now) for n in sorted(wanted)}
        for name, one in self._missed.items():
            if now - one.last_at >= PATIENCE:
                one.asked_at = now
                with suppress(BookieError):  # a hint for people; no right, no hint
                    fields = {"involvedObject.name": name, "type": "Warning"}
                    one.word = last_word(await self._api.list(EVENT, fields=fields), one.since)
        return {
            key: self._missed[name].word
            for key, name in subjects.items()
            if self._missed[name].word
        }


def last_word(events: Sequence[Object], since: datetime) -> str:
    """`Reason: message` of the newest event, without those of an earlier object of the name."""
    timed = [(at, one) for one in events if (at := _time(one)) and at >= since - SLACK]
    if not timed:
        return ""
    _at, last = max(timed, key=lambda pair: pair[0])
    return f"{last.get('reason')}: {last.get('message')}"


def _time(event: Object) -> datetime | None:
    series = event.get("series") or {}
    text = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    return datetime.fromisoformat(str(text)) if text else None
