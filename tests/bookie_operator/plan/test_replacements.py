"""All volumes of a bookie that is away for good are given up at once, and of no other one."""

from dataclasses import replace
from typing import Any

import pytest
from bookie.ids import BookieId
from bookie.wire.admin.health import Phase
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.task import BookieTask, TaskPhase
from bookie_operator.observed import Bookie, Volume
from bookie_operator.plan.actions import Action, ReplaceBookie, ReplaceVolume
from bookie_operator.plan.budget import budget_of
from bookie_operator.plan.copies import Copies
from bookie_operator.plan.passes import Pass
from bookie_operator.plan.planner import Plan, plan
from bookie_operator.plan.replacements import follow_bookie, follow_disk, replacements
from operator_scenes import HEALTHY, bookie, cluster, observed, task

AWAY = bookie("bookie-1", running=False)
OLD = tuple((name, one.uid) for name, one in AWAY.volumes.items())
NEW = {name: Volume(name, f"{number}fresh-uid") for number, name in enumerate(AWAY.volumes)}


def wish(**status: Any) -> BookieTask:
    asked = task("replace-bookie", bookie="bookie-1")
    return asked.model_copy(update={"status": asked.status.model_copy(update=status)})


def look(
    *special: Bookie, asked: BookieTask, before: ClusterStatus, of: BookieCluster | None = None
) -> Plan:
    of = of or cluster()
    return plan(of, observed(*special, of=of, seconds=20, tasks=[asked]), before)


def after_away(one: Bookie = AWAY) -> ClusterStatus:
    served = plan(cluster(), observed(), ClusterStatus()).status
    return plan(cluster(), observed(one, seconds=10), served).status


def replaced(made: Plan) -> list[ReplaceBookie]:
    return [action for action in made.actions if isinstance(action, ReplaceBookie)]


def begun(made: Plan) -> BookieTask:
    """The task as that pass left it."""
    return wish().model_copy(update={"status": made.tasks["task-1"]})


def test_all_volumes_of_a_bookie_that_is_away_go_at_once() -> None:
    made = look(AWAY, asked=wish(), before=after_away())
    instance = AWAY.process.instance if AWAY.process else ""
    wanted = ReplaceBookie(BookieId("bookie-1"), OLD, instance=instance, is_node_lost=False)
    assert replaced(made) == [wanted]
    assert made.tasks["task-1"].phase is TaskPhase.RUNNING


def test_its_pod_goes_by_force_only_when_its_node_is_lost() -> None:
    facts = {"node": "worker-2", "node_trouble": "is not ready: no kubelet"}
    stuck = replace(bookie("bookie-1", phase=None, process_facts=facts), is_registered=False)
    [action] = replaced(look(stuck, asked=wish(), before=after_away(stuck)))
    assert action.is_node_lost


def test_one_that_serves_is_refused_with_what_to_do() -> None:
    made = look(asked=wish(), before=after_away(bookie("bookie-1")))
    assert replaced(made) == [] and made.tasks["task-1"].phase is TaskPhase.FAILED
    assert "of one that serves use replace-disk" in made.tasks["task-1"].message


def test_the_loss_budget_decides() -> None:
    other = bookie("bookie-2", running=False)
    made = look(AWAY, other, asked=wish(), before=after_away())
    assert replaced(made) == []
    assert [one.predicate for one in made.refusals if one.action == "ReplaceBookie"] == [
        "LossBudgetExceeded"
    ]


def test_its_own_limbo_is_no_reason_to_wait() -> None:
    marked = bookie("bookie-1", limbo=2, reason="UncleanShutdown", epoch=2)
    was = plan(cluster(), observed(marked), ClusterStatus()).status
    gone = plan(cluster(), observed(AWAY, seconds=10), was).status
    assert replaced(look(AWAY, asked=wish(), before=gone))


def test_new_volumes_are_left_alone_and_end_the_task() -> None:
    started = look(AWAY, asked=wish(), before=after_away())
    fresh = replace(AWAY, volumes=NEW)
    made = look(fresh, asked=begun(started), before=started.status)
    assert replaced(made) == [] and made.tasks["task-1"].phase is TaskPhase.SUCCEEDED


@pytest.mark.parametrize("there", range(len(NEW) + 1))
def test_the_task_ends_once_every_disk_has_a_new_volume(there: int) -> None:
    started = look(AWAY, asked=wish(), before=after_away())
    some = {name: NEW[name] for name in list(NEW)[:there]}
    made = look(replace(AWAY, volumes=some), asked=begun(started), before=started.status)
    ended = made.tasks.get("task-1", begun(started).status)
    assert replaced(made) == [] and ended.phase.is_final is (there == len(NEW))


def test_what_is_left_of_the_old_ones_goes_on_going() -> None:
    started = look(AWAY, asked=wish(), before=after_away())
    half = replace(AWAY, volumes=dict(AWAY.volumes) | {"journal": NEW["journal"]})
    made = look(half, asked=begun(started), before=started.status)
    assert [one.volumes for one in replaced(made)] == [OLD[1:]]
    assert "task-1" not in made.tasks


def test_volumes_on_their_way_go_with_the_bookie_and_not_one_by_one() -> None:
    """Its pod on the lost node holds them; only what ends that pod by force lets them go."""
    facts = {"node": "worker-2", "node_trouble": "is not ready: no kubelet"}
    stuck = replace(bookie("bookie-1", phase=None, process_facts=facts), is_registered=False)
    started = look(stuck, asked=wish(), before=after_away(stuck))
    going = {name: replace(one, is_terminating=True) for name, one in stuck.volumes.items()}
    made = look(replace(stuck, volumes=going), asked=begun(started), before=started.status)
    assert len(replaced(made)) == 1 and replaced(made)[0].is_node_lost
    assert not any(isinstance(action, ReplaceVolume) for action in made.actions)


