"""Tells bookies where they are: their racks, and the addresses that clients outside reach them at.

It keeps the Services for clients outside, and writes what nodes and Services say into annotations
of the bookies' pods.
"""

from collections.abc import Callable
from datetime import datetime

from bookie.errors import BookieError, UnavailableError
from bookie.ids import BookieId

from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.external import External
from bookie_operator.platform.kubernetes import names
from bookie_operator.platform.kubernetes.annotations import annotation_of, unwritten
from bookie_operator.platform.kubernetes.api import POD, SERVICE, Api, Object
from bookie_operator.platform.kubernetes.external_services import (
    addresses_by_bookie,
    external_services,
    unreached,
    without_doubles,
)
from bookie_operator.platform.kubernetes.keeper import Keeper, apply_each
from bookie_operator.platform.kubernetes.kept import Seen
from bookie_operator.platform.kubernetes.optional_objects import OptionalObjects
from bookie_operator.platform.kubernetes.racks import wanted_rack
from bookie_operator.platform.kubernetes.view import bookie_of


class Addresses:
    """Addresses of one cluster's bookies for outside clients."""

    def __init__(self, api: Api, keeper: Keeper, clock: Callable[[], datetime]) -> None:
        self._api = api
        self._clock = clock
        self._services = OptionalObjects(api, keeper, SERVICE, names.EXTERNAL)

    async def settle(self, cluster: BookieCluster, seen: Seen) -> dict[str, BookieError]:
        """What could not be written, by kind and name."""
        there = {BookieId(bookie_of(one)) for one in (*seen.sets, *seen.pods)} - {""}
        wanted = external_services(cluster, {*cluster.spec.bookie_ids, *there})
        failed = await self._services.settle(wanted, cluster)
        before = {bookie_of(pod): annotation_of(pod, names.ADVERTISED) for pod in seen.pods}
        advertised: dict[str, str] = {}
        if cluster.spec.external is not None:
            try:
                advertised, without = await self._advertised(cluster.spec.external, cluster, seen)
                failed |= {f"Service {name}": why for name, why in without.items()}
            except BookieError as error:
                failed["Services for clients outside"] = error
            advertised = without_doubles(advertised, before)
        if cluster.spec.paused:
            advertised = before
        key = cluster.spec.rack_topology_key

        def wanted_of(pod: Object) -> dict[str, str]:
            address = advertised.get(bookie_of(pod), "")
            return {names.RACK: wanted_rack(pod, seen.nodes, key), names.ADVERTISED: address}

        return failed | await apply_each(self._api, POD, unwritten(seen.pods, wanted_of))

    async def _advertised(
        self, external: External, cluster: BookieCluster, seen: Seen
    ) -> tuple[dict[str, str], dict[str, BookieError]]:
        """By bookie, and by Service why it gave none."""
        nodes = {
            bookie_of(pod): seen.nodes[node]
            for pod in seen.pods
            if (node := str(pod["spec"].get("nodeName") or "")) in seen.nodes
        }
        services = await self._services.there(cluster)
        found = addresses_by_bookie(external, services, nodes)
        alone = without_doubles(found, {})
        why = unreached(external, services, alone, now=self._clock())
        return found, {name: UnavailableError(text) for name, text in why.items()}
