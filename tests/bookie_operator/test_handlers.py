"""What the handlers share, without kopf running: waking, loops that never end, taking down."""

import asyncio
import dataclasses
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kopf
import pytest
import yaml
from bookie.errors import BookieError
from bookie_operator.fleet import Fleet
from bookie_operator.handlers import (
    DEFECT_S,
    ENDING_S,
    KEPT,
    PARTS,
    RETRY_DELAY_MAX_S,
    TAKE_DOWN_LOOKS,
    Operator,
    check_installed,
    configure,
    login_for_kopf,
    register,
)
from bookie_operator.platform.kubernetes.api import (
    CLAIM,
    CLUSTER,
    POD,
    SERVICE,
    STATEFUL_SET,
    TASK,
    Kind,
    NotServedError,
    Object,
)
from bookie_operator.platform.kubernetes.names import CLUSTER_LABEL
from fake_api_server import kubeconfig
from kubernetes.aio.config import kube_config
from kubernetes_lab import Lab
from operator_scenes import at
from virtual_time import clock, in_virtual_time


class FakeFleet(Fleet):
    """Runs until it is stopped, cancelled, or breaks as told."""

    breaks: BaseException | None = None
    is_stopped: Callable[[], bool]
    told: list[tuple[Kind, str, bool]]
    """Kept objects of which a watch has told, and whether they are gone."""

    async def run(self, is_stopped: Callable[[], bool]) -> None:
        self.is_woken, self.told, self.is_stopped = asyncio.Event(), [], is_stopped
        breaks, FakeFleet.breaks = FakeFleet.breaks, None
        if breaks is not None:
            raise breaks
        await self.is_woken.wait()

    def wake(self) -> None:
        self.is_woken.set()

    def noticed(self, kind: Kind, thing: Object, *, is_gone: bool) -> None:
        self.told.append((kind, thing["metadata"]["name"], is_gone))


class FakeOperator(Operator):
    def new_fleet(self, namespace: str, name: str) -> Fleet:
        return FakeFleet(self.open_api(namespace), name, metrics=self.metrics)


def operator_of(lab: Lab) -> FakeOperator:
    return FakeOperator(lambda namespace: lab.api)


async def begin(operator: Operator) -> "asyncio.Task[None]":
    loop = operator.reconcile("fleet", "demo", created_at=at(0), is_stopped=lambda: False)
    running = asyncio.ensure_future(loop)
    await asyncio.sleep(0)
    return running


async def test_an_event_wakes_its_own_fleet_only() -> None:
    operator = operator_of(Lab())
    running = await begin(operator)
    operator.wake("fleet", "other")
    operator.wake(None, "demo")
    await asyncio.sleep(0)
    assert not running.done()
    operator.wake("fleet", "demo")
    await running
    assert not operator.fleets


@pytest.mark.parametrize(("type_", "is_gone"), [("ADDED", False), (None, False), ("DELETED", True)])
async def test_what_a_watch_tells_of_a_kept_object_goes_to_its_own_fleet(
    type_: str | None, is_gone: bool
) -> None:
    """None: of what was there when the watch began."""
    operator = operator_of(Lab())
    running = await begin(operator)
    [fleet] = operator.fleets.values()
    assert isinstance(fleet, FakeFleet)
    for of, space in (("demo", "fleet"), ("other", "fleet"), ("demo", "elsewhere")):
        thing = {"metadata": {"name": of, "labels": {CLUSTER_LABEL: of}}}
        operator.noticed(space, SERVICE, {"type": type_, "object": thing})  # type: ignore[typeddict-item]
    operator.noticed("fleet", SERVICE, {"type": type_, "object": {"metadata": {}}})  # type: ignore[typeddict-item]
    assert fleet.told == [(SERVICE, "demo", is_gone)]
    running.cancel()


@in_virtual_time
async def test_a_cluster_has_its_age_while_its_loop_fails_and_none_when_it_is_gone() -> None:
    operator = operator_of(Lab())
    FakeFleet.breaks = RuntimeError("a defect")
    running = await begin(operator)
    await asyncio.sleep(DEFECT_S / 2)
    assert figure(operator, "cluster_created_timestamp_seconds") == at(0).timestamp()
    assert figure(operator, "passes_total", result="failed") == 1
    await asyncio.sleep(DEFECT_S)
    operator.wake("fleet", "demo")
    await running
    assert figure(operator, "cluster_created_timestamp_seconds") is None


