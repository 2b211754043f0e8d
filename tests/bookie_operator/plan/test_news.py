"""Every event of what only a comparison shows: its reason, its words, whose it is, and its type."""

from typing import Any

import pytest
from bookie.ids import BookieId
from bookie.wire.admin.health import Phase
from bookie_operator.model.bookie_status import BookieState, BookieStatus
from bookie_operator.model.condition_types import Condition, ConditionType
from bookie_operator.model.status import ClusterStatus
from bookie_operator.observed import Bookie, Exit, Job, JobKind
from bookie_operator.plan.actions import Event
from bookie_operator.plan.news import condition_events, job_events, state_events
from bookie_operator.plan.passes import Pass
from operator_scenes import at, bookie, cluster, observed

B1 = BookieId("bookie-1")
S = BookieState


def before(state: BookieState = S.SERVING, **facts: Any) -> ClusterStatus:
    """All served at the last pass, but bookie-1, which was so."""
    status = {"boot_epoch": 1, "state_since": at(0)} | facts
    others = [BookieStatus(id=b, state=S.SERVING, boot_epoch=1) for b in cluster().spec.bookie_ids]
    one = BookieStatus(id=B1, state=state, **status)
    return ClusterStatus(bookies=tuple(one if b.id == B1 else b for b in others))


def events(one: Bookie, previous: ClusterStatus) -> list[Event]:
    return state_events(Pass.of(cluster(), observed(one, seconds=90), previous))


def ended(code: int | None, reason: str = "it ended") -> Bookie:
    end = Exit(at(80), code, reason)
    return bookie(B1, process_facts={"restarts": 3, "last_exit": end})


DOWN = bookie(B1, running=False, exit_at=80)
REFUSING = bookie(B1, phase=Phase.REFUSED, message="not mine")


@pytest.mark.parametrize(
    ("was", "one", "expected"),
    [
        (S.SERVING, bookie(B1), []),
        (S.SERVING, bookie(B1, epoch=2, limbo=1, reason="UncleanShutdown"), []),
        (S.SERVING, bookie(B1, phase=Phase.BOOTING), []),
        (S.BOOTING, bookie(B1), [Event("BookieServing", "serves", B1)]),
        (
            S.DOWN,
            bookie(B1, phase=Phase.READ_ONLY, message="full"),
            [Event("BookieServing", "full", B1)],
        ),
        (
            S.SERVING,
            DOWN,
            [Event("BookieDown", "process ended: killed by signal 9", B1, "Warning")],
        ),
        (S.DOWN, DOWN, []),
        (S.SERVING, REFUSING, [Event("BootRefused", "not mine", B1, "Warning")]),
        (S.REFUSED, REFUSING, []),
    ],
)
def test_a_bookie_that_is_another_than_before_is_an_event_of_its_own(
    was: BookieState, one: Bookie, expected: list[Event]
) -> None:
    assert events(one, before(was)) == expected


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (ended(0), Event("BookieRestarted", "it ended", B1, "Normal")),
        (ended(-9), Event("BookieRestarted", "it ended", B1, "Warning")),
        (ended(None), Event("BookieRestarted", "it ended", B1, "Warning")),
        (
            bookie(B1, process_facts={"restarts": 3}),
            Event("BookieRestarted", "for a reason not known", B1, "Warning"),
        ),
    ],
)
def test_a_restart_is_an_event_of_its_bookie_once(one: Bookie, expected: Event) -> None:
    assert events(one, before(restarts=2)) == [expected]
    assert events(one, before(restarts=3)) == []
    assert "BookieRestarted" not in [e.reason for e in events(one, ClusterStatus())]


def test_a_job_whose_pods_are_refused_is_an_event_of_its_bookie_once() -> None:
    why = "FailedCreate: exceeded quota"
    job = Job("demo-x", JobKind.REPAIR, 1, running=True, started_at=at(5), bookie=B1, waiting=why)
    seen = Pass.of(cluster(), observed(jobs=[job], seconds=90), before())
    assert job_events(seen) == [
        Event("ActionFailed", f"StartJob: demo-x: {why}", B1, "Warning"),
    ]


def with_condition(kind: ConditionType, status: str, reason: str = "Why") -> ClusterStatus:
    facts = {"type": kind.value, "status": status, "reason": reason, "message": "words"}
    return ClusterStatus(
        conditions=(Condition.model_validate(facts | {"last_transition_time": at(0)}),)
    )


@pytest.mark.parametrize(
    "kind",
    [
        ConditionType.POSSIBLE_DATA_LOSS,
        ConditionType.REPAIR_STALLED,
        ConditionType.SCALE_DOWN_BLOCKED,
        ConditionType.MIXED_DURABILITY,
        ConditionType.METADATA_ROLLED_BACK,
        ConditionType.COLLECTION_HELD,
        ConditionType.SPACE_LOW,
    ],
)
def test_a_condition_that_people_must_know_of_is_an_event_of_the_cluster(
    kind: ConditionType,
) -> None:
    now = with_condition(kind, "True")
    told_now = [Event(kind.value, "Why: words", "", "Warning")]
    assert condition_events(now, ClusterStatus()) == told_now
    assert condition_events(now, with_condition(kind, "False")) == told_now
    assert condition_events(now, with_condition(kind, "True", "Another")) == told_now
    assert condition_events(now, now) == []
    assert condition_events(with_condition(kind, "False"), now) == []


@pytest.mark.parametrize(
    ("reason", "is_said"),
    [("AuditFindings", True), ("MetadataUnreachable", True), ("BookieDown", False),
     ("PossibleDataLoss", False), ("TornStamp", False)],
)  # fmt: skip
def test_what_degrades_is_an_event_unless_another_one_says_it(reason: str, is_said: bool) -> None:
    now = with_condition(ConditionType.DEGRADED, "True", reason)
    assert condition_events(now, ClusterStatus()) == (
        [Event(reason, "words", "", "Warning")] if is_said else []
    )
    assert condition_events(now, now) == []


def test_durability_is_an_event_when_it_is_proven_and_no_warning() -> None:
    kind = ConditionType.DURABILITY_VERIFIED
    proven, open_ = with_condition(kind, "True"), with_condition(kind, "Unknown")
    assert condition_events(proven, open_) == [Event(kind.value, "words", "", "Normal")]
    assert condition_events(proven, proven) == condition_events(open_, proven) == []


@pytest.mark.parametrize("kind", [ConditionType.CERTIFICATES_VALID, ConditionType.SECRETS_USABLE])
def test_credentials_are_an_event_when_they_work_no_more_and_when_they_do_again(
    kind: ConditionType,
) -> None:
    good, bad = with_condition(kind, "True"), with_condition(kind, "False", "Missing")
    assert condition_events(bad, good) == [Event("Missing", "words", "", "Warning")]
    assert condition_events(good, bad) == [Event(kind.value, "words", "", "Normal")]
    assert condition_events(good, ClusterStatus()) == condition_events(bad, bad) == []


@pytest.mark.parametrize("known", range(4))
@pytest.mark.parametrize("now", range(4))
def test_only_a_count_of_restarts_that_grew_tells_of_one(known: int, now: int) -> None:
    """Another pod counts from 0: it was made, and not restarted."""
    one = bookie(B1, process_facts={"restarts": now})
    told = [event.reason for event in events(one, before(restarts=known))]
    assert told == (["BookieRestarted"] if now > known else [])
