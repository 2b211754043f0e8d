"""The only place of kopf: one daemon per BookieCluster, and events that wake it.

kopf brings watching, finalizers and the life of daemons; decisions are `plan`'s alone. Events of
pods, volumes, jobs and tasks carry nothing but "look again": each pass reads live.
"""

import asyncio
import functools
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain, repeat
from pathlib import Path
from typing import Any, Final

import kopf
from bookie.errors import BookieError, UnavailableError
from kubernetes.aio.client import Configuration

from bookie_operator.errors import ForbiddenError
from bookie_operator.fleet import Fleet, bare_cluster
from bookie_operator.metrics import OperatorMetrics
from bookie_operator.model.base import GROUP, VERSION
from bookie_operator.platform.kubernetes.api import (
    BUDGET,
    CLAIM,
    CLUSTER,
    CONFIG_MAP,
    JOB,
    NETWORK_POLICY,
    PAGE_MAX,
    POD,
    ROLE,
    ROLE_BINDING,
    SERVICE,
    SERVICE_ACCOUNT,
    STATEFUL_SET,
    TASK,
    Api,
    Kind,
    NotServedError,
    Object,
)
from bookie_operator.platform.kubernetes.dynamic_api import load_login
from bookie_operator.platform.kubernetes.names import CLUSTER_LABEL
from bookie_operator.platform.kubernetes.platform import KubernetesPlatform

WATCH_S: Final = 300
CONNECT_S: Final = 10
RETRY_DELAYS_S: Final = (1, 1, 2, 3, 5, 8, 13, 21, 34, 55)
RETRY_DELAY_MAX_S: Final = 60
STOP_S: Final = 30.0
"""Longer than any single step of a pass."""
ENDING_S: Final = 2.0
"""How long kopf waits for a loop that has to end, before it looks again after STOP_S only."""
DEFECT_S: Final = 30.0
"""Wait after a defect, which is logged, until the loop of the cluster begins again."""
TAKE_DOWN_DELAY_S: Final = 1.0
"""Between two looks whether the bookies of a deleted cluster have stopped."""
TAKE_DOWN_LOOKS: Final = 60
"""So many before kopf logs that they have not, and calls again."""

PARTS: Final = (POD, CLAIM, JOB)
"""A change of these says "look again", no more."""
KEPT: Final = (
    BUDGET,
    CONFIG_MAP,
    NETWORK_POLICY,
    ROLE,
    ROLE_BINDING,
    SERVICE,
    SERVICE_ACCOUNT,
    STATEFUL_SET,
)
"""What others do to these is undone at once."""
OURS: Final = {CLUSTER_LABEL: kopf.PRESENT}

LOGGER: Final = logging.getLogger(__name__)


class Endless:
    """Waits between tries of kopf's own calls. Their end would be the operator's end."""

    def __iter__(self) -> Iterator[float]:
        return chain(RETRY_DELAYS_S, repeat(RETRY_DELAY_MAX_S))


@dataclass(slots=True)
class Operator:
    """What the handlers share: namespaces' APIs, figures, and the fleets under reconciliation."""

    open_api: Callable[[str], Api]
    """The API of a namespace."""
    metrics: OperatorMetrics = field(default_factory=OperatorMetrics)
    fleets: dict[tuple[str, str], Fleet] = field(default_factory=dict)
    """The fleets whose loop runs, by namespace and name."""
    own_namespace: str = ""
    """Namespace of the operator's pods; empty = not known."""
    credentials: Path | None = None
    """Folder for the operator's credentials for all clusters; None = it has no folder."""
    names_proved: bool = False
    """Whether an admission policy makes people use their own names in decisions."""

    def wake(self, namespace: str | None, cluster: str) -> None:
        fleet = self.fleets.get((namespace or "", cluster))
        if fleet is not None:
            fleet.wake()

    def noticed(self, namespace: str | None, kind: Kind, event: kopf.RawEvent) -> None:
        """Handle an event about an object that belongs to a cluster."""
        thing: Object = dict(event["object"])
        cluster = (thing["metadata"].get("labels") or {}).get(CLUSTER_LABEL, "")
        fleet = self.fleets.get((namespace or "", cluster))
        if fleet is not None:
            fleet.noticed(kind, thing, is_gone=event["type"] == "DELETED")

    async def reconcile(
        self, namespace: str, name: str, *, created_at: datetime, is_stopped: Callable[[], bool]
    ) -> None:
        """The body of a cluster's daemon. Never raises: kopf would not start it again."""
        self.metrics.found(namespace, name, created_at)
        try:
            while not is_stopped():
                fleet = self.new_fleet(namespace, name)
                self.fleets[(namespace, name)] = fleet
                try:
                    return await fleet.run(is_stopped)
                except Exception:  # a defect: logged in full, and the loop begins again
                    LOGGER.exception("the loop of %s/%s failed", namespace, name)
                    self.metrics.passed(namespace, name, is_failed=True)
                    await asyncio.sleep(DEFECT_S)
                finally:
                    if self.fleets.get((namespace, name)) is fleet:
                        del self.fleets[(namespace, name)]
        finally:
            if (namespace, name) not in self.fleets:  # one that came since has figures of its own
                self.metrics.forget(namespace, name)

    def new_fleet(self, namespace: str, name: str) -> Fleet:
        return Fleet(
            self.open_api(namespace),
            name,
            metrics=self.metrics,
            operator_namespace=self.own_namespace,
            credentials=self.credentials,
            names_proved=self.names_proved,
        )

    async def take_down(self, namespace: str, name: str, body: Object) -> bool:
        """The cluster's object goes: stop its bookies gracefully. True = done.

        Its spec may be wrong: such a cluster can be deleted as well.
        """
        if (namespace, name) in self.fleets:
            return False  # its last pass is still under way
        platform = KubernetesPlatform(self.open_api(namespace), bare_cluster(body))
        retention = (body.get("spec") or {}).get("retention") or {}
        try:
            return await platform.take_down(delete_volumes=retention.get("whenDeleted") == "Delete")
        except BookieError as error:
            LOGGER.warning("%s/%s cannot be taken down now: %s", namespace, name, error)
            return False


