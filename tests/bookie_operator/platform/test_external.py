"""Clients outside of the Kubernetes cluster: a Service for each bookie, and its address to the
bookie."""

from datetime import timedelta
from typing import Any

import pytest
from bookie.ids import BookieId
from bookie.server.advertised import addresses_of, endpoints_of
from bookie.server.settings import ADVERTISED_FILE as READ_BY_DEFAULT
from bookie_operator.model.status import ClusterStatus
from bookie_operator.plan.planner import plan
from bookie_operator.platform.kubernetes import names
from bookie_operator.platform.kubernetes.api import (
    CLUSTER,
    EVENT,
    NODE,
    POD,
    SERVICE,
    STATEFUL_SET,
    Object,
)
from bookie_operator.platform.kubernetes.bookies import ADVERTISED_FILE
from bookie_operator.platform.kubernetes.external_services import (
    GIVEN_AFTER,
    external_services,
    unreached,
)
from fake_controllers import NODE_NAME
from kubernetes_lab import B0, POD_0, Lab
from operator_scenes import T0, bookie, cluster, observed

OUTSIDE = "demo-bookie-0-external"
B1 = BookieId("bookie-1")
LATER = 100.0
PENDING = timedelta(minutes=6)
"""A Service was given time for an address."""


def node(*addresses: tuple[str, str], **labels: str) -> Object:
    listed = [{"type": kind, "address": address} for kind, address in addresses]
    return {"metadata": {"name": NODE_NAME, "labels": labels}, "status": {"addresses": listed}}


async def reached(**external: Any) -> Lab:
    """A bookie on a node that says where it is."""
    lab = Lab(external=external) if external else Lab()
    lab.api.put(NODE, node(("InternalIP", "10.1.0.1"), ("ExternalIP", "192.0.2.7")))
    await lab.run_bookie()
    return lab


async def settled(lab: Lab) -> str:
    """What a pass that can do all leaves on the pod."""
    said, failed = await tried(lab)
    assert not failed
    return said


async def at(*addresses: tuple[str, str], **external: Any) -> Lab:
    """A bookie on a node that says these addresses of itself."""
    lab = Lab(external=external)
    lab.api.put(NODE, node(*addresses))
    await lab.run_bookie()
    return lab


async def tried(lab: Lab) -> tuple[str, list[str]]:
    """What the pod advertises after a pass, and what could not be done."""
    await lab.platform.bookies()
    failed = await lab.platform.settle(lab.cluster, ClusterStatus())
    annotations: dict[str, str] = lab.api.the(POD, POD_0)["metadata"].get("annotations") or {}
    return annotations.get(names.ADVERTISED, ""), list(failed)


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
        ([("Hostname", "node-1")], ""),
    ],
)
async def test_an_external_address_goes_before_an_internal_one(
    addresses: list[tuple[str, str]], host: str
) -> None:
    lab = Lab(external={"type": "NodePort"})
    lab.api.put(NODE, node(*addresses))
    await lab.run_bookie()
    said = await settled(lab)
    assert said == host or said.startswith(f"stock={host}:3000")


async def test_a_load_balancer_is_advertised_once_it_has_an_address() -> None:
    lab = await reached(type="LoadBalancer", sourceRanges=["198.51.100.0/24"])
    assert await settled(lab) == ""
    assert lab.api.the(SERVICE, OUTSIDE)["spec"]["loadBalancerSourceRanges"] == ["198.51.100.0/24"]
    for given, host in (({"ip": "203.0.113.9"}, "203.0.113.9"), ({"hostname": "lb.x"}, "lb.x")):
        lab.api.set_status(SERVICE, OUTSIDE, loadBalancer={"ingress": [given]})
        assert await settled(lab) == f"stock={host}:3181 run={host}:3182"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, {}),
        ({"loadBalancerNodePorts": False}, {"allocateLoadBalancerNodePorts": False}),
        ({"loadBalancerNodePorts": True}, {"allocateLoadBalancerNodePorts": True}),
        ({"loadBalancerClass": "metal"}, {"loadBalancerClass": "metal"}),
        ({"sourceRanges": ["192.0.2.0/24"]}, {"loadBalancerSourceRanges": ["192.0.2.0/24"]}),
    ],
)
async def test_a_load_balancer_is_told_what_the_spec_says_of_it_and_no_more(
    asked: dict[str, Any], said: dict[str, Any]
) -> None:
    lab = await reached(type="LoadBalancer", **asked)
    await settled(lab)
    spec = lab.api.the(SERVICE, OUTSIDE)["spec"]
    assert {name: spec[name] for name in spec if "oadBalancer" in name} == said


