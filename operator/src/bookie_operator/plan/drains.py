"""Bookies that leave: fewer replicas are wanted, or the spec excludes their number.

One at a time. It takes no new entries (`DrainBookie`), jobs move its ledgers to others, and it goes
only when it says itself, in two passes, that no ledger names it; one that is away for good cannot
say so, and goes once others hold what it held (`given_up`). All of that waits while anything
is in limbo, anybody else is out, or too few would be left to write to, and all of it can be taken
back until the process is stopped: raise the replicas again. Memory is `status.drain` alone, and
jobs are named after bookie and attempt, so that an operator that starts again goes on from there.

The table of `attempts` is not for them: it follows kinds of jobs of which a cluster has one series.
A drain's attempts are one bookie's and begin at 1 with the next one, and what ends them is the
bookie's own count, not the job's report.
"""

from dataclasses import dataclass, field, replace
from typing import Any, Final

from bookie.ids import BookieId
from bookie.wire.admin.health import Health

from bookie_operator.model.base import whole_milliseconds
from bookie_operator.model.bookie_status import BookieState
from bookie_operator.model.drain_status import DrainPhase, DrainStatus
from bookie_operator.model.repair_spec import Repair
from bookie_operator.model.reports import DrainReport
from bookie_operator.model.status import NOT_REREPLICATED
from bookie_operator.observed import Job, JobKind, Observed
from bookie_operator.plan.actions import (
    Action,
    DrainBookie,
    Event,
    Refusal,
    RemoveBookie,
    StartJob,
    StopJob,
)
from bookie_operator.plan.budget import Budget
from bookie_operator.plan.deadlines import backoff, is_waited_out, overdue
from bookie_operator.plan.given_up import is_away, why_not_made_good
from bookie_operator.plan.lost import is_made_good
from bookie_operator.plan.passes import Pass
from bookie_operator.plan.rack_span import racks_lost_with
from bookie_operator.plan.rollback import ROLLED_BACK
from bookie_operator.plan.states import Judged, node_lost

SCALE_DOWN: Final = "ScaleDown"
WOULD_BREAK_ENSEMBLE: Final = "WouldBreakEnsemble"
LEDGERS_REMAIN: Final = "LedgersRemain"
DRAIN_FAILING: Final = "DrainFailing"
_STOPS_JOBS: Final = frozenset(
    {"PossibleDataLoss", "LimboPresent", ROLLED_BACK, WOULD_BREAK_ENSEMBLE}
)
"""Refusals that end a running job; the others only keep the next step from being taken. A
pause ends none: running jobs go on to their end."""


@dataclass(frozen=True, slots=True)
class Drains:
    """The drain under way, what to do now, and what is in its way."""

    status: DrainStatus | None = None
    actions: list[Action] = field(default_factory=list)
    removal: RemoveBookie | None = None
    refusals: list[Refusal] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    @property
    def is_running(self) -> bool:
        started = any(isinstance(action, StartJob) for action in self.actions)
        return started or (self.status is not None and self.status.is_running)


@dataclass(frozen=True, slots=True)
class DrainGate:
    """What lets a drain go on or holds it: what else there is to do in this pass."""

    budget: Budget
    is_repairing: bool
    """Repairs come first."""
    is_busy: bool
    """A destructive action is due already, and one is enough."""


def drain_text(drain: DrainStatus) -> str:
    """How far a drain is, in a line."""
    match drain.phase:
        case DrainPhase.REMOVING:
            return f"{drain.bookie}: no ledger names it, it is being removed"
        case DrainPhase.EMPTIED:
            return f"{drain.bookie}: no ledger names it"
    left = "its ledgers are being counted"
    if drain.ledgers_left is not None:
        left = f"{drain.ledgers_left} ledgers name it"
    doing = drain.message
    if drain.is_running:
        far = f": {drain.progress}" if drain.progress else ""
        doing = f"attempt {drain.attempt} moves them{far}"
    return "; ".join(filter(None, (f"{drain.bookie}: {left}", doing, drain.racks)))


def leaving_next(pass_: Pass) -> BookieId | None:
    """Of those that are not wanted the one with the highest number (`bookie-10` after -9).

    Before it whoever stops already, whoever never ran or is away for good, as others wait for that,
    and whoever was begun with.
    """
    wanted, begun = set(pass_.spec.bookie_ids), pass_.previous.drain
    surplus = [name for name in pass_.judged if name not in wanted]

    def urgency(name: BookieId) -> tuple[bool, bool, bool]:
        return (
            pass_.judged[name].state is BookieState.LEAVING,
            is_made_good(pass_, name) or never_ran(pass_, pass_.judged[name]),
            begun is not None and begun.bookie == name,
        )

    return max(reversed(surplus), key=urgency, default=None)


