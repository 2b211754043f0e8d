"""Tells bookies where they are: their racks, and the addresses that clients outside reach them at.

It keeps the Services for clients outside, and writes what nodes and Services say into annotations
of the bookies' pods.
"""

from bookie.errors import BookieError
from bookie.ids import BookieId

from bookie_operator.model.cluster import BookieCluster
from bookie_operator.platform.kubernetes import names
from bookie_operator.platform.kubernetes.annotations import annotation_of, unwritten
from bookie_operator.platform.kubernetes.api import POD, SERVICE, Api, Object
from bookie_operator.platform.kubernetes.external_services import (
    addresses_by_bookie,
    external_services,
)
from bookie_operator.platform.kubernetes.keeper import Keeper, apply_each
from bookie_operator.platform.kubernetes.kept import Seen
from bookie_operator.platform.kubernetes.optional_objects import OptionalObjects
from bookie_operator.platform.kubernetes.racks import wanted_rack
from bookie_operator.platform.kubernetes.view import bookie_of


class Addresses:
    """Of one cluster's bookies."""

    def __init__(self, api: Api, keeper: Keeper) -> None:
        self._api = api
        self._services = OptionalObjects(api, keeper, SERVICE, names.EXTERNAL)

    async def settle(self, cluster: BookieCluster, seen: Seen) -> dict[str, BookieError]:
        """What could not be written, by kind and name."""
        there = {BookieId(bookie_of(one)) for one in (*seen.sets, *seen.pods)} - {""}
        wanted = external_services(cluster, {*cluster.spec.bookie_ids, *there})
        failed = await self._services.settle(wanted, cluster)
        advertised: dict[str, str] = {}
        try:
            advertised = await self._advertised(cluster, seen)
        except BookieError as error:
            failed["Services for clients outside"] = error
        is_wanted = cluster.spec.external is not None

        def wanted_of(pod: Object) -> dict[str, str]:
            # What is not known now stays as it was written.
            unknown = annotation_of(pod, names.ADVERTISED) if is_wanted else ""
            rack = wanted_rack(pod, seen.nodes, cluster.spec.rack_topology_key)
            address = advertised.get(bookie_of(pod), unknown)
            return {names.RACK: rack, names.ADVERTISED: address}

        return failed | await apply_each(self._api, POD, unwritten(seen.pods, wanted_of))

    async def _advertised(self, cluster: BookieCluster, seen: Seen) -> dict[str, str]:
        external = cluster.spec.external
        if external is None:
            return {}
        nodes = {
            bookie_of(pod): seen.nodes[node]
            for pod in seen.pods
            if (node := str(pod["spec"].get("nodeName") or "")) in seen.nodes
        }
        return addresses_by_bookie(external, await self._services.there(cluster), nodes)
