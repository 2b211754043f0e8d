"""One plan: (cluster, observed, previous status) -> actions, refusals, events, next status.

Pure: no clock, no I/O, no memory but the previous status. Order of a pass: judge every bookie,
follow incidents, weigh the loss budget, then let each concern say what it wants. What comes out has
at most one destructive action; the others wait for a pass that has seen its effect.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bookie.ids import BookieId

from bookie_operator.model.base import GROUP, whole_milliseconds
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.incidents import Incident
from bookie_operator.model.looks import renewed
from bookie_operator.model.status import LAST_COPY, ClusterStatus
from bookie_operator.model.task import TaskStatus
from bookie_operator.observed import Observed
from bookie_operator.plan.actions import (
    Action,
    ApproveCookieFix,
    Destructive,
    Event,
    Refusal,
    ReplaceBookie,
    ReplaceVolume,
    RestartBookie,
    StartBookie,
    candidate_of,
)
from bookie_operator.plan.attempts import AUDITS, MENDS, SCRUBS
from bookie_operator.plan.audits import AuditReasons, audits, is_disturbed
from bookie_operator.plan.budget import Budget, budget_of
from bookie_operator.plan.causes import suspicions
from bookie_operator.plan.certificates import certificates
from bookie_operator.plan.collection import pausing
from bookie_operator.plan.collection_approvals import collection_approvals
from bookie_operator.plan.conditions import conditions
from bookie_operator.plan.copies import copies_of
from bookie_operator.plan.decisions import decisions
from bookie_operator.plan.disks import Fixes, cookie_fixes
from bookie_operator.plan.drains import DrainGate, Drains, drains, kept_up
from bookie_operator.plan.episodes import advance
from bookie_operator.plan.failures import (
    due_first,
    failure_refusals,
    jobs_without_pods,
    resting,
    split,
    untried,
    wanted_failures,
)
from bookie_operator.plan.findings import Findings, Verdict
from bookie_operator.plan.left_over import left_over
from bookie_operator.plan.mends import mends
from bookie_operator.plan.news import condition_events, job_events, state_events
from bookie_operator.plan.passes import Pass
from bookie_operator.plan.possible_loss import is_undecided, possible_data_loss
from bookie_operator.plan.rebuilds import rebuilds
from bookie_operator.plan.repair import Repairs, generation_since, repairs
from bookie_operator.plan.replacements import replacements
from bookie_operator.plan.report import (
    READY_STATES,
    blocked,
    bookie_status,
    is_updated,
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
from bookie_operator.plan.scrubs import Scrubs, scrubs
from bookie_operator.plan.tasks import expired, task_statuses, without_mistakes


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
    pass_, failed = without_mistakes(Pass.of(cluster, observed, previous))
    incidents, events = advance(pass_)
    suspected = suspicions(pass_)
    events += suspected
    loss, budget = _weighed(pass_, incidents=incidents)

    provided, refusals = _brought_up(pass_)
    fixes = cookie_fixes(pass_, incidents=incidents, budget=budget)
    wanted, refused = _disruptions(pass_, fixes=fixes, budget=budget)
    refusals += refused
    certified = certificates(pass_)
    deciding = decisions(pass_, certified, rolled_back=budget.rolled_back)
    collecting = collection_approvals(pass_, rolled_back=budget.rolled_back)
    repairing = repairs(pass_)
    refusals += [*deciding.refusals, *collecting.refusals, *repairing.refusals]
    is_busy = len(resting(wanted, observed)) < len(wanted)
    draining = drains(pass_, DrainGate(budget, repairing.wants_to_run, is_busy))
    refusals += draining.refusals
    events += draining.events
    if draining.removal is not None:
        wanted.append(draining.removal)
        provided = [one for one in provided if not _starts(one, draining.removal.bookie_id)]
    first = _pressing(repairing, draining, budget)
    mended = MENDS.followed(pass_)
    reasons = AuditReasons(
        incidents=incidents,
        is_loss_possible=loss.status == "True",
        is_repairing=repairing.wants_to_run or draining.is_running or mended.running,
        is_asked=bool(suspected) or is_disturbed(pass_),
        is_held=any(refusal.predicate == LAST_COPY for refusal in refusals),
        is_taking_out=bool(untried(wanted, observed)),
    )
    auditing = audits(pass_, reasons, mended_at=mended.finished_at)
    mending = mends(pass_, auditing, gives_way_to=first)
    refusals += mending.refusals
    first = first or ("MendFirst" if mending.wants_to_run else "")
    replicating, scrubbing = _gentle(
        pass_, gives_way_to=first, is_loss_possible=budget.is_loss_possible
    )
    refusals += replicating.refusals
    events += replicating.events
    # Repairs first. Each is carried out for itself, whatever becomes of those before it.
    actions: list[Action] = [*pausing(pass_), *certified.actions, *repairing.actions]
    actions += [*deciding.actions, *due_first(wanted, observed)[:1], *provided, *mending.actions]
    actions += [*auditing.actions, *replicating.actions, *scrubbing.actions, *collecting.actions]
    actions += [*draining.actions, *expansions(pass_), *expired(pass_)]
    failures = wanted_failures(observed, [*actions, *wanted]) + jobs_without_pods(observed)
    refusals += failure_refusals(failures)
    found = Findings(
        pass_=pass_, incidents=incidents, repairs=repairing,
        audit=auditing.status, mend=mending.status, scrub=scrubbing.status,
        rereplication=replicating.status, drain=draining.status, refusals=refusals, loss=loss,
        failures=failures, certificates=certified.with_decision(deciding.certificate),
        is_restarting=any(isinstance(action, RestartBookie) for action in wanted),
    )  # fmt: skip
    status = _status(found, budget=budget, held=fixes.held)
    events += [*state_events(pass_), *job_events(pass_), *condition_events(status, previous)]
    tasks = task_statuses(pass_, actions=actions, replicating=replicating, audit=auditing.status)
    due, waiting = split(actions, wanted, observed)
    return Plan(due, tuple(refusals), tuple(events), status, failed | tasks, waiting)


def _starts(action: Action, bookie_id: BookieId) -> bool:
    return isinstance(action, StartBookie) and action.template.bookie_id == bookie_id


def _brought_up(pass_: Pass) -> Steps:
    """What bookies need to run, and those that can; an index that is lost is a need, too."""
    made = rebuilds(pass_)
    kept = kept_up(pass_)
    actions, refusals = provision(pass_, kept=kept, away=made.away)
    refusals += [*made.refusals, *other_classes(pass_)]
    return [*actions, *made.actions], refusals


def _weighed(pass_: Pass, *, incidents: Sequence[Incident]) -> tuple[Verdict, Budget]:
    """Whether entries may be lost already, and how much more may be risked.

    What an audit that has ended by now has found counts at once, in this very pass.
    """
    audit = AUDITS.followed(pass_)
    copies = copies_of(pass_.spec, audit, SCRUBS.followed(pass_))
    loss = possible_data_loss(pass_, incidents=incidents, certain=copies.certain)
    budget = budget_of(pass_, copies=copies, is_loss_possible=is_undecided(loss))
    return loss, budget


def _gentle(
    pass_: Pass, *, gives_way_to: str, is_loss_possible: bool
) -> tuple[Rereplications, Scrubs]:
    """Work that can be stopped at any time, the more pressing first."""
    replicating = rereplications(
        pass_, gives_way_to=gives_way_to, is_loss_possible=is_loss_possible
    )
    first = gives_way_to or ("RereplicationFirst" if replicating.wants_to_run else "")
    scrubbing = scrubs(pass_, gives_way_to=first)
    return replicating, scrubbing


def _pressing(repairing: Repairs, draining: Drains, budget: Budget) -> str:
    """What scrubs and re-replications give way to, as the reason of their stop."""
    if budget.rolled_back:
        return ROLLED_BACK
    if repairing.wants_to_run:
        return "RepairFirst"
    return "DrainFirst" if draining.is_running else ""


def _disruptions(
    pass_: Pass, *, fixes: Fixes, budget: Budget
) -> tuple[list[Destructive], list[Refusal]]:
    """Destructive actions that are allowed, most useful first, and those that are not.

    Each was weighed alone, so only the first may be carried out before the next observation.
    """
    replaced, not_replaced = replacements(pass_, budget)
    restarted, not_restarted = restarts(pass_, budget)
    allowed: list[Destructive] = [
        *fixes.approvals,
        *replaced,
        *(action for action in restarted if isinstance(action, RestartBookie)),
    ]
    allowed = due_first(allowed, pass_.observed)
    waiting = [
        Refusal(_word(action), "OneActionAtATime", "waits for the next pass", candidate_of(action))
        for action in allowed[1:]
    ]
    return allowed, [*fixes.refusals, *not_replaced, *not_restarted, *waiting]


def _word(action: Destructive) -> str:
    if isinstance(action, ApproveCookieFix):
        return "CookieFix"
    if isinstance(action, ReplaceVolume):
        return "ReplaceDisk"
    return "ReplaceBookie" if isinstance(action, ReplaceBookie) else "Restart"


def _status(found: Findings, *, budget: Budget, held: Mapping[BookieId, str]) -> ClusterStatus:
    pass_, judged = found.pass_, found.pass_.judged
    current = conditions(found)
    bookies = tuple(
        bookie_status(
            pass_,
            one,
            repair=found.repairs.statuses.get(bookie_id),
            fix_held=held.get(bookie_id, ""),
        )
        for bookie_id, one in judged.items()
    )
    return ClusterStatus(
        observed_generation=pass_.cluster.metadata.generation,
        generation_since=generation_since(pass_),
        looked_at=renewed(pass_.previous.looked_at, whole_milliseconds(pass_.now)),
        phase=phase(current, bookies),
        replicas=replicas(pass_),
        ready_replicas=len([one for one in judged.values() if one.state in READY_STATES]),
        updated_replicas=len([b for b in pass_.spec.bookie_ids if is_updated(pass_, judged[b])]),
        selector=f"{GROUP}/cluster={pass_.name},{GROUP}/component=bookie",
        disruptions_allowed=budget.disruptions_allowed,
        loss_budget=budget.status(),
        metadata=metadata_status(pass_),
        conditions=current,
        bookies=bookies,
        limbo=limbo_totals(pass_, incidents=found.incidents),
        audit=found.audit,
        mend=found.mend,
        scrub=found.scrub,
        rereplication=found.rereplication,
        drain=found.drain,
        tls=found.certificates.status,
        left_over=left_over(pass_),
        blocked=blocked(pass_, found.refusals),
        incidents=tuple(found.incidents),
    )
