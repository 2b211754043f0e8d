"""A person's decision that a loss record is wrong: carried out as an accepted loss is, and seen."""

from dataclasses import replace
from typing import Any

import pytest
from bookie.ids import BookieId
from bookie.tls.principals import Principal, Role
from bookie_operator.model.condition_types import ConditionType
from bookie_operator.model.reports import RetractionReport
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.task import BookieTask, TaskStatus
from bookie_operator.model.tls import DecisionStatus, TlsStatus
from bookie_operator.observe import DECIDERS_MAX, deciders
from bookie_operator.observed import Job, JobKind
from bookie_operator.plan.actions import IssueCertificate, LossDecision, StartJob
from bookie_operator.plan.decisions import decision_job
from bookie_operator.plan.losses import complaint, outcome
from bookie_operator.plan.planner import Plan, plan
from bookie_operator.tls_view import Authorities, Authority, TlsView
from operator_scenes import T0, at, audited, bookie, cluster, observed, task

B0 = BookieId("bookie-0")
WISH = task("retract-loss", ledger=7, reason="bookie-2 has them", approvedBy="ann")
ACCEPT = task("accept-loss", "task-2", ledger=8, reason="burnt", approvedBy="jo")
PLAIN = cluster(tls={"mode": "Off"})
DONE = RetractionReport(ledger_id=7, retracted_on={"bookie-0": 300}, in_limbo_on=("bookie-0",))


def job(report: RetractionReport | None = None, **more: Any) -> Job:
    facts: dict[str, Any] = {"running": False, "ended_at": at(20), "exit_code": 0} | more
    started = {"kind": JobKind.RETRACT_LOSS, "attempt": 1, "started_at": at(10)}
    return Job(decision_job(WISH), report=report, **started, **facts)


def look(*jobs: Job, tasks: tuple[BookieTask, ...] = (WISH,)) -> Plan:
    return plan(PLAIN, observed(of=PLAIN, jobs=jobs, tasks=tasks, seconds=30), ClusterStatus())


def started(made: Plan) -> list[StartJob]:
    jobs = [action for action in made.actions if isinstance(action, StartJob)]
    return [one for one in jobs if one.decision is not None]


def end(made: Plan) -> TaskStatus:
    return made.tasks["task-1"]


def test_it_is_carried_out_by_a_job_of_its_own_kind() -> None:
    [one] = started(look())
    assert (one.name, one.kind) == (decision_job(WISH), JobKind.RETRACT_LOSS)
    assert one.decision == LossDecision("7", None, "bookie-2 has them", "ann")
    assert one.name.startswith("demo-retract-")


def test_decisions_of_both_kinds_are_carried_out_one_by_one() -> None:
    made = look(tasks=(WISH, ACCEPT))
    assert [one.name for one in started(made)] == [decision_job(WISH)]
    running = look(job(running=True, ended_at=None, exit_code=None), tasks=(WISH, ACCEPT))
    assert not started(running)
    [waits] = [one for one in running.refusals if one.action == "AcceptLoss"]
    assert waits.predicate == "OneActionAtATime"


def test_its_certificate_is_made_in_the_name_of_who_decides() -> None:
    ann, day = Principal("fleet", "demo", Role.DECISION, "ann"), T0 - T0.resolution
    signer = Authority("aa", day, T0.replace(year=T0.year + 3))
    authorities = Authorities(signer, None, {"aa": signer})
    tls = TlsView(hosts={}, certificates={}, authorities=authorities, deciding={"ann": ann})
    of = cluster(tls={"mode": "Required"})
    made = plan(of, replace(observed(of=of, tasks=[WISH]), tls=tls), ClusterStatus())
    issued = [one.principal for one in made.actions if isinstance(one, IssueCertificate)]
    assert ann in issued and not started(made)
    assert "CertificatePending" in [r.predicate for r in made.refusals if r.action == "RetractLoss"]


def test_whose_certificates_are_looked_for_are_those_of_both_kinds() -> None:
    assert list(deciders((WISH, ACCEPT), ClusterStatus())) == ["ann", "jo"]


