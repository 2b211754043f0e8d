"""The loop of one cluster over a fake API server, in virtual time."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from bookie.errors import UnavailableError
from bookie_operator.fleet import FAILED_TICK_S, IDLE_TICK_S, Fleet
from bookie_operator.handlers import KEPT
from bookie_operator.metrics import OperatorMetrics
from bookie_operator.model.condition_types import ConditionType
from bookie_operator.plan.failures import RETRY_MAX
from bookie_operator.platform.kubernetes.api import (
    BUDGET,
    CLAIM,
    CLUSTER,
    CONFIG_MAP,
    EVENT,
    NODE,
    POD,
    ROLE,
    ROLE_BINDING,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    STATEFUL_SET,
    TASK,
    Kind,
    Object,
)
from bookie_operator.platform.kubernetes.keeper import value_at
from bookie_operator.platform.kubernetes.names import BOOKIE_LABEL, CLUSTER_LABEL
from bookie_operator.platform.kubernetes.progress import EVERY
from fake_pods import FakeBookies
from kubernetes_lab import Lab
from prometheus_client import CollectorRegistry
from virtual_time import clock, in_virtual_time

LAST = "demo-bookie-3-0"


class Life:
    """A fleet that runs beside the test."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.bookies = FakeBookies(lab.controllers)
        self.metrics = OperatorMetrics()
        self.is_stopped = False
        lab.api.watch = self.tell
        self.start()

    def start(self) -> None:
        """An operator that knows nothing but the objects."""
        self.fleet = Fleet(
            self.lab.api,
            "demo",
            metrics=self.metrics,
            control=lambda _credentials: self.bookies,
            opener=self.bookies.open_store,
            clock=lambda: self.lab.api.now,
        )
        self.running = asyncio.ensure_future(self.fleet.run(lambda: self.is_stopped))

    def tell(self, kind: Kind, thing: Object, is_gone: bool) -> None:
        """What `handlers` makes of watches."""
        labels = thing["metadata"].get("labels") or {}
        if kind in KEPT and labels.get(CLUSTER_LABEL) == "demo":
            self.fleet.noticed(kind, thing, is_gone=is_gone)

    async def go_on(self, seconds: float) -> None:
        """With a look of the controllers every half a second."""
        for _ in range(int(seconds * 2)):
            await asyncio.sleep(0.5)
            self.lab.api.now += timedelta(seconds=0.5)
            self.bookies.step()

    async def until(self, is_so: Callable[[], bool], seconds: float = 60.0) -> float:
        """How long it took."""
        began = clock()
        while not is_so():
            assert clock() - began < seconds, self.lab.api.find(CLUSTER, "demo")
            await self.go_on(0.5)
        return clock() - began

    async def end(self) -> None:
        self.running.cancel()
        await asyncio.gather(self.running, return_exceptions=True)

    @property
    def status(self) -> Any:
        return self.lab.cluster.status

    def degraded(self) -> str:
        found = self.status.condition(ConditionType.DEGRADED)
        return f"{found.reason}: {found.message}" if found and found.status == "True" else ""

    def events(self, reason: str) -> list[Object]:
        return [one for one in self.lab.api.all(EVENT) if one["reason"] == reason]

    def pods(self) -> list[Object]:
        return [one for one in self.lab.api.all(POD) if BOOKIE_LABEL in one["metadata"]["labels"]]

    def tries(self, verb: str, kind: Kind) -> int:
        return sum(call[:2] == (verb, kind.name) for call in self.lab.api.calls)

    def passes(self, result: str) -> float:
        return sample(self.metrics.registry, "bookie_operator_passes_total", result=result)


def sample(registry: CollectorRegistry, name: str, **labels: str) -> float:
    whole = {"namespace": "fleet", "cluster": "demo"} | labels
    return registry.get_sample_value(name, whole) or 0.0


async def serving(replicas: int = 3, **spec: Any) -> Life:
    life = Life(Lab(replicas=replicas, audit={"schedule": "@never"}, **spec))
    await life.bookies.register(*life.lab.cluster.spec.bookie_ids)
    await life.until(lambda: life.status.is_true(ConditionType.DURABILITY_VERIFIED))
    return life


def make_invalid(tree: Object) -> None:
    tree["spec"]["replicas"] = 1


