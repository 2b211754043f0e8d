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

from bookie.errors import BadRequestError, MetadataFormatError
from bookie.ids import BookieId, LedgerId
from bookie.metadata.naming import Listing, list_ledgers
from bookie.metadata.store import RUN_ENDPOINT, UnderreplicationMark
from bookie.protocol.ledger import LedgerMetadata
from bookie.protocol.placement import NO_RACKS
from bookie.protocol.status import Status
from bookie.repair.engine.choice import AUTO
from bookie.repair.engine.engine import Engine, Engines
from bookie.repair.jobs.evacuation import (
    Evacuation,
    EvacuationSettings,
    Refusal,
    naming,
)
from bookie.repair.jobs.evacuation_result import evacuation_result
from bookie.repair.jobs.job import Job, open_engine
from bookie.repair.judge.adherence import racks_of
from bookie.repair.judge.expect import members
from bookie.repair.look.audit import Audit, Auditor, Look, batches_of, read_ledgers
from bookie.repair.look.cluster import Cluster
from bookie.repair.mend.outcome import LedgerTask, Outcome
from bookie.repair.reports.ledger_progress import LedgerProgress
from bookie.repair.reports.progress_lines import Say
from bookie.repair.reports.result import (
    Document,
)

LOCKS_AT_ONCE: Final = 16
CAME_BACK: Final = "CameBack"
NOBODY: Final = BookieId("")


@dataclass(frozen=True, slots=True)
class RereplicateRequest:
    """What is lost."""

    bookies: tuple[BookieId, ...] = ()
    """Bookies that a person declared permanently lost; empty: only marked ledgers are restored."""
    engine: str = AUTO
    force: bool = False
    """Work even while re-replication is switched off."""
    settings: EvacuationSettings = field(default_factory=EvacuationSettings)


async def rereplicate(
    cluster: Cluster, request: RereplicateRequest, *, engines: Engines = open_engine, say: Say
) -> Document:
    """Run one re-replication; the result object. It may be stopped anywhere and run again. Raises
    what `Job.begin` and `Job.choose` raise, and BadRequestError for a bookie that never existed.
    """
    job = await Job.begin("rereplication", request.engine, cluster, say, engines)
    run = _Rereplication(job, request)
    found = await run.look()
    await run.check_existence(found)
    choice = await job.choose(found.ledgers)
    say(f"{found.ledgers} ledgers to look after, engine {choice.name} ({choice.reason})")
    run.progress = job.follow(found.steps)
    async with job.engine() as engine:
        refusal = await run.work(found, engine)
    after = await run.audit()
    left = await run.left()
    marks = {"found": len(run.mended), "cleared": run.cleared}
    say(f"{len(left)} ledgers left, {run.cleared} of {len(run.mended)} marks cleared")
    return job.result(
        lost_bookies=list(request.bookies),
        marks=marks,
        **evacuation_result(
            run.outcomes, refusal=refusal, after=after, left=left, silent=run.silent
        ),
    )


@dataclass(frozen=True, slots=True)
class _Found:
    """What there is to do at the start: what names each lost bookie, and what is marked."""

    listings: dict[BookieId, Listing]
    underreplicated: list[UnderreplicationMark]

    @property
    def ledgers(self) -> int:
        named = (naming(listing) for listing in self.listings.values())
        return len({mark.ledger_id for mark in self.underreplicated}.union(*named))

    @property
    def steps(self) -> int:
        """A ledger counts for each lost bookie that it names, and for its mark."""
        return sum(len(naming(one)) for one in self.listings.values()) + len(self.underreplicated)


