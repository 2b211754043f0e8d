"""Pods, claims and sets as the planner sees them, from what Kubernetes writes into their status."""

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from bookie.ids import BookieId
from bookie_operator.errors import PreconditionError
from bookie_operator.model.bookie_status import BookieState
from bookie_operator.model.status import ClusterStatus
from bookie_operator.observed import STEADY, Bookie, Process
from bookie_operator.plan.planner import plan
from bookie_operator.platform.kubernetes import names
from bookie_operator.platform.kubernetes.api import Object
from bookie_operator.platform.kubernetes.nodes import Node
from bookie_operator.platform.kubernetes.view import (
    bookies_of,
    is_known,
    kept_claims_of,
    moment,
    pod_of_instance,
    waiting_reason,
)
from fake_api import stamp
from operator_scenes import cluster, observed

B0 = BookieId("bookie-0")
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def ago(seconds: float) -> str:
    return stamp(NOW - timedelta(seconds=seconds))


def pod(uid: str = "pod-1", *, age: float = 300, **more: Any) -> Object:
    metadata = {
        "name": "demo-bookie-0-0",
        "uid": uid,
        "creationTimestamp": ago(age),
        "labels": names.labels("demo", names.BOOKIE, bookie=B0),
        "annotations": {names.REVISION: "rev-1"},
    }
    metadata |= more.pop("metadata", {})
    return {"metadata": metadata, "spec": {"nodeName": "node-1"}, "status": {}} | more


def with_container(
    state: Object, *, restarts: int = 0, last: Object | None = None, ip: str = "10.0.0.1"
) -> Object:
    container = {"name": "bookie", "restartCount": restarts, "ready": "running" in state}
    container |= {"state": state} | ({"lastState": last} if last else {})
    return pod(status={"podIP": ip, "containerStatuses": [container]})


def running(age: float = 100) -> Object:
    return {"running": {"startedAt": ago(age)}}


def ended(code: int, reason: str = "Error") -> Object:
    return {"terminated": {"exitCode": code, "reason": reason, "finishedAt": ago(105)}}


def claim(disk: str = "ledger-0", **metadata: Any) -> Object:
    labels = names.labels("demo", names.BOOKIE, bookie=B0, disk=disk)
    whole = {"name": f"demo-bookie-0-{disk}", "uid": f"{disk}-uid", "labels": labels} | metadata
    return {"metadata": whole, "spec": {"resources": {"requests": {"storage": "10Gi"}}}}


def seen(
    *pods: Object, claims: Sequence[Object] = (), sets: Sequence[Object] = ()
) -> dict[BookieId, Bookie]:
    return bookies_of(pods=pods, claims=claims, sets=sets, nodes={"node-1": Node("b", {})})


def process(*pods: Object) -> Process:
    found = seen(*pods)[B0].process
    assert found is not None
    return found


# Processes


def test_a_running_bookie_is_reached_by_its_pods_address() -> None:
    found = process(with_container(running()))
    assert (found.running, found.is_ready, found.control) == (True, True, "10.0.0.1:3183")
    assert (found.instance, found.revision, found.started_at) == ("pod-1.0", "rev-1", ago_at(100))
    assert (found.pod, found.node, found.node_boot_id) == ("pod-1", "node-1", "b")


