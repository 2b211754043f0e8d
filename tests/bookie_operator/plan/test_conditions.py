"""What a pass concluded, condition by condition: status, reason and the sentence people read."""

from dataclasses import replace
from typing import Any

import pytest
from bookie.ids import BookieId
from bookie.wire.admin.health import Phase
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.condition_types import ConditionType
from bookie_operator.model.drain_status import DrainPhase, DrainStatus
from bookie_operator.model.reports import RepairReport
from bookie_operator.model.status import Blocked, ClusterStatus
from bookie_operator.model.undecided import UndecidedLedger, UndecidedStatus
from bookie_operator.observed import Bookie, Job, JobKind
from bookie_operator.plan.planner import Plan, plan
from operator_scenes import at, audited, bookie, cluster, fix_request, observed

B0, B1, B4 = BookieId("bookie-0"), BookieId("bookie-1"), BookieId("bookie-4")
SETTLED = plan(cluster(), observed(jobs=[audited()], seconds=2), ClusterStatus()).status
CAREFUL = cluster(cookieFix={"policy": "Approve"})
SMALLER = cluster(replicas=3)
"""Bookie 3 is to leave."""
COMING = (Phase.BOOTING, Phase.MARKING, Phase.STOPPING)
NOW = 100.0


def look(
    *special: Bookie,
    of: BookieCluster | None = None,
    before: ClusterStatus = SETTLED,
    jobs: tuple[Job, ...] = (),
    **more: Any,
) -> Plan:
    of = of or cluster()
    seen = observed(*special, of=of, seconds=NOW, jobs=(audited(), *jobs), **more)
    return plan(of, seen, before)


def said(made: Plan, kind: ConditionType) -> tuple[str, str, str]:
    found = made.status.condition(kind)
    assert found is not None
    return found.status, found.reason, found.message


def running(kind: JobKind, progress: str = "", **more: Any) -> tuple[Job, ...]:
    facts: dict[str, Any] = {"attempt": 2, "running": True, "started_at": at(90)}
    return (Job(f"demo-{kind}-2", kind, **(facts | {"progress": progress} | more)),)


def unclean(limbo: int = 3, **more: Any) -> Bookie:
    return bookie(B0, epoch=2, reason="UncleanShutdown", limbo=limbo, **more)


def asking(name: str = B0, **more: Any) -> Bookie:
    facts = {"phase": Phase.AWAITING_APPROVAL, "epoch": 2, "fix": fix_request()}
    return bookie(name, reason="DiskReplaced", verdicts={"ledger-0": "empty"}, **(facts | more))


def draining(left: int | None = 7, **more: Any) -> Bookie:
    facts = {"phase": Phase.DRAINING, "draining": True, "ledgers_naming_it": left}
    return bookie("bookie-3", **(facts | more))  # type: ignore[arg-type]


def blocked(action: str, name: str, predicate: str, *, since: float) -> ClusterStatus:
    """The last pass refused this, and has done so since then."""
    known = Blocked(bookie=name, action=action, predicate=predicate, since=at(since), message="x")
    return SETTLED.model_copy(update={"blocked": (known,)})


# Progressing


@pytest.mark.parametrize(
    ("scene", "expected"),
    [
        ({}, ("False", "Idle", "")),
        (
            {"jobs": running(JobKind.REREPLICATE)},
            ("True", "Rereplicating", "a re-replication runs"),
        ),
        (
            {"jobs": running(JobKind.MEND, "half")},
            ("True", "Mending", "a repair of what an audit found runs: half"),
        ),
        ({"jobs": running(JobKind.AUDIT, "half")}, ("True", "Auditing", "an audit runs: half")),
        ({"jobs": running(JobKind.SCRUB, "half")}, ("False", "Idle", "")),
        (
            {"of": cluster(image="new:1", rollout={"partition": 4}), "old": True},
            (
                "False",
                "PartitionReached",
                "bookie-0, bookie-1, bookie-2, bookie-3 keep their settings: "
                "rollout.partition is 4",
            ),
        ),
    ],
)
def test_progressing_says_what_goes_on(
    scene: dict[str, Any], expected: tuple[str, str, str]
) -> None:
    fleet = map(bookie, cluster().spec.bookie_ids) if scene.pop("old", False) else ()
    assert said(look(*fleet, **scene), ConditionType.PROGRESSING) == expected


