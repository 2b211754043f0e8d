"""One drain from end to end: empties a bookie that is to leave, and says what stays on it.

tell it -> list what names it, choose an engine -> refuse? -> move what is finished -> give writers
time to move on by themselves -> recover and close what is still written to it -> move that too ->
list again -> audit -> result.

A busy writer moves on alone: its adds are answered READ_ONLY, which is a reason for an ensemble
change. An idle one cannot notice; its ledger is fenced and closed, as by any recovery, and its next
append fails with LedgerFencedError. A ledger that is IN_RECOVERY is recovered whomever it names:
its recoverer may be about to close it with this bookie in it. Every run begins from the metadata.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from bookie.ids import BookieId, LedgerId
from bookie.metadata.naming import Listing, list_ledgers
from bookie.protocol.placement import NO_RACKS
from bookie.protocol.status import Status
from bookie.repair.engine.choice import AUTO, check_engine
from bookie.repair.engine.engine import EmptyingSettings
from bookie.repair.engine.move_engines import MoveWork, SparkMoves, chosen, engine_json, opened
from bookie.repair.jobs.evacuation import Carriage, Emptying, Refusal, naming
from bookie.repair.judge.adherence import racks_of
from bookie.repair.look.audit import Audit, Auditor
from bookie.repair.look.bookie_control import Marks
from bookie.repair.look.cluster import Cluster, all_bookies
from bookie.repair.look.same_cluster import SameCluster
from bookie.repair.mend.ledger_move import MoveOutcome
from bookie.repair.reports.ledger_progress import Follower
from bookie.repair.reports.printing import Say
from bookie.repair.reports.result import (
    EXIT_REFUSED,
    EXIT_UNKNOWN,
    FINDINGS_MAX,
    Document,
    Started,
    accepted_json,
    audit_json,
    counts_json,
    exit_code,
)


@dataclass(frozen=True, slots=True)
class DrainRequest:
    """Which bookie is to leave. `begin`: tell it so first; otherwise it was told already."""

    bookie_id: BookieId
    engine: str = AUTO
    begin: bool = False
    settings: EmptyingSettings = field(default_factory=EmptyingSettings)


async def drain(
    cluster: Cluster, request: DrainRequest, *, spark: SparkMoves | None = None, say: Say
) -> Document:
    """Run one drain; the result object. It may be stopped anywhere and run again. `spark` moves the
    ledgers when that engine is chosen.

    Raises SettingsError for an engine that cannot run, UnavailableError without metadata store,
    InconsistentError where bookies of several clusters meet.
    """
    check_engine(request.engine)
    same = await SameCluster.look(cluster.store)
    run = _Run(cluster, request, say)
    refusal = await run.begin()
    found = await list_ledgers(cluster.store, request.bookie_id)
    choice = await chosen(request.engine, ledgers=len(naming(found)), say=say)
    following = Follower(len(naming(found)), say)
    work = MoveWork(cluster, same, request.settings, say)
    async with opened(choice, work, spark) as engine:
        refusal = refusal or await run.work(Carriage(engine, following, say), found)
    after = await run.audit()
    left = await list_ledgers(cluster.store, request.bookie_id)
    told = engine_json(choice, engine, following)
    return run.result(told, refusal=refusal, after=after, left=naming(left))


class _Run:
    """The steps of one drain, with what they share; the gate of its emptying."""

    def __init__(self, cluster: Cluster, request: DrainRequest, say: Say) -> None:
        self._cluster = cluster
        self._leaving = request.bookie_id
        self._request = request
        self._say = say
        self._started = Started.now()
        self.racks = NO_RACKS
        self._silent: list[Marks] = []
        self._outcomes: dict[LedgerId, MoveOutcome] = {}

    # May it, may it still?
    async def begin(self) -> Refusal | None:
        """Tell the bookie, if that is asked for; one that is gone need not know."""
        if not self._request.begin:
            return None
        answer = await self._cluster.control.drain(self._leaving)
        if answer.accepted or self._leaving not in await self._cluster.store.bookies():
            return None
        return Refusal("NotDraining", answer.message, self._leaving)

    async def candidates(self) -> Sequence[BookieId] | Refusal:
        """Who may take over; a refusal when the drain must not go on."""
        control, store = self._cluster.control, self._cluster.store
        infos = await store.bookies()
        known = await all_bookies(self._cluster)
        marks = await asyncio.gather(*(control.list_marks(bookie_id) for bookie_id in known))
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
        self._silent = [found for found in marks if found.status is not Status.OK]
        silent = {found.bookie_id for found in self._silent}
        return sorted(
            bookie_id
            for bookie_id, info in infos.items()
            if info.takes_runs and bookie_id not in silent and bookie_id != self._leaving
        )

    async def reserve(self, outcomes: Sequence[MoveOutcome]) -> None:
        """Nobody else moves ledgers off a bookie that only drains."""

    async def release(self, outcomes: Sequence[MoveOutcome]) -> None:
        """See `reserve`."""

    async def work(self, carriage: Carriage, found: Listing) -> Refusal | None:
        """Until nothing is left that this run could move."""
        settings = self._request.settings
        emptying = Emptying(self._cluster, self._leaving, self, settings, carriage)
        self._outcomes = emptying.outcomes
        return await emptying.all_that_name_it(found)

    # Result
    async def audit(self) -> Audit:
        """What was moved, as anybody sees it now."""
        moved = [i for i, outcome in self._outcomes.items() if outcome.moved]
        settings = self._request.settings.repair.audit
        auditor = Auditor(self._cluster.store, self._cluster.control, settings)
        return await auditor.audit(moved)

    def result(
        self, engine: Document, *, refusal: Refusal | None, after: Audit, left: set[LedgerId]
    ) -> Document:
        outcomes = list(self._outcomes.values())
        blocked = blocked_rows(outcomes, refusal, left - self._outcomes.keys())
        self._say(f"{len(left)} ledgers left on {self._leaving}")
        return {
            **self._started.json("drain"),
            **engine,
            "bookie_id": self._leaving,
            "refused": refusal.message if refusal is not None else "",
            "ledgers_left": len(left),
            **sums(outcomes),
            "audit_after": counts_json(after.counts),
            "blocked": blocked[:FINDINGS_MAX],
            "blocked_left_out": max(len(blocked) - FINDINGS_MAX, 0),
            "findings": audit_json(after)["findings"],
            "accepted_losses": accepted_json(after),
            "unreachable": sorted({found.bookie_id for found in self._silent} | after.unreachable),
            "exit_code": _exit_code(refusal, after, blocked=len(blocked), left=len(left)),
        }


def sums(outcomes: Sequence[MoveOutcome]) -> Document:
    """What was done to how many ledgers and entries."""
    return {
        "ledgers": {
            "considered": len(outcomes),
            "moved": sum(outcome.moved for outcome in outcomes),
            "recovered": sum(outcome.recovered for outcome in outcomes),
            "blocked": sum(bool(outcome.reason) for outcome in outcomes),
            "deleted": sum(outcome.state_before == "DELETED" for outcome in outcomes),
        },
        "entries_recovered": sum(outcome.entries_recovered for outcome in outcomes),
        "entries_copied": sum(outcome.entries_copied for outcome in outcomes),
        "bytes_copied": sum(outcome.bytes_copied for outcome in outcomes),
        "corrupt_copies": sum(outcome.corrupt_copies for outcome in outcomes),
    }


def blocked_rows(
    outcomes: Sequence[MoveOutcome], refusal: Refusal | None, late: set[LedgerId]
) -> list[Document]:
    """What is in the way: of the whole, of a ledger, and ledgers that came `late`."""
    rows: list[Document] = []
    if refusal is not None:
        rows.append(
            {
                "bookie_id": refusal.bookie_id,
                "reason": refusal.reason,
                "message": refusal.message,
            }
        )
    rows += [
        {"ledger_id": outcome.ledger_id, "reason": outcome.reason, "message": outcome.message}
        for outcome in outcomes
        if outcome.reason
    ]
    if refusal is None:
        said = "it came to name the bookie after the last look: run the drain again"
        rows += [{"ledger_id": i, "reason": "CameLate", "message": said} for i in sorted(late)]
    return rows


def _exit_code(refusal: Refusal | None, after: Audit, *, blocked: int, left: int) -> int:
    if refusal is not None:
        return EXIT_REFUSED
    return exit_code(after.counts, blocked=blocked) or (EXIT_UNKNOWN if left else 0)