def never_ran(pass_: Pass, one: Judged) -> bool:
    """Whether it never ran: no process, no known boot, no cookie. Then no ledger can name it.

    A missing cookie alone is not enough: somebody may have deleted the cookie of a former bookie.
    """
    process = one.bookie.process
    is_unknown = one.bookie.has_cookie is False and not pass_.has_booted(one.bookie.id)
    return is_unknown and (process is None or not process.running)


def kept_up(pass_: Pass) -> list[BookieId]:
    """Bookies that are not wanted and yet must run: only they can say that they are empty."""
    return [
        bookie_id
        for bookie_id, one in pass_.judged.items()
        if bookie_id not in pass_.spec.bookie_ids
        and one.state is not BookieState.LEAVING
        and not never_ran(pass_, one)
    ]


def drains(pass_: Pass, gate: DrainGate) -> Drains:
    victim = leaving_next(pass_)
    back = _taken_back(pass_, victim)
    gone = _gone(pass_)
    if victim is None:
        return Drains(actions=back, events=gone)
    before = _followed(pass_, _known(victim, pass_.observed, pass_.previous.drain))
    warned = before.racks
    before = before.model_copy(update={"racks": racks_lost_with(pass_, victim)[:1024]})
    if pass_.is_new_generation:  # what made the last job fail may be mended
        before = before.model_copy(update={"next_attempt_at": None})
    step = _Step(pass_, pass_.judged[victim], before, gate).taken()
    return Drains(
        status=step.status,
        actions=[*back, *step.actions],
        removal=step.removal,
        refusals=[*step.refusals, *_away_as_well(pass_, victim)],
        events=[*gone, *_warning(before, warned), *step.events],
    )


def _warning(drain: DrainStatus, before: str) -> list[Event]:
    """The warning about racks that are lost; it prevents nothing, since the spec says who
    leaves."""
    is_news = bool(drain.racks) and drain.racks != before
    return [Event("RacksLost", drain.racks, drain.bookie, "Warning")] if is_news else []


def _away_as_well(pass_: Pass, victim: BookieId) -> list[Refusal]:
    """Refusals for other leaving bookies that cannot say that they are empty; the drain waits for
    them."""
    others = [one for one in pass_.judged if one not in (*pass_.spec.bookie_ids, victim)]
    waiting = {one: why_not_made_good(pass_, one) for one in others if is_away(pass_, one)}
    return [Refusal(SCALE_DOWN, NOT_REREPLICATED, why, one) for one, why in waiting.items() if why]


def _taken_back(pass_: Pass, victim: BookieId | None) -> list[Action]:
    """Cancel the drain of bookies that are not to leave, or not yet, so that they take entries."""
    if pass_.spec.paused:
        return []
    stops = [
        StopJob(job.name, "NotLeaving")
        for job in pass_.observed.jobs
        if job.kind is JobKind.DRAIN and job.running and job.bookie != victim
    ]
    cancels = [
        DrainBookie(bookie_id, cancel=True)
        for bookie_id, one in pass_.judged.items()
        if bookie_id != victim and (health := _health_of(one)) is not None and health.draining
    ]
    return [*stops, *cancels]


def _health_of(one: Judged) -> Health | None:
    """What the bookie said in this pass, after a boot that has ended."""
    health = one.bookie.health
    if health is None or not health.is_fresh or not health.phase.is_booted:
        return None
    return health


def _gone(pass_: Pass) -> list[Event]:
    drain = pass_.previous.drain
    if drain is None or not drain.is_removing or drain.bookie in pass_.judged:
        return []
    return [Event("BookieRemoved", "no ledger named it, and it is gone", drain.bookie)]


def _known(victim: BookieId, observed: Observed, before: DrainStatus | None) -> DrainStatus:
    if before is not None and before.bookie == victim:
        return before
    attempts = [job.attempt for job in observed.jobs if _is_of(job, victim)]
    return DrainStatus(
        bookie=victim,
        phase=DrainPhase.HELD,
        started_at=whole_milliseconds(observed.now),
        attempt=max(attempts, default=0),  # names of an earlier drain's jobs are taken
    )


def _is_of(job: Job, victim: str) -> bool:
    return job.kind is JobKind.DRAIN and job.bookie == victim


# Jobs


