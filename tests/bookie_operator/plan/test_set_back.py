"""What audits prove after the operator's clock was set back, or another operator's was ahead."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final, get_args

import pytest
from bookie.ids import BookieId
from bookie_operator.model.base import Resource
from bookie_operator.model.condition_types import ConditionType
from bookie_operator.model.reports import AuditReport
from bookie_operator.model.status import ClusterStatus
from bookie_operator.observed import Bookie, JobKind
from bookie_operator.plan.actions import StartJob
from bookie_operator.plan.planner import Plan, plan
from bookie_operator.plan.set_back import put_right
from operator_scenes import at, audited, bookie, cluster, observed
from pydantic import AwareDatetime

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


def test_what_fails_for_a_minute_stalls_though_its_condition_is_of_a_clock_ahead() -> None:
    no_image = bookie(B0, running=False, process_facts={"waiting": "ErrImageNeverPull: not here"})
    status, stalled = ClusterStatus(), []
    for seconds in (HOUR, 0, 59, 60):
        status = seen(no_image, before=status, seconds=seconds, audit=1, began=-9).status
        stalled.append(status.is_true(ConditionType.STALLED))
    assert stalled == [False, False, False, True]


MAY_LIE_AHEAD: Final = frozenset(
    {
        *("audit.next_at", "mend.next_at", "scrub.next_at", "rereplication.next_at"),
        *("drain.next_attempt_at", "bookies.repair.next_attempt_at"),
        *("tls.authorities.ends", "tls.certificates.ends"),
        *("bookies.last_end.at", "bookies.first_kill.at"),  # of its node's clock, to be compared
        *("bookies.repair.started_at", "bookies.repair.ended_at"),  # of its job, and the job has it
        "looked_at",  # of a look that people are told is ahead
        "limbo.oldest_since",  # made anew of the incidents
    }
)
"""Times of what is to come, and such as must stay as they are."""


def times(model: type[Resource], above: str = "") -> Iterator[str]:
    """Each time in a status, by the names that lead there."""
    for name, field in model.model_fields.items():
        for part in parts(field.annotation):
            if part.__name__ == AwareDatetime.__name__:
                yield f"{above}{name}"
            elif issubclass(part, Resource):
                yield from times(part, f"{above}{name}.")


def parts(annotation: Any) -> Iterator[type]:
    if isinstance(annotation, type) and not get_args(annotation):
        yield annotation
    for one in get_args(annotation):
        yield from parts(one)


PAST: Final = sorted({*times(ClusterStatus)} - MAY_LIE_AHEAD)


def with_time(model: type[Resource], path: str, moment: datetime) -> Resource:
    """As much of a status as has this time."""
    name, _, below = path.partition(".")
    field = model.model_fields[name]
    given: dict[str, Any] = {n: moment for n, f in model.model_fields.items() if f.is_required()}
    if not below:
        return model.model_construct(**given | {name: moment})
    [inner] = [one for one in parts(field.annotation) if issubclass(one, Resource)]
    part = with_time(inner, below, moment)
    return model.model_construct(**given | {name: (part,) if field.default == () else part})


def time_of(found: Any, path: str) -> datetime:
    for name in path.split("."):
        found = getattr(found[0] if isinstance(found, tuple) else found, name)
    assert isinstance(found, datetime)
    return found


@pytest.mark.parametrize("path", PAST)
def test_no_time_of_the_past_lies_ahead(path: str) -> None:
    """A wait that is reckoned from it would last until the clock is where it was."""
    for seconds, found in ((HOUR, 7), (7, 7), (3, 3)):
        status = with_time(ClusterStatus, path, at(seconds))
        assert isinstance(status, ClusterStatus)
        assert time_of(put_right(status, at(7)), path) == at(found)


def test_every_time_is_of_the_past_or_may_lie_ahead() -> None:
    assert {*times(ClusterStatus)} > MAY_LIE_AHEAD and "blocked.since" in PAST