@in_virtual_time
async def test_a_cluster_at_rest_is_looked_at_now_and_then() -> None:
    life = await serving()
    await life.go_on(20)
    looks = life.passes("done")
    await life.go_on(3 * IDLE_TICK_S)
    assert life.passes("done") - looks <= 4
    await life.end()


def be_wrong(life: Life) -> None:
    life.lab.api.edit(CLUSTER, "demo", make_invalid)


def deny_a_look(life: Life) -> None:
    life.lab.api.forbid("list", POD)


def refuse_an_event(life: Life) -> None:
    life.lab.api.refuse("create", EVENT, "exceeded quota")
    life.lab.controllers.restart_container("demo-bookie-1-0")


def refuse_a_service(life: Life) -> None:
    life.lab.api.refuse("patch", SERVICE, "exceeded quota")
    life.lab.api.edit(SERVICE, "demo", lambda one: one["spec"].update(selector={"app": "other"}))


def refuse_a_claim(life: Life) -> None:
    life.lab.api.refuse("create", CLAIM, "exceeded quota")
    life.lab.api.edit(CLUSTER, "demo", lambda tree: tree["spec"].update(replicas=4))


HINDERS = (be_wrong, deny_a_look, refuse_an_event, refuse_a_service, refuse_a_claim)


@pytest.mark.parametrize("hinder", HINDERS)
@in_virtual_time
async def test_whatever_was_in_the_way_once_it_has_passed_a_cluster_comes_to_rest_as_before(
    hinder: Callable[[Life], None],
) -> None:
    life = await serving()
    hinder(life)
    await life.go_on(30)
    life.lab.api.allow_all()
    life.lab.api.edit(CLUSTER, "demo", lambda tree: tree["spec"].update(replicas=4))
    await life.until(lambda: life.status.phase == "Running" and life.status.ready_replicas == 4)
    await life.go_on(40)
    looks, failed = life.passes("done"), life.passes("failed")
    await life.go_on(3 * IDLE_TICK_S)
    assert life.passes("done") - looks <= 4 and life.passes("failed") == failed
    await life.end()


def pause(life: Life) -> None:
    life.lab.api.edit(CLUSTER, "demo", lambda tree: tree["spec"].update(paused=True))


@pytest.mark.parametrize("hinder", [pause, be_wrong, deny_a_look, refuse_a_claim])
@in_virtual_time
async def test_a_cluster_at_rest_that_does_not_run_is_looked_at_every_few_seconds(
    hinder: Callable[[Life], None],
) -> None:
    life = await serving()
    hinder(life)
    await life.go_on(60)
    looks = life.passes("done") + life.passes("failed")
    await life.go_on(60)
    looks = life.passes("done") + life.passes("failed") - looks
    assert life.lab.api.the(CLUSTER, "demo")["status"]["phase"] != "Running"
    assert abs(looks - 60 / FAILED_TICK_S) <= 2
    await life.end()


@in_virtual_time
async def test_being_woken_ends_the_rest() -> None:
    life = await serving()
    await life.go_on(20)
    looks = life.passes("done")
    life.fleet.wake()
    await life.go_on(1)
    assert life.passes("done") == looks + 1
    await life.end()


@in_virtual_time
async def test_a_wrong_spec_is_a_condition_and_told_once() -> None:
    life = await serving()
    life.lab.api.edit(CLUSTER, "demo", make_invalid)
    await life.until(lambda: is_invalid(life))
    written = life.lab.api.calls.count(("update", "BookieCluster", "demo"))
    await life.go_on(5 * FAILED_TICK_S)
    assert life.lab.api.calls.count(("update", "BookieCluster", "demo")) == written > 0
    [told] = life.events("InvalidSpec")
    assert told["count"] == 1 and "replicas" in told["message"]
    assert len(life.lab.api.all(POD)) == 4, "what ran runs on (and the audit's pod lies there)"
    await life.end()


def is_invalid(life: Life) -> bool:
    status = life.lab.api.the(CLUSTER, "demo")["status"]
    return bool(status["phase"] == "InvalidSpec" and status["observedGeneration"] == 2)


@in_virtual_time
async def test_a_wrong_spec_is_a_condition_while_events_are_refused() -> None:
    life = await serving()
    life.lab.api.refuse("create", EVENT, "exceeded quota")
    life.lab.api.edit(CLUSTER, "demo", make_invalid)
    await life.until(lambda: is_invalid(life))
    await life.end()


