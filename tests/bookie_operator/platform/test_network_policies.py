"""Who reaches whom with the policies that are kept, by an evaluator of Kubernetes's rules.

Labels are those of the pods that are really made: a label that nobody has would let nobody in.
"""

from collections.abc import Mapping
from typing import Any, Final

import pytest
from bookie.repair.engine.driver_pod import DriverPod, executor_template
from bookie_operator.model.status import ClusterStatus
from bookie_operator.platform.kubernetes.api import CLUSTER, NETWORK_POLICY, SERVICE
from bookie_operator.platform.kubernetes.bookies import bookie_set
from bookie_operator.platform.kubernetes.jobs import job_manifest
from bookie_operator.platform.kubernetes.network_policies import network_policies
from bookie_operator.platform.kubernetes.surroundings import services, zookeeper
from helm_charts import OPERATOR, only, render
from kubernetes_lab import NAMESPACE, Lab, repair_job
from network_rules import Place, lets_in
from operator_scenes import T0

HOME: Final = "ops"
CLIENTS, CONTROL, METRICS, ZOOKEEPER, DRIVER, BLOCKS = 3182, 3183, 8080, 2181, 7078, 7079
STOCK_CLIENTS: Final = 3181
KEEPER_METRICS: Final = 7000
EMBEDDED: Final = {"metadata": {"embedded": {}}}


def at(namespace: str, labels: Mapping[str, str], address: str = "10.0.0.9") -> Place:
    return Place(address, namespace, labels, {"kubernetes.io/metadata.name": namespace})


def places(lab: Lab) -> dict[str, Place]:
    """Everybody there is: the cluster's own pods, the operator, others, the outside."""
    cluster = lab.cluster
    own = bookie_set(cluster, lab.template(), settings="s", metadata_url="zk://z:1/ledgers")
    job = job_manifest(cluster, repair_job(), metadata_url="zk://z:1/ledgers", now=T0)
    [_service, (_kind, keeper)] = zookeeper(cluster)
    driver = DriverPod("a:1", "10.0.0.1", "d", NAMESPACE, "i", cluster=cluster.metadata.name)
    operator = only(render(OPERATOR), "Deployment")["spec"]["template"]
    return {
        "bookie": at(NAMESPACE, own["spec"]["template"]["metadata"]["labels"]),
        "job": at(NAMESPACE, job["spec"]["template"]["metadata"]["labels"]),
        "zookeeper": at(NAMESPACE, keeper["spec"]["template"]["metadata"]["labels"]),
        "executor": at(NAMESPACE, executor_template(driver)["metadata"]["labels"]),
        "operator": at(HOME, operator["metadata"]["labels"]),
        "impostor": at("elsewhere", operator["metadata"]["labels"]),
        "neighbour": at(NAMESPACE, {"app": "web"}),
        "stranger": at("elsewhere", {"app": "web"}),
        "outside": Place("203.0.113.9"),
    }


def who_reaches(lab: Lab, target: str, port: int) -> set[str]:
    rules = network_policies(lab.cluster, operator_namespace=HOME)
    everybody = places(lab)
    return {
        name
        for name, source in everybody.items()
        if lets_in(
            [body for _kind, body in rules], source, everybody[target], port, namespace=NAMESPACE
        )
    }


OWN: Final = {"job", "executor"}
NEAR: Final = {"bookie", "job", "zookeeper", "executor", "neighbour"}
ALL: Final = NEAR | {"operator", "impostor", "stranger", "outside"}


@pytest.mark.parametrize(
    ("target", "port", "who"),
    [
        ("bookie", CLIENTS, NEAR),
        ("bookie", STOCK_CLIENTS, NEAR),
        ("bookie", CONTROL, OWN | {"operator", "bookie"}),
        ("bookie", METRICS, ALL),
        ("bookie", 22, set()),
        ("zookeeper", ZOOKEEPER, NEAR | {"operator"}),
        ("zookeeper", KEEPER_METRICS, ALL),
        ("zookeeper", CONTROL, set()),
        ("job", DRIVER, {"executor"}),
        ("job", BLOCKS, {"executor"}),
        ("job", 4040, set()),
        ("executor", 40000, OWN),
        ("neighbour", 80, ALL),
    ],
)
def test_each_port_is_for_those_who_need_it(target: str, port: int, who: set[str]) -> None:
    assert who_reaches(Lab(**EMBEDDED), target, port) == who


