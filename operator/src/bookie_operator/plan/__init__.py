"""The planner: (cluster, observed, previous status) -> actions, refusals, events, next status.

Pure: no clock, no I/O, no memory but the previous status. Order of a pass: judge every bookie,
follow incidents, weigh the loss budget, then let each concern say what it wants. What comes out has
at most one destructive action; the others wait for a pass that has seen its effect.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bookie.protocol.ids import BookieId

from bookie_operator.model.base import GROUP
from bookie_operator.model.cluster import BookieCluster, ClusterSpec
from bookie_operator.model.status import LAST_COPY, ClusterStatus, Incident
from bookie_operator.model.task import TaskStatus
from bookie_operator.observed import Observed
from bookie_operator.plan.actions import (
    Action,
    ApproveCookieFix,
    Destructive,
    Event,
    Refusal,
    ReplaceVolume,
    RestartBookie,
    candidate_of,
)
from bookie_operator.plan.audits import Audits, audits, is_disturbed, last_audit
from bookie_operator.plan.budget import Budget, budget_of
from bookie_operator.plan.causes import suspicions
from bookie_operator.plan.collection import pausing
from bookie_operator.plan.conditions import conditions
from bookie_operator.plan.copies import copies_of
from bookie_operator.plan.disks import Fixes, cookie_fixes
from bookie_operator.plan.drains import Drains, Surroundings, drains, kept_up
from bookie_operator.plan.episodes import advance
from bookie_operator.plan.failures import (
    due_first,
    failure_refusals,
    resting,
    split,
    untried,
    wanted_failures,
)
from bookie_operator.plan.findings import Findings, Verdict
from bookie_operator.plan.left_over import left_over
from bookie_operator.plan.losses import acceptances
from bookie_operator.plan.mends import Mends, last_mend, mends
from bookie_operator.plan.news import condition_events, state_events
from bookie_operator.plan.possible_loss import is_undecided, possible_data_loss
from bookie_operator.plan.rebuilds import rebuilds
from bookie_operator.plan.repair import Repairs, generation_since, is_new_generation, repairs
from bookie_operator.plan.report import (
    READY_STATES,
    blocked,
    bookie_status,
    limbo_totals,
    metadata_status,
    phase,
    replicas,
)
from bookie_operator.plan.rereplications import Rereplications, rereplications
from bookie_operator.plan.restarts import (
    Steps,
    expansions,
    other_classes,
    provision,
    restarts,
)
from bookie_operator.plan.rollback import ROLLED_BACK
from bookie_operator.plan.scrubs import Scrubs, last_scrub, scrubs
from bookie_operator.plan.states import Judged, judge_all
from bookie_operator.plan.tasks import expired, replacements, task_statuses


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do now, what was refused, and the status to publish."""

    actions: tuple[Action, ...]
    refusals: tuple[Refusal, ...]
    events: tuple[Event, ...]
    status: ClusterStatus
    tasks: Mapping[str, TaskStatus]
    """Task name -> its new status, for those that changed."""
    resting: tuple[Action, ...] = ()
    """Wanted, and waiting since they failed."""


