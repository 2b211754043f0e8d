"""Moves ledgers off one bookie: copy, sync, look, compare-and-set, look again; a batch at a time.

The metadata names a new member only once that member holds, synced, all that belongs to it, and the
leaving one keeps its copies: at no moment are there fewer than before. Safe to run twice, at once
and half-way. A copy that no metadata names yet is found again by the next run, which chooses the
same bookie; a compare-and-set that is lost makes that ledger start over from what is stored.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from bookie.errors import (
    MetadataConflictError,
    MetadataFormatError,
    NoSuchLedgerError,
    NotEnoughBookiesError,
    UnavailableError,
)
from bookie.ids import BookieId, LedgerId
from bookie.metadata.store import Versioned
from bookie.protocol.availability import EMPTY, EntrySet
from bookie.protocol.ledger import LedgerMetadata
from bookie.protocol.placement import NO_RACKS, Racks
from bookie.repair.judge.expect import Holding
from bookie.repair.look.audit import Auditor, Look
from bookie.repair.look.cluster import Cluster
from bookie.repair.mend.copy import Copier
from bookie.repair.mend.ledger_repair import LEDGERS_IN_FLIGHT, RepairSettings
from bookie.repair.mend.losses import record_on_each
from bookie.repair.mend.move_plan import Move, are_made, moved, owed_by_target, plan_moves
from bookie.repair.mend.outcome import Done, Outcome

STARTS_MAX: Final = 4
"""How often one ledger starts over, in one run, after a compare-and-set that was lost."""
COPIES_MAX: Final = 2
"""How often a target that lost its copies while the metadata was written gets them again."""
LOSS_REASON: Final = "move: taken over from the members that recorded this loss"

Held = dict[tuple[BookieId, LedgerId], Holding]


@dataclass(frozen=True, slots=True)
class Handover:
    """Which bookie leaves, and which may take over."""

    leaving: BookieId
    candidates: Sequence[BookieId]
    """Writable bookies that answer and are not in limbo."""
    racks: Racks = NO_RACKS
    """Candidates that keep copies in several of these come first."""


@dataclass(slots=True)
class _Move:
    """One ledger in one batch, while it is moved."""

    outcome: Outcome
    look: Look
    """The metadata that the moves change, and what its members held then."""
    moves: tuple[Move, ...]
    """The moves; there is at least one."""
    owed: dict[BookieId, EntrySet]
    """What each target must hold before the metadata names it, without lost entries."""
    lost: dict[BookieId, EntrySet]
    """Entries of each target's share that are only in a loss record."""
    must_start_over: bool = False
    """Somebody else changed its metadata first."""

    @property
    def ledger_id(self) -> LedgerId:
        return self.look.ledger_id

    @property
    def metadata(self) -> Versioned[LedgerMetadata]:
        return self.look.metadata


