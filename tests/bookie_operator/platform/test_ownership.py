"""Objects of others that have the names we need: left as they are, and told."""

import asyncio
from copy import deepcopy
from typing import Any

import pytest
from bookie.errors import BookieError, UnavailableError
from bookie_operator.errors import NameTakenError
from bookie_operator.handlers import KEPT
from bookie_operator.model.status import ClusterStatus
from bookie_operator.observed import JobKind
from bookie_operator.plan.actions import StartJob
from bookie_operator.platform.kubernetes import names
from bookie_operator.platform.kubernetes.api import (
    BUDGET,
    CLAIM,
    CLUSTER,
    CONFIG_MAP,
    EVENT,
    JOB,
    NETWORK_POLICY,
    ROLE,
    SERVICE,
    SERVICE_ACCOUNT,
    STATEFUL_SET,
    Kind,
    Object,
)
from bookie_operator.platform.kubernetes.platform import KubernetesPlatform
from kubernetes_lab import B0, Lab, repair_job
from operator_scenes import manifest

LEDGER_0 = "demo-bookie-0-ledger-0"


def foreign(name: str, **more: Any) -> Object:
    return {"metadata": {"name": name, "labels": {"app": "web"}}, "spec": {"own": "thing"}} | more


async def settled(lab: Lab) -> dict[str, BookieError]:
    return dict(await lab.platform.settle(lab.cluster, ClusterStatus(disruptions_allowed=1)))


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (SERVICE, "demo"),
        (SERVICE, "demo-bookies"),
        (BUDGET, "demo-bookies"),
        (SERVICE_ACCOUNT, "demo-bookie"),
        (ROLE, "demo-spark-driver"),
    ],
)
async def test_d7_an_object_of_somebody_else_is_left_as_it_is(kind: Kind, name: str) -> None:
    lab = Lab()
    lab.api.put(kind, foreign(name))
    before = deepcopy(lab.api.the(kind, name))
    failed = await settled(lab)
    assert lab.api.the(kind, name) == before
    assert list(failed) == [f"{kind.name} {name}"]
    error = failed[f"{kind.name} {name}"]
    assert isinstance(error, NameTakenError)
    assert "belongs to nobody that is known; expected none" in str(error)


async def test_d7_clusters_whose_names_clash_do_not_fight() -> None:
    lab = Lab()
    body = manifest(metadata={"connect": "zk://zk:2181/ledgers"})
    body["metadata"] = {"name": "demo-bookies"}
    lab.api.put(CLUSTER, body)
    assert not await settled(lab)
    before = deepcopy(lab.api.the(SERVICE, "demo-bookies"))
    other = lab.cluster.model_validate(lab.api.the(CLUSTER, "demo-bookies"))
    failed = await KubernetesPlatform(lab.api, other).settle(other, ClusterStatus())
    assert lab.api.the(SERVICE, "demo-bookies") == before
    assert "belongs to BookieCluster demo;" in str(failed["Service demo-bookies"])


async def test_d7_what_an_earlier_cluster_of_the_name_left_is_waited_for() -> None:
    lab = Lab()
    await settled(lab)
    body = lab.api.the(CLUSTER, "demo")
    lab.api.remove(CLUSTER, "demo")
    lab.api.put(CLUSTER, {"metadata": {"name": "demo"}, "spec": body["spec"]})
    lab.platform = lab.restarted()
    failed = await settled(lab)
    assert isinstance(failed["Service demo"], UnavailableError)
    for kind in (SERVICE, BUDGET, SERVICE_ACCOUNT, ROLE, NETWORK_POLICY):
        for one in list(lab.api.all(kind)):
            lab.api.remove(kind, one["metadata"]["name"])
    left = await settled(lab)
    assert not [name for name in left if not name.startswith("RoleBinding")]


async def test_d7_an_owner_that_was_taken_away_by_hand_is_put_back() -> None:
    lab = Lab()
    await settled(lab)
    lab.api.edit(SERVICE, "demo", lambda one: one["metadata"].pop("ownerReferences"))
    lab.platform = lab.restarted()
    assert not await settled(lab)
    assert lab.api.the(SERVICE, "demo")["metadata"]["ownerReferences"]


async def test_d7_no_bookie_starts_over_a_set_or_settings_of_somebody_else() -> None:
    for kind in (STATEFUL_SET, CONFIG_MAP):
        lab = Lab()
        await lab.run_bookie()
        [name] = [one["metadata"]["name"] for one in lab.api.all(kind)]
        lab.api.remove(kind, name)
        lab.api.put(kind, foreign(name))
        with pytest.raises(NameTakenError, match=f"{kind.name} {name} exists already"):
            await lab.platform.start_bookie(lab.template())
        assert lab.api.the(kind, name)["spec"] == {"own": "thing"}