def test_one_that_comes_back_before_keeps_its_volumes() -> None:
    started = look(AWAY, asked=wish(), before=after_away())
    made = look(asked=begun(started), before=started.status)
    assert replaced(made) == [] and made.tasks["task-1"].phase is TaskPhase.FAILED
    assert "it came back" in made.tasks["task-1"].message


def test_one_that_answers_is_there_though_it_is_not_registered() -> None:
    deaf = replace(bookie("bookie-1"), is_registered=False, is_writable=False)
    made = look(deaf, asked=wish(), before=after_away(deaf))
    assert replaced(made) == [] and made.tasks["task-1"].phase is TaskPhase.FAILED


def test_one_whose_boot_is_refused_may_give_up_its_disks() -> None:
    refused = replace(bookie("bookie-1", phase=Phase.REFUSED), is_registered=False)
    assert replaced(look(refused, asked=wish(), before=after_away(refused)))


def test_while_the_metadata_store_is_silent_the_task_waits() -> None:
    served = plan(cluster(), observed(), ClusterStatus()).status
    dark = replace(HEALTHY, reachable=False, message="no answer", known_since=None)
    made = plan(cluster(), observed(AWAY, seconds=20, tasks=[wish()], metadata=dark), served)
    assert replaced(made) == [] and "task-1" not in made.tasks


def test_a_new_volume_is_not_taken_for_an_old_one_of_another_disk() -> None:
    volumes = {name: Volume(name, f"{n}{n}{n}{n}{n}{n}-uid") for n, name in enumerate(AWAY.volumes)}
    away = replace(AWAY, volumes=volumes)
    started = look(away, asked=wish(), before=after_away(away))
    swapped = dict(NEW) | {"ledger-0": Volume("ledger-0", volumes["journal"].uid)}
    made = look(replace(away, volumes=swapped), asked=begun(started), before=started.status)
    assert replaced(made) == [] and made.tasks["task-1"].phase is TaskPhase.SUCCEEDED


B1, B2 = BookieId("bookie-1"), BookieId("bookie-2")
DISK, WHOLE = task("replace-disk", bookie=B1, disk="ledger-0"), wish()


@pytest.mark.parametrize(
    ("action", "target"),
    [
        (ReplaceVolume(B1, "ledger-0", "uid-7"), "uid-7"),
        (ReplaceVolume(B2, "ledger-0", "uid-7"), ""),
        (ReplaceVolume(B1, "ledger-1", "uid-7"), ""),
        (ReplaceBookie(B1, OLD, "", is_node_lost=False), ""),
    ],
    ids=["its own", "another bookie's", "another disk", "all of them"],
)
def test_a_task_for_a_disk_is_begun_by_the_replacement_of_that_very_disk(
    action: Action, target: str
) -> None:
    pass_ = Pass.of(cluster(), observed(tasks=[DISK], seconds=20), ClusterStatus())
    status = follow_disk(pass_, DISK, [action])
    assert status.target == target and (status.phase is TaskPhase.RUNNING) is bool(target)


@pytest.mark.parametrize("of", [B1, B2])
def test_a_task_for_a_bookie_is_begun_by_the_replacement_of_that_very_bookie(of: BookieId) -> None:
    pass_ = Pass.of(cluster(), observed(AWAY, tasks=[WHOLE], seconds=20), ClusterStatus())
    status = follow_bookie(pass_, WHOLE, [ReplaceBookie(of, OLD, "", is_node_lost=False)])
    assert (status.phase is TaskPhase.RUNNING) is (of == B1)


def test_of_two_tasks_for_disks_the_second_waits_for_its_own_turn() -> None:
    tasks = [task("replace-disk", f"t{n}", bookie=f"bookie-{n}", disk="ledger-0") for n in (1, 2)]
    made = plan(cluster(), observed(tasks=tasks, seconds=20), ClusterStatus())
    assert [one.bookie_id for one in made.actions if isinstance(one, ReplaceVolume)] == [B1]
    assert list(made.tasks) == ["t1"]


@pytest.mark.parametrize("is_loss_possible", [True, False])
def test_where_all_volumes_go_no_single_one_is_taken_or_refused(is_loss_possible: bool) -> None:
    going = {name: replace(one, is_terminating=True) for name, one in AWAY.volumes.items()}
    seen = observed(replace(AWAY, volumes=going), tasks=[WHOLE, DISK], seconds=20)
    pass_ = Pass.of(cluster(), seen, after_away())
    copies = Copies(2, "AckQuorum", "2 copies")
    budget = budget_of(pass_, copies=copies, is_loss_possible=is_loss_possible)
    actions, refusals = replacements(pass_, budget)
    found = [*(type(one).__name__ for one in actions), *(one.action for one in refusals)]
    assert found == ["ReplaceBookie"]


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize("running", [True, False])
def test_a_deleted_volume_is_let_go_by_us_only_where_a_process_holds_it(
    is_there: bool, running: bool
) -> None:
    """Without one it goes by itself, and a new one is made."""
    one = bookie("bookie-1", running=running)
    going = {"ledger-0": replace(one.volumes["ledger-0"], is_terminating=True)}
    one = replace(one, volumes=dict(one.volumes) | going)
    one = one if is_there else replace(one, process=None, health=None)
    pass_ = Pass.of(cluster(), observed(one, seconds=20), after_away())
    budget = budget_of(pass_, copies=Copies(2, "AckQuorum", "2 copies"), is_loss_possible=False)
    actions, refusals = replacements(pass_, budget)
    assert len([*actions, *refusals]) == is_there
