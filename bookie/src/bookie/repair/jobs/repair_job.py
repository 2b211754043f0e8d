"""One repair from end to end: the order of the steps is here and nowhere else.

list marks -> leave time to live writers -> recover and copy, ledger by ledger (an engine) -> flush
the bookies written to -> audit -> record definite losses -> ask the bookies to clear their marks ->
result.
A repair may be stopped anywhere and run again: what is left to do only shrinks.
"""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial

from bookie.ids import BookieId, LedgerId
from bookie.points import passing
from bookie.protocol.clearing import ClearReason, is_left_to_writer
from bookie.protocol.ledger import LedgerMetadata
from bookie.protocol.status import Status
from bookie.repair.engine.choice import AUTO
from bookie.repair.engine.engine import Engines
from bookie.repair.jobs.job import Job, open_engine
from bookie.repair.jobs.repair_result import repair_result
from bookie.repair.jobs.resume import Checkpoint
from bookie.repair.look.audit import Audit, Auditor, read_ledgers
from bookie.repair.look.bookie_control import Marks
from bookie.repair.look.cluster import Cluster
from bookie.repair.look.digests import DigestReader, deep_auditor
from bookie.repair.look.left_over import left_over
from bookie.repair.look.survey import survey
from bookie.repair.mend.ledger_repair import RepairSettings, recover_ledger, tasks_of
from bookie.repair.mend.losses import record_losses
from bookie.repair.mend.outcome import LedgerTask, Outcome
from bookie.repair.reports.progress_lines import Say, say_nothing
from bookie.repair.reports.result import Document
from bookie.wire.admin.limbo_marks import Cleared


@dataclass(frozen=True, slots=True)
class RepairRequest:
    """What to repair, and how gently."""

    bookies: tuple[BookieId, ...] = ()
    """Bookies whose marks are repaired; empty: those of every bookie, and all ledgers too."""
    engine: str = AUTO
    every_ledger: bool = False
    """Repair all ledgers, even if bookies are named."""
    settings: RepairSettings = field(default_factory=RepairSettings)
    checkpoint: bool = False
    """Go on from what a repair that was cut off had done, and remember for the next one."""

    @property
    def covers_all(self) -> bool:
        return self.every_ledger or not self.bookies


async def repair(
    cluster: Cluster,
    request: RepairRequest,
    *,
    engines: Engines = open_engine,
    say: Say = say_nothing,
) -> Document:
    """Run one repair; the result object. Raises what `Job.begin` and `Job.choose` raise."""
    job = await Job.begin("repair", request.engine, cluster, say, engines)
    run = _Repair(job, request)
    marks = await run.list_marks()
    tasks = await run.tasks(marks)
    await run.leave_to_writers([task for task in tasks if task.limbo_on])
    done = await run.done_before(tasks)
    todo = [task for task in tasks if task.ledger_id not in done]
    choice = await job.choose(len(todo))
    say(f"{len(todo)} ledgers to look after, engine {choice.name} ({choice.reason})")
    outcomes = await run.repair_ledgers(todo)
    passing("repair: copied, not flushed")
    unflushed = await run.flush(outcomes, marks)
    after = await run.audit(tasks, outcomes)
    losses = await record_losses(run.auditor, cluster.control, after.findings)
    if losses:
        say(f"{sum(len(loss.entries) for loss in losses)} entries are lost for good")
        after = await run.audit(tasks, outcomes)
    passing("repair: audited, marks not cleared")
    cleared = await run.clear(marks)
    await run.end_refused(outcomes, cleared)
    await run.end()
    gone = await run.left_over(marks)
    marks = [found for found in marks if found.bookie_id not in gone]
    found = repair_result(
        outcomes, marks=marks, after=after, losses=losses, cleared=cleared, unflushed=unflushed
    )
    found["ledgers"]["done_before"] = len(done)
    return job.result(left_over=sorted(gone), **found)


