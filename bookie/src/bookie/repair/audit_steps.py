"""One audit from end to end: choose an engine, look at all ledgers, again at the doubtful, tell.

It changes nothing in the cluster. Both engines come through here, so that they end in one result.
"""

import asyncio
from collections.abc import Sequence

from bookie.protocol.ids import LedgerId
from bookie.repair.audit import Audit, Auditor, AuditSettings
from bookie.repair.cluster import Cluster
from bookie.repair.digests import DigestReader, DigestSettings
from bookie.repair.engines import AUTO, INLINE, EngineChoice, check_engine, choose_engine
from bookie.repair.report import Document, audit_json, exit_code
from bookie.repair.steps import Say, SparkAuditor, Started, deep_auditor, handed_in, silent_say
from bookie.repair.survey import BulkAudit, survey
from bookie.repair.tally import whole


async def audit(
    cluster: Cluster,
    *,
    ledger_ids: Sequence[LedgerId] | None = None,
    engine: str = INLINE,
    settings: AuditSettings | None = None,
    digests: DigestSettings | None = None,
    spark: SparkAuditor | None = None,
    say: Say = silent_say,
) -> Document:
    """Audit all ledgers, or just `ledger_ids` in process; the result object. It changes nothing.

    `digests`: read every copy as well, and verify it; in process, since it is the bookies that take
    the time.

    Raises SettingsError for an engine that cannot run, UnavailableError without metadata store.
    """
    check_engine(engine)
    started = Started.now()
    auditor = Auditor(
        cluster.store,
        cluster.control,
        settings or AuditSettings(),
        progress=lambda ledgers: say(f"{ledgers} ledgers looked at again"),
    )
    reader = DigestReader(cluster.peers, digests)
    choice = await _audit_engine(cluster, engine, ledger_ids, is_deep=digests is not None)
    if digests is not None:
        auditor = deep_auditor(auditor, reader)
        bulk = BulkAudit()
        chosen = cluster.store.ledger_ids() if ledger_ids is None else ledger_ids
        found = await auditor.audit(chosen)
    else:
        bulk = await _bulk_audit(cluster, choice, ledger_ids, spark=spark, say=say)
        found = await auditor.audit(bulk.doubtful)
    found += Audit(counts=bulk.counts, marked=bulk.marked, tallies=whole(bulk.copies))
    return {
        **started.json("audit"),
        "engine": choice.name,
        "engine_reason": choice.reason,
        "spark_app_id": bulk.spark_app_id,
        "executors": len(bulk.executors),
        "executor_names": list(bulk.executors),
        "digests_verified": digests is not None,
        "bytes_read": reader.bytes_read,
        **audit_json(found),
        "exit_code": exit_code(found.counts),
    }


async def _bulk_audit(
    cluster: Cluster,
    choice: EngineChoice,
    ledger_ids: Sequence[LedgerId] | None,
    *,
    spark: SparkAuditor | None,
    say: Say,
) -> BulkAudit:
    if choice.name != INLINE:
        bulk = await handed_in(spark, choice)(choice.name, say)
    else:
        chosen = cluster.store.ledger_ids() if ledger_ids is None else ledger_ids
        bulk = await survey(
            cluster.columns, chosen, progress=lambda ledgers: say(f"{ledgers} ledgers looked at")
        )
    say(f"{bulk.counts.ledgers} ledgers ok, {len(bulk.doubtful)} to look at again")
    return bulk


async def _audit_engine(
    cluster: Cluster, requested: str, ledger_ids: Sequence[LedgerId] | None, *, is_deep: bool
) -> EngineChoice:
    if is_deep:
        return EngineChoice(INLINE, "entries are read in process")
    if ledger_ids is not None:
        return EngineChoice(INLINE, "ledgers named one by one")
    ledgers = 0
    if requested == AUTO:
        ledgers = sum([1 async for _ledger_id in cluster.store.ledger_ids()])
    return await asyncio.to_thread(choose_engine, requested, ledgers=ledgers)
