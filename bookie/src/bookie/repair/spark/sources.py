"""Ledgers and what bookies hold of them as Spark tables: read-only Python data sources.

`bookie_ledgers`: one row per ledger, its metadata as columns. `bookie_availability`: the same and
what each member answered about it, read at the same time. `bookie_entries`: the same once every
copy that a member lists and owes was read: its `entries` are the good ones, beside them the corrupt
and the unread as intervals (`arrow` has the schemas). One partition per range of ledgers, rows as
Arrow batches.

Options: `metadata` (URL, required), `instance` (the cluster's id: another one is refused),
`ledgersPerPartition`, `partitionsMin`; of `bookie_entries` also `readBytes`, `readsPerBookie`,
`bytesPerSecond` (of each bookie, for all tasks together) and `tasksAtOnce` (that share it).
A bookie without an answer is an answer with its status, never a missing one. Filters are not pushed
down: in Spark 4.1 to 4.3 that loses rows. Every action reads the live cluster again: take only one.
"""

from abc import abstractmethod
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from itertools import islice
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema

from bookie.errors import SettingsError
from bookie.ids import LedgerId
from bookie.repair.engine.opening import open_cluster
from bookie.repair.judge.columns import AnswerColumns, LedgerColumns, ReadColumns
from bookie.repair.look.cluster import Cluster
from bookie.repair.look.digests import DEEP_LEDGERS_PER_BATCH, DigestSettings
from bookie.repair.look.entries import EntryTables
from bookie.repair.look.same_cluster import SameCluster
from bookie.repair.look.survey import LEDGERS_PER_BATCH, Scope
from bookie.repair.spark.arrow import (
    AVAILABILITY_DDL,
    ENTRIES_DDL,
    LEDGERS_DDL,
    BlockingCluster,
    arrow_batch,
)

LEDGERS_PER_PARTITION: Final = 20_000
DEEP_LEDGERS_PER_PARTITION: Final = 200
"""What is read again when an executor dies."""
PARTITIONS_MAX: Final = 10_000


class Rows(NamedTuple):
    """Some rows of a table, as columns."""

    ledgers: LedgerColumns
    answers: AnswerColumns | None = None
    reads: ReadColumns | None = None


Fetch = Callable[[Sequence[LedgerId]], Coroutine[Any, Any, Rows]]


class LedgerRange(InputPartition):  # type: ignore[misc]
    """The ledgers one task reads, while at most so many tasks do."""

    def __init__(self, ledger_ids: tuple[LedgerId, ...], tasks_at_once: int = 1) -> None:
        super().__init__((ledger_ids, tasks_at_once))

    @property
    def ledger_ids(self) -> tuple[LedgerId, ...]:
        ids: tuple[LedgerId, ...] = self.value[0]
        return ids

    @property
    def tasks_at_once(self) -> int:
        return int(self.value[1])


class _LedgerTable(DataSource):  # type: ignore[misc]
    """What the tables share: their options and how they are cut."""

    ledgers_per_batch: int = LEDGERS_PER_BATCH
    ledgers_per_partition: int = LEDGERS_PER_PARTITION

    @staticmethod
    def opening(metadata_url: str) -> AbstractAsyncContextManager[Cluster]:
        """How a task gets to the cluster."""
        return open_cluster(metadata_url)

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        if "metadata" not in options:
            raise SettingsError("a table of ledgers needs the option `metadata`, a URL")
        self.metadata_url = options["metadata"]
        """Each task opens a store of its own by it."""
        self.per_partition = number(options, "ledgersPerPartition", self.ledgers_per_partition)
        self.partitions_min = number(options, "partitionsMin", 1)
        self.tasks_at_once = number(options, "tasksAtOnce", PARTITIONS_MAX)
        self.instance_id = options.get("instance", "")

    def reader(self, schema: Any) -> "TableReader":
        return TableReader(self, schema)

    @abstractmethod
    def fetching(self, cluster: Cluster, part: LedgerRange) -> Fetch:
        """How a task reads its ledgers, some at a time."""


class LedgersSource(_LedgerTable):
    """Metadata of every ledger."""

    @classmethod
    def name(cls) -> str:
        return "bookie_ledgers"

    def schema(self) -> str:
        return LEDGERS_DDL

    def fetching(self, cluster: Cluster, part: LedgerRange) -> Fetch:
        async def fetch(ledger_ids: Sequence[LedgerId]) -> Rows:
            return Rows(await cluster.columns.ledgers(ledger_ids))

        return fetch