@in_virtual_time
async def test_a_mended_spec_goes_on_from_where_it_was() -> None:
    life = await serving()
    life.lab.api.edit(CLUSTER, "demo", make_invalid)
    await life.until(lambda: is_invalid(life))
    life.lab.api.edit(CLUSTER, "demo", lambda tree: tree["spec"].update(replicas=3))
    await life.until(lambda: not life.degraded())
    assert life.status.phase == "Running" and not life.status.incidents
    await life.end()


@in_virtual_time
async def test_a_loop_that_cannot_work_still_lives() -> None:
    life = await serving()
    hinders: tuple[Callable[[], None], ...] = (
        lambda: life.lab.api.edit(CLUSTER, "demo", make_invalid),
        lambda: setattr(life.lab.api, "is_away", True),
    )
    for hinder in hinders:
        hinder()
        failed = life.passes("failed")
        await life.go_on(4 * FAILED_TICK_S + IDLE_TICK_S)
        assert life.passes("failed") >= failed + 3
    await life.end()


@in_virtual_time
async def test_a_fleet_ends_with_its_object() -> None:
    life = await serving()
    life.lab.api.remove(CLUSTER, "demo")
    life.fleet.wake()
    await life.go_on(1)
    assert life.running.done() and life.running.exception() is None
    assert sample(life.metrics.registry, "bookie_operator_limbo_ledgers") == 0


@in_virtual_time
async def test_a_fleet_leaves_a_cluster_that_is_being_deleted_alone() -> None:
    life = await serving()
    life.lab.api.edit(CLUSTER, "demo", lambda one: one["metadata"].update(finalizers=["a/b"]))
    life.lab.api.begin_deletion(CLUSTER, "demo")
    life.fleet.wake()
    await life.go_on(1)
    assert life.running.done()


@in_virtual_time
async def test_another_object_of_the_same_name_is_another_fleets() -> None:
    life = await serving()
    body = life.lab.api.the(CLUSTER, "demo")
    life.lab.api.remove(CLUSTER, "demo")
    life.lab.api.put(CLUSTER, {"metadata": {"name": "demo"}, "spec": body["spec"]})
    life.fleet.wake()
    await life.go_on(1)
    assert life.running.done()


@in_virtual_time
async def test_a_fleet_ends_when_told_to() -> None:
    life = await serving()
    life.is_stopped = True
    await life.go_on(IDLE_TICK_S + 1)
    assert life.running.done()


@in_virtual_time
async def test_a_lacking_permission_is_a_condition_and_passes() -> None:
    life = Life(Lab(replicas=3))
    await life.bookies.register(*life.lab.cluster.spec.bookie_ids)
    life.lab.api.forbid("create", CLAIM)
    await life.until(lambda: life.degraded().startswith("Forbidden"))
    assert 'cannot create resource "persistentvolumeclaims"' in life.degraded()
    life.lab.api.allow_all()
    await life.until(lambda: not life.degraded())
    await life.end()


@in_virtual_time
async def test_d1_refused_claims_hold_up_no_repair_and_are_told() -> None:
    life = await serving(replicas=4)
    life.lab.api.refuse("create", CLAIM, "exceeded quota: disks, used: 12, limited: 12")
    life.lab.api.edit(CLUSTER, "demo", lambda tree: tree["spec"].update(replicas=5))
    life.lab.controllers.restart_container("demo-bookie-1-0")
    await life.until(lambda: bool(life.status.incidents))
    await life.until(lambda: life.status.incidents[0].outcome.value == "Cleared")
    await life.until(lambda: life.degraded().startswith("ActionFailed: bookie-4: CreateVolume"))
    told = [one.message for one in life.status.blocked if one.action == "CreateVolume"]
    assert len(told) == 3 and all("exceeded quota" in one for one in told)
    life.lab.api.allow_all()
    await life.until(lambda: life.status.ready_replicas == 5)
    assert not life.degraded()
    await life.end()


@in_virtual_time
async def test_d1_what_fails_is_tried_again_ever_more_seldom() -> None:
    life = await serving()
    life.lab.api.refuse("create", CLAIM, "exceeded quota")
    life.lab.api.edit(CLUSTER, "demo", lambda tree: tree["spec"].update(replicas=4))
    await life.until(lambda: life.degraded().startswith("ActionFailed"))
    await life.go_on(60)
    before = life.tries("create", CLAIM)
    await life.go_on(10 * RETRY_MAX.total_seconds())
    assert 3 * 9 <= life.tries("create", CLAIM) - before <= 3 * 11, "three claims of one bookie"
    await life.end()


