"""A second look beside a story: every bookie is asked for its copies, again and again.

What a cluster says of itself is held against it: `DurabilityVerified` must not be True while a copy
is missing. A copy that is missing at two looks, and at none between them there, was missing in
between. Looks that see nothing prove nothing: `blind` says why they cannot be believed.
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
from harness.load import Load
from harness.settings import PATIENCE
from harness.watch import Seen

AGAIN_S: Final = 1.0
NOTICE: Final = timedelta(seconds=25)
"""So long a True of before the fault may stand: a partition is noticed after 19 s."""
APART: Final = timedelta(seconds=30 * PATIENCE)
"""Looks further apart than this leave time for what nobody saw."""


class Copy(NamedTuple):
    """What a bookie owes."""

    bookie: str
    ledger: int
    entry: int


@dataclass(frozen=True, slots=True)
class Look:
    """One audit of all ledgers."""

    began: datetime
    ended: datetime
    missing: frozenset[Copy]
    unknown: frozenset[tuple[str, int]] = frozenset()
    """Bookies and ledgers that could not be asked about: a copy there may be missing, or not."""
    left_out: int = 0
    """Findings that the audit had no room to list."""


@dataclass(frozen=True, slots=True)
class Missed:
    """A copy, missing from the end of one look to the begin of another."""

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

    def stop(self) -> None:
        """Ends them; what made the thread fail is no look that came to no end."""
        self._is_over.set()
        self._thread.join()

    def look(self) -> Look:
        """One more, now; whatever it meets is raised."""
        began = datetime.now(UTC)
        found = self._load.copies(digests=False)
        look = Look(
            began,
            datetime.now(UTC),
            frozenset(missing(found)),
            frozenset(unknown(found)),
            int(found["findings_left_out"]),
        )
        self.done.append(look)
        return look

    def _go_on(self) -> None:
        while not self._is_over.wait(AGAIN_S):
            try:
                self.look()
            except (CommandError, json.JSONDecodeError) as error:
                self.failed.append(str(error))


def missing(document: Mapping[str, Any]) -> Iterator[Copy]:
    """Of an audit's findings. Ranges without room in the list are an error: part is not seen."""
    for ledger in document["findings"]:
        for bookie, found in ledger["bookies"].items():
            owed = found.get("missing", {"ranges": [], "ranges_left_out": 0})
            assert not owed["ranges_left_out"], f"not all that {bookie} lacks is listed: {ledger}"
            for first, last in owed["ranges"]:
                for entry in range(first, last + 1):
                    yield Copy(bookie, ledger["ledger_id"], entry)


def unknown(document: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Bookies and ledgers of which an audit could not tell."""
    for ledger in document["findings"]:
        for bookie, found in ledger["bookies"].items():
            if "unknown" in found:
                yield bookie, ledger["ledger_id"]


def missed(looks: Sequence[Look]) -> Iterator[Missed]:
    """Each copy that was missing twice, and seen there at no look between, nor out of sight for
    longer than APART."""
    seen: dict[Copy, tuple[datetime, datetime]] = {}
    for look in looks:
        for copy in look.missing:
            since, last = seen.get(copy, (look.ended, look.ended))
            if look.began - last > APART:
                since = look.ended
            elif copy in seen:
                yield Missed(copy, since, look.began)
            seen[copy] = (since, look.ended)
        for copy in seen.keys() - look.missing:
            if (copy.bookie, copy.ledger) not in look.unknown:
                del seen[copy]


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


def blind(looks: Sequence[Look], seen: Sequence[Seen], *, began: datetime) -> list[str]:
    """Why nothing follows from the looks; the last one is to be of the end."""
    reasons = []
    if not seen:
        reasons.append("no version of the cluster was seen")
    ends = [began, *(look.ended for look in looks)]
    gap = max((after - before for before, after in pairwise(ends)), default=timedelta())
    if gap > APART:
        reasons.append(f"nothing was looked at for {gap.total_seconds():.0f} s")
    if not looks or looks[-1].unknown or looks[-1].missing:
        reasons.append("the last look did not see every copy")
    if left_out := sum(look.left_out for look in looks):
        reasons.append(f"{left_out} findings had no room in what was seen")
    return reasons


def held_against(looks: Sequence[Look], seen: Sequence[Seen], kind: str) -> list[str]:
    """Where the condition was True while a copy was missing."""
    return untrue(list(times_of_true(seen, kind, now=datetime.now(UTC))), missed(looks))
