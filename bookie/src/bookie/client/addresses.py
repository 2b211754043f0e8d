"""The addresses of bookies and the identities that must answer there, cached from their
registrations.

A client looks here before it connects. If the metadata store is not reachable, the known addresses
stay, so that reachable bookies stay reachable. But if the store says that a bookie is not
registered, its address is forgotten, since another process may get it. The highest epoch seen of
each bookie is kept permanently.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from bookie.errors import BookieError, UnavailableError
from bookie.ids import BookieId
from bookie.metadata.store import RUN_ENDPOINT, BookieInfo, Endpoint, MetadataStore
from bookie.wire.identity import Identity

_log = logging.getLogger(__name__)

REFRESH_TIMEOUT_S: Final = 3.0
"""How many seconds a connection attempt waits for a refresh before it uses a stale address."""
_LATE: Final = "the metadata store did not answer in time"
_Found = tuple[str, Mapping[BookieId, BookieInfo]]


class Address(NamedTuple):
    """An endpoint to connect to, and the identity that must answer there."""

    endpoint: Endpoint
    meant: Identity


class AddressBook:
    """The endpoints of one kind of a cluster's bookies. All callers share one refresh at a time."""

    def __init__(
        self,
        store: MetadataStore,
        *,
        ttl_s: float,
        absent_ttl_s: float = 0.0,
        endpoint_ids: Sequence[str] = (RUN_ENDPOINT,),
        on_newer_boot: Callable[[BookieId, int], None] = lambda _bookie, _epoch: None,
    ) -> None:
        """`endpoint_ids`: kinds of endpoints in order of preference. `absent_ttl_s`: how long it
        counts that a bookie is not registered. `on_newer_boot`: called with each epoch of a bookie
        that is higher than those seen before.
        """
        self._store = store
        self._ttl_s = ttl_s
        self._absent_ttl_s = absent_ttl_s
        self._endpoint_ids = endpoint_ids
        self._on_later_boot = on_newer_boot
        self._cluster = ""
        """The cluster's instance id; read once, before the first address."""
        self._endpoints: dict[BookieId, Endpoint] = {}
        """The endpoints of the bookies that were registered at the last refresh, which replaces
        all."""
        self._others: frozenset[BookieId] = frozenset()
        """Bookies that are registered with none of these endpoints, such as Apache's."""
        self._epochs: dict[str, int] = {}
        """By bookie: the highest boot epoch seen; never falls."""
        self._read_at: float | None = None
        """When the last successful refresh was, by the loop's clock; None when there was none."""
        self._trouble = _LATE
        """Why the last refresh failed; empty when it succeeded."""
        self._refresh: asyncio.Task[_Found] | None = None
        """The refresh under way, which all callers share; None exactly when there is none."""

    async def find(self, bookie_id: BookieId, *, fresh: bool = False) -> Address:
        """The bookie's address; refreshed first when `fresh`, or when it is stale.

        UnavailableError when the bookie is not registered, or unknown because the store is not
        reachable.
        """
        ttl_s = self._ttl_s if bookie_id in self._endpoints else self._absent_ttl_s
        now = asyncio.get_running_loop().time()
        if fresh or self._read_at is None or now - self._read_at > ttl_s or not ttl_s:
            await self._read()
        endpoint = self._endpoints.get(bookie_id)
        if endpoint is None:
            raise UnavailableError(self._why_not(bookie_id))
        return Address(endpoint, self.meant(bookie_id))

    def _why_not(self, bookie_id: BookieId) -> str:
        """Why it has no address."""
        if self._trouble:
            return f"cannot look up {bookie_id}: {self._trouble}"
        if bookie_id in self._others:
            expected = " or ".join(self._endpoint_ids)
            return f"bookie {bookie_id} is registered without the endpoint {expected}"
        return f"bookie {bookie_id} is not registered"

    def meant(self, bookie_id: BookieId) -> Identity:
        """The identity that must answer for this bookie, as known now."""
        return Identity(self._cluster, bookie_id, self._epochs.get(bookie_id, 0))

    def saw(self, bookie_id: str, epoch: int) -> None:
        """Note a boot epoch of a bookie: from now on no process of an earlier boot counts."""
        if epoch > self._epochs.get(bookie_id, 0):
            self._epochs[bookie_id] = epoch
            self._on_later_boot(BookieId(bookie_id), epoch)

    async def close(self) -> None:
        if self._refresh is not None:
            self._refresh.cancel()
            await asyncio.gather(self._refresh, return_exceptions=True)

    async def _read(self) -> None:
        if self._refresh is None:
            self._refresh = asyncio.ensure_future(self._look())
            self._refresh.add_done_callback(self._learn)
        _done, late = await asyncio.wait([self._refresh], timeout=REFRESH_TIMEOUT_S)
        if late:
            self._trouble = _LATE

    async def _look(self) -> _Found:
        cluster = self._cluster or await self._store.instance_id()
        if not cluster:
            raise UnavailableError("the metadata store holds no cluster yet")
        return cluster, await self._store.bookies()

    def _learn(self, refresh: "asyncio.Task[_Found]") -> None:
        self._refresh = None
        if refresh.cancelled():
            return
        error = refresh.exception()
        if error is not None:
            level = logging.INFO if isinstance(error, BookieError) else logging.ERROR
            _log.log(level, "cannot list bookies, going on with addresses known: %s", error)
            self._trouble = str(error)
            return
        self._trouble, self._read_at = "", refresh.get_loop().time()
        self._cluster, bookies = refresh.result()
        self._endpoints = {
            bookie_id: endpoint
            for bookie_id, info in bookies.items()
            if (endpoint := info.first_of(self._endpoint_ids)) is not None
        }
        self._others = frozenset(bookies) - self._endpoints.keys()
        for bookie_id, info in bookies.items():
            self.saw(bookie_id, info.boot_epoch)
