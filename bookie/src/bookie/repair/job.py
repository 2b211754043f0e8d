"""Repair and audit as Spark jobs, on this machine or in executor pods.

Repair: tasks -> one `mapInArrow` that runs `ledgers.LedgerRepair` -> the driver, in one action,
since every further action would repair again. Audit: the rows of `sources` judged and counted in
one `mapInArrow` with the functions of `survey`; what is not wholly ok is looked at again by the
driver with the same `Auditor` as in process, so that the result is the same.
"""

import asyncio
import os
import re
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import Accumulator, AccumulatorParam, Broadcast
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from bookie.protocol.errors import (
    InconsistentError,
    MetadataFormatError,
    SettingsError,
    UnavailableError,
)
from bookie.protocol.ids import BookieId, LedgerId
from bookie.protocol.placement import Racks
from bookie.repair.audit import COUNT_NAMES, AuditCounts
from bookie.repair.deep_survey import DeepSettings, deep_survey
from bookie.repair.driver_pod import DriverPod
from bookie.repair.engines import SPARK_KUBERNETES
from bookie.repair.ledgers import LedgerRepair, RepairSettings
from bookie.repair.outcome import LedgerOutcome, LedgerTask
from bookie.repair.progress import Done
from bookie.repair.sources import AvailabilitySource
from bookie.repair.spark_session import spark_session
from bookie.repair.steps import EngineRun, Say
from bookie.repair.survey import BulkAudit, Scope, tallied
from bookie.repair.tables import BlockingCluster, columns_of

LEDGERS_PER_TASK: Final = 200
FOLLOW_EVERY_S: Final = 0.5
TASKS_MAX: Final = 10_000
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
OWN_ERRORS: Final = (InconsistentError, MetadataFormatError, SettingsError, UnavailableError)
EVERYTHING: Final = Scope()
Result = TypeVar("Result")
Item = TypeVar("Item")


async def _in_daemon_thread(work: Callable[[], Result]) -> Result:
    """Blocking work that an interrupt leaves behind, to die with the process and its JVM.

    A thread of the event loop's executor would hold up the end of the program until Spark is done;
    a repair may be stopped anywhere.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[Result] = loop.create_future()

    def settle(settled: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(lambda: None if ended.done() else settled())

    def body() -> None:
        try:
            result = work()
        except BaseException as error:
            failure = error
            settle(lambda: ended.set_exception(failure))
        else:
            settle(lambda: ended.set_result(result))

    threading.Thread(target=body, name="spark", daemon=True).start()
    return await ended


@dataclass(frozen=True, slots=True)
class SparkJobs:
    """Runs the Spark halves of a repair or audit; `session`: one that is already there.

    `source`: the table that is audited.
    """

    metadata_url: str
    settings: RepairSettings = field(default_factory=RepairSettings)
    session: SparkSession | None = None
    source: type[AvailabilitySource] = AvailabilitySource

    async def repair(
        self, engine: str, tasks: Sequence[LedgerTask], say: Say, done: Done
    ) -> EngineRun:
        """The outcomes of all tasks, in their order; `done` is told of them from a thread."""
        if not tasks:
            return EngineRun(())
        return await self._in_thread(
            engine,
            say,
            lambda spark: repair_ledgers(spark, self.metadata_url, tasks, self.settings, done),
        )

    async def audit(self, engine: str, scope: Scope, say: Say) -> BulkAudit:
        """Counts of all ledgers that are wholly ok, and which others have to be looked at."""
        return await self._in_thread(
            engine, say, lambda spark: audit_ledgers(spark, self.metadata_url, self.source, scope)
        )

    async def deep_audit(
        self, engine: str, ledger_ids: Sequence[LedgerId], settings: DeepSettings, say: Say
    ) -> BulkAudit:
        """The same by reading every copy of these."""
        if not ledger_ids:
            return BulkAudit()
        return await self._in_thread(
            engine,
            say,
            lambda spark: read_ledgers(spark, self.metadata_url, ledger_ids, settings),
        )

    async def _in_thread(
        self, engine: str, say: Say, work: Callable[[SparkSession], Result]
    ) -> Result:
        in_pods = engine == SPARK_KUBERNETES
        driver = DriverPod.from_environment(os.environ) if in_pods else None

        def run() -> Result:
            if self.session is not None:
                return named_errors(work, self.session)
            say("starting Spark")
            with spark_session(driver, say=say) as spark:
                return named_errors(work, spark)

        return await _in_daemon_thread(run)


def named_errors(work: Callable[[SparkSession], Result], spark: SparkSession) -> Result:
    """The work; where a task failed with an error of ours, that error instead of Spark's pages."""
    try:
        return work(spark)
    except Exception as error:
        told = re.findall(r"bookie\.protocol\.errors\.(\w+): (.+)", str(error))
        kinds = {kind.__name__: kind for kind in OWN_ERRORS}
        for name, message in reversed(told):
            if name in kinds:
                raise kinds[name](message.strip()) from error
        raise


def executor_name() -> str:
    """Where a task runs: the pod of its executor, its executor on this machine, or this machine."""
    if pod := os.environ.get("SPARK_EXECUTOR_POD_NAME"):
        return pod
    # An executor of a local cluster works in a folder of its own, named by its number.
    is_process = "SPARK_EXECUTOR_DIRS" in os.environ
    return f"{socket.gethostname()}/{Path.cwd().name}" if is_process else socket.gethostname()


@dataclass(frozen=True)
class RepairParts:
    """The function of the one mapInArrow: from numbers of parts to their ledgers, repaired."""

    metadata_url: str
    settings: RepairSettings
    parts: "Broadcast[list[Sequence[LedgerTask]]]"
    told: "Accumulator[list[LedgerOutcome]]"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with BlockingCluster(self.metadata_url) as blocking:
            work = LedgerRepair(blocking.cluster, self.settings)
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    outcomes = blocking.run(work.repair(self.parts.value[number]))
                    self.told.add(outcomes)
                    yield outcome_batch(outcomes, executor_name())


class Outcomes(AccumulatorParam):  # type: ignore[misc]
    """What tasks have done: Spark brings it to the driver as each of them ends, once."""

    def zero(self, value: list[LedgerOutcome]) -> list[LedgerOutcome]:
        return []

    def addInPlace(
        self, value1: list[LedgerOutcome], value2: Sequence[LedgerOutcome]
    ) -> list[LedgerOutcome]:
        value1.extend(value2)
        return value1


@contextmanager
def followed(told: "Accumulator[list[LedgerOutcome]]", done: Done) -> Iterator[None]:
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


def outcome_batch(outcomes: Sequence[LedgerOutcome], executor: str) -> pa.RecordBatch:
    """Outcomes as one Arrow batch."""
    rows = [outcome.row() | {"executor": executor} for outcome in outcomes]
    columns = {name: [row[name] for row in rows] for name in OUTCOME_SCHEMA.names}
    return pa.RecordBatch.from_pydict(columns, schema=OUTCOME_SCHEMA)


def repair_ledgers(
    spark: SparkSession,
    metadata_url: str,
    tasks: Sequence[LedgerTask],
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


def distinct(rows: pa.Table) -> tuple[str, ...]:
    """The executors that made these rows."""
    return tuple(sorted(pc.unique(rows["executor"]).to_pylist()))


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
