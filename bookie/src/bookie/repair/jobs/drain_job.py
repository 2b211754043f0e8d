"""One drain from end to end: empties a bookie that is to leave, and says what stays on it.

begin it, if asked for -> list what names it, choose an engine -> refuse? -> move what is
finished -> give writers time to move on by themselves -> recover and close what is still written to
it -> move that too -> list again -> audit -> result.

A busy writer moves on alone: its adds are answered READ_ONLY, which is a reason for an ensemble
change. An idle one cannot notice; its ledger is fenced and closed, as by any recovery, and its next
append fails with LedgerFencedError. A ledger that is IN_RECOVERY is recovered whomever it names:
its recoverer may be about to close it with this bookie in it. Every run begins from the metadata.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from bookie.ids import BookieId, LedgerId
from bookie.metadata.naming import list_ledgers
from bookie.protocol.placement import NO_RACKS
from bookie.protocol.status import Status
from bookie.repair.engine.choice import AUTO
from bookie.repair.engine.engine import Engines
from bookie.repair.jobs.evacuation import (
    Evacuation,
    EvacuationSettings,
    Refusal,
    naming,
)
from bookie.repair.jobs.evacuation_result import evacuation_result
from bookie.repair.jobs.job import Job, open_engine
from bookie.repair.judge.adherence import racks_of
from bookie.repair.look.audit import Auditor
from bookie.repair.look.cluster import Cluster
from bookie.repair.mend.outcome import Outcome
from bookie.repair.reports.progress_lines import Say
from bookie.repair.reports.result import (
    Document,
)


@dataclass(frozen=True, slots=True)
class DrainRequest:
    """Which bookie is to leave."""

    bookie_id: BookieId
    engine: str = AUTO
    begin: bool = False
    """Begin the drain; otherwise the bookie drains already."""
    settings: EvacuationSettings = field(default_factory=EvacuationSettings)


async def drain(
    cluster: Cluster, request: DrainRequest, *, engines: Engines = open_engine, say: Say
) -> Document:
    """Run one drain; the result object. It may be stopped anywhere and run again. Raises what
    `Job.begin` and `Job.choose` raise.
    """
    job = await Job.begin("drain", request.engine, cluster, say, engines)
    run = _Drain(job, request)
    refusal = await run.begin()
    found = await list_ledgers(cluster.store, request.bookie_id)
    ledgers = len(naming(found))
    choice = await job.choose(ledgers)
    say(f"{ledgers} ledgers to look after, engine {choice.name} ({choice.reason})")
    progress = job.follow(ledgers)
    outcomes: dict[LedgerId, Outcome] = {}
    async with job.engine() as engine:
        evacuation = Evacuation(job, engine, progress, request.bookie_id, run, request.settings)
        outcomes = evacuation.outcomes
        refusal = refusal or await evacuation.all_that_name_it(found)
    auditor = Auditor(cluster.store, cluster.control, request.settings.repair.audit)
    after = await auditor.audit([i for i, outcome in outcomes.items() if outcome.moved])
    left = naming(await list_ledgers(cluster.store, request.bookie_id))
    say(f"{len(left)} ledgers left on {request.bookie_id}")
    return job.result(
        bookie_id=request.bookie_id,
        **evacuation_result(
            list(outcomes.values()), refusal=refusal, after=after, left=left, silent=run.silent
        ),
    )


class _Drain:
    """The gate of one drain."""

    def __init__(self, job: Job, request: DrainRequest) -> None:
        self._cluster = job.cluster
        self._leaving = request.bookie_id
        self._request = request
        self.racks = NO_RACKS
        """Racks of the bookies that were registered at the last look."""
        self.silent: set[BookieId] = set()
        """Bookies that gave no answer when they were asked last."""

    # May it, may it still?
    async def begin(self) -> Refusal | None:
        """Order the bookie to drain, if the request says so; a bookie that is gone need not
        accept."""
        if not self._request.begin:
            return None
        answer = await self._cluster.control.drain(self._leaving)
        if answer.accepted or self._leaving not in await self._cluster.store.bookies():
            return None
        return Refusal("NotDraining", answer.message, self._leaving)

    async def candidates(self) -> Sequence[BookieId] | Refusal:
        """Bookies that may take over; a refusal when the drain must not continue."""
        control, store = self._cluster.control, self._cluster.store
        infos = await store.bookies()
        marks = await self._cluster.list_marks(await self._cluster.all_bookies())
        for found in marks:
            if limbo := sum(mark.limbo for mark in found.marks):
                return Refusal(
                    "LimboPresent",
                    f"{limbo} ledgers are in limbo on {found.bookie_id}: what it holds is not "
                    "certain; drain again once a repair has cleared them",
                    found.bookie_id,
                )
        info = infos.get(self._leaving)
        # One that is gone, or does not answer but takes no new ledgers, is emptied all the same.
        is_draining = await control.is_draining(self._leaving)
        if is_draining is False or (is_draining is None and info and not info.read_only):
            return Refusal(
                "NotDraining",
                f"{self._leaving} is not draining, so new ledgers would keep coming: it was "
                "cancelled or never begun; begin it with `bookie drain`",
                self._leaving,
            )
        self.racks = racks_of(infos, {})
        self.silent = {found.bookie_id for found in marks if found.status is not Status.OK}
        return sorted(
            bookie_id
            for bookie_id, info in infos.items()
            if info.takes_runs and bookie_id not in self.silent and bookie_id != self._leaving
        )

    async def reserve(self, outcomes: Sequence[Outcome]) -> None:
        """Do nothing: nobody else moves ledgers off a draining bookie."""

    async def release(self, outcomes: Sequence[Outcome]) -> None:
        """See `reserve`."""