class AvailabilitySource(_LedgerTable):
    """Metadata of every ledger, and what each of its members answered."""

    @classmethod
    def name(cls) -> str:
        return "bookie_availability"

    def schema(self) -> str:
        return AVAILABILITY_DDL

    def fetching(self, cluster: Cluster, part: LedgerRange) -> Fetch:
        async def fetch(ledger_ids: Sequence[LedgerId]) -> Rows:
            ledgers = await cluster.columns.ledgers(ledger_ids)
            return Rows(ledgers, await cluster.columns.answers(ledgers))

        return fetch


class EntriesSource(AvailabilitySource):
    """Metadata of every ledger, and what each of its members gave when all it lists was read."""

    ledgers_per_batch = DEEP_LEDGERS_PER_BATCH
    ledgers_per_partition = DEEP_LEDGERS_PER_PARTITION

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        plain = DigestSettings()
        rate = number(options, "bytesPerSecond", 0) if "bytesPerSecond" in options else None
        self.digests = DigestSettings(
            read_bytes=number(options, "readBytes", plain.read_bytes),
            reads_per_bookie=number(options, "readsPerBookie", plain.reads_per_bookie),
            bytes_per_second=rate,
        )

    @classmethod
    def name(cls) -> str:
        return "bookie_entries"

    def schema(self) -> str:
        return ENTRIES_DDL

    def digests_of(self, part: LedgerRange) -> DigestSettings:
        """One task's share."""
        return self.digests.shared_by(part.tasks_at_once)

    def fetching(self, cluster: Cluster, part: LedgerRange) -> Fetch:
        tables = EntryTables(cluster, self.digests_of(part))

        async def fetch(ledger_ids: Sequence[LedgerId]) -> Rows:
            return Rows(*await tables.read(ledger_ids))

        return fetch


class TableReader(DataSourceReader):  # type: ignore[misc]
    """Cuts the cluster's ledgers into partitions, and reads one."""

    def __init__(self, table: _LedgerTable, schema: Any) -> None:
        self._table = table
        self._schema = schema

    def partitions(self) -> Sequence[LedgerRange]:
        async def list_ledgers(cluster: Cluster) -> list[LedgerId]:
            await self._check(cluster)
            return [ledger_id async for ledger_id in cluster.store.ledger_ids()]

        with self._opened() as blocking:
            ledger_ids = blocking.run(list_ledgers(blocking.cluster))
        per_partition = max(self._table.per_partition, len(ledger_ids) // PARTITIONS_MAX + 1)
        step = max(min(per_partition, len(ledger_ids) // self._table.partitions_min), 1)
        # Spark replaces an empty list by one partition of None: say "no ledgers" ourselves.
        starts = range(0, max(len(ledger_ids), 1), step)
        at_once = min(self._table.tasks_at_once, len(starts))
        return [LedgerRange(tuple(ledger_ids[start : start + step]), at_once) for start in starts]

    def read(self, partition: LedgerRange) -> Iterator[pa.RecordBatch]:
        schema = to_arrow_schema(self._schema, timezone="UTC")
        rest = iter(partition.ledger_ids)
        with self._opened() as blocking:
            blocking.run(self._check(blocking.cluster))
            fetch = self._table.fetching(blocking.cluster, partition)
            while batch := list(islice(rest, self._table.ledgers_per_batch)):
                yield arrow_batch(*blocking.run(fetch(batch)), schema=schema)

    def _opened(self) -> BlockingCluster:
        return BlockingCluster(self._table.metadata_url, self._table.opening)

    async def _check(self, cluster: Cluster) -> None:
        """An address may lead to another cluster from here than from where the work began."""
        if self._table.instance_id:
            await SameCluster(self._table.instance_id).check(cluster.store)


def options_of(metadata_url: str, scope: Scope, *, tasks_at_once: int) -> dict[str, str]:
    """The options of a table for an audit of this scope: a part for each task that can run."""
    options = {
        "metadata": metadata_url,
        "instance": scope.instance_id,
        "partitionsMin": str(tasks_at_once),
        "tasksAtOnce": str(tasks_at_once),
    }
    if scope.digests is None:
        return options
    options |= {
        "readBytes": str(scope.digests.read_bytes),
        "readsPerBookie": str(scope.digests.reads_per_bookie),
    }
    if scope.digests.bytes_per_second is not None:
        options["bytesPerSecond"] = str(scope.digests.bytes_per_second)
    return options


def number(options: Mapping[str, str], name: str, default: int) -> int:
    """A whole number above 0; SettingsError for anything else that was given."""
    given = options.get(name)
    if given is None:
        return default
    if not given.isascii() or not given.isdigit() or int(given) == 0:
        raise SettingsError(f"the option `{name}` is {given!r}, expected a whole number above 0")
    return int(given)
