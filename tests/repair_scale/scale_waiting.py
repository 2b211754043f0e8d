"""The cluster of a story, and waits for its bookies, each bounded."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from bookie.ids import BookieId
from bookie.metadata.embedded import EmbeddedSettings, EmbeddedZooKeeper
from bookie.protocol.status import Status
from bookie.repair.engine.opening import open_cluster
from bookie.repair.look.cluster import Cluster

BOOT_WAIT_S: Final = 120.0
POLL_S: Final = 0.05


@asynccontextmanager
async def cluster_in(folder: Path) -> AsyncIterator[tuple[Cluster, str]]:
    """An empty cluster with a ZooKeeper of its own, and its URL."""
    settings = EmbeddedSettings(fsync=False, heap_mb=256)
    with EmbeddedZooKeeper.start(folder / "zookeeper", settings=settings) as zookeeper:
        url = f"zk://{zookeeper.address}/ledgers"
        async with open_cluster(url) as cluster:
            await cluster.store.initialise()
            yield cluster, url


async def until_registered(cluster: Cluster, *bookie_ids: BookieId) -> None:
    async with asyncio.timeout(BOOT_WAIT_S):
        while not set(bookie_ids) <= set(await cluster.store.bookies()):
            await asyncio.sleep(POLL_S)


async def until_serving(cluster: Cluster, *bookie_ids: BookieId) -> None:
    """Registered, and not by what an earlier process left behind."""
    await until_registered(cluster, *bookie_ids)
    async with asyncio.timeout(BOOT_WAIT_S):
        for bookie_id in bookie_ids:
            while (await cluster.control.list_marks(bookie_id)).status is not Status.OK:
                await asyncio.sleep(POLL_S)


async def until_gone(cluster: Cluster, bookie_id: BookieId) -> None:
    async with asyncio.timeout(BOOT_WAIT_S):
        while bookie_id in await cluster.store.bookies():
            await asyncio.sleep(POLL_S)
