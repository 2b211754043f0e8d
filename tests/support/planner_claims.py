"""What every plan must be, whatever its scene: held against each call of the planner in any test.

Loaded as a plugin before any test imports the planner, so that no scene can go by it. It looks at
what people and other controllers read of a status and few tests name: generations, counts, sums,
times, and whether what was over is open again.
"""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from bookie_operator.model.attempt_status import AttemptStatus
from bookie_operator.model.bookie_status import BookieState
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.condition_types import Condition
from bookie_operator.model.incidents import Incident, IncidentOutcome
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.task import TaskPhase
from bookie_operator.observed import Observed
from bookie_operator.plan import planner
from bookie_operator.plan.actions import (
    ApproveCollection,
    ApproveCookieFix,
    Destructive,
    bookie_of,
)
from bookie_operator.plan.failures import ACTION_FAILED
from bookie_operator.plan.planner import Plan
from bookie_operator.plan.report import READY_STATES

_plan: Final = planner.plan
_SUMS: Final = ("entries_recovered", "entries_copied", "ledgers_recovered", "attempts")


def checked_plan(cluster: BookieCluster, observed: Observed, previous: ClusterStatus) -> Plan:
    """The plan; AssertionError where it breaks what must hold of every one."""
    made = _plan(cluster, observed, previous)
    check(made, cluster, observed, previous)
    return made


def check(made: Plan, cluster: BookieCluster, observed: Observed, previous: ClusterStatus) -> None:
    """All claims. Put aside by a test whose own judge is to see a bug in the planner."""
    status = made.status
    _check_generations(status, generation=cluster.metadata.generation)
    _check_conditions(status.conditions, before=previous.conditions, now=observed.now)
    _check_counts(status, before=previous)
    _check_incidents(status.incidents, before=previous.incidents)
    for name in ("audit", "mend", "scrub", "rereplication"):
        _check_attempts(getattr(status, name), before=getattr(previous, name))
    taking = [action for action in made.actions if isinstance(action, Destructive)]
    assert len(taking) <= 1, f"more than one destructive action: {taking}"
    _check_subjects(made, bookies=_bookies_of(cluster, observed, previous))
    _check_failed_tasks(made, observed)
    twice = [
        once for once, count in Counter(e.once for e in made.events if e.once).items() if count > 1
    ]
    assert not twice, f"said more than once in one pass: {twice}"


def _bookies_of(cluster: BookieCluster, observed: Observed, previous: ClusterStatus) -> set[str]:
    """All that a pass may have a word about."""
    jobs = {job.bookie for job in observed.jobs if job.bookie is not None}
    tasks = {task.spec.bookie for task in observed.tasks}
    left = {previous.drain.bookie} if previous.drain is not None else set()
    known = {one.id for one in previous.bookies}
    return {*cluster.spec.bookie_ids, *observed.bookies, *known, *jobs, *tasks, *left}


def _check_subjects(made: Plan, *, bookies: set[str]) -> None:
    """What is said or done of a bookie names one that there is; what names none is said of the
    whole cluster, and a condition has it too."""
    of_all = {word for one in made.status.conditions for word in (one.type, one.reason)}
    for event in made.events:
        if event.bookie:
            assert event.bookie in bookies, f"an event of nobody: {event}"
        else:
            assert event.reason in {*of_all, ACTION_FAILED}, f"whose is it? {event}"
    subjects = {bookie_of(action) for action in made.actions}
    subjects |= {one.bookie for one in (*made.refusals, *made.status.blocked)}
    assert subjects <= {"", *bookies}, f"nobody knows {subjects - bookies}"


def _check_failed_tasks(made: Plan, observed: Observed) -> None:
    """What a task asks for is not done in the pass that says that it has failed."""
    for task in observed.tasks:
        status = made.tasks.get(task.metadata.name)
        if status is None or status.phase is not TaskPhase.FAILED:
            continue
        for action in made.actions:
            assert task.metadata.name not in getattr(action, "asked_by", ()), action
            if isinstance(action, ApproveCookieFix | ApproveCollection):
                is_by_person = bool(action.approved_by)
                asked = (task.spec.bookie, task.spec.plan_id)
                assert (action.bookie_id, action.plan_id) != asked or not is_by_person, action


def _check_generations(status: ClusterStatus, *, generation: int) -> None:
    """Who waits for a change waits for these."""
    assert status.observed_generation == generation
    assert {one.observed_generation for one in status.conditions} <= {generation}


def _check_conditions(
    conditions: Iterable[Condition], *, before: Iterable[Condition], now: datetime
) -> None:
    former = {one.type: one for one in before}
    kinds = Counter(one.type for one in conditions)
    assert set(kinds.values()) <= {1}, f"a condition comes twice: {kinds}"
    for one in conditions:
        old = former.get(one.type)
        assert one.reason, f"{one.type} has no reason"
        if old is not None and old.status == one.status and old.last_transition_time <= now:
            assert one.last_transition_time == old.last_transition_time
        else:
            assert abs((one.last_transition_time - now).total_seconds()) < 1


def _check_counts(status: ClusterStatus, *, before: ClusterStatus) -> None:
    bookies = status.bookies
    marked = [one for one in bookies if one.limbo_ledgers or one.unchecked_ledgers]
    assert status.limbo.ledgers == sum(one.limbo_ledgers for one in bookies)
    assert status.limbo.unchecked == sum(one.unchecked_ledgers for one in bookies)
    assert set(status.limbo.bookies) >= {one.id for one in marked}
    assert status.limbo.cleared_total >= before.limbo.cleared_total
    assert status.ready_replicas == sum(one.state in READY_STATES for one in bookies)
    assert status.updated_replicas <= sum(bool(one.is_updated) for one in bookies)
    assert not (status.disruptions_allowed and marked)
    out = [one.id for one in bookies if one.state not in (*READY_STATES, BookieState.LEAVING)]
    assert not (status.disruptions_allowed and out), f"an eviction is let while {out} are out"


def _check_incidents(incidents: Iterable[Incident], *, before: Iterable[Incident]) -> None:
    former = {(one.bookie, one.boot_epoch_after): one for one in before}
    keys = Counter((one.bookie, one.boot_epoch_after) for one in incidents)
    assert set(keys.values()) <= {1}, f"an episode is there twice: {keys}"
    opened = Counter(one.bookie for one in incidents if one.outcome is IncidentOutcome.OPEN)
    assert set(opened.values()) <= {1}, f"a bookie has several open incidents: {opened}"
    for one in incidents:
        assert (one.seconds_to_clear is None) == (one.cleared_at is None)
        assert one.outcome is not IncidentOutcome.CLEARED or one.cleared_at is not None
        assert len(set(one.counted_jobs)) == len(one.counted_jobs)
        old = former.get((one.bookie, one.boot_epoch_after))
        if old is not None:
            _check_incident(one, old)


def _check_incident(one: Incident, old: Incident) -> None:
    """What was once said of an episode stays said."""
    assert one.detected_at == old.detected_at and one.kind == old.kind
    assert old.cleared_at in (None, one.cleared_at)
    assert old.outcome in (IncidentOutcome.OPEN, one.outcome), "what was over is open again"
    assert all(getattr(one, name) >= getattr(old, name) for name in _SUMS)


def _check_attempts(one: AttemptStatus, *, before: AttemptStatus) -> None:
    assert one.attempt >= before.attempt
    assert one.failures <= before.failures + 1


planner.plan = checked_plan