@pytest.mark.parametrize(
    ("one", "reason", "words"),
    [
        (bookie(B0, phase=Phase.BOOTING, message="reads"), "BookiesStarting", "(Booting: reads)"),
        (bookie(B0, phase=Phase.STOPPING), "BookiesStarting", "bookie-0 (Stopping)"),
        (
            bookie(B0, phase=Phase.BOOTING, message="its former process may live"),
            "WaitingForLease",
            "former process",
        ),
        (asking(), "FixingCookie", "bookie-0"),
        (unclean(), "WaitingForLimbo", "until every bookie's limbo is 0"),
    ],
)
def test_progressing_says_which_bookie_is_waited_for(one: Bookie, reason: str, words: str) -> None:
    status, found, message = said(look(one), ConditionType.PROGRESSING)
    assert (status, found) == ("True", reason) and words in message


@pytest.mark.parametrize(
    ("one", "is_coming"),
    [
        (Bookie(id=B4, volumes={}, process=None, health=None), True),
        (bookie(B4, phase=None, boot_at=NOW - 1), True),
        (bookie(B4, phase=None), False),
        (bookie(B4, running=False, exit_at=1), False),
        *((bookie(B4, phase=phase), phase in COMING) for phase in Phase),
    ],
    ids=["no process", "no answer yet", "no answer", "ended", *Phase],
)
def test_a_bookie_that_neither_serves_nor_is_broken_is_coming_up(
    one: Bookie, is_coming: bool
) -> None:
    found = said(look(one, of=cluster(replicas=5)), ConditionType.PROGRESSING)
    assert (found[1] == "BookiesStarting") is is_coming, found


def test_a_drain_is_progress_while_it_gets_on() -> None:
    drain = DrainStatus(bookie="bookie-3", phase=DrainPhase.DRAINING, started_at=at(1))
    before = SETTLED.model_copy(update={"drain": drain})
    made = look(draining(), of=SMALLER, before=before)
    assert said(made, ConditionType.PROGRESSING) == (
        "True",
        "Draining",
        "bookie-3: 7 ledgers name it",
    )
    assert said(made, ConditionType.SCALE_DOWN_BLOCKED)[:2] == ("False", "Draining")


def test_a_drain_that_is_held_is_waited_for_and_in_the_end_blocked() -> None:
    full = replace(bookie(B0, phase=Phase.READ_ONLY), is_writable=False)
    for since, status, reason in ((41, "True", "Waiting"), (40, "False", "Blocked")):
        before = blocked("ScaleDown", "bookie-3", "WouldBreakEnsemble", since=since)
        made = look(full, bookie("bookie-3"), of=SMALLER, before=before)
        found = said(made, ConditionType.PROGRESSING)
        assert found[:2] == (status, reason)
        assert found[2].startswith("bookie-3: ScaleDown WouldBreakEnsemble, 2 bookies besides")
        assert said(made, ConditionType.SCALE_DOWN_BLOCKED)[:2] == ("True", "WouldBreakEnsemble")


def test_of_several_wishes_the_one_that_stands_still_is_named() -> None:
    """Restarts are refused for the first time in this very pass, and come before it."""
    of = cluster(replicas=3, image="new:1", paused=True)
    old = [bookie(name) for name in cluster().spec.bookie_ids]
    for since, named in ((0, "bookie-3: ScaleDown"), (NOW, "bookie-0: Restart")):
        before = blocked("ScaleDown", "bookie-3", "Paused", since=since)
        found = said(look(*old, of=of, before=before), ConditionType.PROGRESSING)
        assert found[1] == ("Waiting" if since else "Blocked")
        assert found[2] == f"{named} Paused, spec.paused is true"


