"""What audits prove after the operator's clock was set back, or another operator's was ahead."""

from bookie.ids import BookieId
from bookie_operator.model.condition_types import ConditionType
from bookie_operator.model.reports import AuditReport
from bookie_operator.model.status import ClusterStatus
from bookie_operator.observed import Bookie, JobKind
from bookie_operator.plan.actions import StartJob
from bookie_operator.plan.planner import Plan, plan
from bookie_operator.plan.set_back import put_right
from operator_scenes import at, audited, bookie, cluster, observed

B0 = BookieId("bookie-0")
AWAY = bookie(B0, phase=None, running=False)
BACK = bookie(B0, epoch=2, boot_at=15)
HOUR = 3600


def seen(*special: Bookie, before: ClusterStatus, seconds: float, audit: int, began: float) -> Plan:
    jobs = [audited(AuditReport(ok=96), audit, began=began)]
    return plan(cluster(), observed(*special, jobs=jobs, seconds=seconds), before)


AHEAD = seen(before=ClusterStatus(), seconds=HOUR + 3, audit=1, began=HOUR).status
"""Of a calm fleet, an hour ahead of what comes then."""


def verified(made: Plan) -> str:
    found = made.status.condition(ConditionType.DURABILITY_VERIFIED)
    assert found is not None
    return found.status


def audits(made: Plan) -> list[str]:
    """The names of audits that begin."""
    starts = [one for one in made.actions if isinstance(one, StartJob)]
    return [one.name for one in starts if one.kind is JobKind.AUDIT]


def test_an_audit_of_before_proves_nothing_about_what_came_then() -> None:
    gone = seen(AWAY, before=AHEAD, seconds=10, audit=1, began=HOUR)
    back = seen(BACK, before=gone.status, seconds=20, audit=1, began=HOUR)
    assert verified(back) == "Unknown" and audits(back) == ["demo-audit-2"]
    audit = seen(BACK, before=back.status, seconds=25, audit=2, began=21)
    assert verified(audit) == "True" and not audits(audit)


def test_a_disturbance_of_before_is_over_with_the_next_audit() -> None:
    gone = seen(AWAY, before=AHEAD, seconds=HOUR + 10, audit=1, began=HOUR)
    back = seen(BACK, before=gone.status, seconds=HOUR + 20, audit=1, began=HOUR)
    set_back = seen(BACK, before=back.status, seconds=5, audit=1, began=HOUR)
    assert verified(set_back) == "Unknown" and audits(set_back)
    audit = seen(BACK, before=set_back.status, seconds=9, audit=2, began=6)
    assert verified(audit) == "True" and not audits(audit)


def test_when_an_audit_began_that_ends_after_the_clock_was_set_back_nobody_knows() -> None:
    made = seen(before=ClusterStatus(), seconds=30, audit=1, began=HOUR)
    assert made.status.audit.started_at is None and verified(made) == "Unknown"


def test_a_status_of_a_clock_that_goes_on_stays_as_it_is() -> None:
    assert put_right(AHEAD, at(HOUR + 3)) is AHEAD


def test_a_bookie_that_is_silent_for_long_starts_no_more_though_its_nodes_clock_is_ahead() -> None:
    silent, status = bookie(B0, phase=None, boot_at=HOUR), ClusterStatus()
    states = []
    for seconds in (0, 60, 61):
        status = seen(silent, before=status, seconds=seconds, audit=1, began=-9).status
        states.append(status.bookies[0].state.value)
    assert states == ["Starting", "Starting", "Unresponsive"]


def test_silence_of_before_counts_from_now_on() -> None:
    silent = bookie(B0, phase=None)
    before = seen(silent, before=ClusterStatus(), seconds=HOUR, audit=1, began=-9).status
    [found, *_] = put_right(before, at(7)).bookies
    assert (found.silent_since, found.state_since) == (at(7), at(7))
