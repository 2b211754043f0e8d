"""Moves ledgers off one bookie: copy, sync, look, compare-and-set, look again; a batch at a time.

The metadata names a new member only once that member holds, synced, all that belongs to it, and the
leaving one keeps its copies: at no moment are there fewer than before. Safe to run twice, at once
and half-way. A copy that no metadata names yet is found again by the next run, which chooses the
same bookie; a compare-and-set that is lost makes that ledger start over from what is stored.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
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
from bookie.protocol.status import Status
from bookie.repair.judge.expect import Holding
from bookie.repair.look.audit import Auditor, Look
from bookie.repair.look.cluster import Cluster
from bookie.repair.mend.copy import Copier
from bookie.repair.mend.ledger_repair import LEDGERS_IN_FLIGHT, RepairSettings
from bookie.repair.mend.move_plan import Move, moved, owed_by_target, plan_moves

STARTS_MAX: Final = 4
"""How often one ledger starts over, in one run, after a compare-and-set that was lost."""
COPIES_MAX: Final = 2
"""How often a target that lost its copies while the metadata was written gets them again."""
LOSS_REASON: Final = "move: taken over from the members that recorded this loss"

Held = dict[tuple[BookieId, LedgerId], Holding]


@dataclass(slots=True)
class MoveOutcome:
    """One ledger's way off the leaving bookie. `moved`: by this run. `reason` as in the result
    object, "" when nothing is in the way; then either it moved or it names the bookie no more.
    """

    ledger_id: LedgerId
    state_before: str = ""
    moved: bool = False
    recovered: bool = False
    entries_recovered: int = 0
    entries_copied: int = 0
    bytes_copied: int = 0
    corrupt_copies: int = 0
    reason: str = ""
    message: str = ""

    def block(self, reason: str, message: str) -> None:
        """Say what is in the way; the first thing counts."""
        if not self.reason:
            self.reason, self.message = reason, message

    def take(self, found: "MoveOutcome") -> None:
        """Become what came of the same ledger elsewhere."""
        assert found.ledger_id == self.ledger_id
        for name in FIELD_NAMES:
            setattr(self, name, getattr(found, name))


FIELD_NAMES: Final = tuple(column.name for column in fields(MoveOutcome))
Told = Callable[[Sequence[MoveOutcome]], None]


@dataclass(frozen=True, slots=True)
class Handover:
    """Who leaves, and who may take over: writable bookies that answer and remember; those that keep
    copies in several `racks` first.
    """

    leaving: BookieId
    candidates: Sequence[BookieId]
    racks: Racks = NO_RACKS


@dataclass(slots=True)
class _Job:
    """One ledger in one batch. `owed`: by target, without what is `lost`."""

    outcome: MoveOutcome
    look: Look
    moves: tuple[Move, ...]
    owed: dict[BookieId, EntrySet]
    lost: dict[BookieId, EntrySet]
    must_start_over: bool = False

    @property
    def ledger_id(self) -> LedgerId:
        return self.look.ledger_id

    @property
    def metadata(self) -> Versioned[LedgerMetadata]:
        return self.look.metadata


@dataclass(slots=True)
class LedgerMover:
    """Moves ledgers of one handover. `told`: of each ledger once, when its copies are made or there
    is nothing to copy; what becomes of it may still change.
    """

    cluster: Cluster
    handover: Handover
    settings: RepairSettings = field(default_factory=RepairSettings)
    told: Told = lambda _outcomes: None
    _copier: Copier = field(init=False)
    _auditor: Auditor = field(init=False)
    _slots: asyncio.Semaphore = field(init=False)
    _untold: set[LedgerId] = field(init=False)

    def __post_init__(self) -> None:
        self._copier = Copier(self.cluster.peers, self.settings.copy)
        self._auditor = Auditor(self.cluster.store, self.cluster.control, self.settings.audit)
        self._slots = asyncio.Semaphore(LEDGERS_IN_FLIGHT)
        self._untold = set()

    async def move(self, outcomes: Sequence[MoveOutcome]) -> None:
        """Fills in what came of each. UnavailableError: the metadata store is away."""
        waiting = {outcome.ledger_id: outcome for outcome in outcomes}
        self._untold |= waiting.keys()
        for _start in range(STARTS_MAX):
            jobs = await self._move(waiting)
            waiting = {job.ledger_id: job.outcome for job in jobs if job.must_start_over}
            if not waiting:
                break
        for outcome in waiting.values():
            outcome.block("MetadataConflict", "its metadata changes all the time; run it again")
        self._tell(outcomes)

    def _tell(self, outcomes: Iterable[MoveOutcome]) -> None:
        untold = [outcome for outcome in outcomes if outcome.ledger_id in self._untold]
        self._untold -= {outcome.ledger_id for outcome in untold}
        if untold:
            self.told(untold)

    async def _move(self, waiting: Mapping[LedgerId, MoveOutcome]) -> list[_Job]:
        looks = await self._auditor.look(list(waiting))
        for ledger_id in waiting.keys() - looks.keys():
            if (error := self._auditor.unreadable.get(ledger_id)) is not None:
                waiting[ledger_id].block("MetadataUnreadable", str(error))
            else:
                waiting[ledger_id].state_before = "DELETED"
        planned = [self._plan(waiting[ledger_id], look) for ledger_id, look in looks.items()]
        jobs = [job for job in planned if job is not None]
        await self._copy_all(jobs)
        await self._flush(_open(jobs))
        await self._verify(_open(jobs))
        await self._each(_open(jobs), self._write)
        await self._each([job for job in _open(jobs) if job.outcome.moved], self._record_losses)
        await self._watch_over([job for job in _open(jobs) if job.outcome.moved])
        return jobs

    async def _each(self, jobs: Iterable[_Job], step: Callable[[_Job], Awaitable[None]]) -> None:
        async def bounded(job: _Job) -> None:
            async with self._slots:
                await step(job)

        await asyncio.gather(*map(bounded, jobs))

    # Plan
    def _plan(self, outcome: MoveOutcome, look: Look) -> _Job | None:
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
        return _Job(
            outcome,
            look,
            moves,
            owed={target: entries - gone for target, entries in owed.items()},
            lost={target: entries & gone for target, entries in owed.items()},
        )

    # Copy, sync, look
    async def _copy_all(self, jobs: Iterable[_Job]) -> None:
        held = await self._held(jobs)
        await self._each(jobs, lambda job: self._copy(job, held))

    async def _held(self, jobs: Iterable[_Job]) -> Held:
        """What every target holds now of the ledgers it is to take over."""
        asked: dict[BookieId, list[LedgerId]] = {}
        for job in jobs:
            for target in job.owed:
                asked.setdefault(target, []).append(job.ledger_id)
        control = self.cluster.control
        answers = await asyncio.gather(*(control.availability(b, ids) for b, ids in asked.items()))
        return {
            (target, ledger_id): holding
            for target, answer in zip(asked, answers, strict=True)
            for ledger_id, holding in answer.items()
        }

    async def _copy(self, job: _Job, held: Held) -> None:
        for target, owed in job.owed.items():
            holding = held[target, job.ledger_id]
            if not holding.has_searched:
                said = f"{target}, which was to take over, answered {holding.status.name}"
                job.outcome.block("TargetSilent", said)
                return
            wanted = owed - holding.entries
            if wanted:
                await self._copy_to(job, target, wanted)
        self._tell([job.outcome])

    async def _copy_to(self, job: _Job, target: BookieId, wanted: EntrySet) -> None:
        outcome = job.outcome
        copied = await self._copier.copy(
            job.metadata.value, target, wanted, holdings=job.look.holdings
        )
        outcome.entries_copied += len(copied.entries)
        outcome.bytes_copied += copied.bytes_copied
        outcome.corrupt_copies += len(copied.corrupt)
        if copied.left:
            said = f"{len(copied.left)} entries could not be copied to {target}: {copied.why}"
            outcome.block("CopyIncomplete", said)

    async def _flush(self, jobs: Sequence[_Job]) -> None:
        """Also where nothing was copied now: an earlier run may have been cut off before this."""
        targets = sorted({target for job in jobs for target, owed in job.owed.items() if owed})
        answers = await asyncio.gather(*map(self.cluster.control.flush, targets))
        failed = {t: s for t, s in zip(targets, answers, strict=True) if s is not Status.OK}
        for job in jobs:
            for target in failed.keys() & job.owed.keys():
                said = f"{target} did not sync its copies: {failed[target].name}"
                job.outcome.block("NotFlushed", said)

    async def _verify(self, jobs: Sequence[_Job]) -> None:
        for job in await self._lacking(jobs):
            job.outcome.block("CopyIncomplete", f"{_targets(job)} does not hold what it was given")

    async def _lacking(self, jobs: Sequence[_Job]) -> list[_Job]:
        held = await self._held(jobs)
        return [
            job
            for job in jobs
            if any(owed - held[t, job.ledger_id].entries for t, owed in job.owed.items())
        ]

    async def _watch_over(self, jobs: Sequence[_Job]) -> None:
        """A target that lost a disk just before it was named had no reason to mark the ledger.

        The leaving bookie, or the members that stay, hold everything: copies are made again.
        """
        for _copy in range(COPIES_MAX):
            jobs = await self._lacking(jobs)
            if not jobs:
                return
            await self._copy_all(jobs)
            await self._flush(_open(jobs))
        for job in await self._lacking(_open(jobs)):
            said = f"{_targets(job)} took over and lost its copies again: repair this ledger"
            job.outcome.block("CopyLost", said)

    # Metadata
    async def _record_losses(self, job: _Job) -> None:
        """A loss that is on record stays on record when its keeper leaves.

        After the metadata: a bookie takes records of what it is to hold only. A run that is cut off
        in between leaves the entry without a record on the target, for the next repair to write.
        """
        if not any(job.lost.values()):
            return
        of_targets = {target: holding for (target, _), holding in (await self._held([job])).items()}
        found = {**job.look.holdings, **of_targets}
        answered = [bookie_id for bookie_id, holding in found.items() if holding.has_searched]
        for target, lost in job.lost.items():
            if not lost:
                continue
            answer = await self.cluster.control.record_loss(
                target,
                job.ledger_id,
                lost,
                reason=LOSS_REASON,
                by_person=False,
                answered_by=answered,
            )
            if not answer.recorded:
                job.outcome.block("LossNotRecorded", f"{target}: {answer.message}")

    async def _write(self, job: _Job) -> None:
        wanted = moved(job.metadata.value, job.moves)
        store = self.cluster.store
        try:
            await store.write_ledger(wanted, version=job.metadata.version)
        except NoSuchLedgerError:
            job.outcome.state_before = "DELETED"
            return
        except MetadataConflictError:
            job.must_start_over = True
            return
        except UnavailableError as error:
            # Of unknown outcome: only a linearizable re-read can tell.
            await self._find_out(job, wanted, error)
            return
        job.outcome.moved = True

    async def _find_out(
        self, job: _Job, wanted: LedgerMetadata, first_error: UnavailableError
    ) -> None:
        try:
            found = (await self.cluster.store.read_ledger(job.ledger_id)).value
        except NoSuchLedgerError:
            job.outcome.state_before = "DELETED"
        except UnavailableError:
            job.outcome.block("MetadataUnavailable", str(first_error))
        except MetadataFormatError as error:
            job.outcome.block("MetadataUnreadable", str(error))
        else:
            job.outcome.moved = found.fragments == wanted.fragments
            job.must_start_over = not job.outcome.moved


def planned(metadata: LedgerMetadata, handover: Handover) -> tuple[Move, ...]:
    """The same for the same metadata, wherever and however often it is asked."""
    return plan_moves(metadata, handover.leaving, handover.candidates, racks=handover.racks)


def _open(jobs: Iterable[_Job]) -> list[_Job]:
    return [job for job in jobs if not job.outcome.reason]


def _targets(job: _Job) -> str:
    return ", ".join(job.owed)


def _known_lost(look: Look) -> EntrySet:
    """In a loss record, and no copy has turned up."""
    lost, held = EMPTY, EMPTY
    for holding in look.holdings.values():
        lost, held = lost | holding.lost, held | holding.entries
    return lost - held
