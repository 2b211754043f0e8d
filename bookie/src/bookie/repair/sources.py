"""Ledgers and what bookies hold of them as Spark tables: read-only Python data sources.

`bookie_ledgers`: one row per ledger, its metadata as columns. `bookie_availability`: the same and
what each member answered about it, read at the same time (`tables` has both schemas). One partition
per range of ledgers, rows as Arrow batches. Options: `metadata` (URL, required), `instance` (the
cluster's id: another one is refused), `ledgersPerPartition`, `partitionsMin`. A bookie without an
answer is an answer with its status, never a missing one. Filters are not pushed down: in Spark 4.1
to 4.3 that loses rows. Every action reads the live cluster again: take only one.
"""

from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from itertools import islice
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema

from bookie.protocol.errors import SettingsError
from bookie.protocol.ids import LedgerId
from bookie.repair.cluster import Cluster, open_cluster
from bookie.repair.columns import AnswerColumns, LedgerColumns
from bookie.repair.consistency import SameCluster
from bookie.repair.survey import LEDGERS_PER_BATCH
from bookie.repair.tables import (
    AVAILABILITY_DDL,
    LEDGERS_DDL,
    BlockingCluster,
    arrow_batch,
)

LEDGERS_PER_PARTITION: Final = 20_000

Fetched = tuple[LedgerColumns, AnswerColumns | None]
Fetch = Callable[[Cluster, Sequence[LedgerId]], Coroutine[Any, Any, Fetched]]


async def fetch_ledgers(cluster: Cluster, ledger_ids: Sequence[LedgerId]) -> Fetched:
    """Rows of `bookie_ledgers`."""
    return await cluster.columns.ledgers(ledger_ids), None


async def fetch_availability(cluster: Cluster, ledger_ids: Sequence[LedgerId]) -> Fetched:
    """Rows of `bookie_availability`."""
    ledgers = await cluster.columns.ledgers(ledger_ids)
    return ledgers, await cluster.columns.answers(ledgers)


class LedgerRange(InputPartition):  # type: ignore[misc]
    """The ledgers one task reads."""

    def __init__(self, ledger_ids: tuple[LedgerId, ...]) -> None:
        super().__init__(ledger_ids)

    @property
    def ledger_ids(self) -> tuple[LedgerId, ...]:
        ids: tuple[LedgerId, ...] = self.value
        return ids


class _LedgerTable(DataSource):  # type: ignore[misc]
    """What both tables share: their options and how they are cut."""

    @staticmethod
    def opening(metadata_url: str) -> AbstractAsyncContextManager[Cluster]:
        """How a task gets to the cluster."""
        return open_cluster(metadata_url)

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        if "metadata" not in options:
            raise SettingsError("a table of ledgers needs the option `metadata`, a URL")
        self.metadata_url = options["metadata"]
        self.per_partition = int(options.get("ledgersPerPartition", LEDGERS_PER_PARTITION))
        self.partitions_min = int(options.get("partitionsMin", 1))
        self.instance_id = options.get("instance", "")


class LedgersSource(_LedgerTable):
    """Metadata of every ledger."""

    @classmethod
    def name(cls) -> str:
        return "bookie_ledgers"

    def schema(self) -> str:
        return LEDGERS_DDL

    def reader(self, schema: Any) -> "TableReader":
        return TableReader(self, schema, fetch_ledgers)


class AvailabilitySource(_LedgerTable):
    """Metadata of every ledger, and what each of its members answered."""

    @classmethod
    def name(cls) -> str:
        return "bookie_availability"

    def schema(self) -> str:
        return AVAILABILITY_DDL

    def reader(self, schema: Any) -> "TableReader":
        return TableReader(self, schema, fetch_availability)


class TableReader(DataSourceReader):  # type: ignore[misc]
    """Cuts the cluster's ledgers into partitions, and reads one with `fetch`."""

    def __init__(self, table: _LedgerTable, schema: Any, fetch: Fetch) -> None:
        self._fetch = fetch
        self._metadata_url = table.metadata_url
        self._opening = table.opening
        self._instance_id = table.instance_id
        self._per_partition = table.per_partition
        self._partitions_min = table.partitions_min
        self._schema = schema

    def partitions(self) -> Sequence[LedgerRange]:
        async def list_ledgers(cluster: Cluster) -> list[LedgerId]:
            await self._check(cluster)
            return [ledger_id async for ledger_id in cluster.store.ledger_ids()]

        with BlockingCluster(self._metadata_url, self._opening) as blocking:
            ledger_ids = blocking.run(list_ledgers(blocking.cluster))
        step = max(min(self._per_partition, len(ledger_ids) // self._partitions_min), 1)
        # Spark replaces an empty list by one partition of None: say "no ledgers" ourselves.
        starts = range(0, max(len(ledger_ids), 1), step)
        return [LedgerRange(tuple(ledger_ids[start : start + step])) for start in starts]

    def read(self, partition: LedgerRange) -> Iterator[pa.RecordBatch]:
        schema = to_arrow_schema(self._schema, timezone="UTC")
        rest = iter(partition.ledger_ids)
        with BlockingCluster(self._metadata_url, self._opening) as blocking:
            blocking.run(self._check(blocking.cluster))
            while batch := list(islice(rest, LEDGERS_PER_BATCH)):
                ledgers, answers = blocking.run(self._fetch(blocking.cluster, batch))
                yield arrow_batch(ledgers, answers, schema=schema)

    async def _check(self, cluster: Cluster) -> None:
        """An address may lead to another cluster from here than from where the work began."""
        if self._instance_id:
            await SameCluster(self._instance_id).check(cluster.store)
