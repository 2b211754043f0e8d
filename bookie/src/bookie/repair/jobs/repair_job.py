"""One repair from end to end: the order of the steps is here and nowhere else.

list marks -> recover and copy, ledger by ledger (an engine) -> flush the bookies written to ->
audit -> record definite losses -> ask the bookies to clear their marks -> result.
A repair may be stopped anywhere and run again: what is left to do only shrinks.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from bookie.ids import BookieId, LedgerId
from bookie.points import passing
from bookie.protocol.status import Status
from bookie.repair.engine.choice import AUTO, INLINE, EngineChoice, check_engine, choose_engine
from bookie.repair.engine.engine import EngineRun, SparkRepair, handed_in
from bookie.repair.jobs.checkpoint import METADATA, Checkpoint, FolderCheckpoint
from bookie.repair.jobs.repair_result import repair_result
from bookie.repair.jobs.resume import StoredCheckpoint
from bookie.repair.look.audit import Audit, Auditor, read_ledgers
from bookie.repair.look.bookie_control import Cleared, Marks
from bookie.repair.look.cluster import Cluster, all_bookies
from bookie.repair.look.digests import DigestReader, deep_auditor
from bookie.repair.look.left_over import left_over
from bookie.repair.look.same_cluster import SameCluster
from bookie.repair.look.survey import survey
from bookie.repair.mend.ledger_repair import LedgerRepair, RepairSettings, tasks_of
from bookie.repair.mend.losses import Loss, record_losses
from bookie.repair.mend.outcome import Done, LedgerOutcome, LedgerTask
from bookie.repair.reports.ledger_progress import Follower
from bookie.repair.reports.printing import Say, say_nothing
from bookie.repair.reports.result import Document, Started


@dataclass(frozen=True, slots=True)
class RepairRequest:
    """What to repair: the marks of `bookies`, or, when there are none named, of every bookie and
    all ledgers besides (`every_ledger`). `checkpoint`: a folder, or the metadata store (METADATA),
    that remembers what was done, for the run after one that is cut off.
    """

    bookies: tuple[BookieId, ...] = ()
    engine: str = AUTO
    every_ledger: bool = False
    settings: RepairSettings = field(default_factory=RepairSettings)
    checkpoint: Path | str | None = None

    @property
    def covers_all(self) -> bool:
        return self.every_ledger or not self.bookies


async def repair(
    cluster: Cluster,
    request: RepairRequest,
    *,
    spark: SparkRepair | None = None,
    say: Say = say_nothing,
) -> Document:
    """Run one repair; the result object. `spark` runs the ledgers when that engine is chosen.

    Raises SettingsError for an engine that cannot run, UnavailableError without metadata store,
    InconsistentError where bookies of several clusters meet.
    """
    check_engine(request.engine)
    same = await SameCluster.look(cluster.store)
    run = _Run(cluster, request, same, say)
    marks = await run.list_marks()
    tasks = await run.tasks(marks)
    done = await run.done_before(tasks)
    todo = [task for task in tasks if task.ledger_id not in done]
    # In a thread: looking for Java starts a program.
    choice = await asyncio.to_thread(choose_engine, request.engine, ledgers=len(todo))
    say(f"{len(todo)} ledgers to look after, engine {choice.name} ({choice.reason})")
    ended = await run.repair_ledgers(todo, choice, spark)
    passing("repair: copied, not flushed")
    await run.flush(ended.outcomes, marks)
    after = await run.audit(tasks, ended.outcomes)
    losses = await record_losses(run.auditor, cluster.control, after.findings)
    if losses:
        say(f"{sum(len(loss.entries) for loss in losses)} entries are lost for good")
        after = await run.audit(tasks, ended.outcomes)
    passing("repair: audited, marks not cleared")
    cleared = await run.clear(marks)
    await run.end()
    marks = await run.without_left_over(marks)
    return run.result(choice, marks=marks, ended=ended, after=after, losses=losses, cleared=cleared)


class _Run:
    """The steps of one repair, with what they share."""

    def __init__(
        self, cluster: Cluster, request: RepairRequest, same: SameCluster, say: Say
    ) -> None:
        self._cluster = cluster
        self._request = request
        self._same = same
        self._say = say
        self._started = Started.now()
        self._checkpoint: Checkpoint | None = None
        self._skipped = 0
        self._progress: Document = {}
        self._left_over: set[BookieId] = set()
        self.auditor = Auditor(cluster.store, cluster.control, request.settings.audit)

    async def list_marks(self) -> list[Marks]:
        bookies = self._request.bookies or tuple(await all_bookies(self._cluster))
        control = self._cluster.control
        found = await asyncio.gather(*(control.list_marks(bookie_id) for bookie_id in bookies))
        for marks in found:
            limbo = sum(mark.limbo for mark in marks.marks)
            state = marks.status.name if marks.status is not Status.OK else f"{limbo} in limbo"
            self._say(f"{marks.bookie_id}: {state}, {len(marks.marks) - limbo} unchecked")
        return list(found)

    async def without_left_over(self, marks: Sequence[Marks]) -> list[Marks]:
        """Those of bookies that there are; one that was named is looked for whatever it is."""
        silent = {found.bookie_id for found in marks if found.status is not Status.OK}
        if silent and not self._request.bookies:
            self._left_over = await left_over(self._cluster.store, silent)
        for bookie_id in sorted(self._left_over):
            self._say(f"{bookie_id}: gone, and no ledger names it: only its cookie is left")
        return [found for found in marks if found.bookie_id not in self._left_over]

    async def tasks(self, marks: Sequence[Marks]) -> list[LedgerTask]:
        limbo = [m.ledger_id for bookie in marks for m in bookie.marks if m.limbo]
        others = [m.ledger_id for bookie in marks for m in bookie.marks if not m.limbo]
        if self._request.covers_all:
            others += [ledger_id async for ledger_id in self._cluster.store.ledger_ids()]
        return tasks_of(limbo, others)

    async def done_before(self, tasks: Sequence[LedgerTask]) -> set[LedgerId]:
        """What a run that was cut off had done and is as it was left: the same metadata, and every
        copy there.
        """
        self._checkpoint = checkpoint = self._opened_checkpoint()
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
        done = set(same) - set(wrong)
        checkpoint.go_on(done)
        self._skipped = len(done)
        if done:
            self._say(f"{len(done)} of {len(tasks)} ledgers were done before this run")
        return done

    def _opened_checkpoint(self) -> Checkpoint | None:
        wanted, store = self._request.checkpoint, self._cluster.store
        digests = self._request.settings.digests is not None
        if wanted is None:
            return None
        cluster_id = self._same.instance_id
        if wanted == METADATA:
            return StoredCheckpoint(store, cluster_id, digests=digests, say=self._say)
        return FolderCheckpoint(Path(wanted), cluster_id, self._started.run_id, digests=digests)

    async def end(self) -> None:
        """Everything was looked at, cleared or named: there is nothing to go on with."""
        if self._checkpoint is not None:
            await self._checkpoint.end()

    async def repair_ledgers(
        self, tasks: Sequence[LedgerTask], choice: EngineChoice, spark: SparkRepair | None
    ) -> EngineRun:
        checkpoint = self._checkpoint
        following = Follower(len(tasks), self._say)

        def done(outcomes: Sequence[LedgerOutcome]) -> None:
            if checkpoint is not None:
                checkpoint.add(outcomes)
            following.count(outcomes)

        try:
            async with checkpoint.kept() if checkpoint is not None else nullcontext():
                return await self._engine_run(tasks, choice, spark, done)
        finally:
            self._progress = following.json()

    async def _engine_run(
        self,
        tasks: Sequence[LedgerTask],
        choice: EngineChoice,
        spark: SparkRepair | None,
        done: Done,
    ) -> EngineRun:
        if choice.name != INLINE:
            work = handed_in(spark, choice)
            return await work(choice.name, tasks, self._same, self._say, done)
        own = LedgerRepair(self._cluster, self._request.settings, done)
        return EngineRun(await own.repair(tasks))

    async def flush(self, outcomes: Iterable[LedgerOutcome], marks: Iterable[Marks]) -> None:
        """Make durable what was written; a bookie that fails here refuses to clear by itself."""
        written = {BookieId(bookie_id) for outcome in outcomes for bookie_id in outcome.touched}
        written |= {*self._checkpoint.touched} if self._checkpoint is not None else set()
        marked = {found.bookie_id for found in marks if found.marks}
        for bookie_id, status in await _each(written | marked, self._cluster.control.flush):
            if status is not Status.OK:
                self._say(f"{bookie_id} did not flush: {status.name}")

    async def audit(self, tasks: Iterable[LedgerTask], outcomes: Iterable[LedgerOutcome]) -> Audit:
        """By the indexes; of ledgers with corrupt copies, by reading everything once more."""
        corrupt = {LedgerId(o.ledger_id) for o in outcomes if o.corrupt_found}
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

    def result(
        self,
        choice: EngineChoice,
        *,
        marks: Sequence[Marks],
        ended: EngineRun,
        after: Audit,
        losses: Sequence[Loss],
        cleared: Sequence[tuple[BookieId, Cleared]],
    ) -> Document:
        found = repair_result(
            ended.outcomes, marks=marks, after=after, losses=losses, cleared=cleared
        )
        found["ledgers"]["done_before"] = self._skipped
        return {
            **self._started.json("repair"),
            "engine": choice.name,
            "engine_reason": choice.reason,
            "spark_app_id": ended.spark_app_id,
            "executors": len(ended.executors),
            "executor_names": list(ended.executors),
            "progress": self._progress,
            "left_over": sorted(self._left_over),
            **found,
        }


async def _each(
    bookies: Iterable[BookieId], ask: Callable[[BookieId], Awaitable[Status]]
) -> list[tuple[BookieId, Status]]:
    asked = sorted(bookies)
    return list(zip(asked, await asyncio.gather(*map(ask, asked)), strict=True))
