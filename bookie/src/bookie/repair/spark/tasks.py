"""Runs work in Spark's tasks: `run_on` rows, in one action, with what they make brought back.

`OnParts` is the task of work on a list of ledgers, which `parts_of` cuts.
"""

import os
import pickle
import socket
import threading
import warnings
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import pyarrow as pa
from pyspark import Accumulator, AccumulatorParam, Broadcast, TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from bookie.repair.look.cluster import Cluster
from bookie.repair.look.same_cluster import SameCluster
from bookie.repair.spark.arrow import BlockingCluster

LEDGERS_PER_TASK: Final = 50
"""What a task made is known when it ends, and one whose executor dies is begun again: Spark gives
the work up when that has happened to one of them too often.
"""
TASKS_MAX: Final = 10_000
FOLLOW_EVERY_S: Final = 0.5
Item = TypeVar("Item")
Result = TypeVar("Result")
Task = Callable[[Iterable[pa.RecordBatch]], Iterator[Result]]
"""A function in a Spark worker, from rows to results."""
Worker = Callable[[Cluster], Callable[[Sequence[Item]], Coroutine[Any, Any, Result]]]
"""Makes the function that works on one part of the ledgers of a cluster."""
ROW_SCHEMA: Final = pa.schema(
    [("result", pa.binary()), ("executor", pa.string()), ("tries", pa.int64())]
)


def parts_of(tasks: Sequence[Item], *, workers: int) -> list[Sequence[Item]]:
    """The tasks in parts of about equal size: a handful of ledgers reaches every worker, too."""
    wanted = max(len(tasks) // LEDGERS_PER_TASK, workers)
    count = min(wanted, TASKS_MAX, len(tasks))
    return [tasks[number::count] for number in range(count)]


def broadcasted(spark: SparkSession, value: Item) -> "Broadcast[Item]":
    """What every task is to have, sent to each executor once."""
    with warnings.catch_warnings():
        # pyspark has its JVM encrypt it, through a socket that it leaves to be collected.
        warnings.simplefilter("ignore", ResourceWarning)
        return spark.sparkContext.broadcast(value)


def workers(spark: SparkSession) -> int:
    """How many tasks can run at once, when all executors that were asked for have come."""
    context = spark.sparkContext
    executors = int(context.getConf().get("spark.executor.instances", "1"))
    return max(int(context.defaultParallelism), executors)


def executor_name() -> str:
    """Name of the place where a task runs: its executor's pod, its executor here, or this
    machine."""
    if pod := os.environ.get("SPARK_EXECUTOR_POD_NAME"):
        return pod
    # An executor of a local cluster works in a folder of its own, named by its number.
    is_process = "SPARK_EXECUTOR_DIRS" in os.environ
    return f"{socket.gethostname()}/{Path.cwd().name}" if is_process else socket.gethostname()


class Results(AccumulatorParam):  # type: ignore[misc]
    """Results of tasks; Spark brings each task's to the driver once, when the task ends."""

    def zero(self, value: list[Any]) -> list[Any]:
        return []

    def addInPlace(self, value1: list[Any], value2: Sequence[Any]) -> list[Any]:
        value1.extend(value2)
        return value1


@dataclass(frozen=True, slots=True)
class ActionResult(Generic[Result]):
    """The results of one Spark action."""

    results: list[Result]
    tried_again: list[Result]
    """Results of repeated tasks, which know only what their last try did."""
    executors: frozenset[str]


@dataclass(frozen=True)
class _RowsOf(Generic[Result]):
    """The function of `mapInArrow`: a row for each result of a task.

    A result is pickled, as in an accumulator: only the driver reads it.
    """

    task: Task[Result]
    made: "Accumulator[list[Result]]"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        tries = 1 + (context.attemptNumber() if context is not None else 0)
        for result in self.task(batches):
            self.made.add([result])
            row = {"result": pickle.dumps(result), "executor": executor_name(), "tries": tries}
            yield pa.RecordBatch.from_pylist([row], schema=ROW_SCHEMA)


def run_on(
    rows: DataFrame, task: Task[Result], done: Callable[[Sequence[Result]], None]
) -> ActionResult[Result]:
    """Run the task on the rows in one action: a second one would do all its work again.

    `done` is called with results from a thread, as the tasks that made them end.
    """
    made = rows.sparkSession.sparkContext.accumulator(list[Result](), Results())
    work = rows.mapInArrow(_RowsOf(task, made), from_arrow_schema(ROW_SCHEMA))
    try:
        with followed(made, done):
            found = work.toArrow().to_pylist()  # the one action
    finally:
        made.value = []  # it stays as long as the session, which has many such runs
    # Only executors that know this session's secret have sent them.
    results = [(pickle.loads(row["result"]), row["tries"]) for row in found]  # nosec B301
    return ActionResult(
        [result for result, _tries in results],
        [result for result, tries in results if tries > 1],
        frozenset(row["executor"] for row in found),
    )


@dataclass(frozen=True)
class OnParts(Generic[Item, Result]):
    """A task on numbers of parts, which works on the parts themselves, on one cluster.

    Parts are numbered and broadcast, not shuffled: an executor that dies takes nothing with it but
    what it was working on. A part may be worked on twice, at once, or be cut off anywhere.
    """

    metadata_url: str
    same: SameCluster
    parts: "Broadcast[list[Sequence[Item]]]"
    worker: Worker[Item, Result]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Result]:
        with BlockingCluster(self.metadata_url) as blocking:
            work = self.worker(blocking.cluster)
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    # Each time: an address may lead elsewhere from one to the next.
                    blocking.run(self.same.check(blocking.cluster.store))
                    yield blocking.run(work(self.parts.value[number]))


@contextmanager
def followed(
    made: "Accumulator[list[Item]]", done: Callable[[Sequence[Item]], None]
) -> Iterator[None]:
    """Calls `done` with what tasks have made while an action runs, and with the rest at its end.

    What `done` raises, such as a checkpoint that cannot be written, is raised when the action ends.
    """
    over, seen = threading.Event(), 0
    failures: list[Exception] = []

    def hand_on() -> None:
        nonlocal seen
        fresh = made.value[seen:]
        seen += len(fresh)
        if fresh:
            done(fresh)

    def follow() -> None:
        while not (over.wait(FOLLOW_EVERY_S) or failures):
            try:
                hand_on()
            except Exception as error:
                failures.append(error)

    # A daemon: any other thread would hold up the end of the program.
    thread = threading.Thread(target=follow, name="spark-follow", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    if failures:
        raise failures[0]
    hand_on()
