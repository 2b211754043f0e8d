"""What a person is told when work in Spark fails."""

import os
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any, NoReturn

import pyarrow as pa
import pytest
from bookie.errors import MetadataFormatError, UnavailableError
from bookie.repair.spark.failures import named_errors, why_given_up
from bookie.repair.spark.tasks import run_on

LOST = """An error occurred while calling o92.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult:
\tat org.apache.spark.util.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:70)
Caused by: org.apache.spark.SparkException: Job aborted due to stage failure: Task 3 in stage 0.0 \
failed 8 times, most recent failure: Lost task 3.7 (executor 8): ExecutorLostFailure Reason:
The executor with id 8 exited with exit code 137(SIGKILL, possible container OOM).
Driver stacktrace:
\tat org.apache.spark.scheduler.DAGScheduler.failJobAndIndependentStages(DAGScheduler.scala:2844)
"""


def failing(error: Exception) -> Callable[[Any], NoReturn]:
    def work(_spark: Any) -> NoReturn:
        raise error

    return work


def session(is_stopped: Callable[[], bool] = lambda: False) -> Any:
    jvm = SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=is_stopped))
    return SimpleNamespace(sparkContext=SimpleNamespace(_jsc=jvm))


def ended() -> bool:
    raise ConnectionRefusedError(111, "Connection refused")


def test_an_executor_that_ended_too_often_is_named_in_one_line() -> None:
    told = why_given_up(LOST)
    assert told.startswith("Task 3 in stage 0.0 failed 8 times") and "\n" not in told
    assert told.endswith("exited with exit code 137(SIGKILL, possible container OOM).")


def test_a_driver_without_memory_says_so() -> None:
    told = why_given_up("An error occurred\n: java.lang.OutOfMemoryError: Java heap space\n\tat x")
    assert told == "java.lang.OutOfMemoryError: Java heap space"


def test_what_is_wrong_in_a_task_stays_as_it_is() -> None:
    defect = ValueError(f"{LOST}Traceback (most recent call last):\nKeyError: 3")
    with pytest.raises(ValueError, match="KeyError: 3"):
        named_errors(failing(defect), session())


def test_an_error_of_ours_is_ours_whatever_spark_says_around_it() -> None:
    found = "Traceback (most recent call last):\nbookie.errors.MetadataFormatError: ledger 3"
    with pytest.raises(MetadataFormatError, match=r"^ledger 3$"):
        named_errors(failing(RuntimeError(LOST + found)), session())


def test_a_jvm_that_ended_is_no_refused_connection() -> None:
    refused = ConnectionRefusedError(111, "Connection refused")
    with pytest.raises(UnavailableError, match=r"^Spark gave up: its JVM has ended"):
        named_errors(failing(refused), session(ended))
    with pytest.raises(ConnectionRefusedError):
        named_errors(failing(refused), session())


def crash(_batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
    os._exit(1)
    yield 1


@pytest.mark.process
def test_workers_that_end_again_and_again_are_told_in_a_sentence(spark: Any) -> None:
    rows = spark.range(0, 1, 1, 1)
    with pytest.raises(UnavailableError, match=r"^Spark gave up: .* exited unexpectedly") as told:
        named_errors(lambda _spark: run_on(rows, crash, lambda _made: None), spark)
    assert "\n" not in str(told.value)
