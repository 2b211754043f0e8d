"""One repair from end to end: the order of the steps is here and nowhere else.

list marks -> recover and copy, ledger by ledger (an engine) -> flush the bookies written to ->
audit -> record definite losses -> ask the bookies to clear their marks -> result.
A repair may be stopped anywhere and run again: what is left to do only shrinks.
"""

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from bookie.points import passing
from bookie.protocol.errors import BadRequestError
from bookie.protocol.ids import BookieId, LedgerId
from bookie.protocol.placement import Racks
from bookie.protocol.status import Status
from bookie.repair.audit import Audit, AuditCounts, Auditor
from bookie.repair.cluster import Cluster
from bookie.repair.control import Cleared, Marks
from bookie.repair.digests import DeepLooks, DigestReader
from bookie.repair.engines import AUTO, INLINE, EngineChoice, check_engine, choose_engine
from bookie.repair.ledgers import LedgerRepair, RepairSettings, tasks_of
from bookie.repair.losses import Loss, record_losses
from bookie.repair.outcome import LedgerOutcome, LedgerTask
from bookie.repair.report import (
    FINDINGS_MAX,
    SCHEMA_VERSION,
    Document,
    accepted_json,
    audit_json,
    counts_json,
    exit_code,
)
from bookie.repair.survey import BulkAudit

Say = Callable[[str], None]
"""Told one line for each step; for people, on stderr."""


@dataclass(frozen=True, slots=True)
class EngineRun:
    """What an engine gives back: outcomes in the order of the tasks, and who worked on them."""

    outcomes: Sequence[LedgerOutcome]
    spark_app_id: str | None = None
    executors: tuple[str, ...] = ()


SparkAuditor = Callable[[str, Racks, Say], Awaitable[BulkAudit]]
Handed = TypeVar("Handed")
SparkRepair = Callable[[str, Sequence[LedgerTask], Say], Awaitable[EngineRun]]


@dataclass(frozen=True, slots=True)
class RepairRequest:
    """What to repair: the marks of `bookies`, or, when there are none named, of every bookie and
    all ledgers besides (`every_ledger`).
    """

    bookies: tuple[BookieId, ...] = ()
    engine: str = AUTO
    every_ledger: bool = False
    settings: RepairSettings = field(default_factory=RepairSettings)

    @property
    def covers_all(self) -> bool:
        return self.every_ledger or not self.bookies


def silent_say(_line: str) -> None:
    """Nobody watches."""


async def repair(
    cluster: Cluster,
    request: RepairRequest,
    *,
    spark: SparkRepair | None = None,
    say: Say = silent_say,
) -> Document:
    """Run one repair; the result object. `spark` runs the ledgers when that engine is chosen.

    Raises SettingsError for an engine that cannot run, UnavailableError without metadata store.
    """
    check_engine(request.engine)
    run = _Run(cluster, request, say)
    marks = await run.list_marks()
    tasks = await run.tasks(marks)
    # In a thread: looking for Java starts a program.
    choice = await asyncio.to_thread(choose_engine, request.engine, ledgers=len(tasks))
    say(f"{len(tasks)} ledgers to look after, engine {choice.name} ({choice.reason})")
    ended = await run.repair_ledgers(tasks, choice, spark)
    passing("repair: copied, not flushed")
    await run.flush(ended.outcomes, marks)
    after = await run.audit(tasks, ended.outcomes)
    losses = await record_losses(run.auditor, cluster.control, after.findings)
    if losses:
        say(f"{sum(len(loss.entries) for loss in losses)} entries are lost for good")
        after = await run.audit(tasks, ended.outcomes)
    passing("repair: audited, marks not cleared")
    cleared = await run.clear(marks)
    return run.result(choice, marks=marks, ended=ended, after=after, losses=losses, cleared=cleared)