def plan(cluster: BookieCluster, observed: Observed, previous: ClusterStatus) -> Plan:
    """The next step from here, or none when spec and fleet agree."""
    spec = cluster.spec
    judged = judge_all(spec, observed, previous)
    incidents, events = advance(observed, judged, previous)
    suspected = suspicions(judged, previous)
    events += suspected
    loss, budget = _weighed(cluster, judged, observed, incidents=incidents, previous=previous)

    provided, refusals = _brought_up(cluster, judged, observed, previous)
    fixes = cookie_fixes(
        spec, judged, observed, incidents=incidents, budget=budget, previous=previous
    )
    wanted, refused = _disruptions(spec, judged, observed, fixes=fixes, budget=budget)
    refusals += refused
    accepting, not_accepted = acceptances(cluster, observed, rolled_back=budget.rolled_back)
    refusals += not_accepted
    repairing = repairs(cluster, judged, observed, previous)
    refusals += repairing.refusals
    is_busy = len(resting(wanted, observed)) < len(wanted)
    around = Surroundings(budget, repairing.wants_to_run, is_busy)
    draining = drains(cluster, judged, observed, previous, around)
    refusals += draining.refusals
    events += draining.events
    if draining.removal is not None:
        wanted.append(draining.removal)
    first = _pressing(repairing, draining, budget)
    auditing, mending = _looked_after(
        cluster, judged, observed, incidents=incidents, previous=previous,
        is_loss_possible=loss[0] == "True",
        is_repairing=repairing.wants_to_run or draining.is_running,
        is_asked=bool(suspected) or is_disturbed(judged, previous),
        is_held=any(refusal.predicate == LAST_COPY for refusal in refusals),
        is_taking_out=bool(untried(wanted, observed)), gives_way_to=first,
    )  # fmt: skip
    refusals += mending.refusals
    first = first or ("MendFirst" if mending.wants_to_run else "")
    replicating, scrubbing = _gentle(cluster, judged, observed, previous, gives_way_to=first)
    # Repairs first. Each is carried out for itself, whatever becomes of those before it.
    actions: list[Action] = [*pausing(cluster, observed, previous), *repairing.actions, *accepting]
    actions += [*due_first(wanted, observed)[:1], *provided, *mending.actions, *auditing.actions]
    actions += [*replicating.actions, *scrubbing.actions]
    actions += [*draining.actions, *expansions(spec, observed), *expired(spec, observed)]
    failures = wanted_failures(observed, [*actions, *wanted])
    refusals += failure_refusals(failures)
    found = Findings(
        cluster=cluster, judged=judged, observed=observed, incidents=incidents,
        repairs=repairing, audit=auditing.status, mend=mending.status, scrub=scrubbing.status,
        rereplication=replicating.status, drain=draining.status, refusals=refusals, loss=loss,
        failures=failures,
        is_restarting=any(isinstance(action, RestartBookie) for action in wanted),
    )  # fmt: skip
    status = _status(found, budget=budget, held=fixes.held, previous=previous)
    events += [*state_events(judged, previous), *condition_events(status, previous)]
    tasks = task_statuses(
        spec, judged, observed,
        actions=actions, replicating=replicating, audit=auditing.status,
    )  # fmt: skip
    due, waiting = split(actions, wanted, observed)
    return Plan(due, tuple(refusals), tuple(events), status, tasks, waiting)


def _brought_up(
    cluster: BookieCluster,
    judged: Mapping[BookieId, Judged],
    observed: Observed,
    previous: ClusterStatus,
) -> Steps:
    """What bookies need to run, and those that can; an index that is lost is a need, too."""
    made = rebuilds(cluster, judged, observed)
    kept = kept_up(cluster, judged)
    actions, refusals = provision(cluster.spec, observed, previous, kept=kept, away=made.away)
    refusals += [*made.refusals, *other_classes(cluster.spec, observed)]
    return [*actions, *made.actions], refusals


def _weighed(
    cluster: BookieCluster,
    judged: Mapping[BookieId, Judged],
    observed: Observed,
    *,
    incidents: Sequence[Incident],
    previous: ClusterStatus,
) -> tuple[Verdict, Budget]:
    """Whether entries may be lost already, and how much more may be risked.

    What an audit that has ended by now has found counts at once, in this very pass.
    """
    audit = last_audit(cluster, observed, previous.audit)
    copies = copies_of(cluster.spec, audit, last_scrub(cluster, observed, previous.scrub))
    loss = possible_data_loss(
        judged, observed, incidents=incidents, previous=previous, certain=copies.certain
    )
    budget = budget_of(
        cluster.spec,
        judged,
        observed.metadata,
        copies=copies,
        previous=previous,
        is_loss_possible=is_undecided(loss),
    )
    return loss, budget


def _looked_after(
    cluster: BookieCluster,
    judged: Mapping[BookieId, Judged],
    observed: Observed,
    *,
    previous: ClusterStatus,
    is_repairing: bool,
    gives_way_to: str,
    **how: Any,
) -> tuple[Audits, Mends]:
    """Audits, and repairs of what they find: never both at once. `how`: see `audits`."""
    known = last_mend(cluster, observed, previous.mend)
    auditing = audits(
        cluster,
        judged,
        observed,
        previous=previous,
        is_repairing=is_repairing or known.running,
        is_new_spec=is_new_generation(cluster, previous),
        mended_at=known.finished_at,
        **how,
    )
    mending = mends(
        cluster, judged, observed, auditing, previous=previous.mend, gives_way_to=gives_way_to
    )
    return auditing, mending


