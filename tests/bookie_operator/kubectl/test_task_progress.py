"""A task on its way: its name, why it waits, how far it is, and its line in the list."""

from typing import Any

import pytest
from bookie_operator.errors import ManifestError
from bookie_operator.kubectl.tasks import (
    ACTIONS,
    PROGRESS_SECONDS,
    Reached,
    follow,
    hand_in,
    marks_left,
    task_table,
    tasks_of,
    why_pending,
)
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.task import DECISION_JOBS, BookieTask, TaskType
from bookie_operator.plan.planner import plan
from kubectl_lab import FakeLab
from operator_scenes import at, cluster, observed, task
from rich.console import Console

EXTRA = {
    "planId": "f00d",
    "approvedBy": "ann",
    "reason": "why",
    "disk": "ledger-0",
    "ledger": 5,
}
"""What one kind of task or another needs."""


def asked(kind: str, bookie: str = "", **rest: Any) -> BookieTask:
    return task(kind, bookie=bookie, **EXTRA | rest)


@pytest.mark.parametrize(
    ("kind", "bookie", "stem"),
    [
        ("audit", "", "audit-"),
        ("repair", "bookie-1", "repair-bookie-1-"),
        ("rereplicate", "10.0.0.7:3181", "rereplicate-10-0-0-7-3181-"),
        ("rereplicate", "Shelf_9", "rereplicate-shelf-9-"),
        ("rereplicate", "b" * 21, f"rereplicate-{'b' * 21}-"),
        ("rereplicate", "b" * 253, f"rereplicate-{'b' * 21}-"),
    ],
)
def test_a_task_is_named_by_what_it_does_and_to_whom_in_34_characters(
    lab: FakeLab, kind: str, bookie: str, stem: str
) -> None:
    task = hand_in(lab.kubectl(), {"cluster": "demo", "type": kind, "bookie": bookie})
    assert task.metadata.name == f"{stem}x7k2p" and len(stem) <= 34


def test_a_wish_that_is_wrong_reaches_no_api_server(lab: FakeLab) -> None:
    with pytest.raises(ManifestError, match="the task"):
        hand_in(lab.kubectl(), {"cluster": "demo", "type": "replace-disk", "bookie": "b"})
    assert not lab.calls()


RUNS = {"type": "RepairRunning", "status": "True", "reason": "Why"}
REPAIRING = {"conditions": [RUNS | {"lastTransitionTime": at(0)}]}
RUNNING = {"running": True}
AT_REST = "every bookie serves, none has marks and none drains"


@pytest.mark.parametrize(
    ("kind", "bookie", "status", "told"),
    [
        ("repair", "", {}, "it begins once every bookie serves, none has marks and no other job"),
        ("repair", "b", {}, "the operator has not started it yet"),
        ("audit", "", {}, "the operator has not started it yet"),
        ("audit", "", REPAIRING, "it begins after the repair"),
        ("audit", "", {"audit": RUNNING}, "it begins after the audit"),
        ("audit", "", {"scrub": RUNNING}, "the operator has not started it yet"),
        ("scrub", "", {}, f"a scrub begins once {AT_REST}"),
        ("scrub", "", {"audit": RUNNING}, f"a scrub begins once {AT_REST}"),
        ("scrub", "", {"scrub": RUNNING}, "it begins after the scrub"),
        ("rereplicate", "", {}, f"it begins once {AT_REST}"),
        ("rereplicate", "b", {"scrub": RUNNING}, f"it begins once {AT_REST}"),
        ("rereplicate", "b", {"rereplication": RUNNING}, "it begins after the re-replication"),
        ("restart", "b", REPAIRING, "the operator has not started it yet"),
        ("restart", "b", {"audit": RUNNING}, "the operator has not started it yet"),
        ("replace-disk", "b", {"scrub": RUNNING}, "the operator has not started it yet"),
        ("accept-loss", "", {"rereplication": RUNNING}, "the operator has not started it yet"),
    ],
)
def test_a_task_waits_for_jobs_of_its_own_kind(
    kind: str, bookie: str, status: dict[str, Any], told: str
) -> None:
    of = cluster().model_copy(update={"status": ClusterStatus.model_validate(status)})
    assert why_pending(of, asked(kind, bookie)).startswith(f"Pending: {told}")


