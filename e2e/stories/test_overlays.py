"""What people add to every kind of pod; what is the operator's own is refused."""

from typing import Any

import pytest
from harness.commands import CommandError
from harness.fleet import BKC, condition_of
from harness.kube import Object
from harness.manifests import BOOKIE_IMAGE, CLUSTER
from harness.story import Story

PART: Object = {
    "labels": {"team": "storage"},
    "annotations": {"example.org/owner": "ann"},
    "env": [{"name": "TZ", "value": "UTC"}],
    "volumes": [{"name": "extra", "emptyDir": {}}],
    "volumeMounts": [{"name": "extra", "mountPath": "/extra"}],
}
UNRESTRICTED: Object = {
    "name": "beside",
    "image": BOOKIE_IMAGE,
    "command": ["sleep", "86400"],
    "securityContext": {"allowPrivilegeEscalation": False},
}
SIDECAR: Object = UNRESTRICTED | {
    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
}
STALL_S = 150.0
"""Stop, a minute in which it may still come, a minute in which what is refused may be mended."""
ROLL_S = 240.0
MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"labels": {"bookkeeper.bookie-operator.dev/bookie": "x"}}, "are the operator's"),
    ({"env": [{"name": "BOOKIE_HOST", "value": "x"}]}, "are settings of a bookie"),
    ({"sidecars": [{"name": "bookie"}]}, "are the operator's"),
    ({"volumes": [{"name": "disk-journal"}]}, "are the operator's"),
    ({"volumeMounts": [{"name": "a", "mountPath": "/data/x"}]}, "are the operator's"),
    ({"sidecars": [{"image": "nameless"}]}, "Required value"),
]


def pods(story: Story, component: str) -> list[Object]:
    return story.kube.items("pods", f"bookkeeper.bookie-operator.dev/component={component}")


def has_part(pod: Object) -> bool:
    first, metadata = pod["spec"]["containers"][0], pod["metadata"]
    return (
        metadata["labels"].get("team") == "storage"
        and metadata["annotations"].get("example.org/owner") == "ann"
        and {"name": "TZ", "value": "UTC"} in first["env"]
        and any(mount["mountPath"] == "/extra" for mount in first["volumeMounts"])
    )


@pytest.mark.story("dd", "what is added to every kind of pod, and what is refused")
def test_what_is_added_to_pods_is_there_and_ours_stays(story: Story) -> None:
    parts = {"zookeeperPod": PART, "jobPod": PART, "executorPod": PART}
    story.up(parts | {"audit": {"engine": "spark-kubernetes"}})
    story.write()
    before = {pod["metadata"]["uid"] for pod in pods(story, "bookie")}
    story.fleet.change({"bookiePod": PART | {"sidecars": [UNRESTRICTED]}})
    refused = story.fleet.wait_condition("Stalled", seconds=STALL_S)
    degraded = condition_of(refused, "Degraded")["message"]
    assert degraded.startswith("bookie-0: no process: FailedCreate: "), degraded
    assert "violates PodSecurity" in degraded, "the words of who refused"
    assert len(pods(story, "bookie")) == 3, "nobody else was touched"
    story.load.goes_on()
    story.fleet.change({"bookiePod": {"sidecars": [SIDECAR]}})
    story.fleet.wait_condition("Ready", seconds=ROLL_S)
    assert all(has_part(pod) for pod in pods(story, "bookie"))
    assert all(len(pod["spec"]["containers"]) == 2 for pod in pods(story, "bookie"))
    assert not before & {pod["metadata"]["uid"] for pod in pods(story, "bookie")}
    assert [has_part(pod) for pod in pods(story, "zookeeper")] == [True]
    with story.executors() as executors:
        done = story.fleet.ask("audit", {"cluster": CLUSTER, "type": "audit"})
    assert done["phase"] == "Succeeded"
    made = [version.object for version in executors.versions()]
    assert made and all(has_part(pod) for pod in made)
    assert pods(story, "job") and all(has_part(pod) for pod in pods(story, "job"))
    for part, why in MISTAKES:
        with pytest.raises(CommandError) as mistake:
            story.kube.patch(BKC, CLUSTER, {"spec": {"bookiePod": part}})
        assert why in mistake.value.output
    epoch = story.fleet.epoch("bookie-1")
    story.faults.kill("bookie-1")
    story.fleet.wait_cleared("bookie-1", after=epoch)
    story.nothing_is_lost()
