"""Objects that a spec may stop to want: kept while they are wanted, and taken away after that."""

from collections.abc import Sequence

from bookie.errors import BookieError

from bookie_operator.errors import PreconditionError
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.platform.kubernetes import names
from bookie_operator.platform.kubernetes.api import Api, Kind, Object
from bookie_operator.platform.kubernetes.keeper import Keeper
from bookie_operator.platform.kubernetes.ownership import is_of


class OptionalObjects:
    """Objects of one kind with one component label that a cluster may have."""

    def __init__(self, api: Api, keeper: Keeper, kind: Kind, component: str) -> None:
        self._api = api
        self._keeper = keeper
        self._kind = kind
        self._component = component
        self._names: frozenset[str] | None = None
        """Of the objects that are there, as this operator left them; None = not known. Where they
        are those that are wanted, nobody is asked."""

    async def settle(
        self,
        wanted: Sequence[tuple[Kind, Object]],
        cluster: BookieCluster,
        *,
        spared: frozenset[str] = frozenset(),
    ) -> dict[str, BookieError]:
        """What could not be written or taken away, by kind and name.

        `spared`: names of those that are left as they are, wanted or not.
        """
        failed = await self._keeper.tried(wanted)
        kept = spared | {str(body["metadata"]["name"]) for _kind, body in wanted}
        if (failed or kept != self._names) and not cluster.spec.paused:
            self._names = kept
            try:
                failed |= await self._drop(await self.there(cluster), kept)
            except BookieError as error:
                failed[f"{self._kind.plural} ({self._component})"] = error
            if failed:
                self._names = None
        return failed

    async def there(self, cluster: BookieCluster) -> Sequence[Object]:
        """The objects as they are now: its own by their owner, or, without one, by their labels."""
        chosen = names.selector(cluster.metadata.name, self._component)
        found = await self._api.list(self._kind, chosen)
        return [one for one in found if is_of(one, cluster.metadata.uid)]

    async def _drop(self, found: Sequence[Object], kept: frozenset[str]) -> dict[str, BookieError]:
        failed: dict[str, BookieError] = {}
        for one in found:
            name = str(one["metadata"]["name"])
            if name in kept:
                continue
            self._keeper.forget(self._kind, name)
            try:
                await self._api.delete(self._kind, one)
            except PreconditionError:
                self._names = None  # it is another one by now: the next pass sees it as it is
            except BookieError as error:
                failed[f"{self._kind.name} {name}"] = error
        return failed
