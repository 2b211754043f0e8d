"""The recoverers' moves: `protocol.recovery` and `protocol.writeback`, one attempt at a time.

Mark, fence, read, settle, close. Requests whose answers nobody waits for any more are dropped when
all they could still do is to fence, which only forbids; write-backs stay on their way.
"""

from collections.abc import Iterator, Sequence
from enum import Enum

from model_bookie import Act, put
from model_rules import Bounds, Rules
from model_state import (
    ASKED,
    Ask,
    Bookie,
    Desk,
    Phase,
    Recoverer,
    Shared,
    Status,
    Write,
)
from model_write_sets import WriteSets
from model_writer import Bookies, Move


class Verdict(Enum):
    PRESENT = "present"
    ABSENT = "absent"
    PENDING = "pending"
    UNDECIDABLE = "undecidable"


class RecovererMoves:
    """All moves of one recoverer, `who`."""

    def __init__(self, bounds: Bounds, rules: Rules, who: int) -> None:
        self._bounds = bounds
        self._rules = rules
        self._who = who
        self._tail = 1 << bounds.entries
        self._entries = range(bounds.entries)
        self._sets = WriteSets(bounds)
        self._fence_threshold = rules.fence_threshold or bounds.coverage
        self._denials_needed = rules.denials_needed or bounds.coverage

    def all(self, shared: Shared, bookies: Bookies) -> Iterator[Move]:
        me = shared.recoverers[self._who]
        if me.phase is Phase.IDLE:
            # Recoverers are alike: the first to start is R1.
            if not self._who or shared.recoverers[self._who - 1].phase is not Phase.IDLE:
                yield from self._starts(shared, bookies)
            return
        if me.phase is Phase.PLANNED:
            yield self._marks(shared, bookies, me)
            return
        if me.phase is Phase.OVER:
            return
        for at, bookie in enumerate(bookies):
            yield from self._hears(shared, bookies, at, bookie.desks[self._who])
        if me.phase is Phase.SETTLE and (not me.pending or not self._rules.waits_for_write_backs):
            yield self._closes(shared, bookies)
        if me.pending and shared.recovery_changes:
            yield from self._replaces(shared, bookies)
        if me.attempts:
            yield from self._tries_again(shared, bookies)
        if me.phase is not Phase.ABORTED:
            return
        if self._bounds.retries and not shared.is_closed:
            yield self._begins(shared, bookies, me, "decides_again")
        if self._bounds.accept_loss and not me.accepts and not shared.is_closed:
            yield self._begins(shared, bookies, me._replace(accepts=me.turn + 1), "accepts_loss")

    # MARK and FENCE
    def _starts(self, shared: Shared, bookies: Bookies) -> Iterator[Move]:
        if shared.is_closed and self._rules.closed_is_terminal:
            return
        if shared.status is Status.DELETED:
            return
        if self._bounds.stale_starts:
            yield self._plans(shared, bookies)
        else:
            yield self._begins(shared, bookies, shared.recoverers[self._who], "starts")

    def _plans(self, shared: Shared, bookies: Bookies) -> Move:
        """Reads the metadata; what it read may be out of date when it acts on it."""
        me = shared.recoverers[self._who]._replace(phase=Phase.PLANNED, seen=int(shared.status))
        seen = [self._at_desk(b, self._seen(b, b.desks[self._who])) for b in bookies]
        return -1, Act("plans", who=self._who), self._with(shared, me), seen

    def _marks(self, shared: Shared, bookies: Bookies, me: Recoverer) -> Move:
        """The compare-and-set of a plan; who saw IN_RECOVERY writes nothing before the close."""
        desks = [(bookie, bookie.desks[self._who]) for bookie in bookies]
        unchanged = all(self._seen(bookie, desk) == desk for bookie, desk in desks)
        is_current = shared.status == me.seen and unchanged
        if me.seen == Status.OPEN and not is_current and self._rules.mark_checks_version:
            if shared.is_closed:
                over = self._with(shared, Recoverer(Phase.OVER, attempts=0))
                return -1, Act("adopts", shared.end - 1, self._who), over, bookies
            return self._plans(shared, bookies)
        owned = [bookie._replace(owns=desk.local, place=desk.place) for bookie, desk in desks]
        at, act, after, asked = self._begins(shared, owned, me, "starts")
        back = [a._replace(owns=b.owns, place=b.place) for a, b in zip(asked, bookies, strict=True)]
        return at, act, after, back

    def _tries_again(self, shared: Shared, bookies: Bookies) -> Iterator[Move]:
        """It died, or could not decide; somebody recovers the ledger again."""
        if not shared.is_closed:
            me = shared.recoverers[self._who]
            fewer = me._replace(attempts=me.attempts - 1)
            yield self._begins(shared, bookies, fewer, "tries_again")

    def _begins(self, shared: Shared, bookies: Bookies, me: Recoverer, verb: str) -> Move:
        """The compare-and-set to IN_RECOVERY, and a fencing LAC read to each member."""
        asked = [self._asked(bookie) for bookie in bookies]
        me = Recoverer(Phase.FENCE, attempts=me.attempts, accepts=me.accepts)
        if not shared.is_closed or not self._rules.closed_is_terminal:
            shared = shared._replace(status=Status.IN_RECOVERY)
        return -1, Act(verb, me.accepts - 1, self._who), self._with(shared, me), asked

    def _asked(self, bookie: Bookie) -> Bookie:
        fence = Ask.REQUEST if bookie.owns & self._tail else Ask.NONE
        writes = tuple(stale(write) for write in bookie.desks[self._who].writes)
        return self._at_desk(bookie, self._seen(bookie, Desk(int(fence), None, writes)))

    def _seen(self, bookie: Bookie, desk: Desk) -> Desk:
        """With what the metadata says of the bookie now."""
        place = bookie.place if bookie.owns & self._tail else 0
        return desk._replace(local=bookie.owns, place=place)

    def _hears(self, shared: Shared, bookies: Bookies, at: int, desk: Desk) -> Iterator[Move]:
        if desk.fence >= Ask.UNKNOWN:
            yield self._hears_fence(shared, bookies, at, desk)
        if desk.read is not None and desk.read != ASKED and not desk.read.heard:
            yield self._hears_read(shared, bookies, at, desk)
        for entry in self._entries:
            if desk.writes[entry] is Write.OK:
                yield self._hears_write(shared, bookies, at, entry)

    def _hears_fence(self, shared: Shared, bookies: Bookies, at: int, desk: Desk) -> Move:
        me = shared.recoverers[self._who]
        me = me._replace(lac=max(me.lac, desk.fence - Ask.OK))
        heard = self._change(bookies, at, desk._replace(fence=int(Ask.HEARD)))
        act = Act("hears_fence", who=self._who)
        if self._is_fenced(heard):
            me = me._replace(phase=Phase.READ, turn=max(me.lac, self._floor(shared)))
            me = me._replace(proven=me.turn)
            heard = [self._asked_to_read(bookie) for bookie in heard]
        return at, act, self._with(shared, me), heard

    def _is_fenced(self, bookies: Bookies) -> bool:
        desks = [bookie.desks[self._who] for bookie in bookies]
        answered = [desk.place for desk in desks if desk.fence == Ask.HEARD]
        if not self._rules.fence_covers_each:
            return len(answered) >= self._fence_threshold
        return self._sets.cover(answered, self._fence_threshold)

    def _floor(self, shared: Shared) -> int:
        return shared.first if self._rules.starts_at_last_fragment else 0

    def _asked_to_read(self, bookie: Bookie) -> Bookie:
        desk = bookie.desks[self._who]
        if not desk.fence:
            return bookie
        return self._at_desk(bookie, desk._replace(fence=int(Ask.NONE), read=ASKED))

    # READ
    def _hears_read(self, shared: Shared, bookies: Bookies, at: int, desk: Desk) -> Move:
        assert desk.read is not None
        me = shared.recoverers[self._who]
        me = me._replace(proven=max(me.proven, desk.read.lac))
        said = desk.read._replace(heard=True, lac=0)
        heard = self._change(bookies, at, desk._replace(read=said))
        act = Act("hears_read", who=self._who)
        me, heard = self._judge(shared, me, heard)
        return at, act, self._with(shared, me), heard

    def _judge(self, shared: Shared, me: Recoverer, bookies: Bookies) -> tuple[Recoverer, Bookies]:
        """Entry by entry in order, as far as the answers reach (R4, R14)."""
        verdict = self._verdict(me, bookies)
        while verdict is Verdict.PRESENT or self._is_missing(me, verdict):
            if verdict is Verdict.PRESENT:
                me, bookies = self._takes(shared, me, bookies)
            me = me._replace(turn=me.turn + 1)
            verdict = self._verdict(me, bookies)
        if verdict is Verdict.PENDING:
            return me, bookies
        accepted = verdict is Verdict.UNDECIDABLE and me.accepts == me.turn + 1
        if not accepted:
            me = me._replace(accepts=0)
        is_end = accepted or verdict is Verdict.ABSENT
        me = me._replace(phase=Phase.SETTLE if is_end else Phase.ABORTED)
        return me, [self._at_desk(b, b.desks[self._who]._replace(read=None)) for b in bookies]

    def _is_missing(self, me: Recoverer, verdict: Verdict) -> bool:
        # A LAC beyond it proves that it was acknowledged: it is not the end, whoever denies it.
        return me.turn < me.proven and verdict in (Verdict.ABSENT, Verdict.UNDECIDABLE)

    def _verdict(self, me: Recoverer, bookies: Bookies) -> Verdict:
        desks = [bookie.desks[self._who] for bookie in bookies]
        answers = [
            answer
            for desk in desks
            if (answer := desk.read) is not None and self._has_say(desk, me.turn)
        ]
        heard = [answer for answer in answers if answer.heard]
        copies = sum(answer.mask >> me.turn & 1 for answer in heard)
        if copies >= self._rules.copies_needed:
            return Verdict.PRESENT
        absent = [answer for answer in heard if not answer.mask >> me.turn & 1]
        denials = sum(not a.unknown or self._rules.unknown_denies for a in absent)
        if denials >= self._denials_needed:
            return Verdict.ABSENT
        if len(heard) < len(answers):
            return Verdict.PENDING
        # Another member may have a later entry, whose LAC proves that this one was acknowledged.
        is_silent = any(desk.read is not None and not desk.read.heard for desk in desks)
        waits = is_silent and me.turn >= me.proven and self._rules.asks_others
        return Verdict.PENDING if waits else Verdict.UNDECIDABLE

    def _has_say(self, desk: Desk, entry: int) -> bool:
        return self._sets.has(desk.place, entry) or not self._rules.denials_of_write_set

    def _takes(self, shared: Shared, me: Recoverer, bookies: Bookies) -> tuple[Recoverer, Bookies]:
        """A copy is found: it goes back to its write set in the local ensemble (R13)."""
        proven = max(me.proven, shared.lacs[me.turn])
        if not self._rules.writes_back:
            return me._replace(proven=proven), bookies
        me = me._replace(proven=proven, pending=me.pending | 1 << me.turn)
        return self._settle(me, [self._sent(bookie, me.turn) for bookie in bookies])

    def _sent(self, bookie: Bookie, entry: int) -> Bookie:
        desk = bookie.desks[self._who]
        if not desk.local >> entry & 1:
            return bookie
        holds = desk.read is not None and desk.read.heard and desk.read.mask >> entry & 1
        counts = self._rules.reads_count_as_acks and holds
        write = Write.COUNTED if counts else Write.REQUEST
        return self._at_desk(bookie, desk._replace(writes=put(desk.writes, entry, write)))

    # Write-back
    def _hears_write(self, shared: Shared, bookies: Bookies, at: int, entry: int) -> Move:
        desk = bookies[at].desks[self._who]
        counted = desk._replace(writes=put(desk.writes, entry, Write.COUNTED))
        me, heard = self._settle(shared.recoverers[self._who], self._change(bookies, at, counted))
        return at, Act("hears_write", entry, self._who), self._with(shared, me), heard

    def _settle(self, me: Recoverer, bookies: Bookies) -> tuple[Recoverer, Bookies]:
        """Entries at their ack quorum are pending no more, in order."""
        for entry in self._entries:
            if not me.pending >> entry & 1:
                continue
            acks = sum(b.desks[self._who].writes[entry] is Write.COUNTED for b in bookies)
            if acks < self._bounds.ack_quorum:
                break
            me = me._replace(pending=me.pending & ~(1 << entry))
            bookies = [self._forget_write(bookie, entry) for bookie in bookies]
        return me, bookies

    def _forget_write(self, bookie: Bookie, entry: int) -> Bookie:
        desk = bookie.desks[self._who]
        return self._at_desk(bookie, desk._replace(writes=put(desk.writes, entry, Write.NONE)))

    def _replaces(self, shared: Shared, bookies: Bookies) -> Iterator[Move]:
        """A member that does not take a write-back is replaced, in the local view only."""
        me = shared.recoverers[self._who]
        lowest = (me.pending & -me.pending).bit_length() - 1
        later = (2 * self._tail - 1) & ~((1 << lowest) - 1)
        for at, bookie in enumerate(bookies):
            desk = bookie.desks[self._who]
            if not desk.local & self._tail or Write.REQUEST not in desk.writes:
                continue
            for other, spare in enumerate(bookies):
                if spare.desks[self._who].local & self._tail or not spare.serves:
                    continue
                changed = self._swap(me, bookies, (at, other), later)
                left = shared._replace(recovery_changes=shared.recovery_changes - 1)
                yield at, Act("replaces_local", lowest, self._who, other), left, changed

    def _swap(self, me: Recoverer, bookies: Bookies, pair: tuple[int, int], later: int) -> Bookies:
        leaving, coming = (bookies[at].desks[self._who] for at in pair)
        changed = list(bookies)
        writes = tuple(stale(write) for write in leaving.writes)
        share = leaving.local & later
        left = leaving._replace(local=leaving.local & ~later, writes=writes)
        changed[pair[0]] = self._at_desk(bookies[pair[0]], left)
        writes = tuple(
            Write.REQUEST if me.pending & share & 1 << entry else write
            for entry, write in enumerate(coming.writes)
        )
        came = coming._replace(local=coming.local | share, writes=writes)
        changed[pair[1]] = self._at_desk(bookies[pair[1]], came)
        if not self._rules.changes_kept_local:
            changed = [b._replace(owns=b.desks[self._who].local) for b in changed]
        return changed

    # CLOSE
    def _closes(self, shared: Shared, bookies: Bookies) -> Move:
        me = shared.recoverers[self._who]
        over = [self._at_desk(b, self._left_over(b.desks[self._who])) for b in bookies]
        after = self._with(shared, Recoverer(Phase.OVER, attempts=0))
        if shared.status is not Status.IN_RECOVERY and self._rules.close_checks_state:
            return -1, Act("adopts", shared.end - 1, self._who), after, over
        over = [
            bookie._replace(owns=before.desks[self._who].local)
            for bookie, before in zip(over, bookies, strict=True)
        ]
        accepted = me.accepts - 1 if me.accepts else shared.accepted
        after = after._replace(status=Status.CLOSED, end=me.turn, accepted=accepted)
        return -1, Act("closes", me.turn - 1, self._who), after, over

    def _left_over(self, desk: Desk) -> Desk:
        return Desk(writes=tuple(Write.NONE for _ in desk.writes))

    # The parts of a state
    def _with(self, shared: Shared, me: Recoverer) -> Shared:
        return shared._replace(recoverers=put(shared.recoverers, self._who, me))

    def _at_desk(self, bookie: Bookie, desk: Desk) -> Bookie:
        return bookie._replace(desks=put(bookie.desks, self._who, desk))

    def _change(self, bookies: Sequence[Bookie], at: int, desk: Desk) -> Bookies:
        changed = list(bookies)
        changed[at] = self._at_desk(bookies[at], desk)
        return changed


def stale(write: Write) -> Write:
    """A write-back of a replaced member or a former attempt: it may still arrive."""
    on_its_way = write in (Write.REQUEST, Write.LATE_REQUEST)
    return Write.LATE_REQUEST if on_its_way else Write.NONE