@pytest.mark.parametrize("kind", TaskType)
def test_whatever_waits_in_a_paused_cluster_waits_for_its_end(kind: TaskType) -> None:
    why = why_pending(cluster(paused=True), asked(kind.value, "b", reason="why"))
    assert why == "Pending: the cluster is paused (kubectl bookie resume)"


@pytest.mark.parametrize("kind", TaskType)
@pytest.mark.parametrize(
    ("facts", "is_it"),
    [({}, True), ({"bookie": "c"}, False), ({"bookie": ""}, False), ({"action": "X"}, False)],
)
def test_what_refuses_this_task_is_told_before_all_else(
    kind: TaskType, facts: dict[str, str], is_it: bool
) -> None:
    mine = {"action": ACTIONS[kind], "bookie": "b", "predicate": "P", "message": "m"}
    item = mine | {"since": at(0)} | facts
    status = ClusterStatus.model_validate({"blocked": [item]})
    of = cluster(paused=True).model_copy(update={"status": status})
    assert (why_pending(of, asked(kind.value, "b")) == "Pending, refused by P: m") is is_it


@pytest.mark.parametrize("kind", DECISION_JOBS)
def test_a_decision_is_told_its_own_reason_and_no_other_decision_s(kind: TaskType) -> None:
    of = cluster(paused=True, tls={"mode": "Off"})
    tasks = [
        task(kind, f"task-{ledger}", ledger=ledger, reason="why", approvedBy="ann")
        for ledger in (10, 1, 2)
    ]
    refused = plan(of, observed(of=of, tasks=tasks[:2]), ClusterStatus()).status
    known = of.model_copy(update={"status": refused})
    assert [why_pending(known, one) for one in tasks] == [
        "Pending, refused by Paused: task task-10, ledger 10: spec.paused is true",
        "Pending, refused by Paused: task task-1, ledger 1: spec.paused is true",
        "Pending: the cluster is paused (kubectl bookie resume)",
    ]


def test_how_far_a_job_is_is_told_at_once_and_then_each_half_minute() -> None:
    now, told = 7.0, list[str]()
    reached = Reached(told.append, lambda: now)
    for later, message in ((0, ""), (0, "a"), (1, "b"), (28, "c"), (1, "d"), (0, "e")):
        now += later
        reached.say(message)
    assert told == ["  a", "  d"] and PROGRESS_SECONDS == 30


class TestFollow:
    def followed(
        self, lab: FakeLab, *statuses: dict[str, Any], seconds: float | None = None
    ) -> tuple[BookieTask | None, list[str]]:
        """A task that goes on like this: how it ended, and what was told."""
        lab.put_cluster("healthy")
        lab.end_tasks("audit", *statuses)
        told: list[str] = []
        task = hand_in(lab.kubectl(), {"cluster": "demo", "type": "audit"})
        return follow(lab.kubectl(), task, seconds=seconds, tell=told.append), told

    @pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
    def test_each_thing_is_told_once_until_the_end(self, lab: FakeLab, phase: str) -> None:
        running = {"phase": "Running", "target": "job"}
        ended, told = self.followed(
            lab,
            running,
            running | {"message": "1/2"},
            running | {"message": "2/2"},
            {"phase": phase},
        )
        assert ended is not None and ended.status.phase.value == phase
        assert told == ["Running job", "  1/2"]

    @pytest.mark.parametrize(
        ("statuses", "said"),
        [
            ((), "Pending: the operator has not started it yet (see kubectl bookie events)"),
            (({"phase": "Running", "target": "job"},), "Running job"),
        ],
    )
    def test_why_it_waits_is_told_once_and_only_while_it_waits(
        self, lab: FakeLab, statuses: tuple[dict[str, Any], ...], said: str
    ) -> None:
        assert self.followed(lab, *statuses, seconds=1.0) == (None, [said])

    def test_without_time_nothing_is_looked_at(self, lab: FakeLab) -> None:
        assert self.followed(lab, {"phase": "Succeeded"}, seconds=0.0) == (None, [])

    @pytest.mark.parametrize(("seconds", "limit"), [(None, 5), (60.0, 5), (2.0, 2)])
    def test_reasons_are_read_again_each_five_seconds(
        self, lab: FakeLab, seconds: float | None, limit: int
    ) -> None:
        self.followed(lab, {"phase": "Succeeded"}, seconds=seconds)
        [watch] = [call["words"] for call in lab.calls() if "--watch" in call["words"]]
        assert watch[-1] == f"--request-timeout={limit}s"


