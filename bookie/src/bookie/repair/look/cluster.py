"""The handles that audit and repair work through: metadata, bookies, control planes, recovery.

`engine.opening` makes the real ones; tests put fakes in. Spark tasks open their own.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field

from bookie.client.peers import Peers
from bookie.client.recovery import RecoverySettings
from bookie.ids import BookieId
from bookie.metadata.store import MetadataStore
from bookie.protocol.status import Status
from bookie.repair.look.bookie_control import BookieControl, Marks
from bookie.repair.look.survey import ClusterTables, Tables


@dataclass(frozen=True, slots=True)
class Cluster:
    """One cluster, ready to be asked."""

    store: MetadataStore
    peers: Peers
    control: BookieControl
    recovery: RecoverySettings = field(default_factory=lambda: RecoverySettings(attempts=2))
    """Bounds of one ledger's recovery."""
    tables: Tables | None = None
    """Source of many ledgers and answers as columns; None = the store and the bookies."""
    metadata_url: str = ""
    """URL with which other processes open the cluster; "" = none can."""

    @property
    def columns(self) -> Tables:
        return self.tables or ClusterTables(self.store, self.control)

    async def all_bookies(self) -> list[BookieId]:
        """Every bookie with an identity: one that is down has marks too, which are then unknown."""
        return sorted({*await self.store.bookies(), *await self.store.cookies()})

    async def list_marks(self, bookies: Iterable[BookieId]) -> list[Marks]:
        """What each of them has in limbo or unchecked."""
        return await asyncio.gather(*map(self.control.list_marks, bookies))

    async def flush(self, bookies: Iterable[BookieId]) -> dict[BookieId, Status]:
        """Have them make durable what they accepted; the answers of those that did not."""
        asked = sorted(bookies)
        answers = await asyncio.gather(*map(self.control.flush, asked))
        found = zip(asked, answers, strict=True)
        return {bookie_id: status for bookie_id, status in found if status is not Status.OK}
