"""What writers of a log were promised against what its readers saw: pure, and of nothing but the
notes of both sides.

Each number is tried once: it is read once where it was acknowledged, at most once where it failed,
and nothing is read that nobody tried.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

SHOWN_MAX: Final = 3

Position = tuple[int, int, int]
"""Log segment, entry and slot within it: what DistributedLog calls a DLSN."""


def position_of(words: str) -> Position:
    segment, entry, slot = (int(part) for part in words.split(":"))
    return segment, entry, slot


@dataclass(frozen=True, slots=True)
class Noted:
    """What one writer noted. `ms`: since 1970; `beyond`: the first number that it did not try."""

    first: int
    acknowledged: dict[int, Position]
    failed: tuple[tuple[int, str], ...]
    opened_ms: tuple[int, ...]
    """When a writer was open: the first time, and after each failure."""
    acknowledged_ms: tuple[int, ...]
    began_ms: int | None
    beyond: int | None
    """None: it did not come to its end, and nobody knows what it tried beyond its notes."""

    @classmethod
    def of(cls, notes: str, *, first: int) -> "Noted":
        acknowledged: dict[int, Position] = {}
        failed, opened, ms = [], [], []
        began = beyond = None
        for line in notes.splitlines():
            word, *rest = line.split(maxsplit=4)
            if word == "begin":
                began = int(rest[0])
            elif word == "open":
                opened.append(int(rest[0]))
            elif word == "ack":
                acknowledged[int(rest[1])] = position_of(rest[3])
                ms.append(int(rest[2]))
            elif word == "failed":
                failed.append((int(rest[1]), " ".join(rest[2:])))
            elif word == "end":
                beyond = int(rest[0])
        return cls(first, acknowledged, tuple(failed), tuple(opened), tuple(ms), began, beyond)

    @property
    def last(self) -> int:
        """The last number that was acknowledged."""
        return max(self.acknowledged)

    def tried(self, number: int) -> bool:
        return number >= self.first and (self.beyond is None or number < self.beyond)


@dataclass(frozen=True, slots=True)
class Seen:
    """What one reader saw, in its order. `whole`: up to its end; `reopened`: after failures."""

    records: tuple[tuple[int, Position], ...]
    ms: tuple[int, ...]
    foreign: tuple[str, ...]
    reopened: tuple[str, ...]
    whole: bool

    @classmethod
    def of(cls, lines: str) -> "Seen":
        records, ms, foreign, reopened, whole = [], [], [], [], False
        for line in lines.splitlines():
            first, _, rest = line.partition(" ")
            if first == "end":
                whole = True
            elif first == "foreign":
                foreign.append(rest)
            elif first == "reopen":
                reopened.append(rest)
            else:
                at, when = rest.split()
                records.append((int(first), position_of(at)))
                ms.append(int(when))
        return cls(tuple(records), tuple(ms), tuple(foreign), tuple(reopened), whole)

    @property
    def numbers(self) -> list[int]:
        return [number for number, _at in self.records]


def findings(writers: Sequence[Noted], seen: Seen, *, since: int = 0) -> list[str]:
    """What must not be; empty when of all numbers not below `since` each acknowledged one was read
    once, in order, where its writer was told that it lies, and nothing but what was tried."""
    found = [] if seen.whole else [f"the reader did not come to its end{_why(seen)}"]
    promised = {n: at for one in writers for n, at in one.acknowledged.items() if n >= since}
    if not promised:
        found.append("nothing was acknowledged")
    numbers = seen.numbers
    places = [at for _number, at in seen.records]
    read = dict(seen.records)
    found += _few("foreign", seen.foreign)
    found += _few("lost", sorted(promised.keys() - read.keys()))
    found += _few("read again", sorted(n for n, times in Counter(numbers).items() if times > 1))
    found += _few("out of order", [f"{b} after {a}" for a, b in pairwise(numbers) if b < a])
    falls = [f"{b} after {a}" for a, b in pairwise(places) if b <= a]
    found += _few("positions out of order", falls)
    found += _few("never tried", [n for n in numbers if not any(w.tried(n) for w in writers)])
    found += _few("before the start", [n for n in numbers if n < since])
    moved = [n for n, at in promised.items() if read.get(n, at) != at]
    return found + _few("not where its writer was told", sorted(moved))


def fencing_findings(first: Noted, second: Noted) -> list[str]:
    """What must not be once a second writer took a log from the first one."""
    if not second.opened_ms or not second.acknowledged:
        return ["the second writer wrote nothing"]
    found = [] if first.failed else ["no write of the first writer failed"]
    if len(first.opened_ms) > 1:
        found.append("the first writer opened the log again")
    taken = second.opened_ms[0]
    late = [ms - taken for ms in first.acknowledged_ms if ms > taken]
    return found + _few("acknowledged to the first writer after it was fenced (ms)", late)


def gap_s(writers: Sequence[Noted], since_s: float = 0.0, until_s: float = float("inf")) -> float:
    """The longest time without an acknowledgement to any of a log's writers, and before the first
    one, whose middle lies between these times, since 1970."""
    ms = sorted(ms for one in writers for ms in one.acknowledged_ms)
    began = [one.began_ms for one in writers[:1] if one.began_ms is not None]
    since, until = since_s * 1000, until_s * 1000
    gaps = (b - a for a, b in pairwise([*began, *ms]) if since <= (a + b) / 2 < until)
    return max(gaps, default=0) / 1000


def kinds(writers: Iterable[Noted]) -> dict[str, int]:
    """Failed records by the name of their error."""
    return dict(Counter(why.split()[0] for one in writers for _number, why in one.failed))


def _why(seen: Seen) -> str:
    return f": {seen.reopened[-1]}" if seen.reopened else ""


def _few(what: str, items: Iterable[object]) -> list[str]:
    listed = list(items)
    if not listed:
        return []
    return [f"{what}: {len(listed)}, such as {', '.join(map(str, listed[:SHOWN_MAX]))}"]
