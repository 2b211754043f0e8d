"""All that an operator ever asks of an API server, in a few scenes, under an authorizer.

Each scene is the platform or the whole process over a fake API server. What one of them asks that
no right covers is refused there, as a real server does, and the scene fails.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from bookie_operator.handlers import KEPT, PARTS
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.tls import IssuerKind
from bookie_operator.plan.actions import Event, MakeAuthority, RemoveBookie
from bookie_operator.platform.kubernetes.api import (
    CERTIFICATE,
    CLUSTER,
    JOB,
    LEASE,
    POD,
    SECRET,
    TASK,
    Object,
)
from bookie_operator.platform.kubernetes.cert_manager import KINDS
from bookie_operator.platform.kubernetes.lease import Lease
from bookie_operator.platform.kubernetes.warnings import PATIENCE
from bookie_operator.serve import run
from fake_api import FakeApi
from fake_api_server import Asked, FakeApiServer, as_kubeconfig
from kubernetes_lab import B0, Lab, repair_job
from rights import Judge

WAIT_S: Final = 60.0
LEASE_NAME: Final = "demo-bookie-operator"
"""Of the chart's release `demo` in the namespace `ops`."""
SPEC: Final[Object] = {
    "metadata": {"embedded": {"storageClass": "fast", "size": "1Gi"}},
    "external": {"type": "NodePort"},
}
LESS: Final[Object] = {
    "networkPolicies": {"enabled": False},
    "repair": {"engine": "inline"},
    "audit": {"engine": "inline"},
}
"""What takes away all that a spec may stop to want."""
Scene = Callable[[Judge], Awaitable[None]]


async def in_pass(lab: Lab) -> None:
    """What each pass of the loop asks and writes, without the planner."""
    await lab.reach_metadata()
    await lab.platform.bookies()
    await lab.platform.jobs()
    await lab.platform.tasks()
    assert await lab.platform.settle(lab.cluster, ClusterStatus()) == {}


def begun(judge: Judge, **spec: Any) -> Lab:
    lab = Lab(**(SPEC | spec))
    lab.surround({})
    lab.api.authorizer = judge
    return lab


def change(lab: Lab, **spec: Any) -> None:
    lab.api.edit(CLUSTER, "demo", lambda tree: tree["spec"].update(spec))


async def coming_and_going(judge: Judge) -> None:
    """A cluster comes up, wants less, grows a volume, and is taken down with its volumes."""
    lab = begun(judge)
    await lab.run_bookie()
    await in_pass(lab)
    change(lab, **LESS)
    lab.api.edit(CLUSTER, "demo", lambda tree: tree["spec"].pop("external"))
    lab.platform = lab.restarted()
    await in_pass(lab)
    bigger = replace(lab.template().disks[0], size="99Gi")
    assert await lab.platform.expand_volume(B0, bigger)
    for _ in range(4):
        await lab.platform.take_down(delete_volumes=True)
        lab.controllers.settle()
    assert await lab.platform.take_down(delete_volumes=True)


async def restarts(judge: Judge) -> None:
    """A bookie is restarted, leaves for good, and its volumes stay."""
    lab = begun(judge)
    await lab.run_bookie()
    assert await lab.platform.restart_bookie(lab.template(), instance=await lab.instance())
    lab.controllers.settle(2)
    instance = await lab.instance()
    while B0 in await lab.platform.bookies():
        await lab.platform.remove_bookie(RemoveBookie(B0, instance, delete_volumes=False))
        lab.controllers.settle()


async def jobs(judge: Judge) -> None:
    """Jobs start, say how far they are, wait for what a person should know, and are stopped."""
    lab = begun(judge)
    await lab.run_bookie()
    name = repair_job().name
    assert await lab.platform.start_job(repair_job(engine="auto"))
    assert not await lab.platform.start_job(repair_job(engine="auto"))
    lab.controllers.settle()
    lab.api.logs[f"{name}-pod"] = "progress: 1 of 2\n"
    await in_pass(lab)
    lab.api.remove(POD, f"{name}-pod")
    for _ in range(2):
        lab.api.now += PATIENCE
        await lab.platform.jobs()
    await lab.platform.stop_job(name)
    assert lab.api.find(JOB, name) is None


