"""The Spark half of an audit: judged and counted where the rows are, in one `mapInArrow`.

By indexes: the rows of `sources`, with the functions of `survey`. Deep: every copy read, with those
of `deep_survey`. What is not wholly ok is looked at again by the driver with the same `Auditor` as
in process, so that the result is the same.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import Broadcast
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from bookie.protocol.ids import BookieId, LedgerId
from bookie.protocol.placement import Racks
from bookie.repair.audit import COUNT_NAMES, AuditCounts
from bookie.repair.deep_survey import DeepSettings, deep_survey
from bookie.repair.sources import AvailabilitySource
from bookie.repair.spark_parts import distinct, executor_name, parts_of, workers
from bookie.repair.survey import BulkAudit, Scope, tallied
from bookie.repair.tables import BlockingCluster, columns_of

_STRINGS: Final = pa.list_(pa.string())
JUDGED_SCHEMA: Final = pa.schema(
    [
        ("doubtful", pa.list_(pa.int64())),
        ("marked", pa.int64()),
        ("bookies", _STRINGS),
        ("copies", pa.list_(pa.int64())),
        ("misplaced", pa.list_(pa.int64())),
        ("bytes_read", pa.int64()),
        *((name, pa.int64()) for name in COUNT_NAMES),
        ("executor", pa.string()),
    ]
)
EVERYTHING: Final = Scope()


@dataclass(frozen=True)
class JudgeBatches:
    """The function of the audit's mapInArrow: one row for each batch, however many ledgers."""

    racks: Racks

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield judged_batch(tallied(*columns_of(batch), self.racks))


@dataclass(frozen=True)
class ReadParts:
    """The function of a deep audit's mapInArrow: from numbers of parts to one row for each."""

    metadata_url: str
    settings: DeepSettings
    parts: "Broadcast[list[Sequence[LedgerId]]]"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with BlockingCluster(self.metadata_url) as blocking:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    ledger_ids = self.parts.value[number]
                    work = deep_survey(blocking.cluster, ledger_ids, self.settings)
                    yield judged_batch(blocking.run(work))


def judged_batch(found: BulkAudit) -> pa.RecordBatch:
    """One row."""
    row = {
        "doubtful": list(found.doubtful),
        "marked": found.marked,
        "bookies": list(found.copies),
        "copies": list(found.copies.values()),
        "misplaced": list(found.misplaced),
        "bytes_read": found.bytes_read,
        **dict(zip(COUNT_NAMES, found.counts.row(), strict=True)),
        "executor": executor_name(),
    }
    return pa.RecordBatch.from_pylist([row], schema=JUDGED_SCHEMA)


def audit_ledgers(
    spark: SparkSession,
    metadata_url: str,
    source: type[AvailabilitySource] = AvailabilitySource,
    scope: Scope = EVERYTHING,
) -> BulkAudit:
    """Judge every ledger in one action; see BulkAudit for what is left to the driver."""
    spark.dataSource.register(source)
    options = {
        "metadata": metadata_url,
        "instance": scope.instance_id,
        "partitionsMin": str(workers(spark)),
    }
    answers = spark.read.format(source.name()).options(**options).load()
    judged = answers.mapInArrow(JudgeBatches(scope.racks), from_arrow_schema(JUDGED_SCHEMA))
    return _bulk(spark, judged.toArrow())


def read_ledgers(
    spark: SparkSession,
    metadata_url: str,
    ledger_ids: Sequence[LedgerId],
    settings: DeepSettings,
) -> BulkAudit:
    """Read and judge every copy in one action; a rate is divided as that of a repair is."""
    slots = workers(spark)
    parts = parts_of(ledger_ids, workers=slots)
    shared = replace(settings, digests=settings.digests.shared_by(min(slots, len(parts))))
    work = ReadParts(metadata_url, shared, spark.sparkContext.broadcast(parts))
    numbers = spark.range(0, len(parts), 1, len(parts))
    return _bulk(spark, numbers.mapInArrow(work, from_arrow_schema(JUDGED_SCHEMA)).toArrow())


def _bulk(spark: SparkSession, rows: pa.Table) -> BulkAudit:
    return BulkAudit(
        counts=AuditCounts(*(pc.sum(rows[name]).as_py() or 0 for name in COUNT_NAMES)),
        marked=pc.sum(rows["marked"]).as_py() or 0,
        doubtful=_ids(rows["doubtful"]),
        copies=_copies(rows),
        misplaced=_ids(rows["misplaced"]),
        bytes_read=pc.sum(rows["bytes_read"]).as_py() or 0,
        spark_app_id=spark.sparkContext.applicationId,
        executors=distinct(rows),
    )


def _ids(lists: pa.ChunkedArray) -> tuple[LedgerId, ...]:
    return tuple(sorted(LedgerId(i) for ids in lists.to_pylist() for i in ids))


def _copies(rows: pa.Table) -> dict[BookieId, int]:
    found = Counter[BookieId]()
    for row in rows.select(["bookies", "copies"]).to_pylist():
        found.update(dict(zip(map(BookieId, row["bookies"]), row["copies"], strict=True)))
    return dict(found)