@in_virtual_time
async def test_a_denied_look_is_a_condition_and_told_once() -> None:
    life = await serving()
    life.lab.api.forbid("list", POD)
    await life.until(lambda: life.degraded().startswith("Forbidden"))
    await life.go_on(30)
    assert [one["count"] for one in life.events("Forbidden")] == [1]
    await life.end()


@in_virtual_time
async def test_d6_a_denied_look_is_no_good_pass() -> None:
    life = await serving()
    life.lab.api.forbid("list", POD)
    await life.until(lambda: life.degraded().startswith("Forbidden"))
    before = [life.passes(result) for result in ("done", "failed")]
    last = sample(life.metrics.registry, "bookie_operator_last_pass_timestamp_seconds")
    await life.go_on(30)
    assert life.passes("done") == before[0] and life.passes("failed") > before[1]
    assert sample(life.metrics.registry, "bookie_operator_last_pass_timestamp_seconds") == last
    assert sample(life.metrics.registry, "bookie_operator_condition", type="Degraded") == 1
    await life.end()


@in_virtual_time
async def test_d6_a_wrong_spec_counts_as_degraded() -> None:
    life = await serving()
    life.lab.api.edit(CLUSTER, "demo", make_invalid)
    await life.until(lambda: is_invalid(life))
    await life.go_on(1)
    assert sample(life.metrics.registry, "bookie_operator_condition", type="Degraded") == 1
    await life.end()


@in_virtual_time
async def test_an_operator_that_finds_a_wrong_spec_at_its_start_has_figures_of_it() -> None:
    life = await serving()
    life.lab.api.edit(CLUSTER, "demo", make_invalid)
    await life.until(lambda: is_invalid(life))
    await life.end()
    life.metrics = OperatorMetrics()
    life.start()
    await life.go_on(1)
    assert sample(life.metrics.registry, "bookie_operator_condition", type="Degraded") == 1
    await life.end()


@in_virtual_time
async def test_an_outage_of_the_api_server_ends_nothing() -> None:
    life = await serving()
    for seconds in (1, 30, 400):
        life.lab.api.is_away = True
        await life.go_on(seconds)
        life.lab.api.is_away = False
        life.lab.controllers.restart_container("demo-bookie-1-0")
        number = len(life.status.incidents) + 1
        await life.until(lambda n=number: len(life.status.incidents) == n)  # type: ignore[misc]
    assert not life.running.done()
    await life.end()


@in_virtual_time
async def test_a_pass_that_fails_halfway_is_followed_by_another() -> None:
    life = await serving()
    calls = iter(range(1000))

    def fail() -> None:
        if next(calls) % 17 == 16:
            raise UnavailableError("the connection broke")

    life.lab.api.after_call = fail
    life.lab.controllers.restart_container("demo-bookie-1-0")
    await life.until(lambda: bool(life.status.incidents), 120)
    life.lab.api.after_call = lambda: None
    await life.until(lambda: life.status.incidents[0].outcome.value == "Cleared")
    assert len(life.events("UncleanShutdown")) == 1
    await life.end()


@in_virtual_time
async def test_an_unclean_restart_is_seen_within_five_seconds_of_waking() -> None:
    life = await serving()
    await life.go_on(20)
    life.lab.controllers.restart_container("demo-bookie-1-0")
    life.fleet.wake()
    assert await life.until(lambda: bool(life.status.incidents)) < 5


@in_virtual_time
async def test_figures_follow_the_status() -> None:
    life = await serving()
    registry = life.metrics.registry
    limbo = "bookie_operator_limbo_ledgers"
    condition = "bookie_operator_condition"
    assert sample(registry, condition, type="Available") == 1
    life.lab.controllers.restart_container("demo-bookie-1-0")
    await life.until(lambda: sample(registry, limbo) == 3)
    assert sample(registry, condition, type="LimboPresent") == 1
    await life.until(lambda: sample(registry, limbo) == 0)
    assert sample(registry, "bookie_operator_actions_total", type="StartJob") >= 2
    await life.end()