def _followed(pass_: Pass, before: DrainStatus) -> DrainStatus:
    """The status after a look at the newest job; how it ended is a hint for the wait only."""
    jobs = [job for job in pass_.observed.jobs if _is_of(job, before.bookie)]
    job = max(jobs, key=lambda job: job.attempt, default=None)
    if job is None or job.attempt < before.attempt:
        if not before.is_running:
            return before
        if before.phase is DrainPhase.HELD:  # the operator has stopped it: that is no failure
            wait = _waiting(pass_.spec.repair, before.failures, pass_.now)
            return before.model_copy(update=wait)
        gone = f"{before.message}; the job is gone and left no result".removeprefix("; ")
        update = {"message": gone[:1024]} | _waiting(
            pass_.spec.repair, before.failures + 1, pass_.now
        )
        return before.model_copy(update=update)
    if job.running:
        running: dict[str, Any] = {"is_running": True, "attempt": job.attempt}
        running |= {"message": job.waiting[:1024], "progress": job.progress}
        return before.model_copy(update=running)
    if job.attempt == before.attempt and not before.is_running:
        return before
    return before.model_copy(
        update={"attempt": job.attempt} | _counted(pass_.spec.repair, before, job)
    )


def _counted(repair: Repair, before: DrainStatus, job: Job) -> dict[str, Any]:
    report = job.reported(DrainReport)
    moved = report.ledgers_moved if report is not None else 0
    failures = 0 if moved or job.exit_code == 0 else before.failures + 1
    ended = job.ended_at or job.started_at
    update = {"message": job.message[:1024]} | _waiting(repair, failures, ended)
    if report is None:
        return update
    return update | {
        "ledgers_moved": before.ledgers_moved + moved,
        "entries_copied": before.entries_copied + report.entries_copied,
        "engine": report.engine,
        "engine_reason": report.engine_reason,
        "spark_app_id": report.spark_app_id,
        "executors": report.executors,
    }


def _waiting(repair: Repair, failures: int, ended: Any) -> dict[str, Any]:
    """The next job waits; after one that got on, only until the bookie has counted again."""
    wait = backoff(max(1, failures), repair)
    return {
        "is_running": False,
        "progress": "",
        "failures": failures,
        "next_attempt_at": whole_milliseconds(ended + wait),
    }


# Steps


