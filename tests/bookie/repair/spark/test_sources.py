"""Tables of ledgers without a Spark session: each task looks whose ledgers it reads."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pyarrow as pa
import pytest
from bookie.errors import InconsistentError
from bookie.metadata.memory import MemoryStore
from bookie.repair.look.cluster import Cluster
from bookie.repair.spark.sources import LedgersSource, TableReader
from pyspark.sql.pandas.types import from_arrow_schema
from repair_lab import RepairLab

LEDGERS = from_arrow_schema(
    pa.schema(
        [("ledger_id", pa.int64()), ("version", pa.int64()), ("closed", pa.bool_()),
         ("accepted_loss", pa.bool_()), ("last_entry_id", pa.int64()),
         ("ensemble_size", pa.int64()), ("write_quorum", pa.int64()), ("ack_quorum", pa.int64()),
         ("fragments", pa.list_(pa.struct({"first_entry_id": pa.int64(),
                                           "ensemble": pa.list_(pa.string())})))]
    )
)  # fmt: skip


class Readdressed(LedgersSource):
    """A table whose address leads to one cluster after the other, at each opening."""

    clusters: list[Cluster]

    def opening(self, _metadata_url: str):  # type: ignore[no-untyped-def,override]
        return self._opened()

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[Cluster]:
        yield self.clusters.pop(0)


async def clusters(*numbers: int) -> tuple[str, list[Cluster]]:
    """The id of the first, and each of these in turn; each has a ledger."""
    labs = [await RepairLab(store=MemoryStore()).start() for _ in range(max(numbers) + 1)]
    for lab in labs:
        await lab.ledger(entries=1, last=0)
    instance_id = await labs[0].store.instance_id()
    assert instance_id is not None
    return instance_id, [labs[number].cluster for number in numbers]


def reader(instance_id: str, found: list[Cluster]) -> TableReader:
    table = Readdressed({"metadata": "memory://lab", "instance": instance_id})
    table.clusters = found
    return table.reader(LEDGERS)


def test_a_table_is_read_where_it_was_cut() -> None:
    table = reader(*asyncio.run(clusters(0, 0)))
    [part] = table.partitions()
    assert [batch.num_rows for batch in table.read(part)] == [1]


@pytest.mark.parametrize("numbers", [(1,), (0, 1)])
def test_a_table_whose_address_leads_to_another_cluster_by_then_is_not_read(
    numbers: tuple[int, ...],
) -> None:
    table = reader(*asyncio.run(clusters(*numbers)))
    with pytest.raises(InconsistentError, match="the work began on the cluster"):
        for part in table.partitions():
            list(table.read(part))