@pytest.mark.parametrize(
    ("bookie", "facts", "left"),
    [
        ("b", {}, 0),
        ("b", {"limbo_ledgers": 2}, 2),
        ("b", {"unchecked_ledgers": 3}, 3),
        ("b", {"limbo_ledgers": 2, "unchecked_ledgers": 3}, 5),
        ("c", {"limbo_ledgers": 2}, 0),
    ],
)
def test_marks_of_either_kind_are_left(bookie: str, facts: dict[str, int], left: int) -> None:
    one = {"id": "b", "state": "Serving"} | facts
    assert marks_left(ClusterStatus.model_validate({"bookies": [one]}), bookie) == left


def tree(status: dict[str, Any], *, created: float = 0, **spec: Any) -> dict[str, Any]:
    metadata = {"name": "t", "creationTimestamp": at(created).isoformat()}
    asked_for = {"cluster": "demo", "type": "audit"} | spec
    return {"metadata": metadata, "spec": asked_for, "status": status}


def cells(status: dict[str, Any], **spec: Any) -> list[str]:
    """The columns that are filled in the list, a hundred seconds after it was created."""
    screen = Console(width=200)
    with screen.capture() as drawn:
        screen.print(task_table([tree(status, **spec)], now=at(100)))
    return [cell.strip() for cell in drawn.get().splitlines()[1].split("  ") if cell.strip()]


BEGUN = {"phase": "Running", "startedAt": at(40).isoformat()}


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ({}, ["Pending", "100s"]),
        ({"message": "m", "target": "j"}, ["Pending", "100s", "m"]),
        (BEGUN, ["Running", "100s", "60s"]),
        (BEGUN | {"target": "j"}, ["Running", "100s", "60s", "job j"]),
        (BEGUN | {"target": "j", "message": "m"}, ["Running", "100s", "60s", "m"]),
        (
            BEGUN | {"phase": "Failed", "finishedAt": at(45).isoformat()},
            ["Failed", "100s", "5s"],
        ),
        ({"phase": "Failed", "finishedAt": at(45).isoformat()}, ["Failed", "100s"]),
    ],
)
def test_a_task_has_taken_what_lies_between_its_start_and_its_end_or_now(
    status: dict[str, Any], told: list[str]
) -> None:
    assert cells(status) == ["t", *told]


DECISION = {"type": "accept-loss", "reason": "r", "approvedBy": "ann"}


@pytest.mark.parametrize(
    ("spec", "about"),
    [
        ({"type": "repair", "bookie": "b"}, "b"),
        ({"type": "replace-disk", "bookie": "b", "disk": "d"}, "b d"),
        ({"type": "approve-cookie-fix", "bookie": "b", "planId": "f00d"}, "b f00d"),
        (DECISION | {"ledger": 0}, "ledger 0"),
        (DECISION | {"ledger": 5, "entry": 7}, "ledger 5"),
        (DECISION | {"ledgers": "5@7,9-12"}, "ledgers 5@7,9-12"),
    ],
)
def test_a_task_is_about_its_bookie_or_its_ledgers(spec: dict[str, Any], about: str) -> None:
    assert cells({}, **spec)[1] == about


@pytest.mark.parametrize(
    ("phase", "colour"), [("Pending", 33), ("Running", 36), ("Succeeded", 32), ("Failed", 31)]
)
def test_a_phase_has_its_colour(phase: str, colour: int) -> None:
    screen = Console(width=200, force_terminal=True, color_system="standard")
    with screen.capture() as drawn:
        screen.print(task_table([tree({"phase": phase})], now=at(100)))
    assert f"\x1b[{colour}m{phase}" in drawn.get()


def test_tasks_of_one_cluster_are_listed_oldest_first(lab: FakeLab) -> None:
    for name, created, of in (
        ("a", 3, "demo"),
        ("b", 1, "demo"),
        ("c", 0, "other"),
        ("d", 2, "demo"),
    ):
        made = tree({}, created=created, cluster=of)
        made["metadata"]["name"] = name
        lab.put("bookietasks", made)
    assert [one["metadata"]["name"] for one in tasks_of(lab.kubectl(), "demo")] == ["b", "d", "a"]
