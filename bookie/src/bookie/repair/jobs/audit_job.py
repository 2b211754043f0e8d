"""One audit from end to end: choose an engine, look at all ledgers, again at the doubtful, tell.

It changes nothing in the cluster. Both engines come through here, so that they end in one result.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field, replace

from bookie.ids import BookieId, LedgerId
from bookie.metadata.store import RUN_ENDPOINT
from bookie.protocol.placement import MIN_RACKS, Racks
from bookie.repair.engine.choice import INLINE, EngineChoice, check_engine, choose_engine
from bookie.repair.engine.engine import SparkAuditor, handed_in
from bookie.repair.judge.adherence import Misplaced, misplaced, racks_of
from bookie.repair.judge.last_copies import COPIES_MIN
from bookie.repair.judge.tally import whole
from bookie.repair.look.audit import Audit, Auditor, AuditSettings, batches_of
from bookie.repair.look.cluster import Cluster
from bookie.repair.look.digests import DigestReader, DigestSettings, deep_auditor
from bookie.repair.look.same_cluster import SameCluster
from bookie.repair.look.survey import LEDGERS_PER_BATCH, BulkAudit, Scope, badly_placed, survey
from bookie.repair.look.underreplication_grace import Grace
from bookie.repair.reports.audit_progress import Looking
from bookie.repair.reports.findings_report import Others, told
from bookie.repair.reports.history import Keeper, Nowhere
from bookie.repair.reports.printing import Say, say_nothing
from bookie.repair.reports.result import Document, Started, audit_json, exit_code


@dataclass(frozen=True, slots=True)
class Checks:
    """What an audit looks at beside entries.

    `grace_s`: so long a ledger that is marked under-replicated is left alone. `racks`: of bookies
    that do not say it themselves, or wrongly; `min_racks`: a write set has to span so many.
    `ack_quorum`: that every ledger should have; None = any.
    """

    grace_s: float = 0.0
    racks: dict[BookieId, str] = field(default_factory=dict)
    min_racks: int = MIN_RACKS
    ack_quorum: int | None = None


async def audit(
    cluster: Cluster,
    *,
    ledger_ids: Sequence[LedgerId] | None = None,
    engine: str = INLINE,
    settings: AuditSettings | None = None,
    digests: DigestSettings | None = None,
    checks: Checks | None = None,
    history: Keeper | None = None,
    spark: SparkAuditor | None = None,
    say: Say = say_nothing,
) -> Document:
    """Audit all ledgers, or just `ledger_ids` in process; the result object. It changes nothing.

    `digests`: read every copy as well, and verify it. `spark`: the first look, where that engine is
    chosen. `history`: where findings are remembered; without, all are seen for the first time.

    Raises SettingsError for an engine that cannot run, UnavailableError without metadata store,
    InconsistentError for metadata that no audit can rest on.
    """
    check_engine(engine)
    run = _Run(cluster, ledger_ids, settings or AuditSettings(), checks or Checks(), digests, say)
    same = await SameCluster.look(cluster.store)
    racks = racks_of(await cluster.store.bookies(), run.checks.racks)
    racks = replace(racks, min_racks=run.checks.min_racks)
    choice, run.total = await _audit_engine(cluster, engine, ledger_ids)
    bulk = await run.look(choice, Scope(racks, same.instance_id, digests), spark)
    found = await run.look_again(choice, bulk)
    others = await run.others(found, bulk, racks)
    await same.check(cluster.store)
    document = {
        **run.started.json("audit"),
        "engine": choice.name,
        "engine_reason": choice.reason,
        "spark_app_id": bulk.spark_app_id,
        "executors": len(bulk.executors),
        "executor_names": list(bulk.executors),
        "digests_verified": digests is not None,
        "bytes_read": bulk.bytes_read + run.reader.bytes_read,
        **audit_json(found),
        "exit_code": exit_code(found.counts, blocked=_blocked(found, others)),
    }
    chosen = None if ledger_ids is None else frozenset(ledger_ids)
    return document | await told(
        found,
        others,
        history or Nowhere(),
        is_deep=digests is not None,
        chosen=chosen,
        now_ms=run.started.at_ms,
        findings=document["findings"],
    )


class _Run:
    """The steps of one audit, with what they share."""

    def __init__(
        self,
        cluster: Cluster,
        ledger_ids: Sequence[LedgerId] | None,
        settings: AuditSettings,
        checks: Checks,
        digests: DigestSettings | None,
        say: Say,
    ) -> None:
        self.started = Started.now()
        self.total: int | None = None
        """How many ledgers there are, if anybody counted."""
        self.checks = checks
        self.reader = DigestReader(cluster.peers, digests)
        self._cluster = cluster
        self._ledger_ids = ledger_ids
        self._is_deep = digests is not None
        self._say = say
        grace_ms = int(checks.grace_s * 1000)
        self._grace = Grace(cluster.store, grace_ms, self.started.at_ms)
        excuse = self._grace.excused
        auditor = Auditor(
            cluster.store,
            cluster.control,
            settings,
            excuse=excuse,
            copies_min=max(COPIES_MIN, checks.ack_quorum or 0),
        )
        self._auditor = deep_auditor(auditor, self.reader) if self._is_deep else auditor

    def _chosen(self) -> AsyncIterator[LedgerId] | Iterable[LedgerId]:
        return self._cluster.store.ledger_ids() if self._ledger_ids is None else self._ledger_ids

    async def look(
        self, choice: EngineChoice, scope: Scope, spark: SparkAuditor | None
    ) -> BulkAudit:
        """The first look at all ledgers, at indexes or deep.

        In process a deep one is of placement alone, and doubts all: it is read when it is judged.
        """
        looking = Looking(self._say, self.total)
        if choice.name != INLINE:
            bulk = await handed_in(spark, choice)(choice.name, scope, self._say, looking.reached)
        elif self._is_deep:
            placed = await badly_placed(self._cluster.columns, self._chosen(), scope.racks)
            return BulkAudit(misplaced=placed)
        else:
            bulk = await survey(
                self._cluster.columns,
                self._chosen(),
                racks=scope.racks,
                progress=looking.reached,
            )
        self._say(f"{bulk.counts.ledgers} ledgers ok, {len(bulk.doubtful)} to look at again")
        return bulk

    async def look_again(self, choice: EngineChoice, bulk: BulkAudit) -> Audit:
        """Counts of the first look, and whatever is wrong by the second."""
        is_first = self._is_deep and choice.name == INLINE
        total = self.total if is_first else len(bulk.doubtful)
        self._auditor.progress = Looking(self._say, total, again=not is_first).reached
        found = await self._auditor.audit(self._chosen() if is_first else bulk.doubtful)
        return found + Audit(
            counts=bulk.counts,
            marked=bulk.marked,
            tallies=whole(bulk.copies),
            quorums=bulk.quorums,
        )

    async def others(self, found: Audit, bulk: BulkAudit, racks: Racks) -> Others:
        """Findings that are about no entries."""
        wanted = None if self._ledger_ids is None else frozenset(self._ledger_ids)
        return Others(
            silent=await self._silent(found),
            misplaced=await self._misplaced(bulk.misplaced, racks),
            overdue=await self._grace.overdue(wanted),
            unreadable=found.unreadable,
            racks=racks,
            ack_quorum=self.checks.ack_quorum,
        )

    async def _silent(self, found: Audit) -> list[BookieId]:
        """Bookies of ours that are registered and, asked once more now, give no answer.

        One that is not registered is known to be away. Apache's do not have what an audit asks for.
        """
        infos = await self._cluster.store.bookies()
        asked = [
            bookie_id
            for bookie_id in sorted(found.silent)
            if bookie_id in infos and infos[bookie_id].endpoint(RUN_ENDPOINT) is not None
        ]
        control = self._cluster.control
        answers = await asyncio.gather(*(control.is_draining(bookie_id) for bookie_id in asked))
        return [b for b, answer in zip(asked, answers, strict=True) if answer is None]

    async def _misplaced(self, suspects: Sequence[LedgerId], racks: Racks) -> list[Misplaced]:
        """Those of them whose metadata, read again, still says so."""
        confirmed: list[Misplaced] = []
        async for batch in batches_of(suspects, LEDGERS_PER_BATCH):
            ledgers = await self._auditor.read(batch)
            judged = (misplaced(one.value, racks) for one in ledgers.values())
            confirmed += [one for one in judged if one is not None]
        return confirmed


def _blocked(found: Audit, others: Others) -> int:
    """How much is in the way of calling everything known."""
    return len(found.skipped) + len(others.silent) + len(found.unreadable)


async def _audit_engine(
    cluster: Cluster, requested: str, ledger_ids: Sequence[LedgerId] | None
) -> tuple[EngineChoice, int | None]:
    """The engine, and how many ledgers there are where that is known or decides."""
    if ledger_ids is not None:
        return EngineChoice(INLINE, "ledgers named one by one"), len(ledger_ids)
    total = None
    if requested != INLINE:
        total = sum([1 async for _ledger_id in cluster.store.ledger_ids()])
    return await asyncio.to_thread(choose_engine, requested, ledgers=total or 0), total
