"""What unclean stops took from bookies, and which adds must stay out for that reason.

A bookie that lacks something of a ledger takes no normal add of it until it lacks nothing any more
that it is to hold. If the stop took a disk, fences may be gone with it, and it never takes one.
"""

from collections.abc import Callable, Iterable

from bookie.ids import EntryId, LedgerId
from bookie.protocol.availability import EntrySet


class StopLosses:
    """See the module. `held`: what a bookie has now, None while it does not serve. `acked`: what it
    ever acknowledged. `owed`: what of that it is to hold now, without what it recorded as lost.
    """

    def __init__(
        self,
        held: Callable[[str, LedgerId], EntrySet | None],
        acked: Callable[[str, LedgerId], Iterable[EntryId]],
        owed: Callable[[str, LedgerId], EntrySet],
    ) -> None:
        self._held = held
        self._acked = acked
        self._owed = owed
        self._returning: dict[str, frozenset[LedgerId]] = {}
        """Bookies that stopped uncleanly and were asked nothing since -> all ledgers of then."""
        self._without_disk: set[str] = set()
        """Bookies among them whose stop took a disk."""
        self._missing: dict[str, set[LedgerId]] = {}
        """Bookie -> ledgers of which it may still lack something."""
        self._ever: dict[str, set[LedgerId]] = {}
        """Bookie -> ledgers of which a stop ever took something."""
        self._unfenced: dict[str, set[LedgerId]] = {}
        """Bookie -> those of which a stop took something together with a disk."""

    def stopped(self, bookie: str, ledgers: Iterable[LedgerId], *, lost_disk: bool) -> None:
        """An unclean stop; `ledgers`: all that there were."""
        self._returning[bookie] = frozenset(ledgers)
        if lost_disk:
            self._without_disk.add(bookie)

    def look(self, bookie: str) -> None:
        """It may be asked something for the first time since: what does it lack?"""
        if bookie not in self._returning:
            return
        lacking: set[LedgerId] = set()
        for ledger_id in self._returning[bookie]:
            held = self._held(bookie, ledger_id)
            if held is None:
                return
            if any(entry_id not in held for entry_id in self._acked(bookie, ledger_id)):
                lacking.add(ledger_id)
        del self._returning[bookie]
        self._missing[bookie] = lacking
        self._ever.setdefault(bookie, set()).update(lacking)
        if bookie in self._without_disk:
            self._without_disk.discard(bookie)
            self._unfenced.setdefault(bookie, set()).update(lacking)

    def bars(self, bookie: str, ledger_id: LedgerId) -> bool:
        """Whether a normal add that comes now must not be acknowledged."""
        if ledger_id in self._returning.get(bookie, ()):
            return True
        if ledger_id in self._unfenced.get(bookie, ()):
            return True
        if ledger_id not in self._missing.get(bookie, ()):
            return False
        held = self._held(bookie, ledger_id)
        if held is None or self._owed(bookie, ledger_id) - held:
            return True
        self._missing[bookie].discard(ledger_id)
        return False

    def took(self, bookie: str, ledger_id: LedgerId) -> bool:
        """Whether a stop ever took something of the ledger there."""
        self.look(bookie)
        return ledger_id in self._ever.get(bookie, ())