def deep_auditor(auditor: Auditor, reader: DigestReader) -> Auditor:
    """One that reads entries; with small batches, since it keeps what it has to read."""
    settings = replace(auditor.settings, ledgers_per_batch=DEEP_LEDGERS_PER_BATCH)
    deepen = DeepLooks(auditor, reader).deepen
    return replace(auditor, settings=settings, deepen=deepen)


def handed_in(engine: Handed | None, choice: EngineChoice) -> Handed:
    """The engine's work; BadRequestError when the caller gave none."""
    if engine is None:
        raise BadRequestError(f"engine {choice.name} was chosen and not handed in")
    return engine


@dataclass(frozen=True, slots=True)
class Started:
    run_id: str
    at_ms: int
    clock: float

    @classmethod
    def now(cls) -> "Started":
        return cls(uuid.uuid4().hex[:12], int(time.time() * 1000), time.monotonic())

    def json(self, kind: str) -> Document:
        return {
            "schema": SCHEMA_VERSION,
            "kind": kind,
            "run_id": self.run_id,
            "started_at_ms": self.at_ms,
            "seconds": round(time.monotonic() - self.clock, 3),
        }


class _Run:
    """The steps of one repair, with what they share."""

    def __init__(self, cluster: Cluster, request: RepairRequest, say: Say) -> None:
        self._cluster = cluster
        self._request = request
        self._say = say
        self._started = Started.now()
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

    async def tasks(self, marks: Sequence[Marks]) -> list[LedgerTask]:
        limbo = [m.ledger_id for bookie in marks for m in bookie.marks if m.limbo]
        others = [m.ledger_id for bookie in marks for m in bookie.marks if not m.limbo]
        if self._request.covers_all:
            others += [ledger_id async for ledger_id in self._cluster.store.ledger_ids()]
        return tasks_of(limbo, others)

    async def repair_ledgers(
        self, tasks: Sequence[LedgerTask], choice: EngineChoice, spark: SparkRepair | None
    ) -> EngineRun:
        if choice.name != INLINE:
            return await handed_in(spark, choice)(choice.name, tasks, self._say)
        done = 0

        def count(ledgers: int) -> None:
            nonlocal done
            done += ledgers
            if done % PROGRESS_EVERY == 0 or done == len(tasks):
                self._say(f"{done} of {len(tasks)} ledgers repaired")

        work = LedgerRepair(self._cluster, self._request.settings, progress=count)
        return EngineRun(await work.repair(tasks))

    async def flush(self, outcomes: Iterable[LedgerOutcome], marks: Iterable[Marks]) -> None:
        """Make durable what was written; a bookie that fails here refuses to clear by itself."""
        written = {BookieId(bookie_id) for outcome in outcomes for bookie_id in outcome.touched}
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
        outcomes = ended.outcomes
        refused = [(bookie_id, one) for bookie_id, one in cleared if not one.is_done]
        silent = [found for found in marks if found.status is not Status.OK]
        blocked = _blocked(outcomes, refused, silent)
        unmarked, told = _unmarked(cleared), audit_json(after)
        return {
            **self._started.json("repair"),
            "engine": choice.name,
            "engine_reason": choice.reason,
            "spark_app_id": ended.spark_app_id,
            "executors": len(ended.executors),
            "executor_names": list(ended.executors),
            "bookies": [_bookie_json(found, cleared) for found in marks],
            "ledgers": {
                "considered": len(outcomes),
                "recovered": sum(outcome.recovered for outcome in outcomes),
                "cleared": len(unmarked),
                "blocked": len({row["ledger_id"] for row in blocked if "ledger_id" in row}),
                "deleted": sum(outcome.state_before == "DELETED" for outcome in outcomes),
            },
            **_sums(outcomes),
            "audit_before": counts_json(
                sum((outcome.before for outcome in outcomes), AuditCounts())
            ),
            "audit_after": counts_json(after.counts),
            "blocked": blocked[:FINDINGS_MAX],
            "blocked_left_out": max(len(blocked) - FINDINGS_MAX, 0),
            "losses": [loss.json() for loss in losses[:FINDINGS_MAX]],
            "accepted_losses": accepted_json(after),
            "undecidable": [_undecidable(o) for o in outcomes if o.reason == "Undecidable"][
                :FINDINGS_MAX
            ],
            **{name: told[name] for name in ("findings", "classes", "copies")},
            "unreachable": sorted(after.unreachable | {found.bookie_id for found in silent}),
            "exit_code": exit_code(after.counts, blocked=len(blocked)),
        }


