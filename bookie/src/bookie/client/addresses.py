"""Where bookies listen for native runs: the registrations, cached for a short while.

Asked by `client.connection` before it connects. A bookie that has vanished from the store keeps its
last known address: a store that is away for a while must not cut off bookies that are not.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from bookie.metadata.store import RUN_ENDPOINT, BookieInfo, Endpoint, MetadataStore
from bookie.protocol.errors import BookieError
from bookie.protocol.ids import BookieId

_log = logging.getLogger(__name__)

REFRESH_TIMEOUT_S: Final = 3.0
"""How long a refresh may hold up a connection attempt that has a stale address to fall back on."""


class AddressBook:
    """The `bookie-run` endpoints of a cluster; one refresh at a time, however many ask."""

    def __init__(self, store: MetadataStore, *, ttl_s: float) -> None:
        self._store = store
        self._ttl_s = ttl_s
        self._endpoints: dict[BookieId, Endpoint] = {}
        self._read_at: float | None = None
        self._refresh: asyncio.Task[Mapping[BookieId, BookieInfo]] | None = None

    async def find(self, bookie_id: BookieId, *, fresh: bool) -> Endpoint | None:
        """The bookie's endpoint, re-read when `fresh` or stale; None when none was ever seen."""
        now = asyncio.get_running_loop().time()
        is_stale = self._read_at is None or now - self._read_at > self._ttl_s
        if fresh or is_stale or bookie_id not in self._endpoints:
            await self._read()
        return self._endpoints.get(bookie_id)

    async def close(self) -> None:
        if self._refresh is not None:
            self._refresh.cancel()
            await asyncio.gather(self._refresh, return_exceptions=True)

    async def _read(self) -> None:
        if self._refresh is None:
            self._refresh = asyncio.ensure_future(self._store.bookies())
            self._refresh.add_done_callback(self._learn)
        await asyncio.wait([self._refresh], timeout=REFRESH_TIMEOUT_S)

    def _learn(self, refresh: "asyncio.Task[Mapping[BookieId, BookieInfo]]") -> None:
        self._refresh = None
        if refresh.cancelled():
            return
        error = refresh.exception()
        if error is not None:
            level = logging.INFO if isinstance(error, BookieError) else logging.ERROR
            _log.log(level, "cannot list bookies, going on with addresses known: %s", error)
            return
        self._read_at = refresh.get_loop().time()
        for bookie_id, info in refresh.result().items():
            endpoint = info.endpoint(RUN_ENDPOINT)
            if endpoint is not None:
                self._endpoints[bookie_id] = endpoint
