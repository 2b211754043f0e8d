"""A drain's moves: another bookie takes over what one has of the fragments before the last.

The rules are those of `repair.mend.ledger_move`: copies first, as recovery adds, which nothing
refuses; then a flush, and a look at what the target holds; then a compare-and-set of the metadata.
Only an OPEN ledger has such moves here: while it is IN_RECOVERY nothing moves, and when it is
CLOSED no writer is left whom a move could meet.

Not here is the last look of a drain (`_watch_over`): whether the target lost its disks just before
the metadata named it, with no reason to mark the ledger. So no model has moves and lost disks both:
the entry lacks a copy from then until that look, whatever the rules of limbo are.
"""

from collections.abc import Iterator

from model_bookie import Act
from model_rules import Bounds, Rules
from model_state import Bookie, MovePhase, MoveRole, Shared, Status
from model_writer import Bookies, Move


class MoverMoves:
    """All moves of one mover, one move after the other."""

    def __init__(self, bounds: Bounds, rules: Rules) -> None:
        self._entries = range(bounds.entries)
        self._rules = rules

    def all(self, shared: Shared, bookies: Bookies) -> Iterator[Move]:
        if shared.moving is MovePhase.NONE or shared.status is not Status.OPEN:
            if any(bookie.move for bookie in bookies):
                yield self._gives_up(shared, bookies)
            elif shared.moves and shared.status is Status.OPEN:
                yield from self._plans(shared, bookies)
            return
        source, target = (_who(bookies, role) for role in (MoveRole.SOURCE, MoveRole.TARGET))
        if shared.moving is MovePhase.VERIFIED:
            yield self._commits(shared, bookies, source, target)
        elif bookies[target].serves:
            yield from self._copies(shared, bookies, source, target)

    def _plans(self, shared: Shared, bookies: Bookies) -> Iterator[Move]:
        for source, leaving in enumerate(bookies):
            if not finished(shared, leaving):
                continue
            for target, coming in enumerate(bookies):
                if coming.serves and not finished(shared, coming):
                    planned = list(bookies)
                    planned[source] = leaving._replace(move=MoveRole.SOURCE)
                    planned[target] = coming._replace(move=MoveRole.TARGET)
                    left = shared._replace(moves=shared.moves - 1, moving=MovePhase.PLANNED)
                    yield source, Act("plans_move", other=target), left, planned

    def _copies(self, shared: Shared, bookies: Bookies, source: int, target: int) -> Iterator[Move]:
        """What the target lacks comes from whoever has it; then it syncs, and is asked again."""
        coming = bookies[target]
        missing = finished(shared, bookies[source]) & ~coming.held
        for entry in self._entries:
            has_source = any(b.serves and b.held >> entry & 1 for b in bookies)
            if missing >> entry & 1 and has_source and coming.noted:
                held = coming._replace(held=coming.held | 1 << entry)
                yield target, Act("copies_move", entry), shared, _with(bookies, target, held)
        if not missing or not self._rules.move_needs_copies:
            synced = coming.held if self._rules.move_after_sync else coming.synced
            verified = shared._replace(moving=MovePhase.VERIFIED)
            after = _with(bookies, target, coming._replace(synced=synced))
            yield target, Act("verifies_move"), verified, after

    def _commits(self, shared: Shared, bookies: Bookies, source: int, target: int) -> Move:
        share = finished(shared, bookies[source])
        leaving, coming = bookies[source], bookies[target]
        moved = _with(
            bookies, source, leaving._replace(owns=leaving.owns & ~share, move=MoveRole.NONE)
        )
        moved = _with(moved, target, coming._replace(owns=coming.owns | share, move=MoveRole.NONE))
        over = shared._replace(moving=MovePhase.NONE)
        return target, Act("moves", other=source), over, moved

    def _gives_up(self, shared: Shared, bookies: Bookies) -> Move:
        free = [bookie._replace(move=MoveRole.NONE) for bookie in bookies]
        return -1, Act("gives_up_move"), shared._replace(moving=MovePhase.NONE), free


def finished(shared: Shared, bookie: Bookie) -> int:
    """What the fragments before the last attribute to this bookie."""
    return bookie.owns & ((1 << shared.first) - 1)


def _who(bookies: Bookies, role: MoveRole) -> int:
    return next(at for at, bookie in enumerate(bookies) if bookie.move is role)


def _with(bookies: Bookies, at: int, bookie: Bookie) -> Bookies:
    return [*bookies[:at], bookie, *bookies[at + 1 :]]
