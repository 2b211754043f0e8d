"""Claims of volumes: what is asked of one takes back nothing that was asked of it before."""

import itertools
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from bookie_operator.model.status import ClusterStatus
from bookie_operator.plan.actions import RemoveBookie
from bookie_operator.platform.kubernetes import names
from bookie_operator.platform.kubernetes.api import CLAIM, CLUSTER
from kubernetes_lab import B0, Lab

LEDGER_0 = "demo-bookie-0-ledger-0"
ZOOKEEPER = "demo-zookeeper-data"
Step = Callable[[Lab, str], Awaitable[None]]


def asked(lab: Lab, name: str = LEDGER_0) -> tuple[str, str, dict[str, str]]:
    """Its uid, its size and its labels."""
    claim = lab.api.the(CLAIM, name)
    size = claim["spec"]["resources"]["requests"]["storage"]
    return claim["metadata"]["uid"], size, dict(claim["metadata"]["labels"])


def lose_a_label(lab: Lab, name: str) -> None:
    """As a person does."""
    lab.api.edit(CLAIM, name, lambda one: one["metadata"]["labels"].pop(names.COMPONENT_LABEL))


async def grows(lab: Lab, size: str) -> None:
    assert await lab.platform.expand_volume(B0, replace(lab.template().disks[1], size=size))


async def is_kept_and_taken_back(lab: Lab, _size: str) -> None:
    await lab.platform.remove_bookie(RemoveBookie(B0, "", delete_volumes=False))
    assert names.RETAINED_LABEL in asked(lab)[2]
    await lab.make_volumes()


async def loses_a_label(lab: Lab, _size: str) -> None:
    lose_a_label(lab, LEDGER_0)
    await lab.make_volumes()


STEPS: tuple[Step, ...] = (grows, is_kept_and_taken_back, loses_a_label)


@pytest.mark.parametrize("steps", list(itertools.product(STEPS, repeat=3)))
async def test_in_whatever_order_a_claim_grows_and_is_taken_back_it_is_as_it_was_asked_for(
    steps: tuple[Step, ...],
) -> None:
    lab = Lab()
    await lab.make_volumes()
    uid, size, labels = asked(lab)
    for step, larger in zip(steps, ("21Gi", "22Gi", "23Gi"), strict=True):
        await step(lab, larger)
        size = larger if step is grows else size
        assert asked(lab) == (uid, size, labels)


async def test_the_stores_claim_that_grew_is_labelled_again_at_its_size() -> None:
    lab = Lab(metadata={"embedded": {"size": "5Gi"}})
    await lab.reach_metadata()
    uid, _size, labels = asked(lab, ZOOKEEPER)
    bigger = {"embedded": {"size": "9Gi"}}
    lab.api.edit(CLUSTER, "demo", lambda tree: tree["spec"].update(metadata=bigger))
    for _ in range(2):
        await lab.reach_metadata()
        assert await lab.platform.settle(lab.cluster, ClusterStatus()) == {}
        assert asked(lab, ZOOKEEPER) == (uid, "9Gi", labels)
        lose_a_label(lab, ZOOKEEPER)


async def test_the_stores_claim_grows_only_when_its_cluster_is_paused_no_more() -> None:
    lab = Lab(metadata={"embedded": {"size": "5Gi"}})
    await lab.reach_metadata()
    bigger = {"metadata": {"embedded": {"size": "9Gi"}}, "paused": True}
    lab.api.edit(CLUSTER, "demo", lambda tree: tree["spec"].update(bigger))
    await lab.reach_metadata()
    await lab.platform.settle(lab.cluster, ClusterStatus())
    assert asked(lab, ZOOKEEPER)[1] == "5Gi"
    lab.api.edit(CLUSTER, "demo", lambda tree: tree["spec"].update(paused=False))
    await lab.reach_metadata()
    await lab.platform.settle(lab.cluster, ClusterStatus())
    assert asked(lab, ZOOKEEPER)[1] == "9Gi"
