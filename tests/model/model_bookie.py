"""What one bookie does: takes requests, stops uncleanly, boots, is repaired and clears its marks.

The rules are those of `protocol.admission`, `boot.boot`, `protocol.clearing`, `server.marks` and
`repair`. A bookie's move depends on the bookie and on what is shared, not on the other bookies;
only a copy needs another that has the entry (`held_elsewhere`).
"""

from collections.abc import Iterator
from typing import NamedTuple, TypeVar

from model_notes import REQUESTS, WRITES, Notes
from model_rules import BootFence, Bounds, ClearWhen, HeldBy, Rules
from model_state import (
    ASKED,
    Add,
    Answer,
    Ask,
    AtBoot,
    Bookie,
    Desk,
    Fence,
    Mark,
    Run,
    Seat,
    Shared,
    Status,
    Write,
)

T = TypeVar("T")


class Act(NamedTuple):
    """What happened, for the story; `entry` and `who` (a recoverer) where they matter."""

    verb: str
    entry: int = -1
    who: int = -1
    other: int = -1


Effect = tuple[Act, Shared, Bookie]

REPLIES = {Fence.FENCED: Add.FENCED, Fence.BOUNDARY: Add.NOT_WRITABLE}


def put(values: tuple[T, ...], at: int, value: T) -> tuple[T, ...]:
    return (*values[:at], value, *values[at + 1 :])


def parts_of(mask: int) -> Iterator[int]:
    """Every subset of a bit mask."""
    part = mask
    while True:
        yield part
        if not part:
            return
        part = (part - 1) & mask