async def check_installed(api: Api) -> None:
    """kopf watches what is there when it starts, and would wait for nothing else for ever.

    A server that does not answer, or denies, is not in the way: kopf tries again by itself.
    """
    for kind in (CLUSTER, TASK):
        try:
            await api.list(kind)
        except (UnavailableError, ForbiddenError) as error:
            LOGGER.warning("cannot look for %s: %s", kind.plural, error)
        except NotServedError as error:
            raise BookieError(
                f"found no {kind.name} in this cluster, expected its CustomResourceDefinition to "
                "be installed: kubectl apply --server-side -f crds/"
            ) from error


async def login_for_kopf() -> kopf.ConnectionInfo:
    """What our own requests log in with, as kopf's watches want it."""
    found = Configuration()
    try:
        await load_login(found)
    except UnavailableError as error:
        raise kopf.LoginError(str(error)) from error
    scheme, _space, token = found.api_key.get("BearerToken", "").partition(" ")
    return kopf.ConnectionInfo(
        server=found.host,
        ca_path=found.ssl_ca_cert,
        insecure=not found.verify_ssl,
        username=found.username or None,
        password=found.password or None,
        scheme=scheme or None,
        token=token or None,
        certificate_path=found.cert_file,
        private_key_path=found.key_file,
    )


def configure(settings: kopf.OperatorSettings) -> None:
    settings.persistence.finalizer = f"{GROUP}/finalizer"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=GROUP)
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=GROUP)
    settings.posting.enabled = False  # events are `recorder`'s: fixed reasons, no doubles
    settings.scanning.disabled = True
    settings.watching.server_timeout = WATCH_S
    settings.watching.client_timeout = WATCH_S + 30
    settings.watching.connect_timeout = CONNECT_S
    settings.watching.chunk_size = PAGE_MAX
    for kind in (*PARTS, *KEPT):  # asked of the server: `labels=` of handlers is looked at here
        settings.watching.label_selectors[watched(kind)] = CLUSTER_LABEL
    settings.watching.reconnect_backoff = 1
    settings.networking.request_timeout = 30
    settings.networking.error_backoffs = Endless()
    settings.execution.max_workers = 1
    settings.background.cancellation_polling = 5
    settings.background.instant_exit_timeout = ENDING_S


def register(registry: kopf.OperatorRegistry, operator: Operator) -> None:
    """All handlers of the operator, bound to what they share."""
    cluster = (GROUP, VERSION, "bookieclusters")
    on_cluster = functools.partial(kopf.on.event, registry=registry)

    @kopf.on.login(registry=registry, id="login")
    async def login(**_: Any) -> kopf.ConnectionInfo:
        return await login_for_kopf()

    @kopf.daemon(*cluster, registry=registry, id="reconcile", cancellation_timeout=STOP_S)
    async def reconcile(
        namespace: str | None, name: str, meta: kopf.Meta, stopped: kopf.DaemonStopped, **_: Any
    ) -> None:
        created_at = datetime.fromisoformat(meta["creationTimestamp"])
        await operator.reconcile(
            namespace or "", name, created_at=created_at, is_stopped=lambda: bool(stopped)
        )

    @kopf.on.delete(*cluster, registry=registry, id="take-down")
    async def take_down(namespace: str | None, name: str, body: kopf.Body, **_: Any) -> None:
        operator.wake(namespace, name)
        for _look in range(TAKE_DOWN_LOOKS):
            if await operator.take_down(namespace or "", name, dict(body)):
                return
            await asyncio.sleep(TAKE_DOWN_DELAY_S)
        raise kopf.TemporaryError("bookies are stopping", delay=TAKE_DOWN_DELAY_S)

    @on_cluster(*cluster, id="cluster-changed")
    async def cluster_changed(namespace: str | None, name: str, **_: Any) -> None:
        operator.wake(namespace, name)

    @on_cluster(GROUP, VERSION, "bookietasks", id="task-changed")
    async def task_changed(namespace: str | None, spec: kopf.Spec, **_: Any) -> None:
        operator.wake(namespace, str(spec.get("cluster", "")))

    async def part_changed(namespace: str | None, labels: kopf.Labels, **_: Any) -> None:
        operator.wake(namespace, labels.get(CLUSTER_LABEL, ""))

    for kind in PARTS:
        on_cluster(*watched(kind), id=f"{kind.plural}-changed", labels=OURS)(part_changed)

    for kind in KEPT:

        async def kept_changed(
            namespace: str | None, event: kopf.RawEvent, kind: Kind = kind, **_: Any
        ) -> None:
            operator.noticed(namespace, kind, event)

        on_cluster(*watched(kind), id=f"{kind.plural}-changed", labels=OURS)(kept_changed)


def watched(kind: Kind) -> tuple[str, str, str]:
    """A kind as kopf names it."""
    return kind.group, kind.version, kind.plural


async def operate(operator: Operator, namespaces: Sequence[str], stop: asyncio.Event) -> None:
    """Reconcile until `stop` is set. No namespaces = all of them."""
    settings = kopf.OperatorSettings()
    configure(settings)
    registry = kopf.OperatorRegistry()
    register(registry, operator)
    await kopf.operator(
        registry=registry,
        settings=settings,
        standalone=True,
        clusterwide=not namespaces,
        namespaces=namespaces,
        stop_flag=stop,
    )
