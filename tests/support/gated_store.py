"""A session of the metadata store whose closing writes and listings wait for the test."""

import asyncio
from collections.abc import AsyncIterator

from bookie.ids import LedgerId
from bookie.metadata.memory import MemoryCluster, MemoryStore
from bookie.metadata.store import Versioned
from bookie.protocol.ledger import LedgerMetadata


class GatedStore(MemoryStore):
    """`opened` lets the closing writes (and, once asked, the listings) of this session go on."""

    def __init__(self, cluster: MemoryCluster, *, gate_listing: bool = False) -> None:
        super().__init__(cluster)
        self.opened = asyncio.Event()
        self.reached = asyncio.Event()
        self._gate_listing = gate_listing

    async def write_ledger(
        self, metadata: LedgerMetadata, *, version: int
    ) -> Versioned[LedgerMetadata]:
        if metadata.is_closed:
            self.reached.set()
            await self.opened.wait()
        return await super().write_ledger(metadata, version=version)

    async def ledger_ids(self) -> AsyncIterator[LedgerId]:
        if self._gate_listing:
            self.reached.set()
            await self.opened.wait()
        async for ledger_id in super().ledger_ids():
            yield ledger_id
