"""What the cluster has promised, ledger by ledger, and what was found against it.

An acknowledged entry must be readable for ever; so must one that any reader was ever given. A
ledger that was seen closed keeps its end. Writers and readers note what they were told; the final
audit holds the cluster to all of it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from payload_rule import PayloadRule

NONE: Final = -1
FINDINGS_MAX: Final = 100

Row = tuple[int, int, int, int | None, bool]
"""Ledger id, last acknowledged, last read, end when closed, whether it is to be deleted."""


@dataclass(slots=True)
class Promise:
    """Of one ledger: ids, -1 = none. `end`: None until it was seen closed. `doomed`: somebody is
    about to delete it, or has.
    """

    acked: int = NONE
    seen: int = NONE
    end: int | None = None
    doomed: bool = False
    short: int = 0
    """Entries that the end is known to cut off."""

    @property
    def through(self) -> int:
        """The last entry that must be there."""
        return max(self.acked, self.seen)


@dataclass(slots=True)
class Findings:
    """What must not be. Everything is counted; the first of each kind are told in words."""

    lost: int = 0
    wrong: int = 0
    failed: int = 0
    words: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        return self.lost + self.wrong + self.failed

    def add_lost(self, entries: int, words: str) -> None:
        self.lost += entries
        self._tell(words)

    def add_wrong(self, words: str) -> None:
        self.wrong += 1
        self._tell(words)

    def add_failed(self, words: str) -> None:
        self.failed += 1
        self._tell(words)

    def add(self, other: "Findings") -> None:
        self.lost += other.lost
        self.wrong += other.wrong
        self.failed += other.failed
        for words in other.words:
            self._tell(words)

    def _tell(self, words: str) -> None:
        if len(self.words) < FINDINGS_MAX:
            self.words.append(words)


class Promises:
    """The promises of all ledgers that somebody has noted here."""

    def __init__(self, rule: PayloadRule) -> None:
        self._rule = rule
        self.ledgers: dict[int, Promise] = {}
        self.findings = Findings()
        self.acked = 0
        self.checked = 0
        self._changed: set[int] = set()

    def _of(self, ledger_id: int) -> Promise:
        self._changed.add(ledger_id)
        return self.ledgers.setdefault(ledger_id, Promise())

    def note_acked(self, ledger_id: int, last: int) -> None:
        """The writer's caller was told that all up to `last` is acknowledged."""
        promise = self._of(ledger_id)
        self.acked += max(last - promise.acked, 0)
        promise.acked = max(last, promise.acked)
        self._check_end(ledger_id, promise)

    def note_end(self, ledger_id: int, end: int) -> None:
        """Somebody saw the ledger closed at `end`."""
        promise = self._of(ledger_id)
        if promise.end is not None and promise.end != end:
            self.findings.add_wrong(
                f"ledger {ledger_id} was closed at {promise.end}, now it ends at {end}"
            )
        promise.end = end
        self._check_end(ledger_id, promise)

    def _check_end(self, ledger_id: int, promise: Promise) -> None:
        if promise.end is None:
            return
        short = promise.through - promise.end
        if short > promise.short:
            self.findings.add_lost(
                short - promise.short,
                f"ledger {ledger_id} is closed at {promise.end}; acknowledged up to "
                f"{promise.acked}, read up to {promise.seen}",
            )
            promise.short = short

    def note_read(self, ledger_id: int, entry_id: int, payload: bytes) -> None:
        """A reader was given this entry: it must be right, and stay."""
        self.checked += 1
        if payload != self._rule.payload(ledger_id, entry_id):
            self.findings.add_wrong(
                f"ledger {ledger_id} entry {entry_id}: {len(payload)} bytes that nobody wrote "
                f"there, beginning with {payload[:24].hex()}"
            )
        promise = self._of(ledger_id)
        promise.seen = max(entry_id, promise.seen)
        self._check_end(ledger_id, promise)

    def note_doomed(self, ledger_id: int) -> None:
        """It may be gone from now on."""
        self._of(ledger_id).doomed = True

    def note_missing(self, ledger_id: int, entry_id: int, why: str) -> None:
        """A reader was told that an entry that must be there is not."""
        self.findings.add_lost(1, f"ledger {ledger_id} entry {entry_id}: {why}")

    def note_gone(self, ledger_id: int, why: str) -> None:
        """Somebody was told that there is no such ledger: lost, unless it was to be deleted."""
        promise = self._of(ledger_id)
        if not promise.doomed:
            entries = max(promise.through + 1, 1)
            self.findings.add_lost(entries, f"ledger {ledger_id}: {why}")

    def changes(self) -> Iterator[Row]:
        """What changed since the last call, for another process."""
        changed, self._changed = sorted(self._changed), set()
        for ledger_id in changed:
            promise = self.ledgers[ledger_id]
            yield ledger_id, promise.acked, promise.seen, promise.end, promise.doomed

    def merge(self, row: Row) -> None:
        """What another process has noted."""
        ledger_id, acked, seen, end, doomed = row
        promise = self._of(ledger_id)
        promise.doomed = promise.doomed or doomed
        promise.seen = max(seen, promise.seen)
        self.note_acked(ledger_id, acked)
        if end is not None:
            self.note_end(ledger_id, end)