@in_virtual_time
async def test_how_far_a_job_is_shows_every_few_seconds_and_no_more_often() -> None:
    life = await serving()
    life.bookies.endless.add("demo-scrub-1")
    life.lab.api.put(
        TASK, {"metadata": {"name": "t"}, "spec": {"cluster": "demo", "type": "scrub"}}
    )
    life.fleet.wake()
    await life.until(lambda: life.status.scrub.running)
    before, seen = life.lab.api.calls.count(("update", "BookieCluster", "demo")), set()
    for second in range(60):
        life.lab.api.logs["demo-scrub-1-pod"] = f"12:00:00 {second} ledgers looked at\n"
        await life.go_on(1)
        seen.add(life.status.scrub.progress)
    written = life.lab.api.calls.count(("update", "BookieCluster", "demo")) - before
    assert len(seen) >= 6 and written <= 60 / EVERY.total_seconds() + 1
    await life.end()


@in_virtual_time
async def test_a_bookie_that_leaves_is_stopped_once_though_it_stops_slowly() -> None:
    """Its pod's hook runs for a while, and until then the bookie answers as before."""
    life = await serving(replicas=4)
    life.lab.controllers.clings.add("demo-bookie-3-0")
    life.lab.api.edit(CLUSTER, "demo", lambda tree: tree["spec"].update(replicas=3))
    await life.until(lambda: "deletionTimestamp" in life.lab.api.the(POD, LAST)["metadata"])
    await life.go_on(20)
    life.lab.controllers.clings.clear()
    await life.until(lambda: life.lab.api.find(STATEFUL_SET, "demo-bookie-3") is None)
    await life.go_on(20)
    assert life.lab.api.find(POD, LAST) is None
    assert life.bookies.boots["bookie-3"].epoch == 1
    assert [one.id for one in life.status.bookies] == [f"bookie-{n}" for n in range(3)]
    assert [one["count"] for one in life.events("BookieRemoving")] == [1]
    await life.end()


@in_virtual_time
async def test_a_bookie_that_left_comes_back_on_its_volumes() -> None:
    life = await serving(replicas=4)
    before = life.lab.api.the(CLAIM, "demo-bookie-3-ledger-0")["metadata"]["uid"]
    life.lab.api.edit(CLUSTER, "demo", lambda tree: tree["spec"].update(replicas=3))
    await life.until(lambda: len(life.status.bookies) == 3)
    life.lab.api.edit(CLUSTER, "demo", lambda tree: tree["spec"].update(replicas=4))
    await life.until(lambda: [one.state for one in life.status.bookies] == ["Serving"] * 4)
    after = life.lab.api.the(CLAIM, "demo-bookie-3-ledger-0")["metadata"]["uid"]
    assert (after, life.bookies.boots["bookie-3"].epoch) == (before, 2)
    await life.end()


@in_virtual_time
async def test_nothing_that_the_operator_does_is_called_somebody_elses() -> None:
    life = await serving(replicas=4)
    for kind, name in ((CLAIM, "demo-bookie-1-ledger-0"), (POD, "demo-bookie-1-0")):
        life.lab.api.remove(kind, name)
    await life.until(lambda: life.lab.api.find(CLAIM, "demo-bookie-1-ledger-0") is not None)
    await life.until(lambda: life.lab.api.find(POD, "demo-bookie-1-0") is not None)
    await life.go_on(30)
    assert not life.events("ObjectRestored")
    await life.end()


# What the cluster needs is kept (kind-review D3)


async def rested() -> Life:
    """At rest: nothing but a watch or the idle tick would start a pass."""
    life = await serving()
    await life.go_on(30)
    return life


@pytest.mark.parametrize("kind", KEPT, ids=lambda kind: kind.plural)
@in_virtual_time
async def test_d3_what_is_deleted_is_back_within_seconds_and_told(kind: Kind) -> None:
    life = await rested()
    before = [one["metadata"]["name"] for one in life.lab.api.all(kind)]
    assert before
    for name in before:
        life.lab.api.remove(kind, name)
    await life.go_on(2)
    assert [one["metadata"]["name"] for one in life.lab.api.all(kind)] == before
    told = [one["message"] for one in life.events("ObjectRestored")]
    assert len([one for one in told if "was deleted by somebody else" in one]) == len(before)
    assert [one["status"]["containerStatuses"][0]["restartCount"] for one in life.pods()] == [0] * 3
    await life.end()