# The others


def test_a_cookie_fix_is_pending_until_it_is_approved() -> None:
    kind = ConditionType.COOKIE_FIX_PENDING
    assert said(look(), kind) == ("False", "NonePending", "")
    assert said(look(asking()), kind) == ("True", "Approved", "bookie-0")
    status, reason, message = said(look(asking(), of=CAREFUL), kind)
    assert (status, reason) == ("True", "AwaitingApproval") and message.startswith("bookie-0: ")


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({}, "bookie-0-2 attempt 2: 0/3 ledgers (0 %)"),
        ({"progress": "7 copied"}, "bookie-0-2 attempt 2: 0/3 ledgers (0 %); 7 copied"),
        ({"waiting": "NoImage: x"}, "bookie-0-2 attempt 2: 0/3 ledgers (0 %); NoImage: x"),
    ],
)
def test_a_repair_that_runs_says_how_far_it_is(facts: dict[str, str], words: str) -> None:
    mine = running(JobKind.REPAIR, bookie=B0, boot_epoch=2, **facts)
    kind = ConditionType.REPAIR_RUNNING
    assert said(look(unclean(), jobs=mine), kind) == ("True", "JobStarted", words)
    assert said(look(unclean()), kind) == ("False", "NoJob", "")


def test_a_repair_that_stalled_says_how_often_it_was_tried() -> None:
    failed = running(JobKind.REPAIR, bookie=B0, boot_epoch=2, attempt=5, message="no room")
    over = (replace(failed[0], running=False, ended_at=at(95)),)
    kind = ConditionType.REPAIR_STALLED
    stalled = ("True", "AttemptsExhausted", "bookie-0: 5 attempts, no room")
    assert said(look(unclean(), jobs=over), kind) == stalled
    assert said(look(unclean()), kind) == ("False", "NotStalled", "")


def beyond(*ledgers: int, more: int = 0) -> RepairReport:
    rows = tuple(UndecidedLedger(ledger=ledger, entry=2, last_confirmed=1) for ledger in ledgers)
    found = UndecidedStatus(ledgers=len(rows) + more, through=max(ledgers), first=rows)
    return RepairReport(undecided=found)


def test_what_only_a_person_can_decide_is_said_after_the_first_attempt() -> None:
    jobs = running(JobKind.REPAIR, bookie=B0, boot_epoch=2, attempt=1, message="2 blocked")
    over = (replace(jobs[0], running=False, ended_at=at(95), report=beyond(4, 7)),)
    said_so = said(look(unclean(), jobs=over), ConditionType.REPAIR_STALLED)
    one = "ledger {} from entry 2 on (to 1 acknowledged)"
    words = f"2 ledgers wait for a person: {one.format(4)}; {one.format(7)}"
    assert said_so == ("True", "Undecidable", words)


def test_of_many_ledgers_a_few_are_named_and_the_rest_is_counted() -> None:
    jobs = running(JobKind.REPAIR, bookie=B0, boot_epoch=2, attempt=1, message="")
    over = (replace(jobs[0], running=False, ended_at=at(95), report=beyond(*range(9), more=300)),)
    _status, _reason, words = said(look(unclean(), jobs=over), ConditionType.REPAIR_STALLED)
    assert words.startswith("309 ledgers wait for a person: ledger 0 ")
    assert words.endswith("ledger 4 from entry 2 on (to 1 acknowledged); and 304 more")


