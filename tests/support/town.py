"""Real bookies of several clusters on one host: their addresses can be used again.

Each has folders of its own and every cluster its metadata in memory. A bookie that starts at the
ports of another one, which is gone, is what a pod is that gets the address of another pod.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from bookie.client.pool import BookiePool
from bookie.client.pool_settings import PoolSettings
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.metadata.memory import MemoryCluster, MemoryStore
from bookie.metadata.store import BookieInfo, MetadataStore
from bookie.protocol.ledger import Fragment, LedgerMetadata
from bookie.protocol.status import Status
from bookie.server.lifecycle import Bookie, ExitCode, Host
from bookie.server.part_settings import boot_settings
from bookie.server.settings import parse_settings
from bookie.wire.native import ReadReply, ReadRequest
from server_lab import SMALL

ENSEMBLE = tuple(BookieId(f"bookie-{number}") for number in range(3))
LEDGER = LedgerId(100)
QUICK = PoolSettings(backoff_min_s=0.001, backoff_max_s=0.01)


@dataclass(slots=True)
class Tenant:
    """One bookie of one cluster. `info`: its registration, also after it has gone."""

    bookie: Bookie
    life: "asyncio.Task[ExitCode]"
    info: BookieInfo

    @property
    def ports(self) -> Mapping[str, int]:
        return dict(self.bookie.ports)


@dataclass(slots=True)
class Town:
    """See the module; clusters are made when they are first named."""

    root: Path
    clusters: dict[str, MemoryCluster] = field(default_factory=dict)
    tenants: dict[tuple[str, BookieId], Tenant] = field(default_factory=dict)

    def store(self, cluster: str) -> MemoryStore:
        """A session of its own."""
        return MemoryStore(self.clusters.setdefault(cluster, MemoryCluster()))

    async def start(
        self, cluster: str, bookie_id: BookieId, *, ports: Mapping[str, int] | None = None
    ) -> Tenant:
        """Returns once it is registered."""
        home = self.root / cluster / bookie_id
        tree: dict[str, Any] = {
            "bookieId": bookie_id,
            "metadata": f"memory://{cluster}",
            "ports": dict(ports or dict.fromkeys(("run", "stock", "admin", "http"), 0)),
            "journal": {"directory": str(home / "journal")},
            "ledgers": [{"directory": str(home / "ledger")}],
            "durability": {"journalWriteData": False, "flushIntervalSeconds": 3600},
        }
        settings = parse_settings(tree, source="the test")
        boot = boot_settings(settings)
        boot = replace(boot, storage=replace(boot.storage, **SMALL), rival_wait_s=0.2)

        async def open_metadata(_url: str) -> MetadataStore:
            return self.store(cluster)

        bookie = Bookie(settings, host=Host(open_metadata=open_metadata), boot=boot)
        life = asyncio.create_task(bookie.run())
        store = self.store(cluster)
        while bookie_id not in (found := await store.bookies()):
            assert not life.done(), f"it ended with {life.result()!r}"
            await asyncio.sleep(0.005)
        tenant = self.tenants[cluster, bookie_id] = Tenant(bookie, life, found[bookie_id])
        return tenant

    async def stop(self, cluster: str, bookie_id: BookieId) -> Tenant:
        """Cleanly; what it was."""
        tenant = self.tenants.pop((cluster, bookie_id))
        tenant.bookie.stop()
        assert await tenant.life is ExitCode.CLEAN
        return tenant

    async def give_address(self, cluster: str, bookie_id: BookieId, *, to: str) -> Tenant:
        """The bookie goes, and its namesake of another cluster comes up where it was."""
        gone = await self.stop(cluster, bookie_id)
        await self.start(to, bookie_id, ports=gone.ports)
        return gone

    async def end(self) -> None:
        for cluster, bookie_id in list(self.tenants):
            await self.stop(cluster, bookie_id)


async def new_ledger(store: MetadataStore) -> LedgerId:
    """3/3/2, open, on ENSEMBLE; in every cluster with the same id."""
    fragments = (Fragment(EntryId(0), ENSEMBLE),)
    await store.create_ledger(LedgerMetadata(LEDGER, 3, 3, 2, fragments))
    return LEDGER


class LatePool(BookiePool):
    """One bookie is slow: its reads are sent when those of the `others` have been answered."""

    def __init__(self, store: MetadataStore, *, late: BookieId, others: set[BookieId]) -> None:
        super().__init__(store, settings=QUICK)
        self._late, self._others = late, others
        self._answered: set[BookieId] = set()
        self._may_go = asyncio.Event()

    async def read(
        self, bookie_id: BookieId, request: ReadRequest, *, fence: bool = False
    ) -> tuple[Status, ReadReply | None]:
        if bookie_id == self._late:
            await self._may_go.wait()
        answer = await super().read(bookie_id, request, fence=fence)
        self._answered.add(bookie_id)
        if self._others <= self._answered:
            self._may_go.set()
        return answer


@pytest.fixture
async def town(tmp_path: Path) -> AsyncIterator[Town]:
    """Cluster `ours` has three bookies that serve; `theirs` has none yet."""
    town = Town(tmp_path)
    for bookie_id in ENSEMBLE:
        await town.start("ours", bookie_id)
    yield town
    await town.end()
