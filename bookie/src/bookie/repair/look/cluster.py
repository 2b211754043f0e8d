"""The handles that audit and repair work through: metadata, bookies, control planes, recovery.

`open_cluster(url)` makes the real ones; tests put fakes in. Spark tasks open their own.
"""

from dataclasses import dataclass, field

from bookie.client.peers import Peers
from bookie.client.recovery import RecoverySettings
from bookie.ids import BookieId
from bookie.metadata.store import MetadataStore
from bookie.repair.look.bookie_control import BookieControl
from bookie.repair.look.survey import ClusterTables, Tables


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


async def all_bookies(cluster: Cluster) -> list[BookieId]:
    """Every bookie that has an identity: one that is down has marks too, which are then unknown."""
    return sorted({*await cluster.store.bookies(), *await cluster.store.cookies()})
