"""What was left to a person stays with a person, until one decides or the old disks are back."""

from dataclasses import dataclass, field, replace

import pytest
from bookie.ids import BookieId
from bookie.wire.admin.health import Phase
from bookie_operator.model.condition_types import ConditionType
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.task import BookieTask, TaskPhase
from bookie_operator.observed import Bookie
from bookie_operator.plan.actions import ApproveCookieFix
from bookie_operator.plan.planner import Plan, plan
from operator_scenes import DISKS, at, bookie, cluster, fix_request, observed, task

B0, B1 = BookieId("bookie-0"), BookieId("bookie-1")
LATE = 700.0
"""Beyond the window of 600 s."""


def asking(name: BookieId, *, plan_id: str = "plan-1") -> Bookie:
    return bookie(
        name,
        phase=Phase.AWAITING_APPROVAL,
        epoch=2,
        reason="DiskReplaced",
        fix=fix_request(plan_id),
        verdicts={"ledger-0": "empty"},
    )


def back_at_home(name: BookieId, *, epoch: int = 2, reason: str = "CleanStop") -> Bookie:
    return bookie(name, epoch=epoch, reason=reason)


@dataclass
class Fleet:
    """One fleet, pass by pass; bookie-0's disk was replaced and fixed at 5 s."""

    status: ClusterStatus = field(
        default_factory=lambda: plan(cluster(), observed(), ClusterStatus()).status
    )

    def seen(self, seconds: float, *special: Bookie, tasks: tuple[BookieTask, ...] = ()) -> Plan:
        fixed = bookie(B0, epoch=2, reason="DiskReplaced")
        look = observed(fixed, *special, seconds=seconds, tasks=tasks)
        made = plan(cluster(), look, self.status)
        # As a restarted operator has it: the object as the API server keeps it.
        self.status = ClusterStatus.model_validate(made.status.as_dict())
        return made

    def held(self) -> "Fleet":
        self.seen(5)
        assert not approvals(self.seen(300, asking(B1)))
        return self


def approvals(made: Plan) -> list[str]:
    found = [one for one in made.actions if isinstance(one, ApproveCookieFix)]
    return [one.approved_by or "bookie-operator" for one in found]


def predicates(made: Plan) -> list[str]:
    return [refusal.predicate for refusal in made.refusals if refusal.action == "CookieFix"]


def test_d6_a_persons_decision_is_not_made_when_the_window_has_passed() -> None:
    late = Fleet().held().seen(LATE, asking(B1))
    assert not approvals(late) and predicates(late) == ["MultipleBookiesChanged"]
    assert "approve plan plan-1" in late.refusals[0].message
    assert late.status.is_true(ConditionType.DEGRADED)
    assert late.status.blocked[0].since == at(300)


def test_d6_it_outlasts_restarts_of_the_bookie_and_other_plans() -> None:
    fleet = Fleet().held()
    fleet.seen(400, bookie(B1, phase=None, running=False))
    fleet.seen(500, bookie(B1, phase=Phase.BOOTING, epoch=2))
    late = fleet.seen(LATE, asking(B1, plan_id="plan-2"))
    assert not approvals(late) and "approve plan plan-2" in late.refusals[0].message


def test_d6_it_outlasts_what_is_in_the_way_for_a_while() -> None:
    fleet = Fleet().held()
    fleet.seen(400, bookie(B0, epoch=2, metadata_rolled_back="older"), asking(B1))
    assert predicates(fleet.seen(LATE, asking(B1))) == ["MultipleBookiesChanged"]


def test_d6_a_person_decides() -> None:
    yes = task("approve-cookie-fix", bookie=B1, planId="plan-1", approvedBy="ann")
    assert approvals(Fleet().held().seen(LATE, asking(B1), tasks=(yes,))) == ["ann"]


