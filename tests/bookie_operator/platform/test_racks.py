"""A bookie's rack: from its node's label into its pod, where the bookie reads it."""

from collections.abc import Callable

import pytest
import yaml
from bookie.server.settings import RACK_FILE as READ_BY_DEFAULT
from bookie_operator.model.status import ClusterStatus
from bookie_operator.platform.kubernetes import names
from bookie_operator.platform.kubernetes.api import CLUSTER, CONFIG_MAP, NODE, POD
from bookie_operator.platform.kubernetes.bookies import RACK_FILE
from fake_controllers import NODE_NAME
from kubernetes_lab import POD_0, Lab

ZONE = "topology.kubernetes.io/zone"


async def annotated(lab: Lab) -> str | None:
    """What a pass leaves on the pod."""
    await lab.platform.bookies()
    failed = await lab.platform.settle(lab.cluster, ClusterStatus())
    assert not failed
    annotations: dict[str, str] = lab.api.the(POD, POD_0)["metadata"]["annotations"]
    return annotations.get(names.RACK)


async def labelled(**labels: str) -> Lab:
    lab = Lab()
    lab.api.put(NODE, {"metadata": {"name": NODE_NAME, "labels": labels}})
    await lab.run_bookie()
    return lab


async def test_the_label_of_the_node_becomes_the_rack() -> None:
    lab = await labelled(**{ZONE: "eu-1a"})
    assert await annotated(lab) == "/eu-1a"
    assert (await lab.process()).rack == "/eu-1a"


async def test_a_rack_that_is_named_is_not_written_again() -> None:
    lab = await labelled(**{ZONE: "eu-1a"})
    await annotated(lab)
    lab.api.calls.clear()
    await annotated(lab)
    assert not [call for call in lab.api.calls if call[:2] == ("patch", POD.name)]


@pytest.mark.parametrize("labels", [{}, {ZONE: ""}, {"other": "eu-1a"}])
async def test_where_the_node_says_nothing_nothing_is_written(labels: dict[str, str]) -> None:
    assert await annotated(await labelled(**labels)) is None


@pytest.mark.parametrize(("key", "rack"), [("rack", "/r7"), ("", None)])
async def test_the_key_of_the_label_is_the_specs(key: str, rack: str | None) -> None:
    lab = Lab(rackTopologyKey=key)
    lab.api.put(NODE, {"metadata": {"name": NODE_NAME, "labels": {ZONE: "eu-1a", "rack": "r7"}}})
    await lab.run_bookie()
    assert await annotated(lab) == rack


def relabel(lab: Lab, labels: dict[str, str]) -> None:
    lab.api.edit(NODE, NODE_NAME, lambda node: node["metadata"].update(labels=labels))


def name_no_label(lab: Lab) -> None:
    lab.api.edit(CLUSTER, "demo", lambda tree: tree["spec"].update(rackTopologyKey=""))


@pytest.mark.parametrize(
    ("change", "rack"),
    [
        (lambda lab: relabel(lab, {ZONE: "eu-1b"}), "/eu-1b"),
        (lambda lab: relabel(lab, {}), "/eu-1a"),
        (lambda lab: lab.api.remove(NODE, NODE_NAME), "/eu-1a"),
        (lambda lab: lab.api.forbid("get", NODE), "/eu-1a"),
        (name_no_label, ""),
    ],
    ids=["another label", "no label", "no node", "no right to read it", "a spec without racks"],
)
async def test_a_rack_stays_until_another_is_known_or_there_are_to_be_none(
    change: Callable[[Lab], None], rack: str
) -> None:
    lab = await labelled(**{ZONE: "eu-1a"})
    assert await annotated(lab) == "/eu-1a"
    change(lab)
    lab.platform = lab.restarted()  # which has asked no node yet
    assert await annotated(lab) == rack


async def test_a_pod_that_may_not_be_written_is_told() -> None:
    lab = await labelled(**{ZONE: "eu-1a"})
    await lab.platform.bookies()
    lab.api.forbid("patch", POD)
    failed = await lab.platform.settle(lab.cluster, ClusterStatus())
    assert list(failed) == [f"Pod {POD_0}"]


async def test_another_key_is_no_new_setting() -> None:
    lab = Lab()
    changed = lab.template(rack_topology_key="rack")
    assert changed.revision == lab.template().revision


async def test_the_bookie_finds_it_where_it_looks() -> None:
    lab = await labelled()
    spec = lab.api.the(POD, POD_0)["spec"]
    [volume] = [one for one in spec["volumes"] if one["name"] == "node"]
    [item, _advertised] = volume["downwardAPI"]["items"]
    [mount] = [one for one in spec["containers"][0]["volumeMounts"] if one["name"] == "node"]
    assert f"{mount['mountPath']}/{item['path']}" == str(RACK_FILE) == str(READ_BY_DEFAULT)
    assert item["fieldRef"]["fieldPath"] == f"metadata.annotations['{names.RACK}']"
    settings = lab.api.all(CONFIG_MAP)[0]["data"]["bookie.yaml"]
    assert "rackFile" not in yaml.safe_load(settings), "an older bookie would refuse it"