def _gentle(
    cluster: BookieCluster,
    judged: Mapping[BookieId, Judged],
    observed: Observed,
    previous: ClusterStatus,
    *,
    gives_way_to: str,
) -> tuple[Rereplications, Scrubs]:
    """Work that can be stopped at any time, the more pressing first."""
    before, first = previous.rereplication, gives_way_to
    replicating = rereplications(cluster, judged, observed, previous=before, gives_way_to=first)
    first = first or ("RereplicationFirst" if replicating.wants_to_run else "")
    scrubbing = scrubs(cluster, judged, observed, previous=previous.scrub, gives_way_to=first)
    return replicating, scrubbing


def _pressing(repairing: Repairs, draining: Drains, budget: Budget) -> str:
    """What scrubs and re-replications give way to, as the reason of their stop."""
    if budget.rolled_back:
        return ROLLED_BACK
    if repairing.wants_to_run:
        return "RepairFirst"
    return "DrainFirst" if draining.is_running else ""


def _disruptions(
    spec: ClusterSpec,
    judged: Mapping[BookieId, Judged],
    observed: Observed,
    *,
    fixes: Fixes,
    budget: Budget,
) -> tuple[list[Destructive], list[Refusal]]:
    """Destructive actions that are allowed, most useful first, and those that are not.

    Each was weighed alone, so only the first may be carried out before the next observation.
    """
    replaced, not_replaced = replacements(spec, observed, budget)
    restarted, not_restarted = restarts(spec, judged, budget, now=observed.now)
    allowed: list[Destructive] = [
        *fixes.approvals,
        *replaced,
        *(action for action in restarted if isinstance(action, RestartBookie)),
    ]
    allowed = due_first(allowed, observed)
    waiting = [
        Refusal(_word(action), "OneActionAtATime", "waits for the next pass", candidate_of(action))
        for action in allowed[1:]
    ]
    return allowed, [*fixes.refusals, *not_replaced, *not_restarted, *waiting]


def _word(action: Destructive) -> str:
    if isinstance(action, ApproveCookieFix):
        return "CookieFix"
    return "ReplaceDisk" if isinstance(action, ReplaceVolume) else "Restart"


def _status(
    found: Findings, *, budget: Budget, held: Mapping[BookieId, str], previous: ClusterStatus
) -> ClusterStatus:
    spec, judged, observed = found.cluster.spec, found.judged, found.observed
    current = conditions(found, previous)
    bookies = tuple(
        bookie_status(
            spec,
            one,
            before=previous.bookie(bookie_id),
            repair=found.repairs.statuses.get(bookie_id),
            fix_held=held.get(bookie_id, ""),
            now=observed.now,
        )
        for bookie_id, one in judged.items()
    )
    return ClusterStatus(
        observed_generation=found.cluster.metadata.generation,
        generation_since=generation_since(found.cluster, observed, previous),
        phase=phase(current, bookies),
        replicas=replicas(judged, previous),
        ready_replicas=len([one for one in judged.values() if one.state in READY_STATES]),
        selector=f"{GROUP}/cluster={found.cluster.metadata.name},{GROUP}/component=bookie",
        disruptions_allowed=budget.disruptions_allowed,
        loss_budget=budget.status(),
        metadata=metadata_status(observed, previous),
        conditions=current,
        bookies=bookies,
        limbo=limbo_totals(judged, previous, incidents=found.incidents),
        audit=found.audit,
        mend=found.mend,
        scrub=found.scrub,
        rereplication=found.rereplication,
        drain=found.drain,
        left_over=left_over(found.cluster, judged, observed, previous),
        blocked=blocked(found.refusals, previous, now=observed.now),
        incidents=tuple(found.incidents),
    )


__all__ = ["Audits", "Plan", "Repairs", "Rereplications", "plan"]