@pytest.mark.parametrize("reason", ["CleanStop", "UncleanShutdown", "DiskReplaced"])
def test_d6_a_bookie_that_has_booted_is_held_no_more(reason: str) -> None:
    """On its old disks, or on the new ones by a person's word."""
    fleet = Fleet().held()
    fleet.seen(LATE, back_at_home(B1, reason=reason))
    assert approvals(fleet.seen(5000, asking(B1, plan_id="plan-9"))) == ["bookie-operator"]


def test_d6_what_was_never_held_is_decided_once_the_window_has_passed() -> None:
    fleet = Fleet()
    fleet.seen(5)
    assert approvals(fleet.seen(LATE, asking(B1))) == ["bookie-operator"]


def of_class(name: str) -> Plan:
    """All volumes are of class `slow`, and the spec has `name`."""
    disks = [disk | {"storageClass": name} for disk in DISKS]
    seen = observed()
    fleet = {
        one.id: replace(
            one,
            volumes={k: replace(v, storage_class="slow") for k, v in one.volumes.items()},
        )
        for one in seen.bookies.values()
    }
    return plan(cluster(storage={"disks": disks}), replace(seen, bookies=fleet), ClusterStatus())


def test_d10_a_class_that_old_volumes_do_not_have_is_told_once() -> None:
    [told] = [one for one in of_class("fast").refusals if one.action == "ChangeClass"]
    assert told.predicate == "NewVolumesOnly"
    assert "bookie-0 journal (slow)" in told.message and "and 7 more" in told.message


@pytest.mark.parametrize("name", ["slow", ""])
def test_d10_a_class_that_they_have_or_nobody_names_is_not(name: str) -> None:
    assert not [one for one in of_class(name).refusals if one.action == "ChangeClass"]


CAREFUL = cluster(cookieFix={"policy": "Approve"})


def careful(one: Bookie, *tasks: BookieTask) -> Plan:
    return plan(CAREFUL, observed(one, of=CAREFUL, tasks=tasks), ClusterStatus())


@pytest.mark.parametrize(
    ("changes", "approved"),
    [
        ({}, ["ann"]),
        ({"approvedBy": ""}, ["task task-1"]),
        ({"bookie": B0}, []),
        ({"planId": "plan-0"}, []),
    ],
)
def test_an_approval_is_of_this_bookie_and_of_this_very_plan(
    changes: dict[str, str], approved: list[str]
) -> None:
    words = {"bookie": B1, "planId": "plan-1", "approvedBy": "ann"} | changes
    assert approvals(careful(asking(B1), task("approve-cookie-fix", **words))) == approved


@pytest.mark.parametrize("phase", [TaskPhase.SUCCEEDED, TaskPhase.FAILED])
def test_an_approval_that_has_ended_approves_nothing_again(phase: TaskPhase) -> None:
    yes = task("approve-cookie-fix", bookie=B1, planId="plan-1", approvedBy="ann")
    ended = yes.model_copy(update={"status": yes.status.model_copy(update={"phase": phase})})
    assert not approvals(careful(asking(B1), ended))


def test_a_person_is_told_what_was_found_and_which_plan_to_approve() -> None:
    [refusal] = careful(asking(B1)).refusals
    assert (refusal.action, refusal.predicate, refusal.bookie) == (
        "CookieFix", "AwaitingApproval", B1,
    )  # fmt: skip
    assert refusal.message == (
        "policy Approve; ledger disk 0 is empty; approve plan plan-1 if the old content is "
        "permanently lost"
    )


def test_nobody_fixes_anything_while_the_cluster_is_paused_or_the_store_was_put_back() -> None:
    yes = task("approve-cookie-fix", bookie=B1, planId="plan-1", approvedBy="ann")
    paused = cluster(paused=True)
    made = plan(paused, observed(asking(B1), of=paused, tasks=[yes]), ClusterStatus())
    assert not approvals(made) and predicates(made) == ["Paused"]
    older = bookie(B0, metadata_rolled_back="older")
    made = plan(cluster(), observed(older, asking(B1), tasks=[yes]), ClusterStatus())
    assert not approvals(made) and predicates(made) == ["MetadataRolledBack"]
    assert made.refusals[0].message.endswith(
        "approve plan plan-1 if the old content is permanently lost"
    )


