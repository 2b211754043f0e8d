"""Opens the cluster behind a URL; in Spark each task opens its own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bookie.client.pool import BookiePool
from bookie.metadata.opening import open_store
from bookie.repair.look.cluster import Cluster
from bookie.repair.look.grpc_control import GrpcControl


@asynccontextmanager
async def open_cluster(metadata_url: str) -> AsyncIterator[Cluster]:
    """Connect to the metadata store; bookies are connected to when they are first asked.

    Raises SettingsError for a bad URL, UnavailableError when the store does not answer.
    """
    store = await open_store(metadata_url)
    try:
        pool = BookiePool(store)
        control = GrpcControl(store)
        try:
            yield Cluster(store, pool, control, metadata_url=metadata_url)
        finally:
            await control.close()
            await pool.close()
    finally:
        await store.close()