class BookieMoves:
    """All moves of one bookie by itself."""

    def __init__(self, bounds: Bounds, rules: Rules) -> None:
        self._bounds = bounds
        self._rules = rules
        self._notes = Notes(bounds, rules)
        self._tail = 1 << bounds.entries

    def all(self, shared: Shared, bookie: Bookie) -> Iterator[Effect]:
        if bookie.serves:
            yield from self._takes(shared, bookie)
            yield from self._clears(shared, bookie)
            for verb, after in self._notes.moves(bookie):
                yield Act(verb), shared, after
            if shared.status is Status.DELETED:
                yield from self._collects(shared, bookie)
        if bookie.run is not Run.UP:
            yield self._boots(shared, bookie)
        elif shared.crashes:
            yield from self._stops(shared, bookie)
        if bookie.run is Run.UP and shared.restarts and bookie.mark is not Mark.CLEARING:
            yield self._restarts_cleanly(shared, bookie)
        if self._bounds.explicit_lacs and bookie.serves:
            yield from self._learns(shared, bookie)
        if self._bounds.reader and bookie.lac > shared.shown:
            yield Act("shown", bookie.lac - 1), shared._replace(shown=bookie.lac), bookie

    def normal(self, bookie: Bookie) -> Bookie:
        """A late add that will be refused whatever happens, unheard, is as good as gone.

        How the ledger was found matters to what a boot left unchecked only.
        """
        if bookie.at_boot and bookie.mark not in (Mark.UNCHECKED, Mark.BOUNDARY):
            bookie = bookie._replace(at_boot=AtBoot.NOT_RECOVERING)
        if not (bookie.fence and self._is_fenced_for_ever):
            return bookie
        if Add.LATE_REQUEST not in bookie.adds:
            return bookie
        adds = tuple(Add.NONE if add is Add.LATE_REQUEST else add for add in bookie.adds)
        return bookie._replace(adds=adds)

    @property
    def _is_fenced_for_ever(self) -> bool:
        rules = self._rules
        is_noticed = rules.marker_holds and rules.boot_awaited and rules.tombstones
        sets_again = rules.boot_fence is BootFence.ALL or (
            rules.boot_fence is BootFence.DISKS_LOST and rules.fence_durable
        )
        return self._notes.keep_fences and is_noticed and sets_again

    # Requests
    def _takes(self, shared: Shared, bookie: Bookie) -> Iterator[Effect]:
        for entry, add in enumerate(bookie.adds):
            if add in REQUESTS and (self._refusal(bookie) or self._notes.may_answer_add(bookie)):
                yield self._take_add(shared, bookie, entry)
        if not self._refusal(bookie):
            for entry, after in self._notes.stores_early(bookie):
                lac = max(after.lac, shared.lacs[entry])
                yield Act("stores_early", entry), shared, after._replace(lac=lac)
        for who, desk in enumerate(bookie.desks):
            if desk.fence == Ask.REQUEST:
                yield self._take_fence(shared, bookie, who)
            if desk.read is ASKED:
                yield from self._take_read(shared, bookie, who)
            for entry, write in enumerate(desk.writes):
                if write in WRITES and self._notes.may_answer_write_back(bookie):
                    yield self._take_write(shared, bookie, who, entry)

    def _take_add(self, shared: Shared, bookie: Bookie, entry: int) -> Effect:
        refusal = self._refusal(bookie)
        is_awaited = bookie.adds[entry] is Add.REQUEST
        reply = refusal or Add.OK
        bookie = bookie._replace(adds=put(bookie.adds, entry, reply if is_awaited else Add.NONE))
        if refusal:
            return (
                Act("refuses" if refusal is Add.FENCED else "cannot_write", entry),
                shared,
                bookie,
            )
        lac = max(bookie.lac, shared.lacs[entry])
        return Act("stores", entry), shared, bookie._replace(held=bookie.held | 1 << entry, lac=lac)

    def _refusal(self, bookie: Bookie) -> Add | None:
        if bookie.fence:
            return REPLIES[bookie.fence]
        if bookie.mark and self._rules.marks_refuse:
            return Add.NOT_WRITABLE if self._rules.not_writable_here else Add.FENCED
        return None

    def _take_fence(self, shared: Shared, bookie: Bookie, who: int) -> Effect:
        answer = Ask.UNKNOWN if bookie.mark else Ask.OK + bookie.lac
        verb = "fences_unknown" if bookie.mark else "fences"
        desk = bookie.desks[who]._replace(fence=int(answer))
        fenced = bookie._replace(fence=Fence.FENCED)
        return Act(verb, who=who), shared, _at_desk(fenced, who, desk)

    def _take_read(self, shared: Shared, bookie: Bookie, who: int) -> Iterator[Effect]:
        if self._rules.reads_fence:
            bookie = bookie._replace(fence=Fence.FENCED)
        desk = bookie.desks[who]
        lac = bookie.lac if self._bounds.reads_tell_lac else 0
        said = Answer(bookie.held, bookie.mark is not Mark.NONE, lac=lac)
        answer = desk._replace(read=said)
        yield Act("reads", bookie.held, who), shared, _at_desk(bookie, who, answer)
        if self._bounds.io_errors and bookie.held:
            failed = desk._replace(read=Answer(0, not self._rules.denies_on_io_error))
            yield Act("read_fails", who=who), shared, _at_desk(bookie, who, failed)

    def _take_write(self, shared: Shared, bookie: Bookie, who: int, entry: int) -> Effect:
        desk = bookie.desks[who]
        reply = Write.OK if desk.writes[entry] is Write.REQUEST else Write.NONE
        lac = shared.recoverers[who].lac if self._rules.lac_frozen else entry
        bookie = bookie._replace(held=bookie.held | 1 << entry, lac=max(bookie.lac, lac))
        taken = _at_desk(bookie, who, desk._replace(writes=put(desk.writes, entry, reply)))
        return Act("takes_back", entry, who), shared, taken

    def _learns(self, shared: Shared, bookie: Bookie) -> Iterator[Effect]:
        """Explicit LACs, durable at once, and taken whatever stands in the way of adds; it may
        come late. Only who is in the ensemble, or was, is sent any.
        """
        if not (bookie.owns or bookie.seat):
            return
        known = shared.acked if self._rules.explicit_lac_acked else shared.sent
        for lac in range(bookie.told + 1, known + 1):
            told = bookie._replace(told=lac, lac=max(bookie.lac, lac))
            yield Act("learns", lac - 1), shared, told

    # Stop and boot
    def _stops(self, shared: Shared, bookie: Bookie) -> Iterator[Effect]:
        left = shared._replace(crashes=shared.crashes - 1)
        bookie = self._notes.stopped(bookie)
        for kept in self._kept(bookie):
            fence = bookie.fence if self._rules.fence_durable else Fence.NONE
            lac = max(bookie.told, self._lac_of(shared, kept))
            after = bookie._replace(held=kept, fence=fence, lac=lac)
            yield Act("stops", kept), left, self._stopped(left, after)
            for noteless in self._notes.without_notes(after) if self._bounds.disk_loss else ():
                yield Act("loses_notes", kept), left, self._stopped(left, noteless)
        if self._bounds.disk_loss:
            empty = bookie._replace(
                held=0, synced=0, vouched=0, lac=0, told=0, fence=Fence.NONE, mark=Mark.NONE
            )
            for after in self._notes.without_disks(empty):
                yield Act("loses_disk"), left, self._stopped(left, after)

    def _kept(self, bookie: Bookie) -> Iterator[int]:
        if not self._bounds.partial_loss:
            yield bookie.synced
            return
        for part in parts_of(bookie.held & ~bookie.synced):
            yield bookie.synced | part

    def _lac_of(self, shared: Shared, kept: int) -> int:
        return max((lac for e, lac in enumerate(shared.lacs) if kept >> e & 1), default=0)

    def _restarts_cleanly(self, shared: Shared, bookie: Bookie) -> Effect:
        """A stop that forgets nothing, and a boot that looks if there is anything to check."""
        left = shared._replace(restarts=shared.restarts - 1)
        at_boot = bookie.at_boot or self._seen(shared, AtBoot.RECOVERING_LATER)
        bookie = self._notes.stopped(bookie)
        return Act("restarts"), left, bookie._replace(synced=bookie.held, at_boot=at_boot)

    def _stopped(self, shared: Shared, bookie: Bookie) -> Bookie:
        if not self._rules.boot_awaited:
            return bookie._replace(run=Run.UNMARKED)
        if self._bounds.slow_boot:
            return bookie._replace(run=Run.DOWN)
        return self._boot(shared, bookie)

    def _boots(self, shared: Shared, bookie: Bookie) -> Effect:
        if bookie.run is Run.DOWN:
            return Act("looks"), shared, self._boot(shared, bookie)._replace(run=Run.MARKED)
        if bookie.run is Run.MARKED:
            return Act("boots"), shared, bookie._replace(run=Run.UP)
        return Act("boots"), shared, self._boot(shared, bookie)

    def _boot(self, shared: Shared, bookie: Bookie) -> Bookie:
        is_in_doubt = self._notes.is_in_doubt(bookie)
        fences = self._fences_at_boot(shared, bookie)
        bookie = bookie._replace(run=Run.UP, replaced=False)
        if not (self._rules.marker_holds and is_in_doubt):
            return bookie
        if fences and not bookie.fence:
            # Who is told FENCED either way need not know by which of the two.
            here = self._rules.not_writable_here
            bookie = bookie._replace(fence=Fence.BOUNDARY if here else Fence.FENCED)
        mark = self._mark_at_boot(shared, bookie)
        return bookie._replace(mark=mark, at_boot=self._seen(shared, AtBoot.RECOVERING))

    def _seen(self, shared: Shared, recovering: AtBoot) -> AtBoot:
        is_seen = shared.status is Status.IN_RECOVERY and self._rules.boot_reads_fresh
        return recovering if is_seen else AtBoot.NOT_RECOVERING

    def _fences_at_boot(self, shared: Shared, bookie: Bookie) -> bool:
        match self._rules.boot_fence:
            case BootFence.DISKS_LOST:
                return bookie.replaced
            case BootFence.ALL:
                return True
            case BootFence.EXISTING:
                return shared.status is not Status.DELETED
            case BootFence.NAMING:
                return bookie.owns != 0 and shared.status is not Status.DELETED
            case BootFence.NOT_CLOSED:
                return not shared.is_closed
        return False

    def _mark_at_boot(self, shared: Shared, bookie: Bookie) -> Mark:
        if not self._rules.boot_reads_fresh:
            return Mark.BOUNDARY  # a lagging replica does not name it yet
        if bookie.mark is Mark.LIMBO:
            return Mark.LIMBO  # durable, whatever the metadata says by now
        if not shared.is_closed and bookie.owns & self._tail:
            return Mark.LIMBO if self._rules.limbo else Mark.NONE
        if not self._rules.unchecked:
            return Mark.NONE
        return Mark.UNCHECKED if bookie.owns else Mark.BOUNDARY

    # Repair and clearing
    def must_hold(self, shared: Shared, bookie: Bookie) -> int:
        """What the bookie owes for certain: `protocol.clearing.must_hold`."""
        through = shared.end if shared.status is Status.CLOSED else shared.first
        return bookie.owns & ((1 << through) - 1)

    def copies(self, shared: Shared, bookie: Bookie, held_elsewhere: int) -> Iterator[Effect]:
        """Repair: what is missing comes from a peer, as a recovery add."""
        if not bookie.mark or bookie.run is not Run.UP or shared.status is Status.DELETED:
            return
        missing = self.must_hold(shared, bookie) & ~bookie.held & held_elsewhere
        for entry in range(self._bounds.entries):
            if missing >> entry & 1:
                yield Act("copied", entry), shared, bookie._replace(held=bookie.held | 1 << entry)

    def _clears(self, shared: Shared, bookie: Bookie) -> Iterator[Effect]:
        if bookie.mark is Mark.NONE or bookie.run is not Run.UP:
            return
        if bookie.mark is Mark.CLEARING:
            yield Act("clears", bookie.mark), shared, bookie._replace(mark=Mark.NONE)
        elif bookie.mark is Mark.BOUNDARY:
            yield from self._finishes(shared, bookie)
        elif self._may_clear(shared, bookie):
            synced = bookie.held if self._rules.clear_after_sync else bookie.synced
            cleared = bookie._replace(mark=self._cleared, synced=synced, vouched=bookie.held)
            yield Act("judges" if self._cleared else "clears", bookie.mark), shared, cleared

    @property
    def _cleared(self) -> Mark:
        return Mark.CLEARING if self._bounds.slow_clear else Mark.NONE

    def _finishes(self, shared: Shared, bookie: Bookie) -> Iterator[Effect]:
        """The last look of `server.marks.finish_unchecked`."""
        if bookie.owns and shared.status is not Status.DELETED:
            yield Act("found_named"), shared, bookie._replace(mark=Mark.UNCHECKED)
        elif not self._is_held(shared, bookie):
            yield Act("finishes"), shared, bookie._replace(mark=self._cleared)

    def _may_clear(self, shared: Shared, bookie: Bookie) -> bool:
        if shared.status is Status.DELETED:
            return True
        if not self._state_allows(shared, bookie):
            return False
        missing = self.must_hold(shared, bookie) & ~bookie.held & ~shared.lost
        return not missing or not self._rules.clear_needs_copies

    def _state_allows(self, shared: Shared, bookie: Bookie) -> bool:
        rules, status = self._rules, shared.status
        if status is Status.CLOSED:
            return True
        if bookie.mark is Mark.UNCHECKED:
            return not self._is_held(shared, bookie)
        if rules.clear_if_replaced and not bookie.owns & self._tail:
            return status is Status.OPEN or rules.clear_if_replaced_in_recovery
        if rules.clear_when is ClearWhen.IN_RECOVERY:
            return status is Status.IN_RECOVERY
        return rules.clear_when is ClearWhen.ANY

    def _is_held(self, shared: Shared, bookie: Bookie) -> bool:
        """A recovery is under way that holds what is unchecked: `was_recovering` of the product."""
        if shared.status is not Status.IN_RECOVERY:
            return False
        match self._rules.unchecked_held_by:
            case HeldBy.LAST_BOOT:
                return bookie.at_boot is not AtBoot.NOT_RECOVERING
            case HeldBy.UNCLEAN_BOOT:
                return bookie.at_boot is AtBoot.RECOVERING
            case HeldBy.EVERY:
                return True
        return False

    def _collects(self, shared: Shared, bookie: Bookie) -> Iterator[Effect]:
        if bookie.held or bookie.synced or (bookie.fence and not self._rules.tombstones):
            fence = Fence.FENCED if self._rules.tombstones else Fence.NONE
            gone = bookie._replace(held=0, synced=0, vouched=0, lac=0, told=0, fence=fence)
            yield Act("collects"), shared, gone


def _at_desk(bookie: Bookie, who: int, desk: Desk) -> Bookie:
    return bookie._replace(desks=put(bookie.desks, who, desk))


def new_bookie(bounds: Bounds, *, share: int = 0, place: int = 0) -> Bookie:
    """A bookie with nothing; `share`: what it is to store of the ledger."""
    desk = Desk(writes=(Write.NONE,) * bounds.entries)
    return Bookie(
        held=0,
        synced=0,
        vouched=0,
        lac=0,
        fence=Fence.NONE,
        mark=Mark.NONE,
        at_boot=AtBoot.NOT_RECOVERING,
        run=Run.UP,
        owns=share,
        noted=not bounds.notes,
        seat=Seat.MEMBER if share else Seat.NONE,
        adds=(Add.NONE,) * bounds.entries,
        desks=(desk,) * bounds.recoverers,
        place=place,
    )