@dataclass(slots=True)
class LedgerMoves:
    """Moves ledgers of one handover. `done` is called with each ledger once, when its copies are
    made or there is nothing to copy; what becomes of it may still change.
    """

    cluster: Cluster
    handover: Handover
    settings: RepairSettings = field(default_factory=RepairSettings)
    done: Done = lambda _outcomes: None
    _copier: Copier = field(init=False)
    _auditor: Auditor = field(init=False)
    _slots: asyncio.Semaphore = field(init=False)
    _uncounted: set[LedgerId] = field(init=False)
    """Ledgers that `done` was not called with yet."""

    def __post_init__(self) -> None:
        self._copier = Copier(self.cluster.peers, self.settings.copy)
        self._auditor = Auditor(self.cluster.store, self.cluster.control, self.settings.audit)
        self._slots = asyncio.Semaphore(LEDGERS_IN_FLIGHT)
        self._uncounted = set()

    async def move(self, outcomes: Sequence[Outcome]) -> None:
        """Fills in what came of each. UnavailableError: the metadata store is away."""
        waiting = {outcome.ledger_id: outcome for outcome in outcomes}
        self._uncounted |= waiting.keys()
        for _start in range(STARTS_MAX):
            ledgers = await self._move(waiting)
            waiting = {
                ledger.ledger_id: ledger.outcome for ledger in ledgers if ledger.must_start_over
            }
            if not waiting:
                break
        for outcome in waiting.values():
            outcome.block("MetadataConflict", "its metadata changes all the time; run it again")
        self._count(outcomes)

    def _count(self, outcomes: Iterable[Outcome]) -> None:
        fresh = [outcome for outcome in outcomes if outcome.ledger_id in self._uncounted]
        self._uncounted -= {outcome.ledger_id for outcome in fresh}
        if fresh:
            self.done(fresh)

    async def _move(self, waiting: Mapping[LedgerId, Outcome]) -> list[_Move]:
        looks = await self._auditor.look(list(waiting))
        for ledger_id in waiting.keys() - looks.keys():
            if (error := self._auditor.unreadable.get(ledger_id)) is not None:
                waiting[ledger_id].block("MetadataUnreadable", str(error))
            else:
                waiting[ledger_id].state_before = "DELETED"
        planned = [self._plan(waiting[ledger_id], look) for ledger_id, look in looks.items()]
        ledgers = [ledger for ledger in planned if ledger is not None]
        await self._copy_all(ledgers)
        await self._flush(_open(ledgers))
        await self._verify(_open(ledgers))
        await self._each(_open(ledgers), self._write)
        await self._each(
            [ledger for ledger in _open(ledgers) if ledger.outcome.moved], self._record_losses
        )
        await self._watch_over([ledger for ledger in _open(ledgers) if ledger.outcome.moved])
        return ledgers

    async def _each(
        self, ledgers: Iterable[_Move], step: Callable[[_Move], Awaitable[None]]
    ) -> None:
        async def bounded(ledger: _Move) -> None:
            async with self._slots:
                await step(ledger)

        await asyncio.gather(*map(bounded, ledgers))

    # Plan
    def _plan(self, outcome: Outcome, look: Look) -> _Move | None:
        metadata = look.metadata.value
        outcome.state_before = outcome.state_before or metadata.state.value
        try:
            moves = planned(metadata, self.handover)
        except NotEnoughBookiesError as error:
            outcome.block("NotEnoughBookies", str(error))
            return None
        if moved(metadata, moves).names(self.handover.leaving):
            outcome.block("StillWritten", f"it is {metadata.state.value}; the next run looks again")
        if not moves or outcome.reason:
            return None
        gone = _known_lost(look)
        owed = owed_by_target(moves)
        return _Move(
            outcome,
            look,
            moves,
            owed={target: entries - gone for target, entries in owed.items()},
            lost={target: entries & gone for target, entries in owed.items()},
        )

    # Copy, sync, look
    async def _copy_all(self, ledgers: Iterable[_Move]) -> None:
        held = await self._held(ledgers)
        await self._each(ledgers, lambda ledger: self._copy(ledger, held))

    async def _held(self, ledgers: Iterable[_Move]) -> Held:
        """What every target holds now of the ledgers it is to take over."""
        asked: dict[BookieId, list[LedgerId]] = {}
        for ledger in ledgers:
            for target in ledger.owed:
                asked.setdefault(target, []).append(ledger.ledger_id)
        control = self.cluster.control
        answers = await asyncio.gather(*(control.availability(b, ids) for b, ids in asked.items()))
        return {
            (target, ledger_id): holding
            for target, answer in zip(asked, answers, strict=True)
            for ledger_id, holding in answer.items()
        }

    async def _copy(self, ledger: _Move, held: Held) -> None:
        for target, owed in ledger.owed.items():
            holding = held[target, ledger.ledger_id]
            if not holding.has_searched:
                said = f"{target}, which was to take over, answered {holding.status.name}"
                ledger.outcome.block("TargetSilent", said)
                return
            wanted = owed - holding.entries
            if wanted:
                await self._copy_to(ledger, target, wanted)
        self._count([ledger.outcome])

    async def _copy_to(self, ledger: _Move, target: BookieId, wanted: EntrySet) -> None:
        copied = await self._copier.copy(
            ledger.metadata.value, target, wanted, holdings=ledger.look.holdings
        )
        ledger.outcome.add_copied(target, copied)

    async def _flush(self, ledgers: Sequence[_Move]) -> None:
        """Flush all targets, even without new copies: an earlier run may have ended before its
        flush."""
        failed = await self.cluster.flush(
            {t for one in ledgers for t, owed in one.owed.items() if owed}
        )
        for ledger in ledgers:
            for target in failed.keys() & ledger.owed.keys():
                said = f"{target} did not sync its copies: {failed[target].name}"
                ledger.outcome.block("NotFlushed", said)

    async def _verify(self, ledgers: Sequence[_Move]) -> None:
        for ledger in await self._lacking(ledgers):
            ledger.outcome.block(
                "CopyIncomplete", f"{_targets(ledger)} does not hold what it was given"
            )

    async def _lacking(self, ledgers: Sequence[_Move]) -> list[_Move]:
        held = await self._held(ledgers)
        return [
            ledger
            for ledger in ledgers
            if any(owed - held[t, ledger.ledger_id].entries for t, owed in ledger.owed.items())
        ]

    async def _watch_over(self, ledgers: Sequence[_Move]) -> None:
        """A target that lost a disk just before it was named had no reason to mark the ledger.

        The leaving bookie, or the members that stay, hold everything: copies are made again.
        """
        for _copy in range(COPIES_MAX):
            ledgers = await self._lacking(ledgers)
            if not ledgers:
                return
            await self._copy_all(ledgers)
            await self._flush(_open(ledgers))
        for ledger in await self._lacking(_open(ledgers)):
            said = f"{_targets(ledger)} took over and lost its copies again: repair this ledger"
            ledger.outcome.block("CopyLost", said)

    # Metadata
    async def _record_losses(self, ledger: _Move) -> None:
        """A loss that is on record stays on record when its keeper leaves.

        After the metadata: a bookie takes records of what it is to hold only. A run that is cut off
        in between leaves the entry without a record on the target, for the next repair to write.
        """
        if not any(ledger.lost.values()):
            return
        of_targets = {
            target: holding for (target, _), holding in (await self._held([ledger])).items()
        }
        found = {**ledger.look.holdings, **of_targets}
        answered = [bookie_id for bookie_id, holding in found.items() if holding.has_searched]
        shares = {target: lost for target, lost in ledger.lost.items() if lost}
        refused = await record_on_each(
            self.cluster.control,
            ledger.ledger_id,
            shares,
            reason=LOSS_REASON,
            answered_by=answered,
        )
        for target, message in refused.items():
            ledger.outcome.block("LossNotRecorded", f"{target}: {message}")

    async def _write(self, ledger: _Move) -> None:
        wanted = moved(ledger.metadata.value, ledger.moves)
        store = self.cluster.store
        try:
            await store.write_ledger(wanted, version=ledger.metadata.version)
        except NoSuchLedgerError:
            ledger.outcome.state_before = "DELETED"
            return
        except MetadataConflictError:
            ledger.must_start_over = True
            return
        except UnavailableError as error:
            # Of unknown outcome: only a linearizable re-read shows it.
            await self._find_out(ledger, error)
            return
        ledger.outcome.moved = True

    async def _find_out(self, ledger: _Move, first_error: UnavailableError) -> None:
        try:
            found = (await self.cluster.store.read_ledger(ledger.ledger_id)).value
        except NoSuchLedgerError:
            ledger.outcome.state_before = "DELETED"
        except UnavailableError:
            ledger.outcome.block("MetadataUnavailable", str(first_error))
        except MetadataFormatError as error:
            ledger.outcome.block("MetadataUnreadable", str(error))
        else:
            # Its writer may have added a fragment since.
            ledger.outcome.moved = are_made(found, ledger.moves)
            ledger.must_start_over = not ledger.outcome.moved


def planned(metadata: LedgerMetadata, handover: Handover) -> tuple[Move, ...]:
    """The moves of this handover. Equal metadata gives equal moves, so a retry picks the same
    targets.
    """
    return plan_moves(metadata, handover.leaving, handover.candidates, racks=handover.racks)


def _open(ledgers: Iterable[_Move]) -> list[_Move]:
    return [ledger for ledger in ledgers if not ledger.outcome.reason]


def _targets(ledger: _Move) -> str:
    return ", ".join(ledger.owed)


def _known_lost(look: Look) -> EntrySet:
    """Entries in a loss record of which no bookie has a copy."""
    lost, held = EMPTY, EMPTY
    for holding in look.holdings.values():
        lost, held = lost | holding.lost, held | holding.entries
    return lost - held