def test_a_command_in_a_bookies_pod_reaches_every_bookie_whoever_the_clients_are() -> None:
    """`kubectl exec POD -- bookie audit` and `bookie ledger read`, as the documents have them."""
    web = {"podSelector": {"matchLabels": {"app": "web"}}}
    lab = Lab(**EMBEDDED, networkPolicies={"clients": [web]})
    for port in (CLIENTS, CONTROL):
        assert "bookie" in who_reaches(lab, "bookie", port)


def test_clients_that_are_named_are_let_in_and_no_others() -> None:
    pulsar = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "elsewhere"}}}
    lab = Lab(**EMBEDDED, networkPolicies={"clients": [pulsar], "metrics": [pulsar]})
    assert who_reaches(lab, "bookie", CLIENTS) == OWN | {"stranger", "impostor", "bookie"}
    assert who_reaches(lab, "zookeeper", ZOOKEEPER) == {
        *(OWN | {"stranger", "impostor"}),
        *("bookie", "operator"),
    }
    assert who_reaches(lab, "bookie", METRICS) == {"stranger", "impostor"}
    assert who_reaches(lab, "zookeeper", KEEPER_METRICS) == {"stranger", "impostor"}
    assert who_reaches(lab, "bookie", CONTROL) == OWN | {"operator", "bookie"}


@pytest.mark.parametrize(("is_open", "who"), [(False, NEAR | {"operator"}), (True, ALL)])
def test_who_comes_from_outside_gets_to_ports_for_clients_alone(
    is_open: bool, who: set[str]
) -> None:
    lab = Lab(**EMBEDDED, external={"type": "NodePort", "zookeeper": is_open})
    assert who_reaches(lab, "bookie", CLIENTS) == ALL
    assert who_reaches(lab, "bookie", CONTROL) == OWN | {"operator", "bookie"}
    assert who_reaches(lab, "zookeeper", ZOOKEEPER) == who


def test_services_of_a_cluster_lead_to_its_bookies_alone() -> None:
    lab = Lab(**EMBEDDED)
    chosen = [body["spec"]["selector"].items() for _kind, body in services(lab.cluster)]
    everybody = places(lab).items()
    led_to = [[name for name, one in everybody if one.labels.items() >= want] for want in chosen]
    assert led_to == [["bookie"], ["bookie"]]


async def test_the_operator_keeps_them_and_takes_them_away() -> None:
    lab = Lab(**EMBEDDED)
    await lab.run_bookie()
    await lab.platform.settle(lab.cluster, ClusterStatus())
    names = [one["metadata"]["name"] for one in lab.api.all(NETWORK_POLICY)]
    assert names == ["demo-bookie", "demo-executor", "demo-job", "demo-zookeeper"]
    lab.api.edit(
        CLUSTER, "demo", lambda tree: tree["spec"].update(networkPolicies={"enabled": False})
    )
    await lab.platform.settle(lab.cluster, ClusterStatus())
    assert lab.api.all(NETWORK_POLICY) == []


async def test_at_rest_nobody_is_asked_about_them() -> None:
    lab = Lab(**EMBEDDED)
    await lab.run_bookie()
    await lab.platform.settle(lab.cluster, ClusterStatus())
    lab.api.calls.clear()
    await lab.platform.settle(lab.cluster, ClusterStatus())
    kinds = {kind for _verb, kind, _name in lab.api.calls}
    assert not kinds & {NETWORK_POLICY.name, SERVICE.name}


async def test_one_of_somebody_else_is_left_alone() -> None:
    lab = Lab(**EMBEDDED)
    foreign: dict[str, Any] = {"metadata": {"name": "demo-bookie"}, "spec": {"podSelector": {}}}
    lab.api.put(NETWORK_POLICY, foreign)
    failed = await lab.platform.settle(lab.cluster, ClusterStatus())
    assert "NetworkPolicy demo-bookie" in failed
    assert lab.api.the(NETWORK_POLICY, "demo-bookie")["spec"] == {"podSelector": {}}


def test_an_operator_that_runs_elsewhere_is_not_shut_out() -> None:
    lab = Lab(**EMBEDDED)
    rules = [body for _kind, body in network_policies(lab.cluster, operator_namespace="")]
    everybody = places(lab)
    for target, port in (("bookie", CONTROL), ("zookeeper", ZOOKEEPER)):
        assert lets_in(rules, everybody["outside"], everybody[target], port, namespace=NAMESPACE)
