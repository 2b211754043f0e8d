"""The Spark halves of repairs, audits and moves, ready to be handed to their steps, without Spark.

pyspark is imported when the work begins: who repairs in process needs none of it installed.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from bookie.repair.engine.engine import EngineRun, MoveEngine, SparkAuditor, SparkRepair
from bookie.repair.engine.move_engines import MoveWork, SparkMoves
from bookie.repair.look.same_cluster import SameCluster
from bookie.repair.look.survey import BulkAudit, Scope
from bookie.repair.mend.ledger_repair import RepairSettings
from bookie.repair.mend.outcome import Done, LedgerTask
from bookie.repair.reports.audit_progress import Looked
from bookie.repair.reports.printing import Say


def spark_repair_for(metadata_url: str, settings: RepairSettings | None = None) -> SparkRepair:
    """Repairs ledgers of the cluster behind this URL in the workers of a Spark engine."""

    async def repair(
        engine: str, tasks: Sequence[LedgerTask], same: SameCluster, say: Say, done: Done
    ) -> EngineRun:
        from bookie.repair.spark.job import SparkJobs

        jobs = SparkJobs(metadata_url, settings or RepairSettings())
        return await jobs.repair(engine, tasks, same, say, done)

    return repair


def spark_audit_for(metadata_url: str) -> SparkAuditor:
    """Judges all ledgers of the cluster behind this URL in the workers of a Spark engine."""

    async def audit(engine: str, scope: Scope, say: Say, looked: Looked) -> BulkAudit:
        from bookie.repair.spark.job import SparkJobs

        return await SparkJobs(metadata_url).audit(engine, scope, say, looked)

    return audit


def spark_moves_for(metadata_url: str) -> SparkMoves:
    """Moves ledgers of the cluster behind this URL in the workers of a Spark engine."""

    @asynccontextmanager
    async def opened(engine: str, work: MoveWork) -> AsyncIterator[MoveEngine]:
        from bookie.repair.spark.job import SparkJobs
        from bookie.repair.spark.spark_rounds import moves_of

        async with moves_of(SparkJobs(metadata_url))(engine, work) as rounds:
            yield rounds

    return opened
