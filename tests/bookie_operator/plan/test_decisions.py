"""How a decision becomes a job, for each type of decision; `test_losses` follows one to its end."""

from dataclasses import replace
from typing import Any

import pytest
from bookie_operator.model.reports import LossesReport, LossReport, Report, RetractionReport
from bookie_operator.model.status import ClusterStatus
from bookie_operator.observed import Job, JobKind
from bookie_operator.plan.actions import LossDecision, StartJob, StopJob
from bookie_operator.plan.decisions import decision_job
from bookie_operator.plan.planner import Plan, plan
from operator_scenes import at, cluster, observed, task

PLAIN = cluster(tls={"mode": "Off"})
ACCEPT = task("accept-loss", ledger=7, entry=5, reason="power cut", approvedBy="ann")
RETRACT = task("retract-loss", ledger=7, reason="found again", approvedBy="jo")
every = pytest.mark.parametrize(
    ("wish", "kind", "decision", "action"),
    [
        (ACCEPT, JobKind.ACCEPT_LOSS, LossDecision("7", 5, "power cut", "ann"), "AcceptLoss"),
        (
            RETRACT,
            JobKind.RETRACT_LOSS,
            LossDecision("7", None, "found again", "jo"),
            "RetractLoss",
        ),
    ],
)


def look(*jobs: Job, of: Any = PLAIN, tasks: Any, seconds: float = 30) -> Plan:
    return plan(of, observed(of=of, jobs=jobs, tasks=tasks, seconds=seconds), ClusterStatus())


@every
def test_its_first_attempt_is_the_only_one_there_ever_is(
    wish: Any, kind: JobKind, decision: LossDecision, action: str
) -> None:
    made = look(tasks=[wish])
    [start] = [one for one in made.actions if isinstance(one, StartJob) and one.kind is kind]
    assert start == StartJob(decision_job(wish), kind, engine="", attempt=1, decision=decision)
    ended = Job(start.name, kind, start.attempt, False, at(10), ended_at=at(20), exit_code=1)
    again = look(ended, tasks=[wish])
    assert not [one for one in again.actions if isinstance(one, StartJob) and one.kind is kind]


@every
def test_it_is_refused_by_its_own_name(
    wish: Any, kind: JobKind, decision: LossDecision, action: str
) -> None:
    made = look(of=cluster(tls={"mode": "Off"}, paused=True), tasks=[wish])
    refused = [(one.action, one.predicate, one.message) for one in made.refusals]
    assert refused == [(action, "Paused", "task task-1, ledger 7: spec.paused is true")]


@every
def test_one_that_hangs_is_stopped_at_its_deadline(
    wish: Any, kind: JobKind, decision: LossDecision, action: str
) -> None:
    runs = Job(decision_job(wish), kind, 1, running=True, started_at=at(10))
    late = 10 + PLAIN.spec.repair.deadline_seconds + 1
    stops = [StopJob(runs.name, "DeadlineExceeded")]
    assert [one for one in look(runs, tasks=[wish], seconds=late).actions if one in stops] == stops
    assert not [one for one in look(runs, tasks=[wish]).actions if isinstance(one, StopJob)]


@pytest.mark.parametrize(
    ("wish", "report"),
    [
        (ACCEPT, LossReport(ledger_id=7, last_entry_id=4, lost_from=5)),
        (ACCEPT, LossesReport(closed=1, given_up=1)),
        (RETRACT, RetractionReport(ledger_id=7, retracted_on={"bookie-0": 3})),
    ],
)
@pytest.mark.parametrize(("code", "phase"), [(0, "Succeeded"), (1, "Failed"), (137, "Failed")])
def test_what_ended_with_a_failure_has_failed_whatever_it_reports(
    wish: Any, report: Report, code: int, phase: str
) -> None:
    job = Job(decision_job(wish), JobKind.RETRACT_LOSS, 1, False, at(10), ended_at=at(20))
    ended = replace(job, exit_code=code, report=report)
    assert look(ended, tasks=[wish]).tasks["task-1"].phase == phase