def test_what_a_bookie_asked_for_in_an_earlier_pass_is_not_approved_now() -> None:
    one = asking(B1)
    assert one.health is not None
    assert approvals(plan(cluster(), observed(one), ClusterStatus())) == ["bookie-operator"]
    silent = replace(one, health=replace(one.health, is_fresh=False))
    assert not approvals(plan(cluster(), observed(silent), ClusterStatus()))


@pytest.mark.parametrize(("seconds", "is_held"), [(605, True), (606, False)])
def test_the_window_is_as_long_as_the_spec_says(seconds: float, is_held: bool) -> None:
    fleet = Fleet()
    fleet.seen(5)
    late = fleet.seen(seconds, asking(B1))
    assert bool(approvals(late)) is not is_held
    if is_held:
        assert "disks of bookie-0, bookie-1 changed within 600 s" in late.refusals[0].message


def test_an_unclean_stop_of_another_bookie_is_no_changed_disk() -> None:
    fleet = Fleet(plan(cluster(), observed(), ClusterStatus()).status)
    crashed = observed(bookie(B0, epoch=2, reason="UncleanShutdown"), seconds=5)
    status = plan(cluster(), crashed, fleet.status).status
    crashed = observed(bookie(B0, epoch=2, reason="UncleanShutdown"), asking(B1), seconds=9)
    assert approvals(plan(cluster(), crashed, status)) == ["bookie-operator"]


def test_suspect_disks_are_named_and_no_policy_decides_about_them() -> None:
    verdicts = {"journal": "swapped", "ledger-0": "stale", "ledger-1": "empty"}
    one = bookie(
        B1, phase=Phase.AWAITING_APPROVAL, epoch=2, reason="DiskReplaced", fix=fix_request(),
        verdicts=verdicts,
    )  # fmt: skip
    [refusal] = plan(cluster(), observed(one), ClusterStatus()).refusals
    assert refusal.predicate == "SuspectDisk"
    assert refusal.message.startswith("a disk is stale and swapped; ledger disk 0 is empty; ")


def test_one_that_is_approved_does_not_hide_that_others_wait() -> None:
    yes = task("approve-cookie-fix", bookie=B0, planId="plan-0", approvedBy="ann")
    seen = observed(asking(B0, plan_id="plan-0"), asking(B1), of=CAREFUL, tasks=[yes])
    made = plan(CAREFUL, seen, ClusterStatus())
    assert approvals(made) == ["ann"] and predicates(made) == ["AwaitingApproval"]


def test_a_task_of_another_kind_approves_nothing_whatever_it_names() -> None:
    other = task("replace-disk", bookie=B1, disk="ledger-0", planId="plan-1")
    assert not approvals(careful(asking(B1), other))


def test_why_it_was_held_is_told_as_it_was_seen_first_and_of_those_who_ask_alone() -> None:
    late = Fleet().held().seen(LATE, asking(B1))
    assert "disks of bookie-0, bookie-1 changed within 600 s" in late.refusals[0].message
    assert [one.id for one in late.status.bookies if one.fix_held] == [B1]


def test_a_bookie_that_marks_already_asks_for_nothing() -> None:
    marking = bookie(B1, phase=Phase.MARKING, epoch=2, reason="DiskReplaced", fix=fix_request())
    assert not approvals(plan(cluster(), observed(marking), ClusterStatus()))


def test_what_is_a_persons_decision_is_told_so_whoever_else_is_out() -> None:
    down = bookie("bookie-2", running=False, exit_at=0)
    made = plan(CAREFUL, observed(asking(B1), down, of=CAREFUL), ClusterStatus())
    assert predicates(made) == ["AwaitingApproval"]
