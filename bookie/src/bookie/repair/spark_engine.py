"""The Spark halves of repair and audit, ready to be handed to `steps`, without importing Spark.

pyspark is imported when the work begins: who repairs in process needs none of it installed.
"""

from collections.abc import Sequence

from bookie.repair.consistency import SameCluster
from bookie.repair.ledgers import RepairSettings
from bookie.repair.looking import Looked
from bookie.repair.outcome import LedgerTask
from bookie.repair.progress import Done
from bookie.repair.steps import EngineRun, Say, SparkAuditor, SparkRepair
from bookie.repair.survey import BulkAudit, Scope


def spark_repair_for(
    metadata_url: str, same: SameCluster, settings: RepairSettings | None = None
) -> SparkRepair:
    """Repairs ledgers of the same cluster behind this URL in the workers of a Spark engine."""

    async def repair(engine: str, tasks: Sequence[LedgerTask], say: Say, done: Done) -> EngineRun:
        from bookie.repair.job import SparkJobs

        jobs = SparkJobs(metadata_url, settings or RepairSettings(), same=same)
        return await jobs.repair(engine, tasks, say, done)

    return repair


def spark_audit_for(metadata_url: str) -> SparkAuditor:
    """Judges all ledgers of the cluster behind this URL in the workers of a Spark engine."""

    async def audit(engine: str, scope: Scope, say: Say, looked: Looked) -> BulkAudit:
        from bookie.repair.job import SparkJobs

        return await SparkJobs(metadata_url).audit(engine, scope, say, looked)

    return audit