def figure(operator: Operator, name: str, **labels: str) -> float | None:
    where = {"namespace": "fleet", "cluster": "demo", **labels}
    return operator.metrics.registry.get_sample_value(f"bookie_operator_{name}", where)


@in_virtual_time
async def test_a_loop_that_breaks_begins_anew() -> None:
    operator = operator_of(Lab())
    FakeFleet.breaks = KeyError("a defect")
    began = clock()
    running = await begin(operator)
    await asyncio.sleep(DEFECT_S + 1)
    assert not running.done() and list(operator.fleets) == [("fleet", "demo")]
    operator.wake("fleet", "demo")
    await running
    assert clock() - began < DEFECT_S + 2


async def test_a_cancelled_loop_leaves_nothing_behind() -> None:
    operator = operator_of(Lab())
    running = await begin(operator)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not operator.fleets


async def test_a_fleet_that_ends_late_leaves_its_successor_alone() -> None:
    operator = operator_of(Lab())
    first, second = await begin(operator), await begin(operator)
    successor = operator.fleets[("fleet", "demo")]
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    assert operator.fleets == {("fleet", "demo"): successor}
    assert figure(operator, "cluster_created_timestamp_seconds") == at(0).timestamp()
    second.cancel()


# Taking down


async def test_bookies_are_not_stopped_while_the_last_pass_is_under_way() -> None:
    lab = Lab()
    await lab.run_bookie()
    operator = operator_of(lab)
    running = await begin(operator)
    body = lab.api.the(CLUSTER, "demo")
    assert not await operator.take_down("fleet", "demo", body)
    assert lab.api.the(STATEFUL_SET, "demo-bookie-0")["spec"]["replicas"] == 1
    operator.wake("fleet", "demo")
    await running
    assert not await operator.take_down("fleet", "demo", body)
    assert lab.api.the(STATEFUL_SET, "demo-bookie-0")["spec"]["replicas"] == 0


@pytest.mark.parametrize(("retention", "left"), [("Retain", 3), ("Delete", 0)])
async def test_volumes_go_with_their_cluster_only_when_asked(retention: str, left: int) -> None:
    lab = Lab(retention={"whenDeleted": retention})
    await lab.run_bookie()
    await taken_down(lab)
    assert len(lab.api.all(CLAIM)) == left


async def test_a_cluster_with_a_wrong_spec_can_be_deleted() -> None:
    lab = Lab()
    await lab.run_bookie()
    lab.api.edit(CLUSTER, "demo", lambda tree: tree["spec"].update(replicas=0, storage="none"))
    await taken_down(lab)
    assert lab.pod() is None and len(lab.api.all(CLAIM)) == 3


async def test_a_cluster_can_be_deleted_though_the_name_of_a_set_is_taken() -> None:
    lab = Lab()
    await lab.reach_metadata()
    await lab.make_volumes()  # kept by an earlier cluster of the name
    spec = {"replicas": 1, "template": {"metadata": {}, "spec": {"containers": []}}}
    lab.api.put(STATEFUL_SET, {"metadata": {"name": "demo-bookie-0"}, "spec": spec})
    await taken_down(lab)
    assert lab.api.the(STATEFUL_SET, "demo-bookie-0")["spec"]["replicas"] == 1


async def test_a_cluster_can_be_deleted_though_a_pod_has_lost_its_set() -> None:
    lab = Lab()
    await lab.run_bookie()
    lab.api.remove(STATEFUL_SET, "demo-bookie-0")  # kubectl delete --cascade=orphan
    lab.api.edit(POD, "demo-bookie-0-0", lambda one: one["metadata"].pop("ownerReferences"))
    await taken_down(lab)
    assert lab.pod() is None


async def test_an_outage_while_taking_down_is_waited_for() -> None:
    lab = Lab()
    lab.api.is_away = True
    assert not await operator_of(lab).take_down("fleet", "demo", lab.api.the(CLUSTER, "demo"))