@dataclass(frozen=True, slots=True)
class _Step:
    """One pass over the bookie that leaves next."""

    pass_: Pass
    one: Judged
    before: DrainStatus
    gate: DrainGate

    @property
    def victim(self) -> BookieId:
        return self.one.bookie.id

    def taken(self) -> Drains:
        refusal = self._refusal()
        if refusal is not None:
            return self._held(refusal)
        if self.one.state is BookieState.LEAVING and self.before.instance:
            return self._removed(self.before.instance)
        process = self.one.bookie.process
        if self.one.state is BookieState.LEAVING or never_ran(self.pass_, self.one):
            instance = process.instance if process is not None else ""
            return self._removed(instance, never_ran=True)
        if is_away(self.pass_, self.victim):
            return self._emptied()
        health = _health_of(self.one)
        assert health is not None, "else it counts as out"
        if not health.draining:
            actions: list[Action] = [DrainBookie(self.victim)]
            return Drains(self._status(DrainPhase.DRAINING, ledgers_left=None), actions)
        left = health.ledgers_naming_it
        if left == 0:
            return self._emptied()
        return self._moved(left)

    def _refusal(self) -> Refusal | None:
        is_out_already = self.one.state is BookieState.LEAVING or never_ran(self.pass_, self.one)
        if not is_out_already and is_away(self.pass_, self.victim):
            return self._given_up_refusal()
        refusal = self.gate.budget.leaving_refusal(SCALE_DOWN, self.victim)
        if refusal is not None or is_out_already:
            return refusal
        ensemble = self.pass_.spec.quorum.ensemble
        others = sum(
            one.can_write for name, one in self.pass_.judged.items() if name != self.victim
        )
        if others < ensemble:
            why = f"{others} bookies besides {self.victim} are writable, an ensemble is {ensemble}"
            return self._refuse(WOULD_BREAK_ENSEMBLE, why)
        if self.one.impairment is not None:
            why = (
                f"{self.victim} is out itself ({self.one.impairment}): only it can say that no "
                "ledger needs it; bring it back, or set replicas back"
            )
            return self._refuse("LossBudgetExceeded", why)
        if self.gate.is_busy:
            return self._refuse("OneActionAtATime", "waits for the next pass")
        return None

    def _given_up_refusal(self) -> Refusal | None:
        refusal = self.gate.budget.given_up_refusal(SCALE_DOWN, self.victim)
        if refusal is not None:
            return refusal
        why = why_not_made_good(self.pass_, self.victim)
        if why:
            return self._refuse(NOT_REREPLICATED, why)
        if self.gate.is_busy:
            return self._refuse("OneActionAtATime", "waits for the next pass")
        return None

    def _unpaused(self) -> Refusal | None:
        """What besides a pause is in its way."""
        gate = replace(self.gate, budget=replace(self.gate.budget, is_paused=False))
        return replace(self, gate=gate)._refusal()

    def _refuse(self, predicate: str, message: str) -> Refusal:
        return Refusal(SCALE_DOWN, predicate, message, bookie=self.victim)

    def _held(self, refusal: Refusal) -> Drains:
        """The plan while the drain must wait; if writers need the bookie, it takes entries
        again."""
        stop = self._unpaused() if refusal.predicate == "Paused" else refusal
        if stop is not None and stop.predicate in _STOPS_JOBS:
            actions = self._stops(stop.predicate)
        else:
            actions = self._late()
        health = _health_of(self.one)
        if refusal.predicate == WOULD_BREAK_ENSEMBLE and health is not None and health.draining:
            actions.append(DrainBookie(self.victim, cancel=True))
        phase = DrainPhase.HELD
        if self.one.state is BookieState.LEAVING:
            phase = DrainPhase.REMOVING
        elif refusal.predicate == "OneActionAtATime":
            phase = self.before.phase
        elif self.before.is_running and not actions:
            phase = DrainPhase.DRAINING
        return Drains(self._status(phase), actions, refusals=[refusal])

    def _emptied(self) -> Drains:
        process = self.one.bookie.process
        last = self.gate.budget.last_copy_refusal(SCALE_DOWN, self.victim)
        if last is not None:  # by an audit from before its ledgers were moved: a new one is asked
            status = self._status(DrainPhase.DRAINING, ledgers_left=0)
            return Drains(status, self._stops("Drained"), refusals=[last])
        if self.before.phase in (DrainPhase.EMPTIED, DrainPhase.REMOVING):
            return self._removed(process.instance if process is not None else "")
        event = Event("BookieDrained", "no ledger names it any more", self.victim)
        status = self._status(DrainPhase.EMPTIED, ledgers_left=0)
        return Drains(status, self._stops("Drained"), events=[event])

    def _removed(self, instance: str, *, never_ran: bool = False) -> Drains:
        delete = self.pass_.spec.retention.when_scaled == "Delete"
        is_node_lost = bool(node_lost(self.one.bookie))
        removal = RemoveBookie(self.victim, instance, delete, is_node_lost)
        said_so = "" if never_ran else instance
        return Drains(self._status(DrainPhase.REMOVING, instance=said_so), removal=removal)

    def _moved(self, left: int | None) -> Drains:
        """`left` ledgers name it (None = not counted yet): let a job move them."""
        status = self._status(DrainPhase.DRAINING, ledgers_left=left)
        actions, refusals = self._late(), self._remaining(left)
        running = [job for job in self.pass_.observed.jobs if job.running]
        if self.gate.is_repairing:
            actions = self._stops("RepairFirst")
        elif left and not any(job.kind in (JobKind.DRAIN, JobKind.AUDIT) for job in running):
            repair, now = self.pass_.spec.repair, self.pass_.now
            if is_waited_out(self.before.next_attempt_at, repair, now):
                actions.append(self._start())
        return Drains(status, actions, refusals=refusals)

    def _remaining(self, left: int | None) -> list[Refusal]:
        """What people should know of a drain that does not get on."""
        if self.before.failures >= self.pass_.spec.repair.max_attempts:
            why = f"{self.before.failures} jobs in a row moved nothing: {self.before.message}"
            return [self._refuse(DRAIN_FAILING, why)]
        if left and self.before.failures and not self.before.is_running:
            why = f"{left} ledgers name {self.victim}: {self.before.message}"
            return [self._refuse(LEDGERS_REMAIN, why)]
        return []

    def _start(self) -> StartJob:
        attempt = self.before.attempt + 1
        boot = self.one.bookie.health.boot if self.one.bookie.health else None
        return StartJob(
            name=f"{self.pass_.name}-drain-{self.victim}-{attempt}",
            kind=JobKind.DRAIN,
            engine=self.pass_.spec.repair.engine.value,
            attempt=attempt,
            bookie_id=self.victim,
            boot_epoch=boot.epoch if boot is not None else 0,
        )

    def _mine(self) -> list[Job]:
        return [job for job in self.pass_.observed.jobs if job.running and _is_of(job, self.victim)]

    def _stops(self, reason: str) -> list[Action]:
        return [StopJob(job.name, reason) for job in self._mine()]

    def _late(self) -> list[Action]:
        spec, now = self.pass_.spec, self.pass_.now
        late = {job.name: overdue(job, spec, now) for job in self._mine()}
        return [StopJob(name, reason) for name, reason in late.items() if reason is not None]

    def _status(self, phase: DrainPhase, **update: Any) -> DrainStatus:
        return self.before.model_copy(update={"phase": phase, **update})
