"""Whom a client means by a bookie's id, and where it listens: the registrations, for a short while.

Asked before a connection is made. A store that is away changes nothing: it must not cut off bookies
that are not. But an address whose bookie the store says is not registered is forgotten, since
others will use it. The highest epoch seen of each bookie is kept for good.
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
"""How long a refresh may hold up a connection attempt that has a stale address to fall back on."""
_Found = tuple[str, Mapping[BookieId, BookieInfo]]


class Address(NamedTuple):
    """Where to look, and who must answer there."""

    endpoint: Endpoint
    meant: Identity


class AddressBook:
    """One kind of endpoint of a cluster's bookies; one refresh at a time, however many ask."""

    def __init__(
        self,
        store: MetadataStore,
        *,
        ttl_s: float,
        absent_ttl_s: float = 0.0,
        endpoint_ids: Sequence[str] = (RUN_ENDPOINT,),
        on_newer_boot: Callable[[BookieId, int], None] = lambda _bookie, _epoch: None,
    ) -> None:
        """`endpoint_ids`: of a bookie the first that it has counts. `absent_ttl_s`: how long the
        word counts that a bookie is not there. `on_newer_boot`: called with each epoch that is
        higher than those seen before."""
        self._store = store
        self._ttl_s = ttl_s
        self._absent_ttl_s = absent_ttl_s
        self._endpoint_ids = endpoint_ids
        self._on_later_boot = on_newer_boot
        self._cluster = ""
        """Instance id; read once, before the first address."""
        self._endpoints: dict[BookieId, Endpoint] = {}
        """Of the bookies that were registered at the last reading; all replaced by the next one."""
        self._epochs: dict[str, int] = {}
        """Bookie -> the highest boot epoch that anybody said; never falls."""
        self._read_at: float | None = None
        """Loop time of the last reading that succeeded; None: there was none."""
        self._trouble = "the metadata store did not answer in time"
        """Of the refresh made last, empty when there was none."""
        self._refresh: asyncio.Task[_Found] | None = None
        """The reading under way, shared by all who wait; None exactly when there is none."""

    async def find(self, bookie_id: BookieId, *, fresh: bool = False) -> Address:
        """The bookie's address, looked up again when `fresh` or stale.

        UnavailableError when it is not registered, or nothing is known because the store is away.
        """
        ttl_s = self._ttl_s if bookie_id in self._endpoints else self._absent_ttl_s
        now = asyncio.get_running_loop().time()
        if fresh or self._read_at is None or now - self._read_at > ttl_s or not ttl_s:
            await self._read()
        endpoint = self._endpoints.get(bookie_id)
        if endpoint is None:
            raise UnavailableError(
                f"cannot look up {bookie_id}: {self._trouble}"
                if self._trouble
                else f"bookie {bookie_id} is not registered"
            )
        return Address(endpoint, self.meant(bookie_id))

    def meant(self, bookie_id: BookieId) -> Identity:
        """Who must answer for this bookie, as far as is known now."""
        return Identity(self._cluster, bookie_id, self._epochs.get(bookie_id, 0))

    def saw(self, bookie_id: str, epoch: int) -> None:
        """No process of an earlier boot of it counts from now on."""
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
        await asyncio.wait([self._refresh], timeout=REFRESH_TIMEOUT_S)

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
        for bookie_id, info in bookies.items():
            self.saw(bookie_id, info.boot_epoch)
