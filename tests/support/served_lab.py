"""A `RepairLab` that other processes can reach; results without what differs in any two runs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from bookie.metadata.opening import open_store
from bookie.repair.engine.opening import open_cluster
from bookie.repair.look.cluster import Cluster
from bookie.testing.run_service import served_fleet
from repair_lab import RepairLab

VOLATILE = ("run_id", "started_at_ms", "seconds", "engine", "engine_reason", "spark_app_id")
VOLATILE += ("executors", "executor_names", "progress")
Document = dict[str, Any]


@asynccontextmanager
async def served(url: str, *, bookies: int = 4) -> AsyncIterator[tuple[RepairLab, Cluster]]:
    """A lab whose bookies other processes can reach."""
    store = await open_store(url)
    lab = RepairLab(bookies, store=store)
    await store.initialise()
    async with served_fleet(lab.control), open_cluster(url) as cluster:
        yield lab, cluster
    await store.close()


def stable(document: Document) -> Document:
    """The result without what differs between any two runs: times, for example."""
    plain: Document = _timeless(document)
    return {name: value for name, value in plain.items() if name not in VOLATILE}


def _timeless(value: Any) -> Any:
    if isinstance(value, list):
        return [_timeless(one) for one in value]
    if isinstance(value, dict):
        return {k: _timeless(v) for k, v in value.items() if "_seen_" not in k}
    return value
