"""The Spark half of a repair: tasks -> one `mapInArrow` that runs `LedgerRepair` -> driver.

In one action, since every further one would repair again.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark import Accumulator, Broadcast
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from bookie.repair.engine.engine import EngineRun
from bookie.repair.judge.counts import COUNT_NAMES
from bookie.repair.look.same_cluster import SameCluster
from bookie.repair.mend.ledger_repair import LedgerRepair, RepairSettings
from bookie.repair.mend.outcome import Done, LedgerOutcome, LedgerTask
from bookie.repair.spark.arrow import BlockingCluster
from bookie.repair.spark.tasks import Outcomes, distinct, executor_name, followed, parts_of, workers

_STRINGS: Final = pa.list_(pa.string())
OUTCOME_SCHEMA: Final = pa.schema(
    [
        ("ledger_id", pa.int64()),
        ("state_before", pa.string()),
        ("recovered", pa.bool_()),
        ("entries_recovered", pa.int64()),
        ("entries_copied", pa.int64()),
        ("bytes_copied", pa.int64()),
        ("corrupt_copies", pa.int64()),
        ("corrupt_found", pa.int64()),
        ("corrupt_replaced", pa.int64()),
        ("reason", pa.string()),
        ("message", pa.string()),
        ("version", pa.int64()),
        ("possible_loss_from", pa.int64()),
        ("waiting_for", _STRINGS),
        ("touched", _STRINGS),
        *((f"before_{name}", pa.int64()) for name in COUNT_NAMES),
        ("executor", pa.string()),
    ]
)


@dataclass(frozen=True)
class RepairParts:
    """The function of the one mapInArrow: from numbers of parts to their ledgers, repaired."""

    metadata_url: str
    same: SameCluster
    settings: RepairSettings
    parts: "Broadcast[list[Sequence[LedgerTask]]]"
    told: "Accumulator[list[LedgerOutcome]]"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with BlockingCluster(self.metadata_url) as blocking:
            work = LedgerRepair(blocking.cluster, self.settings)
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    # Each attempt looks anew: an address may lead elsewhere from one to the next.
                    blocking.run(self.same.check(blocking.cluster.store))
                    outcomes = blocking.run(work.repair(self.parts.value[number]))
                    self.told.add(outcomes)
                    yield outcome_batch(outcomes, executor_name())


def outcome_batch(outcomes: Sequence[LedgerOutcome], executor: str) -> pa.RecordBatch:
    """Outcomes as one Arrow batch."""
    rows = [outcome.row() | {"executor": executor} for outcome in outcomes]
    columns = {name: [row[name] for row in rows] for name in OUTCOME_SCHEMA.names}
    return pa.RecordBatch.from_pydict(columns, schema=OUTCOME_SCHEMA)


def repair_ledgers(
    spark: SparkSession,
    metadata_url: str,
    tasks: Sequence[LedgerTask],
    same: SameCluster,
    settings: RepairSettings,
    done: Done,
) -> EngineRun:
    """Repair in Spark tasks, once; the outcomes in the order of `tasks`.

    The parts are numbered and broadcast, not shuffled: an executor that dies takes nothing with it
    but what it was working on. A rate is divided by the number of tasks that run at once: a bound
    that does not depend on how they share a bookie.
    """
    slots = workers(spark)
    parts = parts_of(tasks, workers=slots)
    context = spark.sparkContext
    told = context.accumulator(list[LedgerOutcome](), Outcomes())
    work = RepairParts(
        metadata_url,
        same,
        settings.shared_by(min(slots, len(parts))),
        context.broadcast(parts),
        told,
    )
    numbers = spark.range(0, len(parts), 1, len(parts))
    outcomes = numbers.mapInArrow(work, from_arrow_schema(OUTCOME_SCHEMA))
    with followed(told, done):
        rows = outcomes.toArrow()  # the one action
    found = {row["ledger_id"]: LedgerOutcome.from_row(row) for row in rows.to_pylist()}
    return EngineRun(
        [found[task.ledger_id] for task in tasks],
        spark_app_id=spark.sparkContext.applicationId,
        executors=distinct(rows),
    )