async def test_a_name_and_annotations_are_made_of_the_bookies_own() -> None:
    lab = await reached(
        type="LoadBalancer",
        advertisedHost="{bookie}.books.example.org",
        annotations={"external-dns.alpha.kubernetes.io/hostname": "{bookie}.books.example.org"},
    )
    assert (await settled(lab)).startswith("stock=bookie-0.books.example.org:3181")
    annotations = lab.api.the(SERVICE, OUTSIDE)["metadata"]["annotations"]
    assert list(annotations.values()) == ["bookie-0.books.example.org"]


async def test_what_is_not_wanted_any_more_goes() -> None:
    lab = await reached(type="NodePort")
    assert await settled(lab)
    lab.api.edit(CLUSTER, "demo", lambda tree: tree["spec"].pop("external"))
    lab.platform = lab.restarted()
    assert await settled(lab) == ""
    assert lab.api.find(SERVICE, OUTSIDE) is None
    lab.api.calls.clear()
    await settled(lab)
    assert not [call for call in lab.api.calls if call[:2] == ("list", "Service")]


async def test_a_bookie_that_leaves_is_reached_until_it_is_gone() -> None:
    """Ledgers name it until it is empty, and it is clients outside that read them."""
    lab = await reached(type="NodePort")
    said = await settled(lab)
    lab.api.edit(CLUSTER, "demo", lambda tree: tree["spec"].update(excludedOrdinals=[0]))
    assert await settled(lab) == said and lab.api.find(SERVICE, OUTSIDE) is not None
    lab.api.remove(STATEFUL_SET, "demo-bookie-0")
    assert await settled(lab) == said and lab.api.find(SERVICE, OUTSIDE) is not None
    lab.api.remove(POD, POD_0)
    await lab.platform.bookies()
    assert not await lab.platform.settle(lab.cluster, ClusterStatus())
    assert lab.api.find(SERVICE, OUTSIDE) is None


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


async def test_a_node_of_two_stacks_advertises_the_address_that_its_service_listens_on() -> None:
    lab = await at(("InternalIP", "10.1.0.1"), ("InternalIP", "fd00::1"), type="NodePort")
    said, _failed = await tried(lab)
    assert said.startswith("stock=10.1.0.1:")


async def test_while_a_change_of_the_type_is_refused_the_working_address_stays() -> None:
    lab = await at(("ExternalIP", "192.0.2.7"), type="LoadBalancer")
    await settled(lab)
    lab.api.set_status(SERVICE, OUTSIDE, loadBalancer={"ingress": [{"ip": "203.0.113.9"}]})
    before, _failed = await tried(lab)
    lab.api.edit(CLUSTER, "demo", lambda it: it["spec"]["external"].update(type="NodePort"))
    lab.api.refuse("patch", SERVICE, "node ports are denied by a policy")
    said, failed = await tried(lab)
    assert f"Service {OUTSIDE}" in failed and said == before


async def test_no_two_bookies_advertise_one_address() -> None:
    """A stock client's request names no bookie: docs/safety.md, "Stock clients and addresses"."""
    lab = await at(type="LoadBalancer")
    await lab.run_bookie(B1)
    there = {"ingress": [{"ip": "203.0.113.9"}]}
    for first, second in (({}, {}), (there, {}), ({}, there)):  # it goes from one to the other
        await settled(lab)
        lab.api.set_status(SERVICE, OUTSIDE, loadBalancer=first)
        lab.api.set_status(SERVICE, "demo-bookie-1-external", loadBalancer=second)
    await settled(lab)
    found = (await lab.platform.bookies()).values()
    said = [one.process.advertised for one in found if one.process]
    assert len(set(said)) == len(said) == 2


async def test_nodes_that_may_not_be_read_are_said_where_addresses_come_from_them() -> None:
    lab = await at(("InternalIP", "10.1.0.1"), type="NodePort")
    lab.api.forbid("get", NODE)
    lab.platform = lab.restarted()
    assert await tried(lab) == ("", [])
    lab.api.now += PENDING
    said, failed = await tried(lab)
    assert not said and f"Service {OUTSIDE}" in failed


