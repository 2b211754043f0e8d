"""One re-replication from end to end: bookies that are gone for good, and marks of lost copies.

list, choose an engine -> refuse? -> every ledger that names a lost bookie gets a new member
(`evacuation`, `ledger_move`: copied from the peers, verified, synced, and only then named by
compare-and-set) -> marks: what their members lack is copied -> looked at again -> a mark is cleared
when its ledger is whole -> audit -> result.

Marks, locks and the switch are BookKeeper's own (`metadata.underreplication`), so that its workers
and this one do not fight: a ledger is reserved while it is worked on, one that somebody else has
reserved is left to them, and nothing is done while re-replication is switched off, unless forced.
Safe to run twice, at once and half-way, with or without a lock.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from bookie.errors import MetadataFormatError
from bookie.ids import BookieId, LedgerId
from bookie.metadata.naming import Listing, list_ledgers
from bookie.metadata.store import UnderreplicationMark
from bookie.protocol.ledger import LedgerMetadata
from bookie.protocol.placement import NO_RACKS
from bookie.protocol.status import Status
from bookie.repair.engine.choice import AUTO, check_engine
from bookie.repair.engine.engine import EmptyingSettings
from bookie.repair.engine.move_engines import MoveWork, SparkMoves, chosen, engine_json, opened
from bookie.repair.jobs.drain_job import blocked_rows, sums
from bookie.repair.jobs.evacuation import Carriage, Emptying, Refusal, naming
from bookie.repair.judge.adherence import racks_of
from bookie.repair.look.audit import Audit, Auditor, Look, batches_of
from bookie.repair.look.cluster import Cluster
from bookie.repair.look.same_cluster import SameCluster
from bookie.repair.mend.ledger_move import MoveOutcome
from bookie.repair.mend.outcome import LedgerTask
from bookie.repair.reports.ledger_progress import Follower
from bookie.repair.reports.printing import Say
from bookie.repair.reports.result import (
    EXIT_REFUSED,
    EXIT_UNKNOWN,
    FINDINGS_MAX,
    Document,
    Started,
    accepted_json,
    audit_json,
    counts_json,
    exit_code,
)

LOCKS_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True)
class RereplicateRequest:
    """`bookies`: gone for good, by a person's word; none: only what marks say. `force`: also while
    re-replication is switched off.
    """

    bookies: tuple[BookieId, ...] = ()
    engine: str = AUTO
    force: bool = False
    settings: EmptyingSettings = field(default_factory=EmptyingSettings)


async def rereplicate(
    cluster: Cluster, request: RereplicateRequest, *, spark: SparkMoves | None = None, say: Say
) -> Document:
    """Run one re-replication; the result object. It may be stopped anywhere and run again. `spark`
    moves and mends the ledgers when that engine is chosen.

    Raises SettingsError for an engine that cannot run, UnavailableError without metadata store,
    InconsistentError where bookies of several clusters meet.
    """
    check_engine(request.engine)
    same = await SameCluster.look(cluster.store)
    run = _Run(cluster, request, say)
    found = await run.look()
    choice = await chosen(request.engine, ledgers=found.ledgers, say=say)
    following = Follower(found.steps, say)
    work = MoveWork(cluster, same, request.settings, say)
    async with opened(choice, work, spark) as engine:
        refusal = await run.work(found, Carriage(engine, following, say))
    after = await run.audit()
    left = await run.left()
    told = engine_json(choice, engine, following)
    return run.result(told, refusal=refusal, after=after, left=left)


@dataclass(frozen=True, slots=True)
class _Found:
    """What there is to do at the start: what names each lost bookie, and the marks."""

    listings: dict[BookieId, Listing]
    marks: list[UnderreplicationMark]

    @property
    def ledgers(self) -> int:
        named = (naming(listing) for listing in self.listings.values())
        return len({mark.ledger_id for mark in self.marks}.union(*named))

    @property
    def steps(self) -> int:
        """A ledger counts for each lost bookie that it names, and for its mark."""
        return sum(len(naming(one)) for one in self.listings.values()) + len(self.marks)


class _Run:
    """The steps of one re-replication, with what they share; the gate of its emptyings."""

    def __init__(self, cluster: Cluster, request: RereplicateRequest, say: Say) -> None:
        self._cluster = cluster
        self._request = request
        self._say = say
        self._started = Started.now()
        self._marks = cluster.store.underreplication
        self._holder = f"bookie-repair {self._started.run_id} on {socket.gethostname()}"
        self.racks = NO_RACKS
        self._silent: list[BookieId] = []
        self._emptied: list[Emptying] = []
        self._mended: dict[LedgerId, MoveOutcome] = {}
        self._cleared = 0
        self._locks = asyncio.Semaphore(LOCKS_AT_ONCE)

    # Gate
    async def candidates(self) -> Sequence[BookieId] | Refusal:
        """Writable bookies that answer; refused when a lost one is back, or it is switched off."""
        infos = await self._cluster.store.bookies()
        for bookie_id in self._request.bookies:
            if bookie_id in infos:
                return Refusal(
                    "StillRegistered",
                    f"{bookie_id} is registered, so it is not gone for good: stop it for good "
                    "first, or empty it with `bookie drain`, which keeps its copies until the end",
                    bookie_id,
                )
        if not (self._request.force or await self._marks.is_enabled()):
            return Refusal(
                "SwitchedOff",
                "re-replication is switched off in the metadata store (`bookkeeper shell "
                "autorecovery -disable`): switch it on, or force it",
                BookieId(""),
            )
        self.racks = racks_of(infos, {})
        writable = sorted(bookie_id for bookie_id, info in infos.items() if info.takes_runs)
        control = self._cluster.control
        answers = await asyncio.gather(*map(control.list_marks, writable))
        self._silent = [found.bookie_id for found in answers if found.status is not Status.OK]
        return [bookie_id for bookie_id in writable if bookie_id not in self._silent]

    async def reserve(self, outcomes: Sequence[MoveOutcome]) -> None:
        """Takes the lock that Apache's workers take; who is late leaves the ledger to the other."""

        async def one(outcome: MoveOutcome) -> None:
            if not await self._marks.lock(outcome.ledger_id, holder=self._holder):
                said = "another worker has reserved it: look again when that one is done"
                outcome.block("Reserved", said)

        await self._each(outcomes, one)

    async def release(self, outcomes: Sequence[MoveOutcome]) -> None:
        """Gives the locks up; those of a session that ends go by themselves."""
        await self._each(outcomes, lambda outcome: self._marks.unlock(outcome.ledger_id))

    async def _each(
        self, outcomes: Iterable[MoveOutcome], step: Callable[[MoveOutcome], Awaitable[None]]
    ) -> None:
        async def bounded(outcome: MoveOutcome) -> None:
            async with self._locks:
                await step(outcome)

        await asyncio.gather(*map(bounded, outcomes))

    # Work
    async def look(self) -> _Found:
        marks = [mark async for mark in self._marks.marks()]
        self._say(f"{len(marks)} ledgers are marked as under-replicated")
        store = self._cluster.store
        return _Found({b: await list_ledgers(store, b) for b in self._request.bookies}, marks)

    async def work(self, found: _Found, carriage: Carriage) -> Refusal | None:
        """Lost bookies by a person's word, then those that marks name, then the marks."""
        if isinstance(refused := await self.candidates(), Refusal):
            return refused
        for bookie_id, listing in found.listings.items():
            emptying = self._emptying(bookie_id, carriage)
            if refusal := await emptying.all_that_name_it(listing):
                return refusal
        for bookie_id, ledger_ids in (await self._missing(found.marks)).items():
            if refusal := await self._emptying(bookie_id, carriage).these(ledger_ids):
                return refusal
        marked = (mark.ledger_id for mark in found.marks)
        async for batch in batches_of(marked, carriage.engine.ledgers_at_once):
            if isinstance(refused := await self.candidates(), Refusal):
                return refused
            await self._mend(batch, carriage)
        return None

    def _emptying(self, bookie_id: BookieId, carriage: Carriage) -> Emptying:
        settings = self._request.settings
        emptying = Emptying(self._cluster, bookie_id, self, settings, carriage)
        self._emptied.append(emptying)
        return emptying

    async def _missing(
        self, marks: Iterable[UnderreplicationMark]
    ) -> dict[BookieId, set[LedgerId]]:
        """Bookies that marks name and that are not there, each with its ledgers.

        One that came back is none of them: its ledgers are looked at, and it gets what it lacks.
        """
        there = {*await self._cluster.store.bookies(), *self._request.bookies}
        missing: dict[BookieId, set[LedgerId]] = {}
        for mark in marks:
            for bookie_id in mark.missing:
                if bookie_id not in there:
                    missing.setdefault(bookie_id, set()).add(mark.ledger_id)
        return missing

    # Marks
    async def _mend(self, ledger_ids: Sequence[LedgerId], carriage: Carriage) -> None:
        """Copy what members lack, look again, and clear the marks of what is whole."""
        outcomes = [self._mended.setdefault(i, MoveOutcome(i)) for i in ledger_ids]
        await self.reserve(outcomes)
        mine = [outcome for outcome in outcomes if not outcome.reason]
        try:
            # Read under the lock and before the look: what is marked later stays marked.
            marks = await self._read_marks(mine)
            if others := [outcome for outcome in outcomes if outcome.ledger_id not in marks]:
                carriage.following.count(others)
            await self._copy([o for o in mine if o.ledger_id in marks], carriage)
            auditor = self._auditor()
            looks = await auditor.settled(list(marks))
            for outcome in mine:
                if (error := auditor.unreadable.get(outcome.ledger_id)) is not None:
                    outcome.block("MetadataUnreadable", str(error))
                if mark := marks.get(outcome.ledger_id):
                    await self._clear(outcome, mark, looks.get(outcome.ledger_id))
        finally:
            await self.release(mine)

    async def _read_marks(
        self, outcomes: Iterable[MoveOutcome]
    ) -> dict[LedgerId, UnderreplicationMark]:
        found: dict[LedgerId, UnderreplicationMark] = {}

        async def one(outcome: MoveOutcome) -> None:
            try:
                mark = await self._marks.read_mark(outcome.ledger_id)
            except MetadataFormatError as error:
                outcome.block("MarkUnreadable", str(error))
                return
            if mark is not None:
                found[outcome.ledger_id] = mark

        await self._each(outcomes, one)
        return found

    async def _copy(self, outcomes: Sequence[MoveOutcome], carriage: Carriage) -> None:
        tasks = [LedgerTask(outcome.ledger_id) for outcome in outcomes]
        done = await carriage.engine.mend(tasks, carriage.following.count)
        for outcome, repaired in zip(outcomes, done, strict=True):
            outcome.state_before = repaired.state_before
            outcome.recovered = repaired.recovered
            outcome.entries_recovered = repaired.entries_recovered
            outcome.entries_copied = repaired.entries_copied
            outcome.bytes_copied = repaired.bytes_copied
            outcome.corrupt_copies = repaired.corrupt_copies
            if repaired.reason:
                outcome.block(repaired.reason, repaired.message)
        written = sorted({BookieId(b) for repaired in done for b in repaired.touched})
        answers = await asyncio.gather(*map(self._cluster.control.flush, written))
        failed = {b for b, status in zip(written, answers, strict=True) if status is not Status.OK}
        for outcome, repaired in zip(outcomes, done, strict=True):
            if unsynced := failed & set(repaired.touched):
                outcome.block(
                    "NotFlushed", f"{', '.join(sorted(unsynced))} did not sync its copies"
                )

    async def _clear(
        self, outcome: MoveOutcome, mark: UnderreplicationMark, look: Look | None
    ) -> None:
        if outcome.reason:
            return
        if why := await self._why_kept(mark, look):
            outcome.block("StillUnderReplicated", why)
        elif await self._marks.clear(outcome.ledger_id, version=mark.version):
            self._cleared += 1
        else:
            outcome.block("MarkChanged", "it was marked again meanwhile: the next run looks again")

    async def _why_kept(self, mark: UnderreplicationMark, look: Look | None) -> str:
        """Empty when every copy is in place on bookies that are there, or the ledger is deleted."""
        if look is None:
            return ""
        if not look.verdict.is_ok:
            return f"{look.verdict.entries - len(look.verdict.ok)} entries lack a copy"
        metadata = look.metadata.value
        there = await self._cluster.store.bookies()
        if gone := [b for b in mark.missing if b not in there and metadata.names(b)]:
            return f"{', '.join(gone)}, which is not there, is still a member"
        if _is_written_to(metadata, mark.missing):
            return "its last fragment is open and names a bookie that was missing"
        return ""

    # Result
    def _auditor(self) -> Auditor:
        settings = self._request.settings.repair.audit
        return Auditor(self._cluster.store, self._cluster.control, settings)

    @property
    def _outcomes(self) -> list[MoveOutcome]:
        moved = [outcome for one in self._emptied for outcome in one.outcomes.values()]
        return [*moved, *self._mended.values()]

    async def audit(self) -> Audit:
        """What was moved or marked, as anybody sees it now."""
        touched = {o.ledger_id for o in self._outcomes if o.moved} | self._mended.keys()
        return await self._auditor().audit(sorted(touched))

    async def left(self) -> set[LedgerId]:
        """Ledgers that name a lost bookie, or may come to."""
        store = self._cluster.store
        found = [await list_ledgers(store, bookie_id) for bookie_id in self._request.bookies]
        return {ledger_id for listing in found for ledger_id in naming(listing)}

    def result(
        self, engine: Document, *, refusal: Refusal | None, after: Audit, left: set[LedgerId]
    ) -> Document:
        outcomes = self._outcomes
        late = left - {outcome.ledger_id for outcome in outcomes}
        blocked = blocked_rows(outcomes, refusal, late)
        marks = {"found": len(self._mended), "cleared": self._cleared}
        self._say(f"{len(left)} ledgers left, {self._cleared} of {len(self._mended)} marks cleared")
        is_clean = not (left or blocked)
        code = exit_code(after.counts, blocked=len(blocked)) or (0 if is_clean else EXIT_UNKNOWN)
        return {
            **self._started.json("rereplication"),
            **engine,
            "lost_bookies": list(self._request.bookies),
            "refused": refusal.message if refusal is not None else "",
            "ledgers_left": len(left),
            "marks": marks,
            **sums(outcomes),
            "audit_after": counts_json(after.counts),
            "blocked": blocked[:FINDINGS_MAX],
            "blocked_left_out": max(len(blocked) - FINDINGS_MAX, 0),
            "findings": audit_json(after)["findings"],
            "accepted_losses": accepted_json(after),
            "unreachable": sorted({*self._silent, *after.unreachable}),
            "exit_code": EXIT_REFUSED if refusal is not None else code,
        }


def _is_written_to(metadata: LedgerMetadata, missing: Iterable[BookieId]) -> bool:
    return not metadata.is_closed and bool({*missing} & {*metadata.last_fragment.ensemble})