async def people(judge: Judge) -> None:
    """A task is bound, ends, and is deleted long after; events tell of it."""
    lab = begun(judge)
    body = {"metadata": {"name": "once"}, "spec": {"cluster": "demo", "type": "audit"}}
    task = lab.api.put(TASK, body)
    await in_pass(lab)
    for one in await lab.platform.tasks():
        await lab.platform.publish_task(one)
    for platform in (lab.platform, lab.restarted()):
        await platform.record(Event("TaskDone", "an audit has ended"))
    await lab.platform.publish(lab.cluster.model_copy(update={"status": ClusterStatus()}))
    await lab.platform.delete_task("once", uid=task["metadata"]["uid"])
    assert lab.api.find(TASK, "once") is None


async def certificates(judge: Judge) -> None:
    """The operator's own authority signs for a cluster."""
    lab = begun(judge, tls={"mode": "Required"})
    await lab.platform.certificates(lab.cluster, [B0])
    await lab.platform.certify(MakeAuthority(timedelta(days=365), frozenset(), signs=True))
    view = await lab.platform.certificates(lab.cluster, [B0])
    assert view.authorities.signing is not None


async def an_issuer(judge: Judge) -> None:
    """cert-manager signs for a cluster, and then for nobody; only with `rbac.certManager`."""
    for kind in ("Issuer", "ClusterIssuer"):
        lab = begun(judge, tls={"mode": "Required", "issuer": {"name": "corporate", "kind": kind}})
        lab.api.put(KINDS[IssuerKind(kind)], {"metadata": {"name": "corporate"}})
        await lab.platform.certificates(lab.cluster, [B0])
        assert await lab.platform.settle(lab.cluster, ClusterStatus()) == {}
    change(lab, tls={"mode": "Required"})
    annotations = {"cert-manager.io/certificate-name": "demo-job-tls"}
    lab.api.put(SECRET, {"metadata": {"name": "demo-job-tls", "annotations": annotations}})
    lab.platform = lab.restarted()
    await lab.platform.certificates(lab.cluster, [B0])
    assert await lab.platform.settle(lab.cluster, ClusterStatus()) == {}
    assert not lab.api.all(CERTIFICATE)


async def the_process(judge: Judge) -> None:
    """The operator's own process takes the lease, watches, and gives a cluster its finalizer."""
    server, is_watched = FakeApiServer(authorizer=judge), asyncio.Event()
    body = Lab(**SPEC).api.the(CLUSTER, "demo")
    body["spec"]["replicas"] = 1  # it is not valid: nothing comes up
    server.namespace("fleet").put(CLUSTER, body)
    server.namespace("ops").put(LEASE, {"metadata": {"name": LEASE_NAME}})

    def hear(asked: Asked) -> None:
        watched = {one.target.kind for one in server.asked if one.verb == "watch"}
        is_held = server.namespace("fleet").the(CLUSTER, "demo")["metadata"].get("finalizers")
        if watched >= {CLUSTER, TASK, *PARTS, *KEPT} and is_held:
            is_watched.set()

    server.hear = hear
    async with server.serving():
        with as_kubeconfig(server.url):
            stop = asyncio.Event()
            work = run(namespaces=(), port=0, stop=stop, lease_path=f"ops/{LEASE_NAME}")
            running = asyncio.ensure_future(work)
            async with asyncio.timeout(WAIT_S):
                await is_watched.wait()
                stop.set()
                await running
    refused = [one for one in server.asked if one.code == 403]
    assert not refused, refused


async def without_a_lease(judge: Judge) -> None:
    """Somebody has deleted the chart's Lease."""
    api = FakeApi("ops")
    api.authorizer = judge
    await Lease(api, LEASE_NAME, identity="a").renew()
    assert api.find(LEASE, LEASE_NAME) is not None


SCENES: Final[tuple[Scene, ...]] = (
    coming_and_going,
    restarts,
    jobs,
    people,
    certificates,
    without_a_lease,
    the_process,
)