@pytest.mark.parametrize(
    ("kind", "name", "path", "value"),
    [
        (BUDGET, "demo-bookies", ("spec", "maxUnavailable"), 5),
        (SERVICE, "demo", ("spec", "selector"), {"app": "other"}),
        (SERVICE_ACCOUNT, "demo-bookie", ("automountServiceAccountToken",), True),
        (ROLE, "demo-spark-driver", ("rules",), []),
        (ROLE_BINDING, "demo-spark-driver", ("subjects",), []),
        (STATEFUL_SET, "demo-bookie-0", ("spec", "updateStrategy", "type"), "RollingUpdate"),
    ],
)
@in_virtual_time
async def test_d3_what_is_changed_by_hand_is_put_back(
    kind: Kind, name: str, path: tuple[str, ...], value: Any
) -> None:
    life = await rested()
    was = value_at(life.lab.api.the(kind, name), path)

    def change(tree: Object) -> None:
        value_at(tree, path[:-1])[path[-1]] = value

    life.lab.api.edit(kind, name, change)
    assert value_at(life.lab.api.the(kind, name), path) == value != was
    await life.go_on(2)
    assert value_at(life.lab.api.the(kind, name), path) == was
    [told] = life.events("ObjectRestored")
    assert told["message"] == f"{kind.name} {name} was changed by somebody else: put back as it was"
    await life.end()


@in_virtual_time
async def test_d3_a_pod_that_comes_up_again_finds_its_settings() -> None:
    life = await rested()
    [name] = [n for n in settings(life) if n.startswith("demo-bookie-0-")]
    life.lab.api.remove(CONFIG_MAP, name)
    life.lab.api.begin_deletion(POD, "demo-bookie-0-0")
    await life.go_on(10)
    assert name in settings(life)
    assert life.bookies.boots["bookie-0"].epoch == 2 and life.status.ready_replicas == 3
    await life.end()


@in_virtual_time
async def test_d3_settings_that_an_operator_finds_missing_at_its_start_are_made() -> None:
    life = await rested()
    await life.end()
    before = settings(life)
    for name in before:
        life.lab.api.remove(CONFIG_MAP, name)
    life.start()
    await life.go_on(5)
    assert settings(life) == before
    await life.end()


@in_virtual_time
async def test_d3_own_writes_and_controllers_start_no_pass() -> None:
    life = await rested()
    looks = life.passes("done")
    life.lab.api.set_status(BUDGET, "demo-bookies", disruptionsAllowed=1)
    life.lab.api.set_status(STATEFUL_SET, "demo-bookie-0", readyReplicas=1)
    await life.go_on(5)
    assert life.passes("done") - looks <= 1 and not life.events("ObjectRestored")
    await life.end()


@in_virtual_time
async def test_d3_a_disruption_budget_that_cannot_be_made_is_told() -> None:
    life = await rested()
    life.lab.api.refuse("patch", BUDGET, "denied by policy")
    life.lab.api.remove(BUDGET, "demo-bookies")
    told = await life.until(lambda: "ActionFailed: Keep PodDisruptionBudget" in life.degraded())
    assert told < IDLE_TICK_S, "what fails at a cluster at rest is not told after its rest"
    assert [one.action for one in life.status.blocked] == ["Keep"]
    life.lab.api.allow_all()
    await life.until(lambda: not life.degraded())
    await life.end()


@in_virtual_time
async def test_d7_a_name_that_is_taken_is_degraded_and_blocked() -> None:
    lab = Lab(replicas=3)
    lab.api.put(SERVICE, {"metadata": {"name": "demo"}, "spec": {"selector": {"app": "web"}}})
    life = Life(lab)
    await life.bookies.register(*lab.cluster.spec.bookie_ids)
    await life.until(lambda: life.degraded().startswith("NameTaken: "))
    assert "Service demo exists already and belongs to nobody that is known" in life.degraded()
    assert "NameTaken" in {one.predicate for one in life.status.blocked}
    assert lab.api.the(SERVICE, "demo")["spec"] == {"selector": {"app": "web"}}
    lab.api.remove(SERVICE, "demo")
    await life.until(lambda: life.status.ready_replicas == 3, 120)
    await life.end()


@in_virtual_time
async def test_d3_people_change_a_paused_cluster_as_they_like() -> None:
    life = await rested()
    life.lab.api.edit(CLUSTER, "demo", lambda tree: tree["spec"].update(paused=True))
    await life.until(lambda: life.status.phase == "Paused")
    life.lab.api.edit(STATEFUL_SET, "demo-bookie-0", lambda one: one["spec"].update(replicas=0))
    await life.go_on(30)
    assert life.lab.api.the(STATEFUL_SET, "demo-bookie-0")["spec"]["replicas"] == 0
    await life.end()