@pytest.mark.parametrize(
    ("external", "why"),
    [
        ({"type": "NodePort"}, "rbac.nodes of the operator's chart"),
        ({"type": "LoadBalancer"}, "no load balancer has given it an address"),
        ({"type": "NodePort", "advertisedHost": "h"}, "or has no ports yet"),
        ({"type": "LoadBalancer", "advertisedHost": "{bookie}.h"}, "or has no ports yet"),
    ],
)
def test_why_a_bookie_is_not_reached_is_said_for_each_way_and_after_a_while(
    external: dict[str, Any], why: str
) -> None:
    own = cluster(external=external)
    assert own.spec.external is not None
    [(_kind, service)] = external_services(own, [B0])
    service["metadata"]["creationTimestamp"] = T0.isoformat()
    for after, is_said in ((timedelta(), False), (GIVEN_AFTER, True)):
        found = unreached(own.spec.external, [service], {}, now=T0 + after)
        assert list(found) == [OUTSIDE] * is_said and all(why in one for one in found.values())
    assert not unreached(own.spec.external, [service], {B0: "h:1"}, now=T0 + GIVEN_AFTER)


def test_a_long_address_in_the_status_is_whole_or_not_there() -> None:
    said = f"stock={'h' * 120}:31811 run={'h' * 120}:31812"
    one = bookie(B0, process_facts={"advertised": said})
    found = plan(cluster(), observed(one, seconds=LATER), ClusterStatus()).status.bookies[0]
    assert found.advertised in ("", said)


async def test_what_a_load_balancers_controller_notes_on_a_service_is_nobodys_fault() -> None:
    lab = await at(type="LoadBalancer")
    await settled(lab)
    noted = {"metallb.io/ip-allocated-from-pool": "first"}
    lab.api.edit(SERVICE, OUTSIDE, lambda it: it["metadata"].update(annotations=noted))
    lab.platform.noticed(SERVICE, lab.api.the(SERVICE, OUTSIDE), is_gone=False)
    await settled(lab)
    assert "ObjectRestored" not in [one["reason"] for one in lab.api.all(EVENT)]


async def test_a_service_that_lost_its_owner_does_not_stay_open_for_ever() -> None:
    """docs/kubernetes.md: this cluster's by its owner, or, without one, by its labels."""
    lab = await at(("InternalIP", "10.1.0.1"), type="NodePort")
    await settled(lab)
    lab.api.edit(SERVICE, OUTSIDE, lambda it: it["metadata"].pop("ownerReferences"))
    lab.api.edit(CLUSTER, "demo", lambda it: it["spec"].pop("external"))
    lab.platform = lab.restarted()
    await settled(lab)
    assert lab.api.find(SERVICE, OUTSIDE) is None


async def test_an_annotation_of_another_hand_is_not_fought_in_every_pass() -> None:
    lab = Lab()
    await lab.run_bookie()
    note = {names.ADVERTISED: "stock=a:1"}
    lab.api.edit(POD, POD_0, lambda it: it["metadata"]["annotations"].update(note))
    await settled(lab)
    lab.api.calls.clear()
    await settled(lab)
    assert ("patch", "Pod", POD_0) not in lab.api.calls


async def test_a_load_balancer_that_never_comes_is_said() -> None:
    lab = await at(type="LoadBalancer")
    assert await tried(lab) == ("", [])
    lab.api.now += PENDING
    await lab.platform.bookies()
    failed = await lab.platform.settle(lab.cluster, ClusterStatus())
    assert "no load balancer has given it an address" in str(failed[f"Service {OUTSIDE}"])


async def test_a_zookeeper_advertises_nothing_and_is_still_reached() -> None:
    external = {"type": "NodePort", "zookeeper": True}
    lab = Lab(metadata={"embedded": {}}, external=external)
    lab.api.put(NODE, node(("ExternalIP", "192.0.2.7")))
    await lab.run_bookie()
    await settled(lab)
    assert lab.api.find(SERVICE, "demo-zookeeper-external") is not None
    lab.api.now += PENDING
    _said, failed = await tried(lab)
    assert failed == [f"Service demo-bookie-{n}-external" for n in (1, 2, 3)]


async def test_a_paused_cluster_is_reached_as_before() -> None:
    lab = await reached(type="NodePort")
    said = await settled(lab)
    lab.api.edit(CLUSTER, "demo", lambda it: it["spec"].update(external=None, paused=True))
    lab.platform = lab.restarted()
    assert await settled(lab) == said
    assert lab.api.find(SERVICE, OUTSIDE) is not None


async def test_a_service_that_changed_just_now_goes_with_the_next_pass() -> None:
    lab = await reached(type="NodePort")
    await settled(lab)
    lab.api.edit(CLUSTER, "demo", lambda it: it["spec"].pop("external"))

    def touch() -> None:  # between the list and the deletion
        if lab.api.calls[-1][:2] == ("list", SERVICE.name):
            lab.api.set_status(SERVICE, OUTSIDE, loadBalancer={"ingress": []})

    lab.api.after_call = touch
    assert await settled(lab) == ""
    lab.api.after_call = lambda: None
    await settled(lab)
    assert lab.api.find(SERVICE, OUTSIDE) is None
