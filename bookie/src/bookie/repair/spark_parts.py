"""How work is cut for Spark's tasks, and who does it: numbers of parts to the tasks, results back.

Parts are numbered and broadcast, not shuffled: an executor that dies takes nothing with it but what
it was working on.
"""

import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

LEDGERS_PER_TASK: Final = 200
TASKS_MAX: Final = 10_000
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
