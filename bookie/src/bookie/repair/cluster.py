"""The handles that audit and repair work through: metadata, bookies, control planes, recovery.

`open_cluster(url)` makes the real ones; tests put fakes in. Spark tasks open their own.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from bookie.client.connection import BookiePool
from bookie.client.peers import Peers
from bookie.client.recovery import RecoverySettings
from bookie.metadata.opening import open_store
from bookie.metadata.store import MetadataStore
from bookie.repair.admin_client import AdminClient
from bookie.repair.control import BookieControl
from bookie.repair.survey import ClusterTables, Tables


@dataclass(frozen=True, slots=True)
class Cluster:
    """One cluster, ready to be asked. `recovery`: bounds of one ledger's recovery.

    `tables`: where very many ledgers are read from at once; None = from the store and the bookies.
    """

    store: MetadataStore
    peers: Peers
    control: BookieControl
    recovery: RecoverySettings = field(default_factory=lambda: RecoverySettings(attempts=2))
    tables: Tables | None = None

    @property
    def columns(self) -> Tables:
        return self.tables or ClusterTables(self.store, self.control)


@asynccontextmanager
async def open_cluster(metadata_url: str) -> AsyncIterator[Cluster]:
    """Connect to the metadata store; bookies are connected to when they are first asked.

    Raises SettingsError for a bad URL, UnavailableError when the store does not answer.
    """
    store = await open_store(metadata_url)
    try:
        pool = BookiePool(store)
        control = AdminClient(store)
        try:
            yield Cluster(store, pool, control)
        finally:
            await control.close()
            await pool.close()
    finally:
        await store.close()
