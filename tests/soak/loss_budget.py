"""Who may forget now: at most ack quorum - 1 bookies, until nothing of it is in doubt any more.

The operator's own rule. A soak that broke it could not call anything lost a defect.
"""


class LossBudget:
    """Bookies that have forgotten and are not wholly repaired."""

    def __init__(self, *, ack_quorum: int) -> None:
        self.most = ack_quorum - 1
        self.spent: set[str] = set()

    def take(self, bookie: str) -> bool:
        """True when this bookie may be made to forget, now or once more."""
        if bookie not in self.spent and len(self.spent) >= self.most:
            return False
        self.spent.add(bookie)
        return True

    def give_back(self, bookie: str, *, marks: int | None) -> bool:
        """After a look at its marks; None = they are not known, which keeps it spent."""
        if marks == 0:
            self.spent.discard(bookie)
        return marks == 0
