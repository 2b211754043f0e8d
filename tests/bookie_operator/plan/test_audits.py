"""When an audit begins, and what keeps it waiting: reason by reason, with all others absent."""

from dataclasses import replace
from typing import Any

import pytest
from bookie.wire.admin.health import Phase
from bookie_operator.model.audit_status import (
    AuditStatus,
    ClassCounts,
    Holders,
    LastCopies,
    ScrubStatus,
)
from bookie_operator.model.bookie_status import BookieState, BookieStatus
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.incidents import Incident
from bookie_operator.model.status import ClusterStatus, MetadataStatus
from bookie_operator.observed import Bookie, Job, JobKind, MetadataView
from bookie_operator.plan.actions import StartJob
from bookie_operator.plan.audits import (
    AuditReasons,
    audits,
    disturbed_at,
    is_disturbed,
    is_stale,
    is_younger,
)
from bookie_operator.plan.passes import Pass
from operator_scenes import HEALTHY, at, bookie, cluster, observed, task

NOW = 1000.0
FOUND = AuditStatus(
    attempt=1, started_at=at(10), finished_at=at(11), clean=False, missing=6, entries=9
)
"""The last audit left findings, and no other is due."""
ASKED = task("audit")
BOOTING = [bookie(name, phase=Phase.BOOTING) for name in cluster().spec.bookie_ids]


def seen(
    *special: Bookie,
    of: BookieCluster | None = None,
    before: AuditStatus = FOUND,
    scrub: ScrubStatus | None = None,
    generation: int = 0,
    **more: Any,
) -> Pass:
    previous = ClusterStatus(
        audit=before, scrub=scrub or ScrubStatus(), observed_generation=generation
    )
    look = replace(observed(*special, of=of, seconds=NOW), **more)
    return Pass.of(of or cluster(), look, previous)


def begins(pass_: Pass, *, mended: float | None = None, **reasons: bool) -> bool:
    facts = dict.fromkeys(AuditReasons.__dataclass_fields__, False) | {"incidents": ()} | reasons
    mended_at = None if mended is None else at(mended)
    made = audits(pass_, AuditReasons(**facts), mended_at=mended_at)  # type: ignore[arg-type]
    return any(isinstance(action, StartJob) for action in made.actions)


def test_findings_alone_are_no_reason_and_a_task_is_one() -> None:
    assert not begins(seen())
    assert begins(seen(tasks=(ASKED,)))


@pytest.mark.parametrize(("known", "is_asked"), [("", True), ("instance-1", True), ("x", False)])
def test_what_a_store_of_others_has_is_not_audited(known: str, is_asked: bool) -> None:
    """It may be clean, and says nothing of this cluster."""
    look = seen(tasks=(ASKED,))
    before = look.previous.model_copy(update={"metadata": MetadataStatus(instance_id=known)})
    assert begins(replace(look, previous=before)) is is_asked


@pytest.mark.parametrize("asked", [None, 9, 11])
@pytest.mark.parametrize(
    ("detected", "cleared", "proves"),
    [(5, 9, True), (5, 10, False), (5, 12, False), (11, None, False), (9, None, True)],
)
def test_an_audit_proves_nothing_that_began_before_limbo_was_cleared_or_it_was_asked_for(
    detected: float, cleared: float | None, proves: bool, asked: float | None
) -> None:
    """The last one began at 10."""
    one = Incident(kind="UncleanShutdown", bookie="bookie-0", detected_at=at(detected))
    if cleared is not None:
        one = one.model_copy(update={"cleared_at": at(cleared)})
    known = FOUND.model_copy(update={"asked_at": None if asked is None else at(asked)})
    assert is_younger(known, disturbed_at([one], known)) is (proves and asked != 11)


@pytest.mark.parametrize(
    ("changed", "is_wanted"), [(None, False), (9, False), (10, True), (12, True)]
)
def test_what_was_mended_since_the_last_one_began_is_looked_at(
    changed: float | None, is_wanted: bool
) -> None:
    scrub = ScrubStatus(finished_at=None if changed is None else at(changed))
    assert begins(seen(), mended=changed) is is_wanted
    assert begins(seen(scrub=scrub)) is is_wanted
    assert begins(seen(scrub=scrub), mended=9) is is_wanted


def test_nothing_is_mended_where_nothing_was_found() -> None:
    clean = FOUND.model_copy(update={"clean": True})
    assert not begins(seen(before=clean), mended=12)


@pytest.mark.parametrize(("ago", "is_wanted"), [(299, False), (300, True)])
def test_while_last_copies_hold_something_back_it_looks_again_and_again(
    ago: float, is_wanted: bool
) -> None:
    before = FOUND.model_copy(update={"finished_at": at(NOW - ago)})
    assert begins(seen(before=before), is_held=True) is is_wanted
    assert not begins(seen(before=before))


UNSURE = FOUND.model_copy(update={"missing": 0, "unknown": 6})
"""Two did not answer the last audit: each may have the only good copy of 6 entries."""
MAY_HAVE = Holders(perhaps=("bookie-0", "bookie-2"), entries=6, ledgers=1, first_ledgers=(7,))
WAITS = bookie("bookie-2", phase=Phase.AWAITING_APPROVAL)


