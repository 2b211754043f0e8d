"""The writer's moves: `protocol.writer` for one ledger, adds one by one.

Each function takes the whole state apart, `(shared, bookies)`, and yields the moves with their
outcome. A reply that nobody waits for any more is dropped at once; a request never is.
"""

from collections.abc import Iterator, Sequence

from model_bookie import Act, put
from model_rules import Bounds, Rules
from model_state import Add, Bookie, MovePhase, Seat, Shared, Status
from model_write_sets import WriteSets

Bookies = list[Bookie]
Move = tuple[int, Act, Shared, Bookies]
"""Whom it concerns (a position, or -1), what it is, and what comes of it."""

REFUSALS = (Add.FENCED, Add.NOT_WRITABLE)


class WriterMoves:
    """All moves of the writer."""

    def __init__(self, bounds: Bounds, rules: Rules) -> None:
        self._bounds = bounds
        self._rules = rules
        self._tail = 1 << bounds.entries
        self._sets = WriteSets(bounds)
        self._acks_needed = rules.acks_needed or bounds.ack_quorum

    def all(self, shared: Shared, bookies: Bookies) -> Iterator[Move]:
        if not shared.writer_open:
            return
        for at, bookie in enumerate(bookies):
            for entry, add in enumerate(bookie.adds):
                if add >= Add.OK and add is not Add.COUNTED:
                    yield from self._hears(shared, bookies, at, entry)
        if shared.changing >= 0:
            yield self._commits(shared, bookies)
            return
        if shared.sent < self._bounds.entries:
            yield self._sends(shared, bookies)
        if self._bounds.writer_changes:
            yield from self._suspects(shared, bookies)
        yield from self._ends(shared, bookies)

    def _sends(self, shared: Shared, bookies: Bookies) -> Move:
        entry = shared.sent
        asked = [
            b._replace(adds=put(b.adds, entry, Add.REQUEST))
            if b.seat is Seat.MEMBER and self._sets.has(b.place, entry)
            else b
            for b in bookies
        ]
        sent = shared._replace(lacs=(*shared.lacs, shared.acked))
        return -1, Act("adds", entry), sent, asked

    # Replies
    def _hears(self, shared: Shared, bookies: Bookies, at: int, entry: int) -> Iterator[Move]:
        bookie = bookies[at]
        if bookie.adds[entry] is Add.OK:
            heard = list(bookies)
            heard[at] = bookie._replace(adds=put(bookie.adds, entry, Add.COUNTED))
            yield (at, Act("hears_ok", entry), *self._advance(shared, heard))
        elif bookie.adds[entry] is Add.NOT_WRITABLE or self._rules.fenced_is_failure:
            if shared.changing < 0:
                yield from self._replaces(shared, bookies, at)
        else:
            yield (at, Act("hears_fenced", entry), *stopped(shared, bookies))

    def _advance(self, shared: Shared, bookies: Bookies) -> tuple[Shared, Bookies]:
        """Acknowledge in order, as far as the committed ensemble stores it (R3)."""
        if shared.changing >= 0 and self._rules.frozen_while_changing:
            return shared, bookies
        while shared.acked < shared.sent and self._is_acked(shared, bookies):
            entry = shared.acked
            bookies = [b._replace(adds=put(b.adds, entry, late(b.adds[entry]))) for b in bookies]
            shared = shared._replace(acked=entry + 1)
        return shared, bookies

    def _is_acked(self, shared: Shared, bookies: Bookies) -> bool:
        oks = sum(bookie.adds[shared.acked] is Add.COUNTED for bookie in bookies)
        return oks >= self._acks_needed

    # Ensemble change (R20)
    def _suspects(self, shared: Shared, bookies: Bookies) -> Iterator[Move]:
        """A member is given up, whether it is down, slow or cut off; it may be none of these."""
        if shared.acked == shared.sent:
            return
        for at, bookie in enumerate(bookies):
            if bookie.seat is Seat.MEMBER:
                yield from self._replaces(shared, bookies, at)

    def _replaces(self, shared: Shared, bookies: Bookies, at: int) -> Iterator[Move]:
        if not shared.writer_changes:
            return
        for other, spare in enumerate(bookies):
            if spare.seat is not Seat.NONE or not spare.serves:
                continue
            chosen = list(bookies)
            leaving = bookies[at]
            adds = tuple(unheard(add) for add in leaving.adds)
            chosen[at] = leaving._replace(seat=Seat.LEAVING, adds=adds)
            chosen[other] = spare._replace(seat=Seat.COMING, place=leaving.place)
            left = shared._replace(changing=shared.acked, writer_changes=shared.writer_changes - 1)
            if not self._rules.commits_before_use:
                left, chosen = self._use(left, chosen)
            yield at, Act("replaces", shared.acked, other=other), left, chosen

    def _commits(self, shared: Shared, bookies: Bookies) -> Move:
        """The store's answer to the change."""
        if shared.status is not Status.OPEN and self._rules.change_checks_version:
            return (-1, Act("change_refused"), *stopped(shared, bookies))
        first = shared.changing
        later = (2 * self._tail - 1) & ~((1 << first) - 1)
        changed = [self._moved(bookie, later) for bookie in bookies]
        # A move that was planned before this change loses its own compare-and-set.
        shared = shared._replace(first=first, moving=MovePhase.NONE)
        return (-1, Act("changes", first), *self._use(shared, changed))

    def _use(self, shared: Shared, bookies: Bookies) -> tuple[Shared, Bookies]:
        """Un-ack what was replaced, send to who came, then evaluate in order."""
        if self._rules.commits_before_use:
            shared = shared._replace(changing=-1)
        seated = [self._seated(shared, bookie) for bookie in bookies]
        return self._advance(shared, seated)

    def _seated(self, shared: Shared, bookie: Bookie) -> Bookie:
        if bookie.seat is Seat.COMING:
            pending = range(shared.acked, shared.sent)
            owed = [entry for entry in pending if self._sets.has(bookie.place, entry)]
            adds = tuple(Add.REQUEST if e in owed else add for e, add in enumerate(bookie.adds))
            return bookie._replace(seat=Seat.MEMBER, adds=adds)
        if bookie.seat is Seat.LEAVING:
            adds = bookie.adds
            if self._rules.unacks_replaced:
                adds = tuple(Add.NONE if add is Add.COUNTED else add for add in adds)
            return bookie._replace(seat=Seat.NONE, adds=adds, place=0)
        return bookie

    def _moved(self, bookie: Bookie, entries: int) -> Bookie:
        """The metadata name who comes, in the place of who leaves, from the first entry on."""
        if bookie.seat is Seat.LEAVING:
            return bookie._replace(owns=bookie.owns & ~entries)
        if bookie.seat is Seat.COMING:
            owns = bookie.owns | entries & self._sets.share(bookie.place)
            return bookie._replace(owns=owns)
        return bookie

    # The end
    def _ends(self, shared: Shared, bookies: Bookies) -> Iterator[Move]:
        if shared.status is Status.OPEN or not self._rules.close_checks_version:
            closed = shared._replace(status=Status.CLOSED, end=shared.acked)
            yield (-1, Act("closes_own", shared.acked - 1), *stopped(closed, bookies))
        else:
            yield (-1, Act("write_refused"), *stopped(shared, bookies))


def late(add: Add) -> Add:
    """An entry that is settled for the writer: only its requests are still on their way."""
    return Add.LATE_REQUEST if add in (Add.REQUEST, Add.LATE_REQUEST) else Add.NONE


def unheard(add: Add) -> Add:
    """Of a failed member: what it stored counts until it is replaced, what it says now does not."""
    return add if add is Add.COUNTED else late(add)


def stopped(shared: Shared, bookies: Sequence[Bookie]) -> tuple[Shared, Bookies]:
    """The writer ends; what it had pending is of unknown outcome (R19)."""
    gone = [_without_writer(bookie) for bookie in bookies]
    return shared._replace(writer_open=False, changing=-1), gone


def _without_writer(bookie: Bookie) -> Bookie:
    place = 0 if bookie.seat is Seat.COMING else bookie.place
    adds = tuple(late(add) for add in bookie.adds)
    return bookie._replace(seat=Seat.NONE, adds=adds, place=place)