PROGRESS_EVERY: Final = 100
DEEP_LEDGERS_PER_BATCH: Final = 100


async def all_bookies(cluster: Cluster) -> list[BookieId]:
    """Every bookie that has an identity: one that is down has marks too, which are then unknown."""
    return sorted({*await cluster.store.bookies(), *await cluster.store.cookies()})


async def _each(
    bookies: Iterable[BookieId], ask: Callable[[BookieId], Awaitable[Status]]
) -> list[tuple[BookieId, Status]]:
    asked = sorted(bookies)
    return list(zip(asked, await asyncio.gather(*map(ask, asked)), strict=True))


def _sums(outcomes: Sequence[LedgerOutcome]) -> Document:
    closed = [outcome for outcome in outcomes if outcome.state_before == "CLOSED"]
    return {
        "entries_recovered": sum(outcome.entries_recovered for outcome in outcomes),
        "entries_copied": sum(outcome.entries_copied for outcome in outcomes),
        "entries_copied_closed": sum(outcome.entries_copied for outcome in closed),
        "bytes_copied": sum(outcome.bytes_copied for outcome in outcomes),
        "corrupt_copies": sum(outcome.corrupt_copies for outcome in outcomes),
        "corrupt_found": sum(outcome.corrupt_found for outcome in outcomes),
        "corrupt_replaced": sum(outcome.corrupt_replaced for outcome in outcomes),
    }


def _blocked(
    outcomes: Iterable[LedgerOutcome],
    refused: Iterable[tuple[BookieId, Cleared]],
    silent: Iterable[Marks],
) -> list[Document]:
    """What is in the way of a clean end: ledgers, marks that stay, bookies that said nothing."""
    rows: list[Document] = [
        {"ledger_id": outcome.ledger_id, "reason": outcome.reason, "message": outcome.message}
        for outcome in outcomes
        if outcome.reason
    ]
    rows += [
        {
            "ledger_id": one.ledger_id,
            "bookie_id": bookie_id,
            "reason": one.reason,
            "message": one.message,
        }
        for bookie_id, one in refused
    ]
    rows += [
        {
            "bookie_id": found.bookie_id,
            "reason": "Unreachable",
            "message": f"its marks are unknown: {found.status.name} {found.message}".rstrip(),
        }
        for found in silent
    ]
    return rows


def _unmarked(cleared: Iterable[tuple[BookieId, Cleared]]) -> set[LedgerId]:
    """Ledgers of which no mark is left on any bookie that was asked."""
    answers: dict[LedgerId, bool] = {}
    for _bookie_id, one in cleared:
        answers[one.ledger_id] = answers.get(one.ledger_id, True) and one.is_done
    return {ledger_id for ledger_id, done in answers.items() if done}


def _bookie_json(found: Marks, cleared: Iterable[tuple[BookieId, Cleared]]) -> Document:
    limbo = sum(mark.limbo for mark in found.marks)
    done = sum(one.is_done for bookie_id, one in cleared if bookie_id == found.bookie_id)
    return {
        "bookie_id": found.bookie_id,
        "status": found.status.name,
        "limbo_ledgers": limbo,
        "unchecked_ledgers": len(found.marks) - limbo,
        "marks_cleared": done,
    }


def _undecidable(outcome: LedgerOutcome) -> Mapping[str, Any]:
    return {
        "ledger_id": outcome.ledger_id,
        "possible_loss_from": outcome.possible_loss_from,
        "waiting_for": list(outcome.waiting_for),
        "message": outcome.message,
    }