@in_virtual_time
async def test_people_stop_the_zookeeper_of_a_paused_cluster_to_bring_its_state_back() -> None:
    life = await serving(metadata={"embedded": {}})
    life.lab.api.edit(CLUSTER, "demo", lambda tree: tree["spec"].update(paused=True))
    await life.until(lambda: life.status.phase == "Paused")
    keeper = life.lab.api.the(STATEFUL_SET, "demo-zookeeper")["spec"]
    life.lab.api.edit(STATEFUL_SET, "demo-zookeeper", lambda one: one["spec"].update(replicas=0))
    await life.go_on(30)
    assert keeper["replicas"] == 0
    life.lab.api.edit(CLUSTER, "demo", lambda tree: tree["spec"].update(paused=False))
    await life.until(lambda: keeper["replicas"] == 1)
    await life.end()


def settings(life: Life) -> list[str]:
    return [one["metadata"]["name"] for one in life.lab.api.all(CONFIG_MAP)]


def takes(life: Life, mode: str) -> Callable[[], bool]:
    """Every bookie does, and the way there is at its end."""

    def is_so() -> bool:
        in_force = life.status.is_true(ConditionType.TLS_IN_FORCE)
        return {one.tls for one in life.status.bookies} == {mode} and (in_force or not mode)

    return is_so


def want_tls(life: Life, **tls: Any) -> None:
    life.lab.api.edit(CLUSTER, "demo", lambda tree: tree["spec"].update(tls=tls))


@in_virtual_time
async def test_a_running_plain_cluster_goes_to_tls_and_back() -> None:
    life = await serving(tls={"mode": "Off"})
    life.lab.api.put(NODE, {"metadata": {"name": "node-1"}})
    assert not life.lab.api.all(SECRET) and not life.tries("get", SECRET)
    want_tls(life, mode="Required")
    await life.until(takes(life, "Required"), seconds=300)
    assert len(life.lab.api.all(SECRET)) == 7 and not life.degraded()
    want_tls(life, mode="Off")
    await life.until(takes(life, ""), seconds=300)
    await life.go_on(2)
    assert life.status.tls is None and not life.status.incidents
    await life.end()


@in_virtual_time
async def test_a_secret_that_is_deleted_is_made_again_and_no_pod_is_touched() -> None:
    life = await serving(tls={"mode": "Required"})
    before = {pod["metadata"]["uid"] for pod in life.pods()}
    life.lab.api.remove(SECRET, "demo-bookie-0-tls")
    await life.until(lambda: bool(life.events("CertificateMissing")), seconds=60)
    await life.until(lambda: life.lab.api.find(SECRET, "demo-bookie-0-tls") is not None)
    await life.until(lambda: life.status.is_true(ConditionType.CERTIFICATES_VALID))
    assert {pod["metadata"]["uid"] for pod in life.pods()} == before
    await life.end()


@in_virtual_time
async def test_what_is_in_secrets_is_nowhere_else(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    life = await serving(tls={"mode": "Required"})
    life.lab.api.edit(
        SECRET, "demo-job-tls", lambda one: one["data"].update({"tls.key": "c2VjcmV0"})
    )
    await life.until(lambda: bool(life.events("CertificateUnusable")), seconds=60)
    keys = [one["data"]["tls.key"] for one in life.lab.api.all(SECRET)]
    told = caplog.text + str(life.lab.api.the(CLUSTER, "demo")) + str(life.lab.api.all(EVENT))
    told += str(life.lab.api.all(CONFIG_MAP)) + str(life.lab.api.all(STATEFUL_SET))
    assert len(keys) == 7 and not [key for key in keys if key in told]
    assert "PRIVATE KEY" not in told
    await life.end()


@in_virtual_time
async def test_a_right_to_secrets_that_lacks_is_said_and_stops_no_repair() -> None:
    life = await serving(tls={"mode": "Required"})
    life.lab.api.forbid("get", SECRET)
    await life.until(lambda: life.degraded().startswith("CertificatesInvalid"), seconds=60)
    assert "cannot get" in life.degraded()
    assert life.status.is_true(ConditionType.AVAILABLE)
    await life.end()
