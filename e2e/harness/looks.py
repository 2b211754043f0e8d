"""A second look beside a story: every bookie is asked for its copies, again and again.

What a cluster says of itself is held against it: `DurabilityVerified` must not be True while a copy
is missing. A copy that two looks in a row miss was missing in between, whatever else went on.
"""

import json
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, Final, NamedTuple

from harness.commands import CommandError
from harness.fleet import condition_of
from harness.kube import Object
from harness.load import Load
from harness.watch import Seen

AGAIN_S: Final = 1.0
NOTICE: Final = timedelta(seconds=25)
"""So long a True of before the fault may stand: a partition is noticed after 19 s."""


class Copy(NamedTuple):
    """What a bookie owes."""

    bookie: str
    ledger: int
    entry: int


@dataclass(frozen=True, slots=True)
class Look:
    """One audit of all ledgers. A copy that could not be asked for is not called missing."""

    began: datetime
    ended: datetime
    missing: frozenset[Copy]


@dataclass(frozen=True, slots=True)
class Missed:
    """A copy, missing at each look from the end of one to the begin of another."""

    copy: Copy
    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class Span:
    """A time in which the condition was True."""

    since: datetime
    until: datetime


class Looks:
    """Looks in a thread of its own, from `start` to `stop`."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._go_on, daemon=True)
        self.done: list[Look] = []
        self.failed: list[str] = []
        """Looks that came to no end, by what they said: the metadata store was away, say."""

    def start(self) -> "Looks":
        self._thread.start()
        return self

    def stop(self) -> Sequence[Look]:
        self._is_over.set()
        self._thread.join()
        return self.done

    def _go_on(self) -> None:
        while not self._is_over.wait(AGAIN_S):
            began = datetime.now(UTC)
            try:
                found = self._load.copies(digests=False)
            except (CommandError, json.JSONDecodeError) as error:
                self.failed.append(str(error))
            else:
                self.done.append(Look(began, datetime.now(UTC), frozenset(missing(found))))


def missing(document: Mapping[str, Any]) -> Iterator[Copy]:
    """Of an audit's findings; what it had no room to list is left out."""
    for ledger in document["findings"]:
        for bookie, found in (ledger.get("bookies") or {}).items():
            for first, last in (found.get("missing") or {}).get("ranges", ()):
                for entry in range(first, last + 1):
                    yield Copy(bookie, ledger["ledger_id"], entry)


def missed(looks: Sequence[Look]) -> Iterator[Missed]:
    """Each copy that two looks or more in a row did not find."""
    since: dict[Copy, datetime] = {}
    for before, look in pairwise(looks):
        for copy in before.missing & look.missing:
            began = since.setdefault(copy, before.ended)
            yield Missed(copy, began, look.began)
        since = {copy: began for copy, began in since.items() if copy in look.missing}


def times_of_true(seen: Iterable[Seen], kind: str, *, now: datetime) -> Iterator[Span]:
    """When the condition was True, by the versions of the object that were watched."""
    since: datetime | None = None
    for one in seen:
        is_true = condition_of(one.object, kind)["status"] == "True"
        if is_true and since is None:
            since = one.at
        if not is_true and since is not None:
            yield Span(since, one.at)
            since = None
    if since is not None:
        yield Span(since, now)


def untrue(times: Sequence[Span], misses: Iterable[Missed]) -> list[str]:
    """Where the condition became True, or stayed it past NOTICE, while a copy was missing."""
    found = {}
    for miss in misses:
        for span in times:
            overlaps = max(span.since, miss.since) < min(span.until, miss.until)
            became = span.since > miss.since
            stayed = min(span.until, miss.until) - miss.since > NOTICE
            if overlaps and (became or stayed):
                found[miss.copy] = (
                    f"{miss.copy}: missing {miss.since:%T} to {miss.until:%T}, {span}"
                )
    return list(found.values())


def held_against(looks: Sequence[Look], seen: Sequence[Seen], kind: str) -> Object:
    """What the looks say of the condition, as figures; `untrue` must be empty."""
    spans = list(times_of_true(seen, kind, now=datetime.now(UTC)))
    return {
        "looks": len(looks),
        "most_missing": max((len(look.missing) for look in looks), default=0),
        "untrue": untrue(spans, missed(looks)),
    }
