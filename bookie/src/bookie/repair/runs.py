"""One whole piece of work on the cluster behind a URL: connect, choose, run, let go.

Both doors come through here: `python -m bookie.repair` (the operator's jobs) and `bookie`.
"""

from collections.abc import Sequence
from pathlib import Path

from bookie.ids import BookieId, LedgerId
from bookie.repair.engine.choice import INLINE, check_engine
from bookie.repair.engine.opening import open_cluster
from bookie.repair.jobs import audit_job as audit_steps
from bookie.repair.jobs import drain_job as drain
from bookie.repair.jobs import repair_job as steps
from bookie.repair.jobs import rereplication_job as rereplicate
from bookie.repair.jobs.audit_job import Checks
from bookie.repair.jobs.drain_job import DrainRequest
from bookie.repair.jobs.repair_job import RepairRequest
from bookie.repair.jobs.rereplication_job import RereplicateRequest
from bookie.repair.look.audit import AuditSettings
from bookie.repair.look.bookie_control import DrainAnswer
from bookie.repair.look.cluster import Cluster
from bookie.repair.look.digests import DigestSettings
from bookie.repair.reports.history import METADATA, InFile, InStore, Keeper, Nowhere
from bookie.repair.reports.printing import Say
from bookie.repair.reports.result import Document, write_whole
from bookie.repair.spark.spark_engine import spark_audit_for, spark_moves_for, spark_repair_for


async def repair_cluster(metadata_url: str, request: RepairRequest, *, say: Say) -> Document:
    """One repair of the cluster behind this URL; the result object."""
    check_engine(request.engine)  # before anything is connected to
    async with open_cluster(metadata_url) as cluster:
        spark = spark_repair_for(metadata_url, request.settings)
        found = await steps.repair(cluster, request, spark=spark, say=say)
    return found | {"metadata": metadata_url}


async def audit_cluster(
    metadata_url: str,
    *,
    ledger_ids: Sequence[LedgerId] | None = None,
    engine: str = INLINE,
    digests: DigestSettings | None = None,
    settings: AuditSettings | None = None,
    checks: Checks | None = None,
    history: str | None = None,
    say: Say,
) -> Document:
    """One audit of these ledgers, or all, of the cluster behind this URL; the result object.

    `history`: a file, or the metadata store (`history.METADATA`).
    """
    check_engine(engine)
    async with open_cluster(metadata_url) as cluster:
        spark = spark_audit_for(metadata_url)
        found = await audit_steps.audit(
            cluster,
            ledger_ids=ledger_ids,
            engine=engine,
            settings=settings,
            digests=digests,
            checks=checks,
            history=_keeper(cluster, history),
            spark=spark,
            say=say,
        )
    return found | {"metadata": metadata_url}


def _keeper(cluster: Cluster, history: str | None) -> Keeper:
    if history is None:
        return Nowhere()
    return InStore(cluster.store) if history == METADATA else InFile(Path(history), write_whole)


async def drain_cluster(metadata_url: str, request: DrainRequest, *, say: Say) -> Document:
    """One drain of a bookie of the cluster behind this URL; the result object."""
    check_engine(request.engine)
    async with open_cluster(metadata_url) as cluster:
        spark = spark_moves_for(metadata_url)
        found = await drain.drain(cluster, request, spark=spark, say=say)
    return found | {"metadata": metadata_url}


async def rereplicate_cluster(
    metadata_url: str, request: RereplicateRequest, *, say: Say
) -> Document:
    """One re-replication of the cluster behind this URL; the result object."""
    check_engine(request.engine)
    async with open_cluster(metadata_url) as cluster:
        spark = spark_moves_for(metadata_url)
        found = await rereplicate.rereplicate(cluster, request, spark=spark, say=say)
    return found | {"metadata": metadata_url}


async def cancel_drain(metadata_url: str, bookie_id: BookieId) -> DrainAnswer:
    """Let the bookie take new ledgers again; what was moved away stays where it is."""
    async with open_cluster(metadata_url) as cluster:
        return await cluster.control.drain(bookie_id, cancel=True)
