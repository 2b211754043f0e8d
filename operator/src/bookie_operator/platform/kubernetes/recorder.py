"""Events for people, as Kubernetes Events of the cluster object.

Names are derived from what an event says, so that an operator that was killed between reporting and
remembering tells it again without a double; what repeats is counted up at most once a minute.
"""

import asyncio
import hashlib
import logging
from datetime import UTC, datetime
from typing import Final

from bookie.errors import BookieError

from bookie_operator.model.base import API_VERSION
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.plan.actions import Event
from bookie_operator.platform.kubernetes import names
from bookie_operator.platform.kubernetes.api import EVENT, Api, Object

LOGGER: Final = logging.getLogger(__name__)
COMPONENT: Final = "bookie-operator"
MESSAGE_MAX: Final = 1024
"""Kubernetes drops events with longer messages."""
REPEAT_AFTER_S: Final = 60.0
REMEMBERED_MAX: Final = 512


class Recorder:
    """Tells the events of one cluster."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._told: dict[str, float] = {}
        """Clock time of each event that was written not long ago, by the name of its object."""

    async def record(self, event: Event, cluster: BookieCluster) -> None:
        name = event_name(event, cluster)
        now = asyncio.get_running_loop().time()
        last = self._told.get(name)
        if last is not None and (event.once or now - last < REPEAT_AFTER_S):
            return
        body = event_body(event, cluster, name=name, at=datetime.now(UTC))
        if await self._api.create(EVENT, body) is None and not event.once:
            await self._count_up(name, body)
        while len(self._told) >= REMEMBERED_MAX:
            self._told.pop(next(iter(self._told)))
        self._told[name] = now

    async def tell(self, event: Event, cluster: BookieCluster) -> None:
        """Record what a look or a write has noticed on its way: an event that the API server
        refuses, by a quota or a webhook, must end neither.
        """
        try:
            await self.record(event, cluster)
        except BookieError as error:
            LOGGER.warning("event not written: %s (%s: %s)", error, event.reason, event.message)

    async def _count_up(self, name: str, body: Object) -> None:
        known = await self._api.get(EVENT, name)
        if known is not None:
            body["count"] = int(known.get("count") or 1) + 1
            body["firstTimestamp"] = known.get("firstTimestamp") or body["lastTimestamp"]
            await self._api.apply(EVENT, body)


def event_name(event: Event, cluster: BookieCluster) -> str:
    said = event.once or f"{event.reason}\0{event.bookie}\0{event.message}"
    digest = hashlib.sha256(f"{cluster.metadata.uid}\0{said}".encode()).hexdigest()[:16]
    return f"{cluster.metadata.name}.{digest}"


def event_body(event: Event, cluster: BookieCluster, *, name: str, at: datetime) -> Object:
    about = f"{event.bookie}: " if event.bookie else ""
    stamp = at.strftime("%Y-%m-%dT%H:%M:%SZ")
    body: Object = {
        "metadata": {
            "name": name,
            "namespace": cluster.metadata.namespace,
            "labels": {names.CLUSTER_LABEL: cluster.metadata.name},
        },
        "involvedObject": {
            "apiVersion": API_VERSION,
            "kind": "BookieCluster",
            "name": cluster.metadata.name,
            "namespace": cluster.metadata.namespace,
            "uid": cluster.metadata.uid,
        },
        "reason": event.reason,
        "message": (about + event.message)[:MESSAGE_MAX],
        "type": event.type,
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": 1,
    }
    if event.bookie and names.can_be_label(event.bookie):
        body["metadata"]["labels"][names.BOOKIE_LABEL] = event.bookie
    return body
