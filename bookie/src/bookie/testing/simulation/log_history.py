"""What must hold of a log of ledgers, whoever owned it when: the rules, of values only.

Every acknowledged append is read back, once, where its owner learned that it is, and behind
whatever was acknowledged before it was begun.
"""

from collections import Counter
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

from bookie.client.log_reading import LogEntry, LogPosition
from bookie.ids import LedgerId


@dataclass(frozen=True, slots=True)
class LogAppend:
    """One append that was acknowledged; in seconds of the simulation when it was, and begun."""

    position: LogPosition
    payload: bytes
    begun_s: float
    acked_s: float


def log_violations(
    appends: Sequence[LogAppend], found: Sequence[LogEntry], *, excused: Container[LedgerId]
) -> Iterator[str]:
    """`found`: all that the log gives. `excused`: ledgers that were deleted past the log, or of
    which a loss is on record.
    """
    read = {entry.position: entry.payload for entry in found}
    for append in appends:
        payload = read.get(append.position)
        if payload != append.payload and append.position.ledger_id not in excused:
            yield (
                f"the log: {append.payload!r} was acknowledged at {append.position}, "
                f"read was {payload!r}"
            )
    positions = [entry.position for entry in found]
    if sorted(set(positions)) != positions:
        yield f"the log was not read in order, each position once: {positions}"
    times = Counter(entry.payload for entry in found)
    if twice := [payload for payload, count in times.items() if count > 1]:
        yield f"the log has entries that were appended once and are there twice: {twice}"
    kept = [append for append in appends if append.position.ledger_id not in excused]
    yield from _overtaken(kept)


def _overtaken(appends: Sequence[LogAppend]) -> Iterator[str]:
    latest: LogAppend | None = None
    for append in sorted(appends, key=lambda one: one.position):
        if latest is not None and append.acked_s < latest.begun_s:
            yield (
                f"the log: {append.payload!r} was acknowledged before {latest.payload!r} was "
                f"begun and stands behind it, at {append.position} and {latest.position}"
            )
        if latest is None or append.begun_s > latest.begun_s:
            latest = append
