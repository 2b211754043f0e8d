"""What was acknowledged against what was read: pure, and of nothing but the notes of both sides."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

SHOWN_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class Written:
    """What a producer noted. `ms`: its begin and each acknowledgement, in order, since 1970."""

    acknowledged: Mapping[str, frozenset[int]]
    failed: tuple[str, ...]
    ms: tuple[float, ...]
    aborted: frozenset[tuple[str, int]]
    """Sent in transactions that came to nothing: nobody may read them."""
    sent: int | None
    """None: it did not come to its end, and nobody knows what it sent beyond its notes."""

    @classmethod
    def of(cls, notes: str) -> "Written":
        found: dict[str, set[int]] = {}
        failed: list[str] = []
        ms: list[float] = []
        aborted = set()
        sent = None
        for line in notes.splitlines():
            word, *rest = line.split()
            if word == "begin":
                ms.append(float(rest[0]))
            elif word == "ack":
                found.setdefault(rest[0], set()).add(int(rest[1]))
                ms.append(float(rest[2]))
            elif word == "aborted":
                aborted.add((rest[0], int(rest[1])))
            elif word == "failed":
                failed.append(" ".join(rest))
            elif word == "end":
                sent = int(rest[0])
        frozen = {key: frozenset(numbers) for key, numbers in found.items()}
        return cls(frozen, tuple(failed), tuple(sorted(ms)), frozenset(aborted), sent)

    @property
    def total(self) -> int:
        return sum(len(numbers) for numbers in self.acknowledged.values())

    @property
    def longest_gap_s(self) -> float:
        """Between two acknowledgements, and before the first one."""
        return self.gap_s(0.0, float("inf"))

    def gap_s(self, since_s: float, until_s: float) -> float:
        """The longest whose middle lies between these times, since 1970."""
        since, until = since_s * 1000, until_s * 1000
        gaps = (b - a for a, b in pairwise(self.ms) if since <= (a + b) / 2 < until)
        return max(gaps, default=0.0) / 1000


@dataclass(frozen=True, slots=True)
class Seen:
    """What a consumer read, in its order: partition, key, number. `whole`: up to the end."""

    messages: tuple[tuple[str, str, int], ...]
    foreign: tuple[str, ...]
    whole: bool

    @classmethod
    def of(cls, lines: str) -> "Seen":
        messages, foreign, whole = [], [], False
        for line in lines.splitlines():
            words = line.split(maxsplit=2)
            if words == ["end"]:
                whole = True
            elif words[1] == "foreign":
                foreign.append(line)
            else:
                messages.append((words[0], words[1], int(words[2])))
        return cls(tuple(messages), tuple(foreign), whole)

    @property
    def repeats(self) -> int:
        """Messages that were read before: a client sends again what it has no answer to."""
        return sum(times - 1 for times in Counter((k, n) for _p, k, n in self.messages).values())


def findings(written: Written, seen: Seen) -> list[str]:
    """What must not be; empty when every acknowledged message was read once in its key's order,
    maybe once more by a repeat, and nothing but what was sent."""
    found = [] if seen.whole else ["the reader did not come to its end"]
    if written.sent is None:
        found.append("the producer did not come to its end")
    if not written.acknowledged:
        found.append("nothing was acknowledged")
    found += _few("failed", written.failed) + _few("foreign", seen.foreign)
    read: dict[str, list[int]] = {}
    homes: dict[str, set[str]] = {}
    for partition, key, number in seen.messages:
        homes.setdefault(key, set()).add(partition)
        read.setdefault(key, []).append(number)
    for key, numbers in read.items():
        firsts = list(dict.fromkeys(numbers))
        found += _few(f"{key} out of order", _falls(firsts))
        beyond = [] if written.sent is None else _beyond(key, firsts, written)
        found += _few(f"{key} never sent", beyond)
        found += _few(f"{key} aborted", [n for n in firsts if (key, n) in written.aborted])
        if len(homes[key]) > 1:
            found.append(f"{key} is in partitions {sorted(homes[key])}")
    for key, numbers in written.acknowledged.items():
        found += _few(f"{key} lost", sorted(numbers - set(read.get(key, ()))))
    return found


def _falls(numbers: list[int]) -> list[str]:
    return [f"{b} after {a}" for a, b in pairwise(numbers) if b < a]


def _beyond(key: str, numbers: Iterable[int], written: Written) -> list[int]:
    """Numbers that the producer, by its own count, cannot have given."""
    keys = len(written.acknowledged)
    sent = written.sent or 0
    return [n for n in numbers if key not in written.acknowledged or n * keys >= sent]


def _few(what: str, items: Iterable[object]) -> list[str]:
    listed = list(items)
    if not listed:
        return []
    shown = ", ".join(str(item) for item in listed[:SHOWN_MAX])
    return [f"{what}: {len(listed)}, such as {shown}"]


def last_of_each(written: Written) -> dict[str, int]:
    """What is left of a topic once it is compacted."""
    return {key: max(numbers) for key, numbers in written.acknowledged.items()}
