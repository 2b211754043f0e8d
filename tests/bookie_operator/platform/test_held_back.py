"""A bookie that is held back keeps its settings, whatever is done to its objects."""

from typing import Any

import pytest
from bookie.ids import BookieId
from bookie_operator.apply import Applier
from bookie_operator.control import GrpcControl
from bookie_operator.model.cluster import ClusterSpec
from bookie_operator.model.status import ClusterStatus
from bookie_operator.observed import JobKind
from bookie_operator.plan.actions import RestartBookie, StartBookie, StartJob
from bookie_operator.platform.kubernetes.api import (
    CLAIM,
    CLUSTER,
    CONFIG_MAP,
    POD,
    STATEFUL_SET,
    Kind,
    Object,
)
from bookie_operator.platform.kubernetes.kept import Seen, kept_objects
from fake_api import copied
from kubernetes_lab import B0, POD_0, Lab
from operator_scenes import observed

B1 = BookieId("bookie-1")
SET_0 = "demo-bookie-0"
OLD_IMAGE = str(ClusterSpec.model_fields["image"].default)
HELD = {"image": "new:1", "rollout": {"partition": 4}}


def image(thing: Object) -> str:
    return str(thing["spec"]["containers"][0]["image"])


async def held_back() -> Lab:
    """It runs with the old image, and the spec has a new one."""
    lab = Lab()
    await lab.run_bookie()
    await lab.platform.settle(lab.cluster, ClusterStatus())
    lab.api.edit(CLUSTER, "demo", lambda it: it["spec"].update(HELD))
    return lab


async def settled(lab: Lab) -> None:
    await lab.platform.bookies()
    assert not await lab.platform.settle(lab.cluster, ClusterStatus())


async def started_as_before(lab: Lab) -> str:
    """The image that it runs with after the planner had it started."""
    await lab.platform.start_bookie(lab.template(), keeps_settings=True)
    lab.controllers.settle(3)
    return image(lab.api.the(POD, POD_0))


@pytest.mark.parametrize("keeps", [True, False])
async def test_who_is_restarted_has_the_settings_that_were_planned(keeps: bool) -> None:
    lab = await held_back()
    restart = RestartBookie(lab.template(), await lab.instance(), "Requested", keeps)
    await Applier(lab.platform, GrpcControl()).apply(restart, observed=observed(), store=None)
    lab.controllers.settle(3)
    assert image(lab.api.the(POD, POD_0)) == (OLD_IMAGE if keeps else "new:1")


@pytest.mark.parametrize("keeps", [True, False])
async def test_who_is_started_has_the_settings_that_were_planned(keeps: bool) -> None:
    lab = await held_back()
    lab.api.remove(STATEFUL_SET, SET_0)
    lab.controllers.settle(2)
    start = StartBookie(lab.template(), keeps)
    await Applier(lab.platform, GrpcControl()).apply(start, observed=observed(), store=None)
    lab.controllers.settle(3)
    assert image(lab.api.the(POD, POD_0)) == (OLD_IMAGE if keeps else "new:1")


async def test_a_set_that_somebody_took_away_is_back_as_it_was() -> None:
    lab = await held_back()
    lab.api.remove(STATEFUL_SET, SET_0)
    lab.controllers.settle(2)
    assert lab.api.find(POD, POD_0) is None
    assert await started_as_before(lab) == OLD_IMAGE


@pytest.mark.parametrize(
    "data", [None, {}, {"bookie.yaml": "["}, {"bookie.yaml": "a: b"}, {"bookie.yaml": "journal: 1"}]
)
async def test_a_set_that_somebody_gave_other_settings_gets_the_specs(data: Object | None) -> None:
    lab = await held_back()
    lab.api.put(CONFIG_MAP, {"metadata": {"name": "theirs"}} | ({"data": data} if data else {}))

    def stop_with_theirs(tree: Object) -> None:
        tree["spec"]["replicas"] = 0
        tree["spec"]["template"]["spec"]["volumes"][0]["configMap"]["name"] = "theirs"

    lab.api.edit(STATEFUL_SET, SET_0, stop_with_theirs)
    lab.controllers.settle(2)
    assert await started_as_before(lab) == "new:1"


async def test_a_set_that_somebody_changed_is_put_back() -> None:
    lab = await held_back()

    def evil(tree: Object) -> None:
        tree["spec"]["template"]["spec"]["containers"][0]["image"] = "evil:1"

    lab.api.edit(STATEFUL_SET, SET_0, evil)
    lab.platform.noticed(STATEFUL_SET, lab.api.the(STATEFUL_SET, SET_0), is_gone=False)
    await settled(lab)
    assert image(lab.api.the(STATEFUL_SET, SET_0)["spec"]["template"]) == OLD_IMAGE


async def test_settings_that_somebody_took_away_are_back() -> None:
    lab = await held_back()
    [settings] = [one["metadata"]["name"] for one in lab.api.all(CONFIG_MAP)]
    gone = lab.api.the(CONFIG_MAP, settings)
    lab.api.remove(CONFIG_MAP, settings)
    lab.platform.noticed(CONFIG_MAP, gone, is_gone=True)
    await settled(lab)
    assert lab.api.find(CONFIG_MAP, settings) is not None


