"""What surveys, repairs and moves ledgers: one interface; here in this process.

The other one works in Spark's tasks (`spark.engine`), with the same `survey`, `LedgerRepair` and
`LedgerMoves`. Jobs open one engine and close it when its work is done.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from bookie.repair.engine.choice import EngineChoice
from bookie.repair.look.cluster import Cluster
from bookie.repair.look.same_cluster import SameCluster
from bookie.repair.look.survey import BulkAudit, Looked, Scope, badly_placed, survey
from bookie.repair.mend.ledger_move import Handover, LedgerMoves
from bookie.repair.mend.ledger_repair import LedgerRepair, RepairSettings
from bookie.repair.mend.outcome import Done, LedgerTask, Outcome
from bookie.repair.reports.progress_lines import Say


class Engine(Protocol):
    """Works on many ledgers of one cluster. UnavailableError: the metadata store is away."""

    is_in_process: bool
    spark_app_id: str | None
    """Id of the Spark application; None unless Spark has worked."""
    executors: frozenset[str]
    """Names of the executors that have worked so far."""

    async def survey(self, scope: Scope, looked: Looked) -> BulkAudit:
        """A first look at all ledgers of the scope; `looked`: how many it has behind it."""

    async def repair(
        self, tasks: Sequence[LedgerTask], settings: RepairSettings, done: Done
    ) -> Sequence[Outcome]:
        """Recover and copy; outcomes in the order of the tasks."""

    async def move(
        self, outcomes: Sequence[Outcome], handover: Handover, settings: RepairSettings, done: Done
    ) -> None:
        """Hand one round's ledgers over; fills in what came of each."""


Engines = Callable[[EngineChoice, Cluster, SameCluster, Say], AbstractAsyncContextManager[Engine]]
"""Opens the engine that was chosen, for work on this cluster."""


@dataclass(slots=True)
class InProcess:
    """An `Engine` that is this process alone."""

    cluster: Cluster
    is_in_process: bool = True
    """No other process works for it."""
    spark_app_id: str | None = None
    """Always None: it is not Spark."""
    executors: frozenset[str] = frozenset()
    """Always empty."""

    async def survey(self, scope: Scope, looked: Looked) -> BulkAudit:
        """Survey by indexes. A deep survey checks only placement and doubts every ledger; copies
        are read when ledgers are judged."""
        tables = self.cluster.columns
        ledger_ids = scope.chosen if scope.chosen is not None else self.cluster.store.ledger_ids()
        if scope.digests is None:
            return await survey(tables, ledger_ids, racks=scope.racks, progress=looked)
        placed = await badly_placed(tables, ledger_ids, scope.racks)
        return BulkAudit(misplaced=placed, doubtful=None)

    async def repair(
        self, tasks: Sequence[LedgerTask], settings: RepairSettings, done: Done
    ) -> Sequence[Outcome]:
        """See `Engine`."""
        return await LedgerRepair(self.cluster, settings, done).repair(tasks)

    async def move(
        self, outcomes: Sequence[Outcome], handover: Handover, settings: RepairSettings, done: Done
    ) -> None:
        """See `Engine`."""
        await LedgerMoves(self.cluster, handover, settings, done).move(outcomes)
