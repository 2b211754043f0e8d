"""The certificate of a decision: made when its job can begin, and gone when that is over."""

from dataclasses import replace
from datetime import timedelta

import pytest
from bookie.tls.principals import Principal, Role
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.task import BookieTask
from bookie_operator.model.tls import CertificateStatus, DecisionStatus, TlsStatus
from bookie_operator.observed import Job, JobKind
from bookie_operator.plan.actions import IssueCertificate, StartJob, WithdrawCertificate
from bookie_operator.plan.decisions import decision_job
from bookie_operator.plan.planner import Plan, plan
from bookie_operator.tls_view import Authorities, Authority, Certificate, Issuer, TlsView
from operator_scenes import T0, all_certified, at, cluster, observed, task

DAY = timedelta(days=1)
SIGNER = Authority("aa", T0 - DAY, T0 + 1000 * DAY)
SECURE = cluster(tls={"mode": "Required"})
ANN = Principal("fleet", "demo", Role.DECISION, "ann")
OWN = Principal("local", "demo", Role.PERSON, "root")
WISH = task("accept-loss", ledger=7, entry=5, reason="power cut", approvedBy="ann")
OTHER = task("accept-loss", "task-2", ledger=8, reason="the same", approvedBy="ann")
MINE = decision_job(WISH)
NOTHING = ClusterStatus()


def good(principal: Principal = ANN, ends: timedelta = timedelta(hours=2)) -> Certificate:
    return Certificate("", principal, frozenset(), T0 - DAY, T0 + ends, "aa", frozenset({"aa"}))


def view(found: Certificate | None = None, *, of: Principal = ANN) -> TlsView:
    return TlsView(
        hosts={},
        certificates={of: found} if found is not None else {},
        places={of: "Secret demo-decision-tls"},
        authorities=Authorities(SIGNER, None, {"aa": SIGNER}),
        deciding={"ann": of},
    )


def look(
    tls: TlsView | None, *jobs: Job, tasks: tuple[BookieTask, ...] = (WISH,), of: str = ""
) -> Plan:
    """A pass over these tasks; `of`: the job whose certificate the status remembers."""
    held = DecisionStatus(job=of, by="ann") if of else None
    before = NOTHING.model_copy(update={"tls": TlsStatus(decision=held)})
    seen = observed(of=SECURE, jobs=jobs, tasks=list(tasks), seconds=30)
    return plan(SECURE, replace(seen, tls=tls), before)


def job(*, running: bool) -> Job:
    ended = None if running else at(20)
    kind = JobKind.ACCEPT_LOSS
    return Job(MINE, kind, 1, running, at(10), ended_at=ended, exit_code=None if running else 0)


def started(made: Plan) -> list[tuple[str, Principal | None]]:
    jobs = [one for one in made.actions if isinstance(one, StartJob)]
    return [(one.name, one.shows) for one in jobs if one.kind is JobKind.ACCEPT_LOSS]


def issued(made: Plan) -> list[IssueCertificate]:
    found = [one for one in made.actions if isinstance(one, IssueCertificate)]
    return [one for one in found if one.principal.role is Role.DECISION]


def withdrawn(made: Plan) -> list[Principal]:
    return [one.principal for one in made.actions if isinstance(one, WithdrawCertificate)]


def kept(made: Plan) -> str:
    """Whose certificate the status remembers."""
    decision = made.status.tls.decision if made.status.tls is not None else None
    return decision.job if decision is not None else ""


def listed(tls: TlsView) -> tuple[CertificateStatus, ...]:
    """The certificates whose ends the status names, while the job runs."""
    status = look(tls, job(running=True), of=MINE).status.tls
    return status.certificates if status is not None else ()


def why(made: Plan) -> set[tuple[str, str]]:
    mine = [one for one in made.refusals if one.action == "AcceptLoss"]
    return {(one.predicate, one.message) for one in mine}