async def taken_down(lab: Lab) -> None:
    operator = operator_of(lab)
    for _ in range(5):
        if await operator.take_down("fleet", "demo", lab.api.the(CLUSTER, "demo")):
            lab.controllers.settle()
            return
        lab.controllers.settle()
    raise AssertionError("it is still there")


# With kopf


def registered(operator: Operator) -> dict[str, Callable[..., Any]]:
    """kopf's handlers by their ids."""
    registry = kopf.OperatorRegistry()
    register(registry, operator)
    groups = (registry._watching, registry._changing, registry._spawning, registry._activities)
    return {handler.id: handler.fn for group in groups for handler in group._handlers}


@in_virtual_time
async def test_kopf_calls_again_for_bookies_that_stop_slowly() -> None:
    lab = Lab()
    await lab.run_bookie()
    lab.controllers.clings.add("demo-bookie-0-0")
    body = lab.api.the(CLUSTER, "demo")
    began = clock()
    with pytest.raises(kopf.TemporaryError):
        await registered(operator_of(lab))["take-down"](namespace="fleet", name="demo", body=body)
    assert clock() - began == TAKE_DOWN_LOOKS


@in_virtual_time
async def test_a_deletion_wakes_the_loop_that_it_waits_for() -> None:
    lab, registry = Lab(), kopf.OperatorRegistry()
    operator = operator_of(lab)
    register(registry, operator)
    [take_down] = [one.fn for one in registry._changing._handlers if one.id == "take-down"]
    running = await begin(operator)
    body = lab.api.the(CLUSTER, "demo")
    going = asyncio.ensure_future(take_down(namespace="fleet", name="demo", body=body))
    await asyncio.wait([running], timeout=TAKE_DOWN_LOOKS)
    assert running.done()
    await asyncio.gather(going, return_exceptions=True)


async def test_what_is_watched_needs_nothing_more_than_its_cluster() -> None:
    found = set(registered(operator_of(Lab())))
    events = {f"{kind.plural}-changed" for kind in (*PARTS, *KEPT)}
    own = {"cluster-changed", "task-changed"}
    assert found == {"login", "reconcile", "take-down"} | own | events


async def test_every_watch_of_kept_objects_tells_of_its_own_kind() -> None:
    operator = operator_of(Lab())
    handlers, running = registered(operator), await begin(operator)
    [fleet] = operator.fleets.values()
    assert isinstance(fleet, FakeFleet)
    thing = {"metadata": {"name": "one", "labels": {CLUSTER_LABEL: "demo"}}}
    for kind in KEPT:
        event = {"type": "DELETED", "object": thing}
        await handlers[f"{kind.plural}-changed"](namespace="fleet", event=event)
    assert fleet.told == [(kind, "one", True) for kind in KEPT]
    running.cancel()


@pytest.mark.parametrize(("namespace", "of"), [("fleet", "demo"), ("fleet", "x"), ("x", "demo")])
@pytest.mark.parametrize("watch", ["cluster", "task", *(kind.plural for kind in PARTS)])
async def test_what_changes_of_a_cluster_wakes_its_own_fleet(
    watch: str, namespace: str, of: str
) -> None:
    operator = operator_of(Lab())
    handlers, running = registered(operator), await begin(operator)
    [fleet] = operator.fleets.values()
    assert isinstance(fleet, FakeFleet)
    facts = {"name": of, "spec": {"cluster": of}, "labels": {CLUSTER_LABEL: of}}
    if watch != "cluster":
        facts["name"] = "one"  # its own
    await handlers[f"{watch}-changed"](namespace=namespace, **facts)
    assert fleet.is_woken.is_set() is ((namespace, of) == ("fleet", "demo"))
    running.cancel()


def test_kopf_tries_its_own_calls_for_ever() -> None:
    settings = kopf.OperatorSettings()
    configure(settings)
    assert not isinstance(settings.networking.error_backoffs, float | tuple | None)
    assert settings.networking.error_backoffs is not None
    waits = [list(itertools.islice(settings.networking.error_backoffs, 100)) for _ in range(2)]
    assert waits[0] == waits[1], "each call begins anew"
    assert waits[0][0] == 1 and waits[0][-1] == RETRY_DELAY_MAX_S


