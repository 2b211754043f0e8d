"""The only place of kopf: one daemon per BookieCluster, and events that wake it.

kopf brings watching, finalizers and the life of daemons; decisions are `plan`'s alone. Events of
pods, volumes, jobs and tasks carry nothing but "look again": each pass reads live.
"""

import asyncio
import functools
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import kopf

from bookie_operator.fleet import Fleet
from bookie_operator.metrics import OperatorMetrics, serve_http
from bookie_operator.model.base import GROUP, VERSION
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.platform.kubernetes.api import HttpApi, HttpConnection, Login
from bookie_operator.platform.kubernetes.names import CLUSTER_LABEL
from bookie_operator.platform.kubernetes.platform import KubernetesPlatform

HTTP_HOST: Final = "0.0.0.0"
WATCH_S: Final = 300
CONNECT_S: Final = 10
RETRY_DELAYS_S: Final = (1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 60, 60)
"""An API server that is away for some minutes does not end the operator."""
STOP_S: Final = 30.0
"""Longer than any single step of a pass."""
TAKE_DOWN_DELAY_S: Final = 1.0
TAKE_DOWN_LOOKS: Final = 60
"""Before kopf is asked to call again, and logs it as a failure."""

LOGGER: Final = logging.getLogger(__name__)


@dataclass(slots=True)
class Operator:
    """What the handlers share: connection, figures, and the fleets under reconciliation."""

    connection: HttpConnection
    metrics: OperatorMetrics = field(default_factory=OperatorMetrics)
    fleets: dict[tuple[str, str], Fleet] = field(default_factory=dict)

    def wake(self, namespace: str | None, cluster: str) -> None:
        fleet = self.fleets.get((namespace or "", cluster))
        if fleet is not None:
            fleet.wake()

    async def reconcile(self, namespace: str, name: str, *, is_stopped: Callable[[], bool]) -> None:
        """The body of a cluster's daemon. Never raises: kopf would not start it again."""
        while not is_stopped():
            fleet = Fleet(HttpApi(self.connection, namespace), name, metrics=self.metrics)
            self.fleets[(namespace, name)] = fleet
            try:
                return await fleet.run(is_stopped)
            except Exception:  # a defect; told in full, and the loop begins anew
                LOGGER.exception("the loop of %s/%s failed", namespace, name)
                await asyncio.sleep(STOP_S)
            finally:
                self.fleets.pop((namespace, name), None)

    async def take_down(self, namespace: str, name: str, body: dict[str, Any]) -> bool:
        """The cluster's object goes: stop its bookies gracefully. True = done."""
        if (namespace, name) in self.fleets:
            return False  # its last pass is still under way
        cluster = BookieCluster.model_validate(body)
        platform = KubernetesPlatform(HttpApi(self.connection, namespace), cluster)
        is_kept = cluster.spec.retention.when_deleted == "Retain"
        return await platform.take_down(delete_volumes=not is_kept)


def credentials(settings: kopf.OperatorSettings) -> Login:
    """In a pod the service account's, else those of the kubeconfig's current context."""
    found = kopf.login_with_service_account(settings=settings)
    found = found or kopf.login_with_kubeconfig(settings=settings)
    if found is None:
        raise kopf.LoginError(
            "no credentials: found neither a service account nor a kubeconfig (set KUBECONFIG)"
        )
    login: Login = found
    return login


def new_connection() -> HttpConnection:
    settings = kopf.OperatorSettings()
    return HttpConnection(lambda: credentials(settings))


def configure(settings: kopf.OperatorSettings) -> None:
    settings.persistence.finalizer = f"{GROUP}/finalizer"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=GROUP)
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=GROUP)
    settings.posting.enabled = False  # events are `recorder`'s: fixed reasons, no doubles
    settings.scanning.disabled = True
    settings.watching.server_timeout = WATCH_S
    settings.watching.client_timeout = WATCH_S + 30
    settings.watching.connect_timeout = CONNECT_S
    settings.watching.reconnect_backoff = 1
    settings.networking.request_timeout = 30
    settings.networking.error_backoffs = RETRY_DELAYS_S
    settings.execution.max_workers = 1
    settings.background.cancellation_polling = 5


def register(registry: kopf.OperatorRegistry, operator: Operator) -> None:
    """All handlers of the operator, bound to what they share."""
    cluster = (GROUP, VERSION, "bookieclusters")
    on_cluster = functools.partial(kopf.on.event, registry=registry)

    @kopf.on.login(registry=registry)
    def login(settings: kopf.OperatorSettings, **_: Any) -> Any:
        return credentials(settings)

    @kopf.daemon(*cluster, registry=registry, cancellation_timeout=STOP_S)
    async def reconcile(
        namespace: str | None, name: str, stopped: kopf.DaemonStopped, **_: Any
    ) -> None:
        await operator.reconcile(namespace or "", name, is_stopped=lambda: bool(stopped))

    @kopf.on.delete(*cluster, registry=registry)
    async def take_down(namespace: str | None, name: str, body: kopf.Body, **_: Any) -> None:
        operator.wake(namespace, name)
        for _look in range(TAKE_DOWN_LOOKS):
            if await operator.take_down(namespace or "", name, dict(body)):
                return
            await asyncio.sleep(TAKE_DOWN_DELAY_S)
        raise kopf.TemporaryError("bookies are stopping", delay=TAKE_DOWN_DELAY_S)

    @on_cluster(*cluster)
    async def cluster_changed(namespace: str | None, name: str, **_: Any) -> None:
        operator.wake(namespace, name)

    @on_cluster(GROUP, VERSION, "bookietasks")
    async def task_changed(namespace: str | None, spec: kopf.Spec, **_: Any) -> None:
        operator.wake(namespace, str(spec.get("cluster", "")))

    async def part_changed(namespace: str | None, labels: kopf.Labels, **_: Any) -> None:
        operator.wake(namespace, labels.get(CLUSTER_LABEL, ""))

    for group, version, plural in (
        ("", "v1", "pods"),
        ("", "v1", "persistentvolumeclaims"),
        ("batch", "v1", "jobs"),
    ):
        on_cluster(
            group, version, plural, id=f"{plural}-changed", labels={CLUSTER_LABEL: kopf.PRESENT}
        )(part_changed)


async def run(*, namespaces: Sequence[str], port: int, stop: asyncio.Event) -> None:
    """Serve until `stop` is set. No namespaces = all of them."""
    settings = kopf.OperatorSettings()
    configure(settings)
    operator = Operator(new_connection())
    registry = kopf.OperatorRegistry()
    register(registry, operator)
    http = await serve_http(operator.metrics, host=HTTP_HOST, port=port)
    try:
        await kopf.operator(
            registry=registry,
            settings=settings,
            standalone=True,
            clusterwide=not namespaces,
            namespaces=namespaces,
            stop_flag=stop,
        )
    finally:
        await http.cleanup()
        await operator.connection.close()
