"""The operator itself: killed at every step, given a broken repair image, and idle."""

import time
from collections.abc import Callable

import pytest
from harness.claims import by_spark, told_once
from harness.faults import DISKS
from harness.fleet import bookie_of, claim_name, condition_of, incidents_of, pod_name
from harness.kube import Object, wait_for
from harness.story import Story

STEP_S = 150.0
"""A boot on new disks alone outlives a lease first."""
BROKEN = "bookie-operator/repair:no-such-tag"
REST_S = 40.0
"""So long is measured; an operator at rest looks around a few times in it."""
CORES_MAX = 0.05
MIB_MAX = 200.0


@pytest.mark.story("i", "the operator killed at each step of a cookie fix and of its repair")
def test_a_killed_operator_does_nothing_twice(story: Story) -> None:
    story.up({"repair": {"engine": "spark-kubernetes"}})  # long enough to be killed in its midst
    story.write(prefill=(60, 30))
    old = claim_uid(story)
    before = story.faults.delete_claims("bookie-2", *DISKS)
    story.operator.kill()
    for name, reached in steps(story, old, before):
        wait_for(f"step: {name}", reached, seconds=STEP_S)
        story.operator.kill()
    story.operator.wait_ready()
    incident = story.fleet.wait_cleared("bookie-2", after=before)
    story.note(incident)
    assert incident["kind"] == "DiskReplaced"
    told_once(story.fleet, "bookie-2", after=before)
    story.nothing_is_lost()


@pytest.mark.story("z", "two operators, the one that acts killed while a bookie is in limbo")
def test_another_operator_goes_on_where_the_killed_one_ended(story: Story) -> None:
    story.operator.install(replicas=2)
    try:
        story.up()
        story.write(prefill=(60, 30))
        first = story.operator.leader()
        before = story.faults.kill("bookie-1")
        story.operator.kill(first)
        began = time.monotonic()
        wait_for(
            "another holder of the lease",
            lambda: story.operator.leader() != first,
            seconds=STEP_S,
        )
        story.numbers["secondsToTakeOver"] = round(time.monotonic() - began, 1)
        incident = story.fleet.wait_cleared("bookie-1", after=before)
        story.note(incident)
        told_once(story.fleet, "bookie-1", after=before)
        story.nothing_is_lost()
    finally:
        story.operator.install()


def claim_uid(story: Story) -> str:
    claim = story.kube.get("pvc", claim_name("bookie-2", "ledger-1"))
    return str(claim["metadata"]["uid"]) if claim else ""


def steps(story: Story, old: str, before: int) -> list[tuple[str, Callable[[], object]]]:
    """Each is reached once and stays so, whoever looks when."""

    def told(wanted: Callable[[Object], object]) -> Callable[[], object]:
        return lambda: wanted(story.fleet.object())

    def incident(cluster: Object) -> Object:
        return next(iter(incidents_of(cluster, "bookie-2", after=before)), {})

    return [
        ("new volume", lambda: claim_uid(story) not in ("", old)),
        ("new pod", lambda: running(story)),
        (
            "new boot told",
            told(lambda cluster: bookie_of(cluster, "bookie-2")["bootEpoch"] > before),
        ),
        ("incident told", told(incident)),
        ("repair started", lambda: repair_jobs(story)),
        ("repair ended", lambda: any(has_ended(job) for job in repair_jobs(story))),
        ("limbo 0 told", told(lambda cluster: incident(cluster).get("clearedAt"))),
    ]


def running(story: Story) -> bool:
    pod = story.kube.get("pod", pod_name("bookie-2")) or {}
    return bool((pod.get("status") or {}).get("phase") == "Running")


def repair_jobs(story: Story) -> list[Object]:
    return story.kube.items("jobs", "bookkeeper.bookie-operator.dev/bookie=bookie-2")


def has_ended(job: Object) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or []
    return any(one["type"] in ("Complete", "Failed") for one in conditions)


@pytest.mark.story("j", "the repair's image broken, then mended")
def test_a_stalled_repair_is_told_and_ends_when_mended(story: Story) -> None:
    whole = {"engine": "spark-kubernetes", "maxAttempts": 2, "startDeadlineSeconds": 8}
    story.up({"repair": whole})
    story.write(prefill=(60, 30))
    mended = story.fleet.object()["spec"]["repair"]["image"]
    zookeeper = story.kube.get("pod", "demo-zookeeper-0")
    story.fleet.change({"repair": {"image": BROKEN}})
    with story.executors() as executors:
        before = story.faults.kill("bookie-1")
        stalled = story.fleet.wait_condition("RepairStalled", seconds=120.0)
        assert condition_of(stalled, "LimboPresent")["status"] == "True"
        assert "image" in condition_of(stalled, "RepairStalled")["message"].lower()
        story.load.goes_on()
        story.fleet.change({"repair": {"image": mended}})
        incident = story.fleet.wait_cleared("bookie-1", after=before)
    story.note(incident)
    by_spark(incident, executors)
    assert incident["attempts"] >= 3
    story.fleet.wait_condition("RepairStalled", "False")
    now = story.kube.get("pod", "demo-zookeeper-0")
    assert zookeeper and now and now["metadata"]["uid"] == zookeeper["metadata"]["uid"]
    story.nothing_is_lost()


@pytest.mark.story("r", "the operator when nothing happens")
def test_an_operator_at_rest_costs_next_to_nothing(story: Story) -> None:
    story.up()
    story.fleet.wait_condition("DurabilityVerified")
    before = story.operator.usage()
    time.sleep(REST_S)
    after = story.operator.usage()
    cores = (after.cpu_seconds - before.cpu_seconds) / REST_S
    story.numbers |= {"cores": round(cores, 3), "MiB": round(after.mib, 1)}
    assert cores <= CORES_MAX
    assert after.mib <= MIB_MAX
