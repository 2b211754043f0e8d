"""Looks at every bookie's tombstones again and again: none stands for a ledger that exists.

A bookie drops only what the metadata store has lost for good, or for so long that it must believe
it. What was dropped by such a mistake gives way as soon as its ledger is named again, and stays so.
"""

from collections.abc import Callable, Container, Iterable, Sequence

from bookie.ids import LedgerId
from bookie.testing.simulation.bookies import SimBookie
from bookie.testing.simulation.history import History

Tombstone = tuple[str, LedgerId]


class CollectionWatch:
    """See the module. `patience_s`: within so long a tombstone gives way."""

    def __init__(
        self,
        bookies: Sequence[SimBookie],
        history: History,
        now: Callable[[], float],
        *,
        patience_s: float,
    ) -> None:
        self._bookies = bookies
        self._history = history
        self._now = now
        self._patience_s = patience_s
        self.mislaid: set[LedgerId] = set()
        """Ledgers that were missing so long that bookies could rightly remove their entries."""
        self._standing: dict[Tombstone, float] = {}
        """Tombstones of ledgers that exist again, and since when their bookie was seen serving with
        them."""
        self._told: set[Tombstone] = set()

    def mislay(self, ledger_ids: Iterable[LedgerId]) -> None:
        """Note that the store has lost these ledgers, which looks the same as a deletion."""
        self.mislaid.update(ledger_ids)

    def look(self) -> None:
        """Check all serving bookies now."""
        for bookie in self._bookies:
            found = bookie.tombstones
            if found is None:
                self._forget(bookie.name)
                continue
            there = {i for i in found if self._history.ledger(i).metadata is not None}
            self._forget(bookie.name, but=there)
            for ledger_id in sorted(there):
                self._check((bookie.name, ledger_id))
            for ledger_id in sorted(self.mislaid):
                self._check_returns(bookie, ledger_id)

    def _forget(self, bookie: str, *, but: Container[LedgerId] = ()) -> None:
        gone = [one for one in self._standing if one[0] == bookie and one[1] not in but]
        for tombstone in gone:
            del self._standing[tombstone]

    def _check(self, tombstone: Tombstone) -> None:
        bookie, ledger_id = tombstone
        since = self._standing.setdefault(tombstone, self._now())
        if ledger_id not in self.mislaid:
            self._tell(tombstone, f"{bookie} has dropped ledger {ledger_id}, which exists")
        elif self._now() - since > self._patience_s:
            self._tell(
                tombstone,
                f"{bookie} keeps a tombstone of ledger {ledger_id}, which is there again since "
                f"{since:.3f} s",
            )

    def _check_returns(self, bookie: SimBookie, ledger_id: LedgerId) -> None:
        """Each ledger here is found again once: so often its tombstone gives way."""
        if bookie.returns(ledger_id) > 1:
            self._tell(
                (bookie.name, ledger_id),
                f"{bookie.name} had let the tombstone of ledger {ledger_id} go, and had it again",
            )

    def _tell(self, tombstone: Tombstone, rule: str) -> None:
        if tombstone not in self._told:
            self._told.add(tombstone)
            self._history.violate(rule)
