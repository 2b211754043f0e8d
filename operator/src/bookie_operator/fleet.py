"""The loop of one BookieCluster on Kubernetes: read the object, run a pass, wait to be woken.

`handlers` starts one loop per object and wakes it on events; only this loop writes the cluster's
status. Every pass begins with a new read of the object, so a pass may end anywhere.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from bookie.errors import BookieError
from pydantic import ValidationError

from bookie_operator.control import Control, GrpcControl
from bookie_operator.errors import PreconditionError
from bookie_operator.metrics import OperatorMetrics
from bookie_operator.model.base import ObjectMeta
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.manifest import mistakes_of
from bookie_operator.model.status import ClusterStatus
from bookie_operator.observe import Clock, Observer, Opener, utc_now
from bookie_operator.plan.actions import Action
from bookie_operator.plan.invalid import hindrance_event, invalid_status
from bookie_operator.platform.kubernetes.api import CLUSTER, Api, Kind, Object
from bookie_operator.platform.kubernetes.platform import KubernetesPlatform
from bookie_operator.reconcile import Reconciler

TICK_S: Final = 1.0
"""Seconds between passes while something is in progress."""
IDLE_TICK_S: Final = 15.0
"""Seconds between passes over a cluster at rest; events wake the loop earlier."""
PASS_GAP_S: Final = 0.2
"""Minimum seconds between passes, because events of pods come in bursts."""
FAILED_TICK_S: Final = 5.0
WORKING_TICK_S: Final = 5.0
"""Seconds between passes while a job runs at a cluster at rest, since no event shows its
progress."""
CALM_PASSES: Final = 3
"""Passes without a change of status after which a running cluster counts as at rest."""

BUSY_PHASES: Final = frozenset({"Creating", "Limbo", "Repairing"})

LOGGER: Final = logging.getLogger(__name__)


class Fleet:
    """Reconciles one cluster object; `run` ends when the object is gone."""

    def __init__(
        self,
        api: Api,
        name: str,
        *,
        metrics: OperatorMetrics,
        control: Callable[[Callable[[], Path | None]], Control] = GrpcControl,
        opener: Opener | None = None,
        clock: Clock = utc_now,
        operator_namespace: str = "",
        credentials: Path | None = None,
        names_proved: bool = False,
    ) -> None:
        """`opener`: see `Observer`. `credentials`: folder for the operator's credentials for this
        cluster; None = it has no folder."""
        self.name = name
        self._api = api
        self._metrics = metrics
        self._make_control = control
        self._opener = opener
        self._clock = clock
        self._operator_namespace = operator_namespace
        self._credentials = credentials
        self._names_proved = names_proved
        """See `Applier`."""
        self._platform: KubernetesPlatform | None = None
        """None until the cluster object was read."""
        self._uid = ""
        """Uid of the cluster object; empty until it was read."""
        self._calm = 0
        """Passes in a row that changed nothing; from CALM_PASSES on the next look is seldom."""

    def wake(self) -> None:
        if self._platform is not None:
            self._platform.wake()

    def noticed(self, kind: Kind, thing: Object, *, is_gone: bool) -> None:
        """A watch tells of an object that this cluster needs."""
        if self._platform is not None:
            self._platform.noticed(kind, thing, is_gone=is_gone)

    async def run(self, is_stopped: Callable[[], bool]) -> None:
        """Run passes until `is_stopped`, or until the object is gone or being deleted."""
        control = self._make_control(self._operator_credentials)
        observer: Observer | None = None
        reconciler: Reconciler | None = None
        try:
            while not is_stopped():
                body = await self._read()
                if body is not None and self._has_ended(body):
                    return
                cluster = await self._parsed(body) if body is not None else None
                if cluster is None:  # it lives, and that is all
                    self._metrics.passed(self._api.namespace, self.name, is_failed=True)
                    await asyncio.sleep(FAILED_TICK_S)
                    continue
                if reconciler is None:
                    self._platform = KubernetesPlatform(
                        self._api,
                        cluster,
                        clock=self._clock,
                        operator_namespace=self._operator_namespace,
                        credentials=self._credentials,
                        names_proved=self._names_proved,
                    )
                    observer = Observer(
                        self._platform, control, opener=self._opener, clock=self._clock
                    )
                    reconciler = Reconciler(
                        self._platform,
                        observer,
                        control,
                        on_done=self._count,
                        names_proved=self._names_proved,
                    )
                assert self._platform is not None
                tick = await self._pass(reconciler, cluster)
                await asyncio.sleep(PASS_GAP_S)
                await self._platform.wait(tick)
        finally:
            if observer is not None:
                await observer.close()
            await control.close()

    def _operator_credentials(self) -> Path | None:
        return None if self._platform is None else self._platform.credentials

    def _has_ended(self, body: Object) -> bool:
        """The object is gone or going; one of the same name is another fleet's."""
        metadata = body.get("metadata") or {}
        self._uid = self._uid or str(metadata.get("uid", ""))
        return not body or "deletionTimestamp" in metadata or metadata["uid"] != self._uid

    def _count(self, action: Action) -> None:
        self._metrics.acted(self._api.namespace, self.name, type(action).__name__)

    async def _read(self) -> Object | None:
        """The object; empty = it is gone, None = not known now."""
        try:
            return await self._api.get(CLUSTER, self.name) or {}
        except BookieError as error:
            LOGGER.warning("%s/%s cannot be read: %s", self._api.namespace, self.name, error)
            return None

    async def _parsed(self, body: Object) -> BookieCluster | None:
        """The cluster; None = its spec is wrong in a way that the schema does not catch."""
        try:
            return BookieCluster.model_validate(body)
        except ValidationError as error:
            why = "; ".join(mistakes_of(BookieCluster, error))
        await self._tell_invalid(body, why)
        return None

    async def _tell_invalid(self, body: Object, why: str) -> None:
        LOGGER.warning("%s/%s is not valid: %s", self._api.namespace, self.name, why)
        try:
            previous = ClusterStatus.model_validate(body.get("status") or {})
        except ValidationError:
            previous = ClusterStatus()
        generation = int(body["metadata"].get("generation", 0))
        status = invalid_status(previous, generation, why, self._clock())
        self._metrics.show(self._api.namespace, self.name, status)
        if status == previous:
            return
        bare = bare_cluster(body, status)
        platform = KubernetesPlatform(self._api, bare, clock=self._clock)
        event = hindrance_event(status, previous)
        if event is not None:  # before the status that remembers it, and so only once
            with suppress(BookieError):  # an event is worth less than the status
                await platform.record(replace(event, once=f"{event.reason}/{generation}"))
        with suppress(BookieError):
            await platform.publish(bare)

    async def _pass(self, reconciler: Reconciler, cluster: BookieCluster) -> float:
        """One pass; how long to wait for the next."""
        where = (self._api.namespace, self.name)
        try:
            status = await reconciler.run_pass(cluster)
        except PreconditionError as error:  # another writer, or a newer object: look again
            LOGGER.info("%s/%s: %s", *where, error)
            self._metrics.passed(*where, is_failed=True)
            return TICK_S
        except BookieError as error:
            LOGGER.warning("%s/%s: the pass failed: %s", *where, error)
            self._metrics.passed(*where, is_failed=True)
            return FAILED_TICK_S
        self._metrics.passed(*where, is_failed=not reconciler.could_look)
        self._metrics.show(*where, status)
        is_calm = status == cluster.status and not reconciler.has_news
        self._calm = self._calm + 1 if is_calm else 0
        if self._calm < CALM_PASSES or status.phase in BUSY_PHASES:
            return TICK_S
        if status.phase != "Running":
            return FAILED_TICK_S
        return WORKING_TICK_S if status.has_running_job else IDLE_TICK_S


def bare_cluster(body: Object, status: ClusterStatus | None = None) -> BookieCluster:
    """A cluster with only a name: nothing else of an invalid object can be trusted."""
    keys = ("name", "namespace", "uid", "generation")
    known = {key: body["metadata"].get(key, "") for key in keys}
    return BookieCluster.model_construct(
        metadata=ObjectMeta.model_construct(**known), status=status or ClusterStatus()
    )