def ago_at(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def test_a_pod_of_ip_version_6_is_reached_by_its_address_in_brackets() -> None:
    assert process(with_container(running(), ip="fd00::7")).control == "[fd00::7]:3183"


def test_a_pod_without_any_status_is_an_intent_to_run() -> None:
    found = process(pod())
    assert (found.running, found.control, found.is_ready) == (False, None, False)
    assert (found.instance, found.started_at) == ("pod-1.0", ago_at(300))


def test_no_pod_is_no_process() -> None:
    assert seen(claims=[claim()])[B0].process is None


@pytest.mark.parametrize(
    ("code", "told", "reason"),
    [
        (0, 0, "Completed (exit code 0)"),
        (1, 1, "Error (exit code 1)"),
        (4, 4, "Error (exit code 4)"),
        (128, 128, "Error (exit code 128)"),
        (192, -64, "Error (signal 64)"),
        (193, 193, "Error (exit code 193)"),
        (255, 255, "Error (exit code 255)"),
        (137, -9, "Error (signal 9)"),
        (143, -15, "Error (signal 15)"),
    ],
)
def test_d8_exit_codes_above_128_are_signals_if_there_is_one(
    code: int, told: int, reason: str
) -> None:
    last = ended(code, "Completed" if code == 0 else "Error")
    found = process(with_container(running(), restarts=1, last=last)).last_exit
    assert found is not None
    assert (found.code, found.reason, found.at) == (told, reason, ago_at(105))


def test_an_oom_kill_is_told_as_one() -> None:
    found = process(with_container(running(), restarts=1, last=ended(137, "OOMKilled")))
    assert found.last_exit is not None
    assert found.last_exit.reason == "OOMKilled (signal 9)"


def test_the_newest_end_counts() -> None:
    found = process(with_container(ended(1), restarts=2, last=ended(137)))
    assert found.last_exit is not None and found.last_exit.code == 1
    assert not found.running


def test_d8_the_end_of_a_container_that_its_node_lost_has_no_code() -> None:
    lost = process(with_container(running(), restarts=1, last=ended(255, "Unknown"))).last_exit
    assert lost is not None and (lost.code, lost.reason) == (None, "Unknown (exit code 255)")


def test_an_end_without_a_time_is_none() -> None:
    """As a node that was lost leaves it: `ContainerStatusUnknown`."""
    lost = {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown", "finishedAt": None}}
    assert process(with_container(running(), restarts=1, last=lost)).last_exit is None


def test_a_restart_is_another_instance_of_the_same_pod() -> None:
    first, second = with_container(running()), with_container(running(), restarts=1)
    assert process(first).instance != process(second).instance
    assert process(first).pod == process(second).pod


def test_d7_restarts_of_a_pods_whole_life_are_no_crash_loop() -> None:
    booting = with_container(running(5), restarts=4, last=ended(0, "Completed"))
    made = plan(cluster(), replace(observed(), bookies=seen(booting), now=NOW), ClusterStatus())
    assert made.status.bookies[0].state is BookieState.STARTING


def test_how_long_the_process_ran_that_ended_is_known() -> None:
    last = ended(137)
    last["terminated"]["startedAt"] = ago(165)
    for_a_minute = process(with_container(running(), restarts=1, last=last)).last_exit
    assert for_a_minute is not None and for_a_minute.lasted == STEADY


def test_a_bookie_that_is_being_stopped_is_not_ready() -> None:
    ending = with_container(running())
    ending["metadata"]["deletionTimestamp"] = ago(1)
    found = process(ending)
    assert (found.running, found.is_ready) == (True, False)


@pytest.mark.parametrize(("asked", "is_planned"), [(106, True), (105, True), (104, False)])
def test_d7_an_end_after_the_pods_deletion_was_asked_for_is_planned(
    asked: float, is_planned: bool
) -> None:
    ending = with_container(ended(137))
    deletion = {"deletionTimestamp": ago(asked - 300), "deletionGracePeriodSeconds": 300}
    ending["metadata"] |= deletion
    found = process(ending).last_exit
    assert found is not None and (found.is_planned, found.is_graceful) == (is_planned, is_planned)


def test_of_an_old_and_a_new_pod_the_new_one_counts() -> None:
    old = pod("old", age=500, metadata={"deletionTimestamp": ago(10)})
    new = pod("new", age=5)
    assert process(old, new).pod == process(new, old).pod == "new"


def test_of_two_pods_of_one_second_the_one_that_stays_counts() -> None:
    going = pod("going", age=5, metadata={"deletionTimestamp": ago(1)})
    assert process(going, pod("stays", age=5)).pod == "stays"
    assert process(pod("stays", age=5), going).pod == "stays"


def test_containers_beside_the_bookie_are_not_looked_at() -> None:
    beside = {"name": "mesh", "restartCount": 9, "ready": True, "state": running()}
    both = with_container(ended(1), restarts=2)
    both["status"]["containerStatuses"].insert(0, beside)
    assert (process(both).restarts, process(both).running) == (2, False)


# Why nothing runs


def waits(**why: str) -> Object:
    status: Object = with_container({"waiting": why})["status"]
    return status


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ({}, ""),
        (waits(reason="ContainerCreating"), ""),
        (waits(reason="PodInitializing"), ""),
        (waits(), ""),
        (waits(reason="ImagePullBackOff", message="no image"), "ImagePullBackOff: no image"),
        (waits(reason="CrashLoopBackOff"), "CrashLoopBackOff"),
        (
            {
                "conditions": [
                    {"type": "Ready", "status": "False", "reason": "ContainersNotReady"},
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "message": "0/1 nodes are available",
                    },
                ]
            },
            "Unschedulable: 0/1 nodes are available",
        ),
        ({"conditions": [{"type": "PodScheduled", "status": "True"}]}, ""),
    ],
)
def test_what_keeps_a_pod_from_running_is_told(status: Object, told: str) -> None:
    assert waiting_reason(pod(status=status), "bookie") == told


