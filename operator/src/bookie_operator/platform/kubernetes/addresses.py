"""Tells bookies where they are: their racks, and the addresses that clients outside reach them at.

It keeps the Services for clients outside, takes away those that are not wanted any more, and writes
what nodes and Services say into annotations of the bookies' pods.
"""

from collections.abc import Sequence

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
from bookie_operator.platform.kubernetes.ownership import owning_cluster
from bookie_operator.platform.kubernetes.racks import wanted_rack
from bookie_operator.platform.kubernetes.view import bookie_of


class Addresses:
    """Of one cluster's bookies."""

    def __init__(self, api: Api, keeper: Keeper) -> None:
        self._api = api
        self._keeper = keeper
        self._may_be_left = True
        """A Service may be there that is not wanted; a fleet that wants none and has none is not
        asked about it again."""

    async def settle(self, cluster: BookieCluster, seen: Seen) -> dict[str, BookieError]:
        """What could not be written, by kind and name."""
        failed: dict[str, BookieError] = {}
        advertised: dict[str, str] = {}
        try:
            if cluster.spec.external is not None or self._may_be_left:
                failed, advertised = await self._services(cluster, seen)
        except BookieError as error:
            failed = {"Services for clients outside": error}
        key, is_wanted = cluster.spec.rack_topology_key, cluster.spec.external is not None

        def wanted(pod: Object) -> dict[str, str]:
            # What is not known now stays as it was written.
            unknown = annotation_of(pod, names.ADVERTISED) if is_wanted or failed else ""
            address = advertised.get(bookie_of(pod), unknown)
            return {names.RACK: wanted_rack(pod, seen.nodes, key), names.ADVERTISED: address}

        return failed | await apply_each(self._api, POD, unwritten(seen.pods, wanted))

    async def _services(
        self, cluster: BookieCluster, seen: Seen
    ) -> tuple[dict[str, BookieError], dict[str, str]]:
        """Keeps them, and says what each bookie is to advertise."""
        name, external = cluster.metadata.name, cluster.spec.external
        there = {BookieId(bookie_of(one)) for one in (*seen.sets, *seen.pods)}
        wanted = external_services(cluster, {*cluster.spec.bookie_ids, *there} - {""})
        failed = await self._keeper.tried(wanted)
        found = await self._api.list(SERVICE, names.selector(name, names.EXTERNAL))
        kept_names = {str(body["metadata"]["name"]) for _kind, body in wanted}
        mine = [one for one in found if owning_cluster(one) == cluster.metadata.uid]
        kept = [one for one in mine if one["metadata"]["name"] in kept_names]
        failed |= await self._drop([one for one in mine if one not in kept])
        self._may_be_left = external is not None or bool(failed)
        if external is None:
            return failed, {}
        nodes = {
            bookie_of(pod): seen.nodes[node]
            for pod in seen.pods
            if (node := str(pod["spec"].get("nodeName") or "")) in seen.nodes
        }
        return failed, addresses_by_bookie(external, kept, nodes)

    async def _drop(self, services: Sequence[Object]) -> dict[str, BookieError]:
        failed: dict[str, BookieError] = {}
        for one in services:
            name = str(one["metadata"]["name"])
            self._keeper.forget(SERVICE, name)
            try:
                await self._api.delete(SERVICE, one)
            except BookieError as error:
                failed[f"{SERVICE.name} {name}"] = error
        return failed