def test_however_many_decide_who_has_a_certificate_of_one_is_among_those_looked_for() -> None:
    last = TlsStatus(decision=DecisionStatus(job="demo-loss-1", by="zoe"))
    crowd = tuple(task("accept-loss", ledger=n, reason="-", approvedBy=f"p{n}") for n in range(20))
    for tasks in ((), (WISH, ACCEPT), crowd):
        found = deciders(tasks, ClusterStatus(tls=last))
        assert found[0] == "zoe" and len(found) == min(len(tasks) + 1, DECIDERS_MAX)


def test_the_outcome_is_what_the_bookies_took_back() -> None:
    status = end(look(job(DONE)))
    assert (status.phase, status.message) == (
        "Succeeded",
        "ledger 7: entries that are lost no more, by bookie: bookie-0 (300); in limbo on bookie-0 "
        "until a repair has looked",
    )


def test_where_no_bookie_has_a_record_nothing_is_wrong() -> None:
    said = outcome(RetractionReport(ledger_id=7))
    assert said == "no bookie has a record of a loss of ledger 7"


@pytest.mark.parametrize(
    ("report", "words"),
    [
        ({"refused": {"bookie-1": "the ledger is OPEN"}}, "bookie-1 refuses: the ledger is OPEN"),
        ({"silent": ("bookie-2",)}, "no answer from bookie-2, who may have such a record"),
    ],
)
def test_what_is_left_fails_the_task_and_says_what_was_done(
    report: dict[str, Any], words: str
) -> None:
    found = DONE.model_copy(update=report)
    status = end(look(job(found, exit_code=5)))
    assert status.phase == "Failed" and words in status.message
    assert status.message == complaint(found) and "bookie-0 (300)" in status.message


def test_a_job_that_came_to_nothing_fails_with_its_words() -> None:
    status = end(look(job(exit_code=4, message="no answer from the metadata store")))
    assert (status.phase, status.message) == ("Failed", "no answer from the metadata store")


@pytest.mark.parametrize(
    ("report", "looks"), [(DONE, True), (RetractionReport(ledger_id=7), False)]
)
def test_an_audit_follows_where_something_was_taken_back(
    report: RetractionReport, looks: bool
) -> None:
    calm = plan(PLAIN, observed(of=PLAIN, seconds=2, jobs=[audited()]), ClusterStatus())
    seen = observed(of=PLAIN, seconds=30, jobs=[audited(), job(report)])
    begun = [one for one in plan(PLAIN, seen, calm.status).actions if isinstance(one, StartJob)]
    assert [one.kind for one in begun] == [JobKind.AUDIT] * looks


def test_possible_data_loss_ends_with_the_record() -> None:
    recorded = plan(
        PLAIN, observed(bookie(B0, of=PLAIN, losses_recorded=1), of=PLAIN), ClusterStatus()
    ).status
    assert recorded.is_true(ConditionType.POSSIBLE_DATA_LOSS)
    after = plan(PLAIN, observed(of=PLAIN, jobs=[job(DONE)], seconds=30), recorded).status
    assert not after.is_true(ConditionType.POSSIBLE_DATA_LOSS)


@pytest.mark.parametrize("refused", [{}, {"bookie-0": "a copy is there"}])
@pytest.mark.parametrize("silent", [(), ("bookie-1", "bookie-2")])
@pytest.mark.parametrize("retracted", [{}, {"bookie-3": 4}])
def test_a_complaint_names_all_who_refused_who_were_silent_and_what_was_done(
    refused: dict[str, str], silent: tuple[str, ...], retracted: dict[str, int]
) -> None:
    report = RetractionReport(ledger_id=7, refused=refused, silent=silent, retracted_on=retracted)
    told = complaint(report)
    assert bool(told) is bool(refused or silent)
    assert ("bookie-0 refuses: a copy is there" in told) is bool(refused)
    assert ("no answer from bookie-1, bookie-2" in told) is bool(silent)
    assert ("bookie-3 (4)" in told) is bool(told and retracted)
