"""Which engine carries the ledgers of a drain or a re-replication, and what it is told of them.

Between two rounds the driver asks its gate; within one, this process or Spark's tasks run the same
`LedgerMover`. The Spark half is handed in, so that pyspark is imported only where it is used.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field

from bookie.repair.engine.choice import INLINE, EngineChoice, choose_engine
from bookie.repair.engine.engine import EmptyingSettings, MoveEngine, handed_in
from bookie.repair.look.cluster import Cluster
from bookie.repair.look.same_cluster import SameCluster
from bookie.repair.mend.ledger_move import Handover, LedgerMover, MoveOutcome, Told
from bookie.repair.mend.ledger_repair import LedgerRepair
from bookie.repair.mend.outcome import Done, LedgerOutcome, LedgerTask
from bookie.repair.reports.ledger_progress import Follower
from bookie.repair.reports.printing import Say
from bookie.repair.reports.result import Document


@dataclass(frozen=True, slots=True)
class MoveWork:
    """All that the rounds of one run have in common. `same`: the cluster that it began on."""

    cluster: Cluster
    same: SameCluster
    settings: EmptyingSettings
    say: Say


SparkMoves = Callable[[str, MoveWork], AbstractAsyncContextManager[MoveEngine]]
"""From the name of an engine to what moves ledgers in its workers, for one run."""


@dataclass(slots=True)
class InProcess:
    """A `MoveEngine` of this process alone."""

    work: MoveWork
    spark_app_id: str | None = None
    executors: frozenset[str] = frozenset()
    ledgers_at_once: int = field(init=False)

    def __post_init__(self) -> None:
        self.ledgers_at_once = self.work.settings.ledgers_per_batch

    async def move(self, outcomes: Sequence[MoveOutcome], handover: Handover, told: Told) -> None:
        """See `MoveEngine`."""
        mover = LedgerMover(self.work.cluster, handover, self.work.settings.repair, told)
        await mover.move(outcomes)

    async def mend(self, tasks: Sequence[LedgerTask], done: Done) -> Sequence[LedgerOutcome]:
        """See `MoveEngine`."""
        return await LedgerRepair(self.work.cluster, self.work.settings.repair, done).repair(tasks)


async def chosen(requested: str, *, ledgers: int, say: Say) -> EngineChoice:
    """The engine for so many ledgers, as the person is told."""
    # In a thread: looking for Java starts a program.
    choice = await asyncio.to_thread(choose_engine, requested, ledgers=ledgers)
    say(f"{ledgers} ledgers to look after, engine {choice.name} ({choice.reason})")
    return choice


def opened(
    choice: EngineChoice, work: MoveWork, spark: SparkMoves | None
) -> AbstractAsyncContextManager[MoveEngine]:
    """The engine that was chosen, as long as the context is open."""
    if choice.name == INLINE:
        return nullcontext(InProcess(work))
    return handed_in(spark, choice)(choice.name, work)


def engine_json(choice: EngineChoice, engine: MoveEngine, following: Follower) -> Document:
    """Which engine, why, who worked and how far they came, as in every result object."""
    return {
        "engine": choice.name,
        "engine_reason": choice.reason,
        "spark_app_id": engine.spark_app_id,
        "executors": len(engine.executors),
        "executor_names": sorted(engine.executors),
        "progress": following.json(),
    }