def test_a_certificate_is_made_before_the_job_and_the_status_remembers_it() -> None:
    made = look(view())
    [one] = issued(made)
    assert one.principal == ANN and one.lifetime <= timedelta(hours=2)
    assert not started(made) and kept(made) == MINE
    words = "task task-1, ledger 7: Secret demo-decision-tls is not there"
    assert why(made) == {("CertificatePending", words)}


def test_the_job_shows_it_once_it_is_there() -> None:
    made = look(view(good()), of=MINE)
    assert started(made) == [(MINE, ANN)] and not issued(made) and kept(made) == MINE


def test_it_stays_while_the_job_runs() -> None:
    made = look(view(good()), job(running=True), of=MINE)
    assert not withdrawn(made) and kept(made) == MINE


def test_it_is_taken_away_after_the_job() -> None:
    made = look(view(good()), job(running=False), of=MINE)
    assert withdrawn(made) == [ANN] and kept(made) == MINE
    gone = look(view(), job(running=False), of=MINE)
    assert not withdrawn(gone) and not kept(gone)


def test_it_is_taken_away_when_the_task_is_gone_before_its_job_began() -> None:
    assert withdrawn(look(view(good()), tasks=(), of=MINE)) == [ANN]


def test_the_next_decision_of_the_same_person_gets_one_of_its_own() -> None:
    made = look(view(good()), job(running=False), tasks=(WISH, OTHER), of=MINE)
    assert withdrawn(made) == [ANN] and not started(made) and not issued(made)
    made = look(view(), job(running=False), tasks=(WISH, OTHER), of=MINE)
    assert [one.principal for one in issued(made)] == [ANN]
    assert kept(made) == decision_job(OTHER)


@pytest.mark.parametrize("tasks", [(OTHER, WISH), (WISH, OTHER)])
@pytest.mark.parametrize("begun", [WISH, OTHER])
def test_what_waits_for_its_certificate_goes_before_other_decisions(
    begun: BookieTask, tasks: tuple[BookieTask, ...]
) -> None:
    mine = decision_job(begun)
    for found in (view(), view(good())):
        made = look(found, tasks=tasks, of=mine)
        assert kept(made) == mine, "else nobody would take it away"
    assert started(made) == [(mine, ANN)]


def test_one_that_ends_before_the_job_could_is_made_again() -> None:
    made = look(view(good(ends=timedelta(minutes=5))), of=MINE)
    assert issued(made) and not started(made)


def test_a_person_with_a_certificate_shows_their_own_and_keeps_it() -> None:
    made = look(view(good(OWN), of=OWN))
    assert started(made) == [(MINE, OWN)] and not kept(made)
    over = look(view(good(OWN), of=OWN), job(running=False))
    assert not withdrawn(over)


def test_nothing_begins_while_certificates_are_unseen() -> None:
    for tls in (None, replace(view(), denied="secrets is forbidden"), replace(view(), deciding={})):
        made = look(tls)
        assert not started(made) and not issued(made)
        assert {predicate for predicate, _words in why(made)} == {"CertificatePending"}


@pytest.mark.parametrize("shown", [ANN, OWN], ids=["of the decision", "of the person"])
def test_what_a_decision_shows_is_none_of_the_fleets_certificates(shown: Principal) -> None:
    """It ends within hours, and nobody is to hear an alarm for that."""
    fleet = all_certified(SECURE)
    more = {**fleet.certificates, shown: good(shown)}
    assert listed(replace(fleet, certificates=more, deciding={"ann": shown})) == listed(fleet) != ()


def test_an_issuer_is_left_to_sign() -> None:
    made = look(replace(view(), issuer=Issuer("Issuer corporate")))
    assert not issued(made) and not started(made) and kept(made) == MINE


def test_without_tls_a_job_shows_nothing() -> None:
    plain = cluster(tls={"mode": "Off"})
    made = plan(plain, observed(of=plain, tasks=[WISH]), NOTHING)
    assert started(made) == [(MINE, None)]