async def test_an_operator_without_its_kinds_says_so() -> None:
    api = Lab().api
    await check_installed(api)
    api.is_away = True
    await check_installed(api)

    class Bare:
        async def list(self, kind: Kind) -> None:
            if kind == TASK:
                raise NotServedError("404 page not found")

    with pytest.raises(BookieError, match="found no BookieTask in this cluster"):
        await check_installed(Bare())  # type: ignore[arg-type]


def test_a_loop_that_ends_at_once_does_not_hold_up_a_deletion() -> None:
    """Without it kopf looks again only when the whole cancellation timeout is over."""
    settings = kopf.OperatorSettings()
    configure(settings)
    assert settings.background.instant_exit_timeout == ENDING_S


def test_what_an_operator_before_this_one_wrote_into_clusters_is_known() -> None:
    """Under another name nobody would take its finalizer away: they could not be deleted."""
    settings = kopf.OperatorSettings()
    configure(settings)
    kept = settings.persistence
    assert kept.finalizer == "bookkeeper.bookie-operator.dev/finalizer"
    assert isinstance(kept.progress_storage, kopf.AnnotationsProgressStorage)
    assert isinstance(kept.diffbase_storage, kopf.AnnotationsDiffBaseStorage)
    prefixes = {kept.progress_storage.prefix, kept.diffbase_storage.prefix}
    assert prefixes == {"bookkeeper.bookie-operator.dev"}


PLAIN = kopf.ConnectionInfo(server="https://here", insecure=False)


@pytest.mark.parametrize(
    ("cluster", "user", "expected"),
    [
        ({}, {}, {}),
        ({"insecure-skip-tls-verify": True}, {}, {"insecure": True}),
        ({"certificate-authority": "ca"}, {}, {"ca_path": "ca"}),
        ({}, {"token": "secret"}, {"scheme": "Bearer", "token": "secret"}),
        (
            {},
            {"client-certificate": "cert", "client-key": "key"},
            {"certificate_path": "cert", "private_key_path": "key"},
        ),
        (
            {},
            {"username": "ann", "password": "secret"},
            {"scheme": "Basic", "token": "YW5uOnNlY3JldA=="},
        ),
    ],
)
async def test_watches_log_in_as_the_kubeconfig_says(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    cluster: dict[str, Any],
    user: dict[str, Any],
    expected: dict[str, Any],
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    config, path = kubeconfig("https://here"), tmp_path / "config"
    config["clusters"][0]["cluster"] |= cluster
    config["users"][0]["user"] = user
    path.write_text(yaml.safe_dump(config))
    for name in ("ca", "cert", "key"):
        (tmp_path / name).touch()
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(path))
    found = await login_for_kopf()
    paths = {name: str(tmp_path / expected[name]) for name in expected if name.endswith("_path")}
    assert found == dataclasses.replace(PLAIN, **{**expected, **paths})


async def test_a_loop_knows_when_kopf_wants_it_to_stop() -> None:
    stopped = asyncio.Event()
    operator = operator_of(Lab())
    running = asyncio.ensure_future(
        operator.reconcile("fleet", "demo", created_at=at(0), is_stopped=stopped.is_set)
    )
    await asyncio.sleep(0)
    [fleet] = operator.fleets.values()
    assert isinstance(fleet, FakeFleet) and not fleet.is_stopped()
    stopped.set()
    assert fleet.is_stopped()
    fleet.wake()
    await running


def test_what_an_operator_knows_its_fleets_know() -> None:
    keys, lab = Path("keys"), Lab()
    known = {"own_namespace": "ops", "credentials": keys, "names_proved": True}
    fleet = Operator(lambda namespace: lab.api, **known).new_fleet("fleet", "demo")
    assert fleet.name == "demo"
    assert (fleet._operator_namespace, fleet._credentials, fleet._names_proved) == (
        "ops",
        keys,
        True,
    )


def test_a_watch_ends_at_the_server_before_its_client_gives_it_up() -> None:
    settings = kopf.OperatorSettings()
    configure(settings)
    watching = settings.watching
    assert watching.server_timeout and watching.client_timeout
    assert watching.client_timeout > watching.server_timeout