def test_another_repair_that_failed_as_often_as_it_may_is_told_beside_it() -> None:
    first = running(JobKind.REPAIR, bookie=B0, boot_epoch=2, attempt=1, message="")
    other = running(JobKind.REPAIR, bookie=B1, boot_epoch=2, attempt=5, message="no room")
    over = (
        replace(first[0], running=False, ended_at=at(95), report=beyond(4)),
        replace(other[0], running=False, ended_at=at(95)),
    )
    both = (unclean(), bookie(B1, epoch=2, reason="UncleanShutdown", limbo=3))
    _status, reason, words = said(look(*both, jobs=over), ConditionType.REPAIR_STALLED)
    assert reason == "Undecidable" and words.endswith("; bookie-1: 5 attempts, no room")


def test_what_waits_for_a_bookie_that_is_away_stalls_nothing() -> None:
    waiting = RepairReport(undecided=UndecidedStatus(waiting=2, away=(B0,)))
    jobs = running(JobKind.REPAIR, bookie=B0, boot_epoch=2, attempt=1, message="")
    over = (replace(jobs[0], running=False, ended_at=at(95), report=waiting),)
    kind = ConditionType.REPAIR_STALLED
    assert said(look(unclean(), jobs=over), kind) == ("False", "NotStalled", "")


def with_mode(name: str, mode: str) -> Bookie:
    one = bookie(name)
    assert one.health is not None and one.health.boot is not None
    boot = replace(one.health.boot, mode=mode)
    return replace(one, health=replace(one.health, boot=boot))


@pytest.mark.parametrize(
    ("special", "expected"),
    [
        ((), ("False", "AsWanted", "")),
        (
            (with_mode(B1, "journal"), with_mode("bookie-2", "sync")),
            (
                "True",
                "JournalModeFlip",
                "wanted is memory; not yet so: bookie-1 (journal), bookie-2 (sync)",
            ),
        ),
        ((with_mode(B4, "journal"),), ("False", "AsWanted", "")),
        ((bookie(B1, running=False),), ("False", "AsWanted", "")),
    ],
    ids=["as wanted", "two are not", "one that is to leave", "one says nothing"],
)
def test_durability_is_mixed_by_what_wanted_bookies_say_of_themselves(
    special: tuple[Bookie, ...], expected: tuple[str, str, str]
) -> None:
    assert said(look(*special), ConditionType.MIXED_DURABILITY) == expected


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [({}, "memory"), ({"ack": "sync"}, "sync"), ({"journalWriteData": True}, "journal")],
)
@pytest.mark.parametrize("mode", ["memory", "sync", "journal"])
def test_what_is_wanted_of_durability_is_the_specs(
    spec: dict[str, Any], wanted: str, mode: str
) -> None:
    fleet = [with_mode(name, mode) for name in cluster().spec.bookie_ids]
    status, _, message = said(look(*fleet, of=cluster(**spec)), ConditionType.MIXED_DURABILITY)
    assert (status == "True") is (mode != wanted)
    assert message.startswith(f"wanted is {wanted}; not yet so: bookie-0 ({mode}), ") or not message


def test_paused_and_limbo_are_said() -> None:
    paused = look(of=cluster(paused=True))
    assert said(paused, ConditionType.PAUSED)[:2] == ("True", "BySpec")
    assert said(look(), ConditionType.PAUSED) == ("False", "NotPaused", "")
    two = look(unclean(), bookie(B1, epoch=2, unchecked=4))
    words = "3 ledgers in limbo, 4 unchecked on bookie-0, bookie-1"
    assert said(two, ConditionType.LIMBO_PRESENT) == ("True", "LimboFound", words)


@pytest.mark.parametrize(("clean", "status"), [(True, "True"), (False, "False"), (None, "False")])
def test_only_an_audit_that_is_known_to_be_clean_verifies(clean: bool | None, status: str) -> None:
    audit = SETTLED.audit.model_copy(update={"clean": clean})
    made = look(before=SETTLED.model_copy(update={"audit": audit}))
    assert said(made, ConditionType.DURABILITY_VERIFIED)[0] == status
