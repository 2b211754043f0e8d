"""The Spark half of an audit: judged and counted where the rows are, in one `mapInArrow`.

By indexes or deep is the same job on another table of `sources`, with the functions of `survey`.
What is not wholly ok is looked at again by the driver with the same `Auditor` as in process, so
that the result is the same.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import Accumulator
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from bookie.ids import BookieId, LedgerId
from bookie.protocol.placement import Racks
from bookie.repair.judge.counts import COUNT_NAMES, AuditCounts
from bookie.repair.judge.quorums import quorums_of_rows, rows_of_quorums
from bookie.repair.look.survey import BulkAudit, Scope, tallied
from bookie.repair.reports.audit_progress import Looked, nobody_looks
from bookie.repair.spark.arrow import bytes_read_of, columns_of
from bookie.repair.spark.sources import AvailabilitySource, EntriesSource, options_of
from bookie.repair.spark.tasks import Outcomes, distinct, executor_name, followed, workers

_STRINGS: Final = pa.list_(pa.string())
JUDGED_SCHEMA: Final = pa.schema(
    [
        ("doubtful", pa.list_(pa.int64())),
        ("marked", pa.int64()),
        ("bookies", _STRINGS),
        ("copies", pa.list_(pa.int64())),
        ("misplaced", pa.list_(pa.int64())),
        ("quorums", pa.list_(pa.list_(pa.int64()))),
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
    told: "Accumulator[list[int]]"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found = tallied(*columns_of(batch), self.racks)
            self.told.add([len(batch)])
            yield judged_batch(replace(found, bytes_read=bytes_read_of(batch)))


def judged_batch(found: BulkAudit) -> pa.RecordBatch:
    """One row."""
    row = {
        "doubtful": list(found.doubtful),
        "marked": found.marked,
        "bookies": list(found.copies),
        "copies": list(found.copies.values()),
        "misplaced": list(found.misplaced),
        "quorums": rows_of_quorums(found.quorums),
        "bytes_read": found.bytes_read,
        **dict(zip(COUNT_NAMES, found.counts.row(), strict=True)),
        "executor": executor_name(),
    }
    return pa.RecordBatch.from_pylist([row], schema=JUDGED_SCHEMA)


def audit_ledgers(
    spark: SparkSession,
    metadata_url: str,
    scope: Scope = EVERYTHING,
    source: type[AvailabilitySource] | None = None,
    looked: Looked = nobody_looks,
) -> BulkAudit:
    """Judge every ledger in one action; see BulkAudit for what is left to the driver.

    `source`: the table whose rows are judged; None = the product's one for this scope. `looked` is
    told of ledgers as the tasks that judge them end.
    """
    table = source or (AvailabilitySource if scope.digests is None else EntriesSource)
    spark.dataSource.register(table)
    options = options_of(metadata_url, scope, tasks_at_once=workers(spark))
    answers = spark.read.format(table.name()).options(**options).load()
    told = spark.sparkContext.accumulator(list[int](), Outcomes())
    work = JudgeBatches(scope.racks, told)
    judged = answers.mapInArrow(work, from_arrow_schema(JUDGED_SCHEMA))
    looked(0)
    with followed(told, lambda _fresh: looked(sum(told.value))):
        rows = judged.toArrow()  # the one action
    return _bulk(spark, rows)


def _bulk(spark: SparkSession, rows: pa.Table) -> BulkAudit:
    return BulkAudit(
        counts=AuditCounts(*(pc.sum(rows[name]).as_py() or 0 for name in COUNT_NAMES)),
        marked=pc.sum(rows["marked"]).as_py() or 0,
        doubtful=_ids(rows["doubtful"]),
        copies=_copies(rows),
        misplaced=_ids(rows["misplaced"]),
        quorums=quorums_of_rows(row for found in rows["quorums"].to_pylist() for row in found),
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
