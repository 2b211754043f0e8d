"""What people add to pods stands beside what the operator needs."""

import json
from typing import Any

import pytest
from bookie_operator.model.pod_overlay import PodOverlay
from bookie_operator.platform.kubernetes import names
from bookie_operator.platform.kubernetes.api import JOB, POD, STATEFUL_SET, Object
from bookie_operator.platform.kubernetes.overlay import overlaid
from kubernetes_lab import POD_0, Lab, expanded, repair_job


def template() -> Object:
    container: Object = {
        "name": "bookie",
        "env": [{"name": "BOOKIE_HOST", "value": "h"}],
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
        "securityContext": {"capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True},
    }
    spec: Object = {
        "containers": [container],
        "volumes": [{"name": "tmp"}],
        "securityContext": {"runAsNonRoot": True, "runAsUser": 1, "runAsGroup": 1, "fsGroup": 1},
        "affinity": {"podAntiAffinity": {"ours": 1}},
        "nodeSelector": {"disk": "ssd"},
        "topologySpreadConstraints": [{"ours": 1}],
    }
    return {"metadata": {"labels": {"own": "1"}}, "spec": spec}


def made(**overlay: Any) -> Object:
    return overlaid(template(), PodOverlay.model_validate(overlay))


def test_nothing_added_changes_nothing() -> None:
    assert overlaid(template(), None) == template()
    found = made()
    assert found["spec"] == template()["spec"]
    assert found["metadata"] == {"labels": {"own": "1"}, "annotations": {}}


@pytest.mark.parametrize("part", ["labels", "annotations"])
def test_a_pod_that_had_none_gets_those_of_people(part: str) -> None:
    bare = {**template(), "metadata": {}}
    found = overlaid(bare, PodOverlay.model_validate({part: {"a": "b"}}))
    assert found["metadata"] == {"labels": {}, "annotations": {}, part: {"a": "b"}}


@pytest.mark.parametrize(
    ("overlay", "path", "expected"),
    [
        ({"labels": {"a": "b", "own": "2"}}, "metadata labels", {"a": "b", "own": "1"}),
        ({"annotations": {"a": "b"}}, "metadata annotations", {"a": "b"}),
        ({"nodeSelector": {"a": "b"}}, "spec nodeSelector", {"a": "b", "disk": "ssd"}),
        ({"tolerations": [{"key": "t"}]}, "spec tolerations", [{"key": "t"}]),
        (
            {"affinity": {"nodeAffinity": {"x": 1}}},
            "spec affinity",
            {"podAntiAffinity": {"ours": 1}, "nodeAffinity": {"x": 1}},
        ),
        (
            {"affinity": {"podAntiAffinity": {"x": 1}}},
            "spec affinity",
            {"podAntiAffinity": {"x": 1}},
        ),
        ({"topologySpreadConstraints": [{"x": 1}]}, "spec topologySpreadConstraints", [{"x": 1}]),
        ({"priorityClassName": "high"}, "spec priorityClassName", "high"),
        ({"runtimeClassName": "gvisor"}, "spec runtimeClassName", "gvisor"),
        ({"schedulerName": "mine"}, "spec schedulerName", "mine"),
        ({"serviceAccountName": "mine"}, "spec serviceAccountName", "mine"),
        ({"platformAssignsIds": True}, "spec securityContext", {"runAsNonRoot": True}),
        ({"initContainers": [{"name": "i"}]}, "spec initContainers", [{"name": "i"}]),
        ({"volumes": [{"name": "v"}]}, "spec volumes", [{"name": "tmp"}, {"name": "v"}]),
    ],
)
def test_each_part_has_its_place(overlay: dict[str, Any], path: str, expected: object) -> None:
    found: Any = made(**overlay)
    for key in path.split():
        found = found[key]
    assert found == expected


def test_the_operators_container_is_the_first_and_keeps_its_own() -> None:
    found = made(
        env=[{"name": "TZ", "value": "UTC"}],
        volumeMounts=[{"name": "v", "mountPath": "/v"}],
        securityContext={"capabilities": {"add": ["A"]}},
        podSecurityContext={"fsGroup": 7},
        sidecars=[{"name": "mesh"}],
    )["spec"]
    first, second = found["containers"]
    assert [one["name"] for one in first["env"]] == ["BOOKIE_HOST", "TZ"]
    assert [one["name"] for one in first["volumeMounts"]] == ["tmp", "v"]
    assert first["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["A"]}
    assert first["securityContext"]["readOnlyRootFilesystem"] is True
    assert second == {"name": "mesh"} and found["securityContext"]["fsGroup"] == 7


async def test_every_kind_of_pod_has_its_own() -> None:
    lab = Lab(
        metadata={"embedded": {}},
        bookiePod={"labels": {"of": "bookie"}},
        zookeeperPod={"labels": {"of": "zookeeper"}},
        jobPod={"labels": {"of": "job"}},
        executorPod={"labels": {"of": "executor"}, "annotations": {"price": "$(POD_IP) $5"}},
    )
    await lab.run_bookie()
    await lab.platform.start_job(repair_job(engine="auto"))
    [keeper] = [s for s in lab.api.all(STATEFUL_SET) if "zookeeper" in s["metadata"]["name"]]
    assert lab.api.the(POD, POD_0)["metadata"]["labels"]["of"] == "bookie"
    assert keeper["spec"]["template"]["metadata"]["labels"]["of"] == "zookeeper"
    job = lab.api.all(JOB)[0]["spec"]["template"]
    labels = job["metadata"]["labels"]
    assert (labels["of"], labels[names.CLUSTER_LABEL]) == ("job", "demo")
    given = {one["name"]: one.get("value") for one in job["spec"]["containers"][0]["env"]}
    template = json.loads(expanded(given["REPAIR_EXECUTOR_TEMPLATE"], POD_IP="10.0.0.9"))
    assert template["metadata"]["labels"] == {"of": "executor"}
    assert template["metadata"]["annotations"] == {"price": "$(POD_IP) $5"}


async def test_a_sidecar_does_not_outlast_the_job_that_it_is_beside() -> None:
    """A Job ends when all containers have; what restarts for ever among init containers does
    not count (Kubernetes 1.29)."""
    lab = Lab(jobPod={"sidecars": [{"name": "logs"}], "initContainers": [{"name": "first"}]})
    await lab.reach_metadata()
    await lab.platform.start_job(repair_job())
    pod = lab.api.all(JOB)[0]["spec"]["template"]["spec"]
    assert [one["name"] for one in pod["containers"]] == ["repair"]
    assert pod["initContainers"] == [{"name": "first"}, {"name": "logs", "restartPolicy": "Always"}]