@pytest.mark.parametrize(
    ("kind", "spec"),
    [(CONFIG_MAP, HELD), (CONFIG_MAP, {}), (STATEFUL_SET, {})],
    ids=["held back", "settings", "sets"],
)
async def test_what_somebody_took_away_of_all_bookies_is_back_of_all(
    kind: Kind, spec: dict[str, Any]
) -> None:
    lab = Lab(tls={"mode": "Off"})
    for one in (B0, B1):
        await lab.run_bookie(one)
    await settled(lab)
    lab.api.edit(CLUSTER, "demo", lambda it: it["spec"].update(spec))
    before = list(lab.api.all(kind))
    for thing in before:
        lab.api.remove(kind, thing["metadata"]["name"])
        lab.platform.noticed(kind, thing, is_gone=True)
    await settled(lab)
    back = {one["metadata"]["name"] for one in lab.api.all(kind)}
    assert back == {one["metadata"]["name"] for one in before} and len(back) == 2


@pytest.mark.parametrize("paused", [True, False])
async def test_in_a_pause_nothing_is_put_back(paused: bool) -> None:
    lab = Lab(tls={"mode": "Off"})
    await lab.run_bookie()
    await settled(lab)
    lab.api.edit(CLUSTER, "demo", lambda it: it["spec"].update(paused=paused))
    [settings] = lab.api.all(CONFIG_MAP)
    lab.api.remove(CONFIG_MAP, settings["metadata"]["name"])
    lab.platform.noticed(CONFIG_MAP, settings, is_gone=True)
    await settled(lab)
    assert bool(lab.api.all(CONFIG_MAP)) is not paused


async def test_a_job_on_its_disks_is_no_rollout_though_the_operator_was_restarted() -> None:
    lab = await held_back()
    job = StartJob("rebuild", JobKind.INDEX_REBUILD, "inline", 1, B0, 1, disks=("ledger-0",))
    while not await lab.platform.start_job(job):  # fences it first
        lab.controllers.settle()
    lab.platform = lab.restarted()
    await lab.reach_metadata()
    assert await started_as_before(lab) == OLD_IMAGE


async def test_one_whose_volume_was_replaced_starts_with_the_new_settings() -> None:
    lab = await held_back()
    uid = (await lab.bookie()).volumes["ledger-0"].uid
    await lab.platform.replace_volume(B0, "ledger-0", uid=uid)
    lab.controllers.settle(3)
    await lab.make_volumes()
    assert await started_as_before(lab) == "new:1"


async def test_of_a_set_that_nobody_knows_any_more_the_spec_counts() -> None:
    lab = await held_back()
    lab.api.remove(STATEFUL_SET, SET_0)
    lab.controllers.settle(2)
    lab.platform = lab.restarted()
    await lab.reach_metadata()
    assert await started_as_before(lab) == "new:1"


async def test_settings_that_nobody_knows_any_more_are_those_of_the_spec() -> None:
    """Else its pod waits for them for ever: the planner starts nobody whose pod is there."""
    lab = await held_back()
    lab.platform = lab.restarted()
    await lab.reach_metadata()
    for one in lab.api.all(CONFIG_MAP):
        lab.api.remove(CONFIG_MAP, one["metadata"]["name"])
    lab.api.remove(POD, POD_0)
    assert await started_as_before(lab) == "new:1"


@pytest.mark.parametrize("is_going", [True, False])
async def test_only_a_set_that_stays_is_put_back(is_going: bool) -> None:
    lab = await held_back()

    def evil(tree: Object) -> None:
        tree["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z"} if is_going else {}
        tree["spec"]["template"]["spec"]["containers"][0]["image"] = "evil:1"

    lab.api.edit(STATEFUL_SET, SET_0, evil)
    lab.platform.noticed(STATEFUL_SET, lab.api.the(STATEFUL_SET, SET_0), is_gone=False)
    await settled(lab)
    now = image(lab.api.the(STATEFUL_SET, SET_0)["spec"]["template"])
    assert now == ("evil:1" if is_going else OLD_IMAGE)


def look(lab: Lab, *, without: int | None = None) -> Seen:
    """At the objects of its bookie; `without`: the number of a volume that somebody deleted."""
    claims = [copied(one) for one in lab.api.all(CLAIM)]
    if without is not None:
        claims[without]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return Seen(lab.api.all(POD), claims, lab.api.all(STATEFUL_SET))


def kinds(lab: Lab, seen: Seen, url: str = "zk://zk:2181/ledgers") -> set[Kind]:
    """Of all that is kept; the operator remembers nothing that it wrote."""
    found = kept_objects(lab.cluster, seen, metadata_url=url, remembered=lambda kind, name: None)
    return {kind for kind, _ in found}


@pytest.mark.parametrize("number", range(3))
async def test_a_bookie_that_lacks_a_volume_is_given_no_settings_of_the_others(number: int) -> None:
    lab = Lab()
    await lab.run_bookie()
    assert kinds(lab, look(lab)) == {CONFIG_MAP, STATEFUL_SET}
    assert kinds(lab, look(lab, without=number)) == set()


async def test_nothing_is_kept_while_nobody_knows_where_the_metadata_store_is() -> None:
    lab = Lab()
    await lab.run_bookie()
    assert kinds(lab, look(lab), url="") == set()