async def test_d7_settings_with_another_content_are_not_ours() -> None:
    lab = Lab()
    await lab.run_bookie()
    [settings] = lab.api.all(CONFIG_MAP)
    settings["data"] = {"bookie.yaml": "other: words"}
    lab.platform = lab.restarted()
    await lab.reach_metadata()
    with pytest.raises(NameTakenError, match="another content"):
        await lab.platform.start_bookie(lab.template())


async def test_d7_no_strangers_set_is_fenced() -> None:
    lab = Lab()
    lab.api.put(STATEFUL_SET, foreign("demo-bookie-0", spec={"replicas": 3}))
    with pytest.raises(NameTakenError):
        await lab.platform.create_volume(B0, lab.template().disks[0])
    assert lab.api.the(STATEFUL_SET, "demo-bookie-0")["spec"] == {"replicas": 3}


@pytest.mark.parametrize("labels", [{}, {names.CLUSTER_LABEL: "other"}])
async def test_d7_a_strangers_volume_is_not_taken(labels: dict[str, str]) -> None:
    lab = Lab()
    lab.api.put(CLAIM, {"metadata": {"name": LEDGER_0, "labels": labels}, "spec": {}})
    with pytest.raises(NameTakenError):
        await lab.make_volumes()
    assert (lab.api.the(CLAIM, LEDGER_0)["metadata"].get("labels") or {}) == labels


async def test_d3_a_label_taken_from_a_volume_comes_back_and_its_bookie_runs_on() -> None:
    lab = Lab()
    before = await lab.run_bookie()
    lab.api.edit(CLAIM, LEDGER_0, lambda one: one["metadata"]["labels"].pop(names.CLUSTER_LABEL))
    assert await lab.make_volumes() == [True, True, True]
    lab.controllers.settle(2)
    assert await lab.process() == before
    assert lab.api.the(CLAIM, LEDGER_0)["metadata"]["labels"][names.CLUSTER_LABEL] == "demo"


async def test_d7_a_strangers_job_is_not_taken_for_ours() -> None:
    lab = Lab()
    await lab.reach_metadata()
    lab.api.put(JOB, foreign("demo-bookie-0-2-1"))
    with pytest.raises(NameTakenError):
        await lab.platform.start_job(repair_job())


async def test_d7_a_strangers_volume_is_no_metadata_store() -> None:
    lab = Lab(metadata={"embedded": {}})
    lab.api.put(CLAIM, {"metadata": {"name": "demo-zookeeper-data"}, "spec": {}})
    with pytest.raises(NameTakenError):
        await lab.reach_metadata()


async def test_a_label_taken_from_the_metadata_stores_volume_comes_back() -> None:
    lab = Lab(metadata={"embedded": {}})
    await lab.platform.metadata_url(lab.cluster)
    [claim] = lab.api.all(CLAIM)
    name = claim["metadata"]["name"]
    lab.api.edit(CLAIM, name, lambda one: one["metadata"]["labels"].pop(names.COMPONENT_LABEL))
    await lab.platform.metadata_url(lab.cluster)
    assert lab.api.the(CLAIM, name)["metadata"]["labels"][names.COMPONENT_LABEL] == names.ZOOKEEPER


async def test_a_fence_of_our_own_is_nobody_elses_change() -> None:
    lab = Lab()
    await lab.run_bookie()
    await settled(lab)
    job = StartJob(
        "demo-index-1", JobKind.INDEX_REBUILD, engine="", attempt=1, bookie_id=B0, disks=("x",)
    )
    assert not await lab.platform.start_job(job)
    fenced = lab.api.the(STATEFUL_SET, names.set_name("demo", B0))
    assert fenced["spec"]["replicas"] == 0
    assert not lab.platform._keeper.noticed(STATEFUL_SET, fenced, is_gone=False)


async def test_what_was_deleted_is_back_though_nobody_can_be_told() -> None:
    lab = Lab()
    await settled(lab)
    gone = deepcopy(lab.api.the(SERVICE, "demo"))
    lab.api.remove(SERVICE, "demo")
    assert lab.platform._keeper.noticed(SERVICE, gone, is_gone=True)
    lab.api.refuse("create", EVENT, "exceeded quota: count/events")
    assert not await settled(lab)
    assert lab.api.the(SERVICE, "demo")


@pytest.mark.parametrize("kind", KEPT, ids=lambda kind: kind.name)
@pytest.mark.parametrize(("is_gone", "wakes"), [(True, True), (False, False)])
async def test_whatever_goes_is_looked_after_at_once(
    kind: Kind, is_gone: bool, wakes: bool
) -> None:
    lab = Lab()
    theirs = {"metadata": {"name": "theirs", "uid": "1"}}
    lab.platform.noticed(kind, theirs, is_gone=is_gone)
    looks = asyncio.create_task(lab.platform.wait(60))
    for _turn in range(10):
        await asyncio.sleep(0)
    assert looks.done() == wakes
    looks.cancel()
