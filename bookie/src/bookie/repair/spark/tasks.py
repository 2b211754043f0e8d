"""How work is cut for Spark's tasks, who does it, and how it is followed: numbers of parts to the
tasks, results back.

Parts are numbered and broadcast, not shuffled: an executor that dies takes nothing with it but what
it was working on.
"""

import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import Accumulator, AccumulatorParam
from pyspark.sql import SparkSession

LEDGERS_PER_TASK: Final = 50
"""A task tells when it ends, and one whose executor dies begins anew: Spark gives the work up when
that has happened to one of them too often.
"""
TASKS_MAX: Final = 10_000
FOLLOW_EVERY_S: Final = 0.5
Item = TypeVar("Item")


def parts_of(tasks: Sequence[Item], *, workers: int) -> list[Sequence[Item]]:
    """The tasks in parts of about equal size: a handful of ledgers reaches every worker, too."""
    wanted = max(len(tasks) // LEDGERS_PER_TASK, workers)
    count = min(wanted, TASKS_MAX, len(tasks))
    return [tasks[number::count] for number in range(count)]


def workers(spark: SparkSession) -> int:
    """How many tasks can run at once, when all executors that were asked for have come."""
    context = spark.sparkContext
    executors = int(context.getConf().get("spark.executor.instances", "1"))
    return max(int(context.defaultParallelism), executors)


def executor_name() -> str:
    """Where a task runs: the pod of its executor, its executor on this machine, or this machine."""
    if pod := os.environ.get("SPARK_EXECUTOR_POD_NAME"):
        return pod
    # An executor of a local cluster works in a folder of its own, named by its number.
    is_process = "SPARK_EXECUTOR_DIRS" in os.environ
    return f"{socket.gethostname()}/{Path.cwd().name}" if is_process else socket.gethostname()


def distinct(rows: pa.Table) -> tuple[str, ...]:
    """The executors that made these rows."""
    return tuple(sorted(pc.unique(rows["executor"]).to_pylist()))


class Outcomes(AccumulatorParam):  # type: ignore[misc]
    """What tasks have done: Spark brings it to the driver as each of them ends, once."""

    def zero(self, value: list[Any]) -> list[Any]:
        return []

    def addInPlace(self, value1: list[Any], value2: Sequence[Any]) -> list[Any]:
        value1.extend(value2)
        return value1


@contextmanager
def followed(
    told: "Accumulator[list[Item]]", done: Callable[[Sequence[Item]], None]
) -> Iterator[None]:
    """Hands on what tasks have done while an action runs, and the rest when it has ended.

    What `done` raises, such as a checkpoint that cannot be written, is raised when the action ends.
    """
    over, seen = threading.Event(), 0
    failures: list[Exception] = []

    def hand_on() -> None:
        nonlocal seen
        fresh = told.value[seen:]
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
