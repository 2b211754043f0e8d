"""Notes: for which ledgers entries may be here that no disk has yet, and when a note ends.

In memory mode an add is answered only once the ledger's record says `noted`, durably. So after an
unclean stop a ledger without a note has forgotten nothing here. A note that came and went with each
add would cost each a sync of the journal. So a ledger keeps its note while it is written, and for
some flushes longer; then the note is taken back in memory, and the next checkpoint makes that
durable. A crash before it leaves a note too many, which is safe.

A note may go only while an index has everything of its ledger: then no row of it is in memory. A
second guard is that an index commits a ledger's rows and its record in one transaction: so the
record without the note is durable no sooner than what was in memory.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from itertools import islice
from typing import Final

from bookie.ids import LedgerId
from bookie.storage.ledger_table import Ledgers

NOTES_AT_ONCE_MAX: Final = 2048
"""How many noted ledgers one call looks at, as it holds up the event loop."""


@dataclass(eq=False)
class LedgerNotes:
    """For how long each noted ledger has been idle. The caller holds the storage's lock."""

    ledgers: Ledgers
    _: KW_ONLY
    idle_flushes: int
    """A note is taken back at the end of the first flush that is the so many-th without an add."""
    has_unsynced: Callable[[LedgerId], bool]
    """Whether rows of the ledger are in memory."""
    _idle: dict[LedgerId, int] = field(default_factory=dict)
    """By noted ledger: after how many flushes in a row it was found idle; 0 is left out."""
    _written: set[LedgerId] = field(default_factory=set)
    """Ledgers of which a checkpoint took rows since the last flush ended."""
    _turn: Iterator[LedgerId] | None = None
    """The noted ledgers that are left to look at after the present flush; None between two."""
    _seen: set[LedgerId] = field(default_factory=set)
    """What `_written` was when the turn began."""

    def written(self, ledger_ids: Iterable[LedgerId]) -> None:
        """A checkpoint has taken rows of these ledgers."""
        self._written.update(ledger_ids)

    def take_back_some(self) -> bool:
        """Look at some noted ledgers after a flush; False when all were looked at."""
        if self._turn is None:
            self._turn = iter(self.ledgers.noted())
            self._seen, self._written = self._written, set()
        some = list(islice(self._turn, NOTES_AT_ONCE_MAX))
        for ledger_id in some:
            self._look_at(ledger_id)
        if not some:
            self._turn = None
            self._seen = set()
        return bool(some)

    def _look_at(self, ledger_id: LedgerId) -> None:
        if ledger_id in self._seen or self.has_unsynced(ledger_id):
            self._idle.pop(ledger_id, None)
            return
        idle = self._idle.get(ledger_id, 0) + 1
        if idle < self.idle_flushes:
            self._idle[ledger_id] = idle
            return
        self._idle.pop(ledger_id, None)
        self.ledgers.take_back_note(ledger_id)