@pytest.mark.parametrize(
    ("held_by", "special", "ago", "is_wanted"),
    [
        ((MAY_HAVE,), (WAITS,), 60, True),
        ((MAY_HAVE,), (WAITS,), 59, False),
        ((MAY_HAVE,), (WAITS, BOOTING[0]), 900, False),
        ((MAY_HAVE,), (WAITS, bookie("bookie-1", limbo=1)), 900, False),
        ((MAY_HAVE.model_copy(update={"perhaps": ("bookie-2",)}),), (WAITS,), 900, False),
        ((), (WAITS,), 299, False),
        ((), (WAITS,), 300, True),
    ],
    ids=["back", "just now", "away", "in limbo", "only its own", "unnamed, soon", "unnamed"],
)
def test_what_holds_a_fix_back_is_looked_at_again_without_the_bookie_that_waits_for_it(
    held_by: tuple[Holders, ...], special: tuple[Bookie, ...], ago: float, is_wanted: bool
) -> None:
    copies = LastCopies(entries=6, groups=1, held_by=held_by)
    moment = at(NOW - ago)
    update = {"last_copies": copies, "started_at": moment, "finished_at": moment}
    pass_ = seen(*special, before=UNSURE.model_copy(update=update))
    assert begins(pass_, is_held=True) is is_wanted
    assert not begins(pass_)


def test_what_was_mended_is_looked_at_though_the_bookie_that_is_held_back_is_silent() -> None:
    pass_ = seen(WAITS, before=UNSURE.model_copy(update={"last_copies": LastCopies()}))
    assert begins(pass_, is_held=True, mended=12)
    assert not begins(pass_, mended=12)


LEFT_OUT = FOUND.model_copy(update={"missing": 0, "underreplicated_skipped": 1})


@pytest.mark.parametrize(
    "update", [{}, {"started_at": at(NOW - 900), "finished_at": at(NOW - 400)}]
)
def test_one_that_left_ledgers_out_is_repeated_and_rests_as_long_as_it_worked(
    update: dict[str, Any],
) -> None:
    before = LEFT_OUT.model_copy(update=update)
    assert begins(seen(before=before)) is not bool(update)
    assert not begins(seen(before=before.model_copy(update={"finished_at": at(NOW - 299)})))


def test_one_that_could_not_read_metadata_is_not_repeated_until_it_is_due() -> None:
    classes = {"metadata_unreadable": ClassCounts(findings=1)}
    before = FOUND.model_copy(update={"missing": 0, "classes": classes})
    assert not begins(seen(before=before)) and begins(seen(before=before, tasks=(ASKED,)))


def test_a_fleet_of_which_nobody_has_booted_is_not_looked_at() -> None:
    """Nobody would answer: every copy would be unknown."""
    assert not begins(seen(*BOOTING, tasks=(ASKED,)))
    assert begins(seen(*BOOTING[1:], tasks=(ASKED,)))


@pytest.mark.parametrize(
    "facts",
    [
        {"of": cluster(paused=True)},
        {"metadata": MetadataView(message="no route")},
        {"metadata": replace(HEALTHY, instance_id=None)},
        {"jobs": (Job("demo-audit-2", JobKind.AUDIT, 2, running=True, started_at=at(990)),)},
        {"before": FOUND.model_copy(update={"failures": 1, "next_at": at(NOW + 1)})},
    ],
    ids=["paused", "no metadata store", "an empty one", "one runs", "one has just failed"],
)
def test_even_one_that_is_asked_for_waits(facts: dict[str, Any]) -> None:
    assert not begins(seen(**facts, tasks=(ASKED,)))


def test_one_that_is_asked_for_waits_for_a_repair_and_not_for_a_restart() -> None:
    assert not begins(seen(tasks=(ASKED,)), is_repairing=True)
    assert begins(seen(tasks=(ASKED,)), is_taking_out=True)
    assert not begins(seen(), mended=12, is_taking_out=True)


def test_one_that_failed_is_tried_again_when_it_is_time_or_the_spec_is_another() -> None:
    failed = FOUND.model_copy(update={"failures": 1, "next_at": at(NOW)})
    assert begins(seen(before=failed, tasks=(ASKED,)))
    later = failed.model_copy(update={"next_at": at(NOW + 1)})
    assert begins(seen(before=later, tasks=(ASKED,), generation=7))


@pytest.mark.parametrize(
    ("schedule", "finished", "stale"),
    [("@hourly", 0, False), ("@hourly", -3600, False), ("@hourly", -9000, True),
     ("@never", -99999, False)],
)  # fmt: skip
def test_one_is_stale_when_two_were_due_since(schedule: str, finished: float, stale: bool) -> None:
    assert is_stale(seen(of=cluster(audit={"schedule": schedule})), at(finished)) is stale


SERVING = bookie("bookie-0", epoch=2)
READ_ONLY = bookie("bookie-0", epoch=2, phase=Phase.READ_ONLY)
LIMBO = bookie("bookie-0", epoch=2, limbo=1, reason="UncleanShutdown")


@pytest.mark.parametrize(
    ("before", "epoch", "now", "is_so"),
    [
        (BookieState.SERVING, 2, SERVING, False),
        (BookieState.SERVING, 1, SERVING, True),
        (BookieState.SERVING, 1, LIMBO, True),
        (BookieState.LIMBO, 2, SERVING, False),
        (BookieState.READ_ONLY, 2, SERVING, True),
        (BookieState.SERVING, 2, READ_ONLY, True),
        (BookieState.READ_ONLY, 1, READ_ONLY, False),
        (BookieState.LEAVING, 2, SERVING, False),
        (BookieState.SERVING, 0, SERVING, False),
        (BookieState.READ_ONLY, 0, SERVING, False),
    ],
)
def test_who_came_went_or_booted_again_may_lack_what_was_acknowledged_meanwhile(
    before: BookieState, epoch: int, now: Bookie, is_so: bool
) -> None:
    known = BookieStatus(id="bookie-0", state=before, boot_epoch=epoch)
    look = observed(now, seconds=NOW)
    assert is_disturbed(Pass.of(cluster(), look, ClusterStatus(bookies=[known]))) is is_so
