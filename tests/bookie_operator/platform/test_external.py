"""Clients outside of the Kubernetes cluster: a Service for each bookie, and its address to the
bookie."""

from typing import Any

import pytest
from bookie.server.advertised import addresses_of, endpoints_of
from bookie.server.settings import ADVERTISED_FILE as READ_BY_DEFAULT
from bookie_operator.model.status import ClusterStatus
from bookie_operator.platform.kubernetes import names
from bookie_operator.platform.kubernetes.api import CLUSTER, NODE, POD, SERVICE, Object
from bookie_operator.platform.kubernetes.bookies import ADVERTISED_FILE
from fake_controllers import NODE_NAME
from kubernetes_lab import POD_0, Lab

OUTSIDE = "demo-bookie-0-external"


def node(*addresses: tuple[str, str], **labels: str) -> Object:
    listed = [{"type": kind, "address": address} for kind, address in addresses]
    return {"metadata": {"name": NODE_NAME, "labels": labels}, "status": {"addresses": listed}}


async def reached(**external: Any) -> Lab:
    """A bookie on a node that says where it is."""
    lab = Lab(external=external) if external else Lab()
    lab.api.put(NODE, node(("InternalIP", "10.1.0.1"), ("ExternalIP", "192.0.2.7")))
    await lab.run_bookie()
    return lab


async def settled(lab: Lab) -> str | None:
    """What a pass leaves on the pod."""
    await lab.platform.bookies()
    failed = await lab.platform.settle(lab.cluster, ClusterStatus())
    assert not failed
    annotations: dict[str, str] = lab.api.the(POD, POD_0)["metadata"]["annotations"]
    return annotations.get(names.ADVERTISED)


async def test_a_bookie_advertises_its_node_and_the_ports_that_its_service_was_given() -> None:
    lab = await reached(type="NodePort")
    said = await settled(lab)
    ports = [one["nodePort"] for one in lab.api.the(SERVICE, OUTSIDE)["spec"]["ports"]]
    assert said == f"stock=192.0.2.7:{ports[0]} run=192.0.2.7:{ports[1]}"
    assert (await lab.process()).advertised == said
    assert [one.port for one in endpoints_of(addresses_of(said))] == ports


@pytest.mark.parametrize(
    ("addresses", "host"),
    [
        ([("InternalIP", "10.1.0.1")], "10.1.0.1"),
        ([("InternalIP", "fd00::1")], "[fd00::1]"),
        ([("Hostname", "node-1")], None),
    ],
)
async def test_an_external_address_goes_before_an_internal_one(
    addresses: list[tuple[str, str]], host: str | None
) -> None:
    lab = Lab(external={"type": "NodePort"})
    lab.api.put(NODE, node(*addresses))
    await lab.run_bookie()
    said = await settled(lab)
    assert said == host or (said or "").startswith(f"stock={host}:3000")


async def test_a_load_balancer_is_advertised_once_it_has_an_address() -> None:
    lab = await reached(type="LoadBalancer", sourceRanges=["198.51.100.0/24"])
    assert await settled(lab) is None
    assert lab.api.the(SERVICE, OUTSIDE)["spec"]["loadBalancerSourceRanges"] == ["198.51.100.0/24"]
    for given, host in (({"ip": "203.0.113.9"}, "203.0.113.9"), ({"hostname": "lb.x"}, "lb.x")):
        lab.api.set_status(SERVICE, OUTSIDE, loadBalancer={"ingress": [given]})
        assert await settled(lab) == f"stock={host}:3181 run={host}:3182"


async def test_a_name_and_annotations_are_made_of_the_bookies_own() -> None:
    lab = await reached(
        type="LoadBalancer",
        advertisedHost="{bookie}.books.example.org",
        annotations={"external-dns.alpha.kubernetes.io/hostname": "{bookie}.books.example.org"},
    )
    assert (await settled(lab) or "").startswith("stock=bookie-0.books.example.org:3181")
    annotations = lab.api.the(SERVICE, OUTSIDE)["metadata"]["annotations"]
    assert list(annotations.values()) == ["bookie-0.books.example.org"]


async def test_what_is_not_wanted_any_more_goes() -> None:
    lab = await reached(type="NodePort")
    assert await settled(lab)
    lab.api.edit(CLUSTER, "demo", lambda tree: tree["spec"].pop("external"))
    lab.platform = lab.restarted()
    assert await settled(lab) is None
    assert lab.api.find(SERVICE, OUTSIDE) is None
    lab.api.calls.clear()
    await settled(lab)
    assert not [call for call in lab.api.calls if call[:2] == ("list", "Service")]


async def test_an_address_that_is_not_known_now_stays_as_it_was() -> None:
    lab = await reached(type="NodePort")
    said = await settled(lab)
    lab.api.forbid("list", SERVICE)
    await lab.platform.bookies()
    failed = await lab.platform.settle(lab.cluster, ClusterStatus())
    assert list(failed) == ["Services for clients outside"]
    assert (await lab.process()).advertised == said


async def test_rack_and_address_stand_beside_each_other() -> None:
    lab = Lab(external={"type": "NodePort"}, rackTopologyKey="rack")
    lab.api.put(NODE, node(("ExternalIP", "192.0.2.7"), rack="r7"))
    await lab.run_bookie()
    await settled(lab)
    process = await lab.process()
    assert process.rack == "/r7" and process.advertised


async def test_the_embedded_zookeeper_is_reached_only_when_it_is_asked_for() -> None:
    for is_wanted in (False, True):
        lab = Lab(metadata={"embedded": {}}, external={"type": "NodePort", "zookeeper": is_wanted})
        lab.api.put(NODE, node(("ExternalIP", "192.0.2.7")))
        await lab.run_bookie()
        await settled(lab)
        found = lab.api.find(SERVICE, "demo-zookeeper-external")
        assert (found is not None) is is_wanted
    assert found is not None and found["spec"]["selector"] == names.selector("demo", "zookeeper")


async def test_who_is_reached_from_outside_is_no_new_setting() -> None:
    lab = await reached(type="NodePort")
    changed = lab.template(external=None)
    assert changed.revision == lab.template().revision


async def test_nobody_outside_gets_to_the_control_plane() -> None:
    lab = await reached(type="NodePort")
    await settled(lab)
    ports = [one["name"] for one in lab.api.the(SERVICE, OUTSIDE)["spec"]["ports"]]
    assert ports == ["stock", "run"]


async def test_the_bookie_finds_its_addresses_where_it_looks() -> None:
    lab = await reached(type="NodePort")
    spec = lab.api.the(POD, POD_0)["spec"]
    [volume] = [one for one in spec["volumes"] if one["name"] == "node"]
    [_rack, item] = volume["downwardAPI"]["items"]
    [mount] = [one for one in spec["containers"][0]["volumeMounts"] if one["name"] == "node"]
    assert f"{mount['mountPath']}/{item['path']}" == str(ADVERTISED_FILE) == str(READ_BY_DEFAULT)
    assert item["fieldRef"]["fieldPath"] == f"metadata.annotations['{names.ADVERTISED}']"