def marked_on(marks: Iterable[Marks], *, limbo: bool) -> dict[LedgerId, list[BookieId]]:
    """The ledgers in limbo, or the unchecked ones, and on which bookies they are."""
    found: dict[LedgerId, list[BookieId]] = {}
    for bookie in marks:
        for mark in bookie.marks:
            if mark.limbo is limbo:
                found.setdefault(mark.ledger_id, []).append(bookie.bookie_id)
    return found


def _is_left(metadata: LedgerMetadata, *, bookie_id: BookieId) -> bool:
    return is_left_to_writer(metadata, bookie_id)


class _Repair:
    """The steps of one repair, with what they share."""

    def __init__(self, job: Job, request: RepairRequest) -> None:
        self._job, self._cluster, self._say = job, job.cluster, job.say
        self._request = request
        self._checkpoint: Checkpoint | None = None
        """Remembers ledgers that are done; None: nothing is remembered."""
        if request.checkpoint:
            deep = request.settings.digests is not None
            store, cluster_id = self._cluster.store, job.same.instance_id
            self._checkpoint = Checkpoint(store, cluster_id, digests=deep, say=self._say)
        self.auditor = Auditor(self._cluster.store, self._cluster.control, request.settings.audit)

    async def list_marks(self) -> list[Marks]:
        bookies = self._request.bookies or await self._cluster.all_bookies()
        found = await self._cluster.list_marks(bookies)
        for marks in found:
            limbo = sum(mark.limbo for mark in marks.marks)
            state = marks.status.name if marks.status is not Status.OK else f"{limbo} in limbo"
            self._say(f"{marks.bookie_id}: {state}, {len(marks.marks) - limbo} unchecked")
        return found

    async def left_over(self, marks: Sequence[Marks]) -> set[BookieId]:
        """Bookies that there are no more; one that was named is looked for whatever it is."""
        silent = {found.bookie_id for found in marks if found.status is not Status.OK}
        if not silent or self._request.bookies:
            return set()
        gone = await left_over(self._cluster.store, silent)
        for bookie_id in sorted(gone):
            self._say(f"{bookie_id}: gone, and no ledger names it: only its cookie is left")
        return gone

    async def leave_to_writers(self, tasks: Sequence[LedgerTask]) -> None:
        """Wait once, if a ledger in limbo may have a live writer that has yet to replace the bookie
        where it is.

        Such a writer learns of it with its next entry. A ledger that is recovered before cuts its
        writer off, and one that is never written again needs that recovery.
        """
        settings = self._request.settings
        for start in range(0, len(tasks), settings.ledgers_per_batch):
            batch = tasks[start : start + settings.ledgers_per_batch]
            found = await read_ledgers(
                self._cluster.store,
                [task.ledger_id for task in batch],
                unreadable={},
                in_flight=settings.audit.metadata_in_flight,
            )
            read = ((task, found.get(task.ledger_id)) for task in batch)
            written = [task for task, one in read if one is not None and task.is_written(one.value)]
            if written:
                grace_s = settings.writer_grace_s
                first = written[0].ledger_id
                self._say(f"{grace_s:g} s for writers: ledger {first} may have a live one")
                await asyncio.sleep(grace_s)
                return

    async def tasks(self, marks: Sequence[Marks]) -> list[LedgerTask]:
        others: list[LedgerId] = []
        if self._request.covers_all:
            others = [ledger_id async for ledger_id in self._cluster.store.ledger_ids()]
        return tasks_of(marked_on(marks, limbo=True), marked_on(marks, limbo=False), others)

    async def done_before(self, tasks: Sequence[LedgerTask]) -> set[LedgerId]:
        """What a run that was cut off had done and is as it was left: the same metadata, and every
        copy there.
        """
        checkpoint = self._checkpoint
        if checkpoint is None:
            return set()
        same: list[LedgerId] = []
        in_flight = self._request.settings.audit.metadata_in_flight
        for group in await checkpoint.claimed([task.ledger_id for task in tasks]):
            ledgers = await read_ledgers(
                self._cluster.store, group, unreadable={}, in_flight=in_flight
            )
            same += checkpoint.same(group, {i: found.version for i, found in ledgers.items()})
        wrong = (await survey(self._cluster.columns, same)).doubtful if same else ()
        # A ledger that came into limbo since may need a recovery, whatever its metadata say.
        limbo = {task.ledger_id for task in tasks if task.limbo_on}
        done = set(same) - set(wrong or ()) - limbo
        checkpoint.go_on(done)
        if done:
            self._say(f"{len(done)} of {len(tasks)} ledgers were done before this run")
        return done

    async def end_refused(
        self, outcomes: Iterable[Outcome], cleared: Iterable[tuple[BookieId, Cleared]]
    ) -> None:
        """Recover what was left to its writer on the word of this rule, and whose bookie keeps its
        mark until the close: one of release 0.1.0 does. The next run clears it.
        """
        by_id = {outcome.ledger_id: outcome for outcome in outcomes if not outcome.reason}
        for bookie_id, one in cleared:
            outcome = by_id.get(one.ledger_id)
            if outcome is not None and one.reason == ClearReason.NOT_CLOSED.value:
                # Otherwise the next run will see to it: the last fragment names the bookie again,
                # or somebody ends the ledger.
                await recover_ledger(
                    self._cluster, outcome, only_if=partial(_is_left, bookie_id=bookie_id)
                )

    async def end(self) -> None:
        """Everything was looked at, cleared or named: there is nothing to go on with."""
        if self._checkpoint is not None:
            await self._checkpoint.end()

    async def repair_ledgers(self, tasks: Sequence[LedgerTask]) -> Sequence[Outcome]:
        checkpoint, progress = self._checkpoint, self._job.follow(len(tasks))

        def done(outcomes: Sequence[Outcome]) -> None:
            if checkpoint is not None:
                checkpoint.add(outcomes)
            progress.count(outcomes)

        keeping = checkpoint.kept() if checkpoint is not None else nullcontext()
        async with keeping, self._job.engine() as engine:
            return await engine.repair(tasks, self._request.settings, done)

    async def flush(
        self, outcomes: Iterable[Outcome], marks: Iterable[Marks]
    ) -> dict[BookieId, Status]:
        """Make durable what was written; the answers of bookies that did not, which will refuse to
        clear by themselves.
        """
        written = {BookieId(bookie_id) for outcome in outcomes for bookie_id in outcome.touched}
        written |= self._checkpoint.touched if self._checkpoint is not None else set()
        marked = {found.bookie_id for found in marks if found.marks}
        failed = await self._cluster.flush(written | marked)
        for bookie_id, status in failed.items():
            self._say(f"{bookie_id} did not flush: {status.name}")
        return failed

    async def audit(self, tasks: Iterable[LedgerTask], outcomes: Iterable[Outcome]) -> Audit:
        """Audit by the indexes; for ledgers with corrupt copies, read every copy once more."""
        corrupt = {o.ledger_id for o in outcomes if o.corrupt_found}
        found = await self.auditor.audit(t.ledger_id for t in tasks if t.ledger_id not in corrupt)
        if corrupt:
            reader = DigestReader(self._cluster.peers, self._request.settings.digests)
            found += await deep_auditor(self.auditor, reader).audit(sorted(corrupt))
        self._say(
            f"audit: {found.counts.entries} entries, {found.counts.missing} missing, "
            f"{found.counts.unknown} unknown"
        )
        return found

    async def clear(self, marks: Sequence[Marks]) -> list[tuple[BookieId, Cleared]]:
        """Ask each bookie about each of its marks; it decides (R27)."""
        asked = [found for found in marks if found.marks]
        control = self._cluster.control
        answers = await asyncio.gather(
            *(control.clear(m.bookie_id, [mark.ledger_id for mark in m.marks]) for m in asked)
        )
        cleared = [
            (found.bookie_id, one)
            for found, answer in zip(asked, answers, strict=True)
            for one in answer.values()
        ]
        if cleared:
            done = sum(one.is_done for _bookie, one in cleared)
            self._say(f"{done} of {len(cleared)} marks cleared")
        return cleared
