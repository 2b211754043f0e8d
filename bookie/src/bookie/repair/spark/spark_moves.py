"""The Spark half of drains and re-replications: one round's ledgers -> one `mapInArrow` that runs
`ledger_move.LedgerMover` -> driver.

A task may run twice, at once or be cut off anywhere, as the mover may. Only what it cannot know it
leaves to the driver: a ledger that a first try had moved looks to the second as if there had never
been anything to do.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from pyspark import Accumulator, Broadcast, TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from bookie.ids import LedgerId
from bookie.repair.look.same_cluster import SameCluster
from bookie.repair.mend.ledger_move import FIELD_NAMES, Handover, LedgerMover, MoveOutcome, Told
from bookie.repair.mend.ledger_repair import RepairSettings
from bookie.repair.spark.arrow import BlockingCluster
from bookie.repair.spark.tasks import Outcomes, distinct, executor_name, followed, parts_of, workers

MOVED_SCHEMA: Final = pa.schema(
    [
        ("ledger_id", pa.int64()),
        ("state_before", pa.string()),
        ("moved", pa.bool_()),
        ("recovered", pa.bool_()),
        ("entries_recovered", pa.int64()),
        ("entries_copied", pa.int64()),
        ("bytes_copied", pa.int64()),
        ("corrupt_copies", pa.int64()),
        ("reason", pa.string()),
        ("message", pa.string()),
        ("tries", pa.int64()),
        ("executor", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class RoundRun:
    """What became of one round. `tried_again`: ledgers of tasks that did not end at the first try,
    whose `moved` says less than it might.
    """

    outcomes: dict[LedgerId, MoveOutcome]
    tried_again: frozenset[LedgerId] = frozenset()
    spark_app_id: str | None = None
    executors: tuple[str, ...] = ()


@dataclass(frozen=True)
class MoveParts:
    """The function of the one mapInArrow: from numbers of parts to their ledgers, moved."""

    metadata_url: str
    same: SameCluster
    handover: Handover
    settings: RepairSettings
    parts: "Broadcast[list[Sequence[MoveOutcome]]]"
    told: "Accumulator[list[MoveOutcome]]"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with BlockingCluster(self.metadata_url) as blocking:
            blocking.run(self.same.check(blocking.cluster.store))
            mover = LedgerMover(blocking.cluster, self.handover, self.settings)
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    # A worker that tries again has the same broadcast: it stays as it came.
                    outcomes = [replace(outcome) for outcome in self.parts.value[number]]
                    blocking.run(mover.move(outcomes))
                    self.told.add(outcomes)
                    yield moved_batch(outcomes)


def moved_batch(outcomes: Sequence[MoveOutcome]) -> pa.RecordBatch:
    """Outcomes as one Arrow batch."""
    columns = {name: [getattr(outcome, name) for outcome in outcomes] for name in FIELD_NAMES}
    context = TaskContext.get()
    tries = 1 + (context.attemptNumber() if context is not None else 0)
    columns |= {"tries": [tries] * len(outcomes), "executor": [executor_name()] * len(outcomes)}
    return pa.RecordBatch.from_pydict(columns, schema=MOVED_SCHEMA)


@dataclass(frozen=True, slots=True)
class Round:
    """One round's ledgers, and all that their tasks have to know."""

    outcomes: Sequence[MoveOutcome]
    handover: Handover
    same: SameCluster
    settings: RepairSettings


def move_ledgers(spark: SparkSession, metadata_url: str, asked: Round, told: Told) -> RoundRun:
    """Move in Spark tasks, once. Parts and rates are cut as those of a repair are."""
    slots = workers(spark)
    parts = parts_of(asked.outcomes, workers=slots)
    context = spark.sparkContext
    telling = context.accumulator(list[MoveOutcome](), Outcomes())
    shared = context.broadcast(parts)
    work = MoveParts(
        metadata_url,
        asked.same,
        asked.handover,
        asked.settings.shared_by(min(slots, len(parts))),
        shared,
        telling,
    )
    numbers = spark.range(0, len(parts), 1, len(parts))
    moved = numbers.mapInArrow(work, from_arrow_schema(MOVED_SCHEMA))
    try:
        with followed(telling, told):
            rows = moved.toArrow()  # the one action
    finally:
        # A run has many rounds, and both would stay as long as the session.
        shared.destroy()
        telling.value = []
    found = rows.to_pylist()
    return RoundRun(
        {
            row["ledger_id"]: MoveOutcome(**{name: row[name] for name in FIELD_NAMES})
            for row in found
        },
        tried_again=frozenset(row["ledger_id"] for row in found if row["tries"] > 1),
        spark_app_id=context.applicationId,
        executors=distinct(rows),
    )