class _Rereplication:
    """The steps of one re-replication, with what they share; the gate of its evacuations."""

    progress: LedgerProgress
    """Set before the work begins."""

    def __init__(self, job: Job, request: RereplicateRequest) -> None:
        self._job, self._cluster, self._say = job, job.cluster, job.say
        self._request = request
        self._underreplication = job.cluster.store.underreplication
        """BookKeeper's own: marks, locks and the switch."""
        self._holder = f"bookie-repair {job.started.run_id} on {socket.gethostname()}"
        """Text in a ledger's lock that says who has reserved it."""
        self.racks = NO_RACKS
        """Racks of the bookies that were registered at the last look."""
        self.silent: list[BookieId] = []
        """Writable bookies that gave no answer when they were asked last."""
        self._replaced = NOBODY
        """The bookie that marks name and that is being replaced now."""
        self._evacuations: list[Evacuation] = []
        """One for each lost bookie, in the order in which they began; kept for the counts."""
        self.mended: dict[LedgerId, Outcome] = {}
        """The outcome of the repair of every marked ledger."""
        self.cleared = 0
        """Number of marks that this run cleared; at most one for each ledger in `mended`."""
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
        if self._replaced in infos:
            said = f"{self._replaced} came back: what is left is looked at with its marks"
            return Refusal(CAME_BACK, said, self._replaced)
        if not (self._request.force or await self._underreplication.is_enabled()):
            return Refusal(
                "SwitchedOff",
                "re-replication is switched off in the metadata store (`bookkeeper shell "
                "autorecovery -disable`): switch it on, or force it",
                NOBODY,
            )
        self.racks = racks_of(infos, {})
        writable = sorted(bookie_id for bookie_id, info in infos.items() if info.takes_runs)
        answers = await self._cluster.list_marks(writable)
        self.silent = [found.bookie_id for found in answers if found.status is not Status.OK]
        return [bookie_id for bookie_id in writable if bookie_id not in self.silent]

    async def reserve(self, outcomes: Sequence[Outcome]) -> None:
        """Takes the lock that Apache's workers take; who is late leaves the ledger to the other."""

        async def one(outcome: Outcome) -> None:
            if not await self._underreplication.lock(outcome.ledger_id, holder=self._holder):
                said = "another worker has reserved it: look again when that one is done"
                outcome.block("Reserved", said)

        await self._each(outcomes, one)

    async def release(self, outcomes: Sequence[Outcome]) -> None:
        """Gives the locks up; those of a session that ends go by themselves."""
        await self._each(outcomes, lambda outcome: self._underreplication.unlock(outcome.ledger_id))

    async def _each(
        self, outcomes: Iterable[Outcome], step: Callable[[Outcome], Awaitable[None]]
    ) -> None:
        async def bounded(outcome: Outcome) -> None:
            async with self._locks:
                await step(outcome)

        await asyncio.gather(*map(bounded, outcomes))

    # Work
    async def look(self) -> _Found:
        marks = [mark async for mark in self._underreplication.marks()]
        self._say(f"{len(marks)} ledgers are marked as under-replicated")
        store = self._cluster.store
        return _Found({b: await list_ledgers(store, b) for b in self._request.bookies}, marks)

    async def check_existence(self, found: _Found) -> None:
        """No ledger names a bookie that never existed: a wrong id must not look like one that was
        replaced. A bookie that booted has a record of that for good, without a cookie too."""
        known = await self._cluster.all_bookies()
        marked = {bookie_id for mark in found.underreplicated for bookie_id in mark.missing}
        for bookie_id, listing in found.listings.items():
            if listing.named or bookie_id in marked.union(known):
                continue
            if not bookie_id or await self._cluster.store.read_boot(bookie_id) is None:
                raise BadRequestError(
                    f"there is no bookie {bookie_id or '(empty)'}, and no ledger or mark names it; "
                    f"known are {', '.join(known)}"
                )

    async def work(self, found: _Found, engine: Engine) -> Refusal | None:
        """Lost bookies by a person's word, then those that marks name, then the marks."""
        if isinstance(refused := await self.candidates(), Refusal):
            return refused
        for bookie_id, listing in found.listings.items():
            evacuation = self._evacuation(bookie_id, engine)
            if refusal := await evacuation.all_that_name_it(listing):
                return refusal
        for bookie_id, ledger_ids in (await self._missing(found.underreplicated)).items():
            if refusal := await self._replace(bookie_id, ledger_ids, engine):
                return refusal
        marked = (mark.ledger_id for mark in found.underreplicated)
        at_once = self._request.settings.ledgers_at_once(engine)
        async for batch in batches_of(marked, at_once):
            if isinstance(refused := await self.candidates(), Refusal):
                return refused
            await self._mend(batch, engine)
        return None

    async def _replace(
        self, bookie_id: BookieId, ledger_ids: set[LedgerId], engine: Engine
    ) -> Refusal | None:
        """Replace a bookie that marks name, until it comes back: then the others go on."""
        left = self.progress.left
        self._replaced = bookie_id
        refusal = await self._evacuation(bookie_id, engine).these(ledger_ids)
        self._replaced = NOBODY
        if refusal is None or refusal.reason != CAME_BACK:
            return refusal
        self._say(refusal.message)
        self.progress.expect(left - self.progress.left)
        return None

    def _evacuation(self, bookie_id: BookieId, engine: Engine) -> Evacuation:
        settings = self._request.settings
        evacuation = Evacuation(self._job, engine, self.progress, bookie_id, self, settings)
        self._evacuations.append(evacuation)
        return evacuation

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
    async def _mend(self, ledger_ids: Sequence[LedgerId], engine: Engine) -> None:
        """Copy what members lack, look again, and clear the marks of what is whole."""
        outcomes = [self.mended.setdefault(i, Outcome(i)) for i in ledger_ids]
        await self.reserve(outcomes)
        mine = [outcome for outcome in outcomes if not outcome.reason]
        try:
            # Read under the lock and before the look: what is marked later stays marked.
            marks = await self._read_marks(mine)
            if others := [outcome for outcome in outcomes if outcome.ledger_id not in marks]:
                self.progress.count(others)
            await self._copy([o for o in mine if o.ledger_id in marks], engine)
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
        self, outcomes: Iterable[Outcome]
    ) -> dict[LedgerId, UnderreplicationMark]:
        found: dict[LedgerId, UnderreplicationMark] = {}

        async def one(outcome: Outcome) -> None:
            try:
                mark = await self._underreplication.read_mark(outcome.ledger_id)
            except MetadataFormatError as error:
                outcome.block("MarkUnreadable", str(error))
                return
            if mark is not None:
                found[outcome.ledger_id] = mark

        await self._each(outcomes, one)
        return found

    async def _copy(self, outcomes: Sequence[Outcome], engine: Engine) -> None:
        tasks = [LedgerTask(outcome.ledger_id) for outcome in outcomes]
        settings = self._request.settings.repair
        repaired = await engine.repair(tasks, settings, self.progress.count)
        for outcome, found in zip(outcomes, repaired, strict=True):
            outcome.take(found)
        await self._flush(outcomes)

    async def _flush(self, outcomes: Sequence[Outcome]) -> None:
        """Flush all members, even without new copies: an earlier run, or an earlier try of a task,
        may have ended before its flush."""
        store = self._cluster.store
        ledger_ids = [outcome.ledger_id for outcome in outcomes]
        found = await read_ledgers(store, ledger_ids, unreadable={})
        # One that is away is blocked by what is unknown of it; Apache's take no copies of ours.
        infos = (await store.bookies()).items()
        ours = {bookie_id for bookie_id, info in infos if info.endpoint(RUN_ENDPOINT) is not None}
        asked = {i: ours.intersection(members(one.value)) for i, one in found.items()}
        for outcome in outcomes:  # who took copies is ours, though its session may have ended since
            asked.setdefault(outcome.ledger_id, set()).update(map(BookieId, outcome.touched))
        failed = await self._cluster.flush(set[BookieId]().union(*asked.values()))
        for outcome in outcomes:
            if unsynced := failed.keys() & asked.get(outcome.ledger_id, set()):
                said = f"{', '.join(sorted(unsynced))} did not sync its copies"
                outcome.block("NotFlushed", said)

    async def _clear(self, outcome: Outcome, mark: UnderreplicationMark, look: Look | None) -> None:
        if outcome.reason:
            return
        if why := await self._why_kept(mark, look):
            outcome.block("StillUnderReplicated", why)
        elif await self._underreplication.clear(outcome.ledger_id, version=mark.version):
            self.cleared += 1
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
    def outcomes(self) -> list[Outcome]:
        moved = [outcome for one in self._evacuations for outcome in one.outcomes.values()]
        return [*moved, *self.mended.values()]

    async def audit(self) -> Audit:
        """What was moved or marked, as anybody sees it now."""
        touched = {o.ledger_id for o in self.outcomes if o.moved} | self.mended.keys()
        return await self._auditor().audit(sorted(touched))

    async def left(self) -> set[LedgerId]:
        """Ledgers that name a lost bookie, or may come to."""
        store = self._cluster.store
        found = [await list_ledgers(store, bookie_id) for bookie_id in self._request.bookies]
        return {ledger_id for listing in found for ledger_id in naming(listing)}


def _is_written_to(metadata: LedgerMetadata, missing: Iterable[BookieId]) -> bool:
    return not metadata.is_closed and bool({*missing} & {*metadata.last_fragment.ensemble})
