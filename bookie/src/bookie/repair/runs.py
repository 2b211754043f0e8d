"""One whole job on the cluster behind a URL: connect, choose an engine, run, let go."""

from collections.abc import Awaitable, Callable
from pathlib import Path

from bookie.ids import BookieId
from bookie.repair.engine.choice import check_engine
from bookie.repair.engine.opening import open_cluster
from bookie.repair.jobs import audit_job, drain_job, repair_job, rereplication_job
from bookie.repair.jobs.audit_job import AuditRequest
from bookie.repair.jobs.drain_job import DrainRequest
from bookie.repair.jobs.repair_job import RepairRequest
from bookie.repair.jobs.rereplication_job import RereplicateRequest
from bookie.repair.look.cluster import Cluster
from bookie.repair.reports.finding_history import METADATA, InFile, InStore, Keeper, NoHistory
from bookie.repair.reports.progress_lines import Say
from bookie.repair.reports.result import Document, write_whole
from bookie.wire.admin.request_answer import RequestAnswer


async def _run(
    metadata_url: str, engine: str, job: Callable[[Cluster], Awaitable[Document]]
) -> Document:
    check_engine(engine)  # before anything is connected to
    async with open_cluster(metadata_url) as cluster:
        return await job(cluster) | {"metadata": metadata_url}


async def repair_cluster(metadata_url: str, request: RepairRequest, *, say: Say) -> Document:
    """One repair of the cluster behind this URL; the result object."""
    return await _run(
        metadata_url, request.engine, lambda cluster: repair_job.repair(cluster, request, say=say)
    )


async def audit_cluster(
    metadata_url: str, request: AuditRequest, *, history: str | None = None, say: Say
) -> Document:
    """One audit of the cluster behind this URL; the result object.

    `history`: a file, or the metadata store (`finding_history.METADATA`).
    """

    async def job(cluster: Cluster) -> Document:
        return await audit_job.audit(cluster, request, history=_keeper(cluster, history), say=say)

    return await _run(metadata_url, request.engine, job)


def _keeper(cluster: Cluster, history: str | None) -> Keeper:
    if history is None:
        return NoHistory()
    return InStore(cluster.store) if history == METADATA else InFile(Path(history), write_whole)


async def drain_cluster(metadata_url: str, request: DrainRequest, *, say: Say) -> Document:
    """One drain of a bookie of the cluster behind this URL; the result object."""
    return await _run(
        metadata_url, request.engine, lambda cluster: drain_job.drain(cluster, request, say=say)
    )


async def rereplicate_cluster(
    metadata_url: str, request: RereplicateRequest, *, say: Say
) -> Document:
    """One re-replication of the cluster behind this URL; the result object."""
    return await _run(
        metadata_url,
        request.engine,
        lambda cluster: rereplication_job.rereplicate(cluster, request, say=say),
    )


async def cancel_drain(metadata_url: str, bookie_id: BookieId) -> RequestAnswer:
    """Let the bookie take new ledgers again; what was moved away stays where it is."""
    async with open_cluster(metadata_url) as cluster:
        return await cluster.control.drain(bookie_id, cancel=True)