# Volumes


def test_a_volume_is_its_claim() -> None:
    found = seen(claims=[claim(), claim("journal", deletionTimestamp=ago(1))])[B0].volumes
    assert (found["ledger-0"].uid, found["ledger-0"].size) == ("ledger-0-uid", "10Gi")
    assert (found["ledger-0"].is_terminating, found["journal"].is_terminating) == (False, True)


def test_volumes_kept_from_a_bookie_that_left_are_nobodys() -> None:
    kept = claim()
    kept["metadata"]["labels"] |= {names.RETAINED_LABEL: "true"}
    assert not seen(claims=[kept])


def test_kept_volumes_are_listed_by_their_bookie_until_somebody_deletes_them() -> None:
    kept = [claim(disk) for disk in ("ledger-1", "journal", "ledger-0")]
    for one in kept:
        one["metadata"]["labels"] |= {names.RETAINED_LABEL: "true"}
    going = claim("ledger-2", deletionTimestamp=ago(1))
    going["metadata"]["labels"] |= {names.RETAINED_LABEL: "true"}
    nobodys = {"metadata": {"name": "x", "labels": {names.RETAINED_LABEL: "true"}}}
    listed = tuple(f"demo-bookie-0-{disk}" for disk in ("journal", "ledger-0", "ledger-1"))
    assert kept_claims_of([*kept, going, nobodys, claim("ledger-3")]) == {B0: listed}


def test_a_set_without_pods_and_volumes_is_a_bookie_still() -> None:
    only = {"metadata": {"labels": names.labels("demo", names.BOOKIE, bookie=B0)}}
    assert seen(sets=[only]) == {B0: Bookie(B0)}


def test_things_without_a_bookies_name_are_not_ours() -> None:
    assert not seen({"metadata": {"labels": None}}, claims=[{"metadata": {"labels": {}}}])


@pytest.mark.parametrize(
    ("seen_generation", "is_seen"), [(None, False), (1, False), (2, True), (3, True)]
)
def test_a_set_is_known_once_its_controller_has_seen_it_as_it_is(
    seen_generation: int | None, is_seen: bool
) -> None:
    status = {} if seen_generation is None else {"observedGeneration": seen_generation}
    assert is_known({"metadata": {"generation": 2}, "status": status}) is is_seen
    assert is_known({"metadata": {"generation": 1}, "status": None}) is False
    assert is_known(None)


@pytest.mark.parametrize(("restarts", "is_it"), [("0", True), ("1", False)])
def test_a_pod_whose_container_has_no_status_yet_was_not_restarted(
    restarts: str, is_it: bool
) -> None:
    found = pod()
    if is_it:
        assert pod_of_instance([found], B0, f"pod-1.{restarts}") == found
        return
    with pytest.raises(PreconditionError, match=f"runs no more as pod-1.{restarts}"):
        pod_of_instance([found], B0, f"pod-1.{restarts}")


@pytest.mark.parametrize("text", ["2026-01-01T12:00:00Z", "2026-01-01T13:00:00+01:00"])
def test_moments_are_utc_wherever_the_operator_runs(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("TZ", "XXX-9")
        time.tzset()
        found = moment(text)
    time.tzset()
    assert str(found) == str(NOW) and moment(None) is moment("") is None
