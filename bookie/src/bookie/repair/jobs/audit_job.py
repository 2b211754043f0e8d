"""One audit from end to end: choose an engine, look at all ledgers, again at the doubtful, report.

It changes nothing in the cluster. Both engines come through here, so that they end in one result.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from bookie.ids import BookieId, LedgerId
from bookie.metadata.store import RUN_ENDPOINT
from bookie.protocol.placement import MIN_RACKS, Racks
from bookie.repair.engine.choice import INLINE, EngineChoice
from bookie.repair.engine.engine import Engines
from bookie.repair.jobs.job import Job, open_engine
from bookie.repair.judge.adherence import Misplaced, misplaced, racks_of
from bookie.repair.judge.last_copies import COPIES_MIN
from bookie.repair.judge.tally import whole
from bookie.repair.look.audit import Audit, Auditor, AuditSettings, batches_of
from bookie.repair.look.cluster import Cluster
from bookie.repair.look.digests import DigestReader, DigestSettings, deep_auditor
from bookie.repair.look.survey import LEDGERS_PER_BATCH, BulkAudit, Scope
from bookie.repair.look.underreplication_grace import Grace
from bookie.repair.reports.audit_progress import AuditProgress
from bookie.repair.reports.finding_history import Keeper, NoHistory
from bookie.repair.reports.findings_report import OtherFindings, findings_report
from bookie.repair.reports.progress_lines import Say, say_nothing
from bookie.repair.reports.result import Document, audit_json, exit_code


@dataclass(frozen=True, slots=True)
class Checks:
    """What an audit checks besides entries."""

    grace_s: float = 0.0
    """How long a ledger that is marked under-replicated is not reported, in seconds."""
    racks: dict[BookieId, str] = field(default_factory=dict)
    """Racks that a person gives for bookies that report none, or a wrong one."""
    min_racks: int = MIN_RACKS
    """How many racks a write set must span."""
    ack_quorum: int | None = None
    """The ack quorum that every ledger should have at least; None = any."""


@dataclass(frozen=True, slots=True)
class AuditRequest:
    """What to audit, and how."""

    ledger_ids: Sequence[LedgerId] | None = None
    """Just these, in process; None = all."""
    engine: str = INLINE
    settings: AuditSettings = field(default_factory=AuditSettings)
    digests: DigestSettings | None = None
    """Read every copy as well, and verify it; None = trust the indexes."""
    checks: Checks = field(default_factory=Checks)


async def audit(
    cluster: Cluster,
    request: AuditRequest,
    *,
    history: Keeper | None = None,
    engines: Engines = open_engine,
    say: Say = say_nothing,
) -> Document:
    """Audit; the result object. It changes nothing. `history`: where findings are remembered;
    without, all are seen for the first time.

    Raises what `Job.begin` and `Job.choose` raise, InconsistentError also for metadata that no
    audit can rest on.
    """
    job = await Job.begin("audit", request.engine, cluster, say, engines)
    run, keeper = _Audit(job, request), history or NoHistory()
    await keeper.read()  # what cannot be read is refused now, not after hours of work
    checks, is_deep = request.checks, request.digests is not None
    racks = racks_of(await cluster.store.bookies(), checks.racks)
    racks = replace(racks, min_racks=checks.min_racks)
    await run.choose_engine()
    bulk = await run.look(Scope(racks, job.same.instance_id, request.digests, request.ledger_ids))
    found = await run.look_again(bulk)
    others = await run.others(found, bulk, racks)
    await job.same.check(cluster.store)
    document = job.result(
        digests_verified=is_deep,
        bytes_read=bulk.bytes_read + run.reader.bytes_read,
        **audit_json(found),
        exit_code=exit_code(found, blocked=_blocked(found, others)),
    )
    return document | await findings_report(
        found,
        others,
        keeper,
        cluster.store,
        is_deep=is_deep,
        chosen=run.chosen,
        now_ms=job.started.at_ms,
        findings=document["findings"],
    )


class _Audit:
    """The steps of one audit, with what they share."""

    def __init__(self, job: Job, request: AuditRequest) -> None:
        self._job, self._cluster, self._say = job, job.cluster, job.say
        self._request = request
        self._total: int | None = None
        """How many ledgers there are, if anybody counted."""
        self.reader = DigestReader(self._cluster.peers, request.digests)
        self._grace = Grace(
            self._cluster.store, int(request.checks.grace_s * 1000), job.started.at_ms
        )
        auditor = Auditor(
            self._cluster.store,
            self._cluster.control,
            request.settings,
            excuse=self._grace.excused,
            copies_min=max(COPIES_MIN, request.checks.ack_quorum or 0),
        )
        is_deep = request.digests is not None
        self._auditor = deep_auditor(auditor, self.reader) if is_deep else auditor
        """A deep one reads every copy as well."""

    @property
    def chosen(self) -> frozenset[LedgerId] | None:
        """The ledgers that were named one by one; None = all."""
        ledger_ids = self._request.ledger_ids
        return None if ledger_ids is None else frozenset(ledger_ids)

    async def choose_engine(self) -> None:
        """Count ledgers where their number is known or decides."""
        job, ledger_ids = self._job, self._request.ledger_ids
        if ledger_ids is not None:
            job.choice = EngineChoice(INLINE, "ledgers named one by one")
            self._total = len(ledger_ids)
            return
        if job.requested != INLINE:
            self._total = sum([1 async for _ledger_id in self._cluster.store.ledger_ids()])
        await job.choose(self._total or 0)

    async def look(self, scope: Scope) -> BulkAudit:
        """The first look at all ledgers, at indexes or deep."""
        looking = AuditProgress(self._say, self._total)
        async with self._job.engine() as engine:
            bulk = await engine.survey(scope, looking.reached)
        if bulk.doubtful is not None:
            self._say(f"{bulk.counts.ledgers} ledgers ok, {len(bulk.doubtful)} to look at again")
        return bulk

    async def look_again(self, bulk: BulkAudit) -> Audit:
        """Counts of the first look, and whatever is wrong by the second."""
        doubtful = bulk.doubtful if bulk.doubtful is not None else self._request.ledger_ids
        total = self._total if bulk.doubtful is None else len(bulk.doubtful)
        looking = AuditProgress(self._say, total, again=bulk.doubtful is not None)
        self._auditor.progress = looking.reached
        found = await self._auditor.audit(
            doubtful if doubtful is not None else self._cluster.store.ledger_ids()
        )
        return found + Audit(
            counts=bulk.counts,
            marked=bulk.marked,
            tallies=whole(bulk.copies),
            quorums=bulk.quorums,
        )

    async def others(self, found: Audit, bulk: BulkAudit, racks: Racks) -> OtherFindings:
        """Findings that are about no entries."""
        return OtherFindings(
            silent=await self._silent(found),
            misplaced=await self._misplaced(bulk.misplaced, racks),
            overdue=await self._grace.overdue(self.chosen),
            unreadable=found.unreadable,
            racks=racks,
            ack_quorum=self._request.checks.ack_quorum,
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
        """The suspected ledgers that are still misplaced when their metadata is read again."""
        confirmed: list[Misplaced] = []
        async for batch in batches_of(suspects, LEDGERS_PER_BATCH):
            ledgers = await self._auditor.read(batch)
            judged = (misplaced(one.value, racks) for one in ledgers.values())
            confirmed += [one for one in judged if one is not None]
        return confirmed


def _blocked(found: Audit, others: OtherFindings) -> int:
    """How much is in the way of calling everything known."""
    return len(found.skipped) + len(others.silent) + len(found.unreadable)
