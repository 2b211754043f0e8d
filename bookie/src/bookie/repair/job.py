"""Repair and audit as Spark jobs on this machine; with `sources`, the only importer of pyspark.

Repair: tasks -> one `mapInArrow` that runs `ledgers.LedgerRepair` -> Parquet, in one action, since
every further action would repair again; the outcomes are read from the Parquet. Audit: the tables
of `sources` joined, judged in one `mapInArrow`, Parquet; what is not wholly ok is looked at again
by the driver with the same `Auditor` as in process, so that the result is the same.
"""

import asyncio
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_schema

from bookie.metadata.java import find_java
from bookie.protocol.ids import LedgerId
from bookie.repair.audit import COUNT_NAMES, AuditCounts
from bookie.repair.java_home import java_home
from bookie.repair.ledgers import LedgerRepair, RepairSettings
from bookie.repair.outcome import LedgerOutcome, LedgerTask
from bookie.repair.sources import AvailabilitySource, LedgersSource
from bookie.repair.steps import EngineRun, Say, SparkAudit
from bookie.repair.tables import HOLDING_COLUMNS, BlockingCluster, judged_columns

LOCAL_MASTER: Final = "local[2]"
JVM_FLAGS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A quick start and a small heap rather than peak speed: a JVM that lives for seconds."""
LEDGERS_PER_TASK: Final = 200
TASKS_MAX: Final = 64
PROGRESS_EVERY_S: Final = 2.0
LOOPBACK: Final = "127.0.0.1"
QUIET_LOG: Final = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""
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
        ("reason", pa.string()),
        ("message", pa.string()),
        ("possible_loss_from", pa.int64()),
        ("waiting_for", _STRINGS),
        ("touched", _STRINGS),
        *((f"before_{name}", pa.int64()) for name in COUNT_NAMES),
    ]
)
JUDGED_SCHEMA: Final = pa.schema(
    [
        ("ledger_id", pa.int64()),
        ("doubtful", pa.bool_()),
        ("marked", pa.bool_()),
        *((name, pa.int64()) for name in COUNT_NAMES),
    ]
)
CONF: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.memory": "512m",
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
    # A second attempt at the same time is safe and only costs the bookies twice.
    "spark.speculation": "false",
}
Result = TypeVar("Result")


@contextmanager
def spark_session(*, master: str = LOCAL_MASTER) -> Iterator[SparkSession]:
    """A session of our own; its folders are gone afterwards, its JVM ends with the process."""
    # Workers must run this interpreter: the `python3` on PATH has other packages.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    with tempfile.TemporaryDirectory(prefix="bookie-spark-") as scratch:
        given = os.environ.get("JAVA_HOME")
        os.environ["JAVA_HOME"] = str(java_home(find_java(), Path(scratch)))
        logging = Path(scratch, "log4j2.properties")
        logging.write_text(QUIET_LOG, encoding="utf-8")
        java_options = f"{JVM_FLAGS} -Dlog4j2.configurationFile={logging.as_uri()}"
        builder = SparkSession.builder.master(master).appName("bookie-repair")
        for name, value in CONF.items():
            builder = builder.config(name, value)
        builder = builder.config("spark.driver.extraJavaOptions", java_options)
        builder = builder.config("spark.local.dir", scratch)
        spark = builder.config("spark.sql.warehouse.dir", f"{scratch}/warehouse").getOrCreate()
        try:
            yield spark
        finally:
            spark.stop()
            # It may be the stand-in, which goes with the scratch folder.
            if given is None:
                del os.environ["JAVA_HOME"]
            else:
                os.environ["JAVA_HOME"] = given


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
    """Runs the Spark halves of a repair or audit; `session`: one that is already there."""

    metadata_url: str
    settings: RepairSettings = field(default_factory=RepairSettings)
    session: SparkSession | None = None
    master: str = LOCAL_MASTER

    async def repair(self, tasks: Sequence[LedgerTask], say: Say) -> EngineRun:
        """The outcomes of all tasks, in their order."""
        if not tasks:
            return EngineRun(())

        def work(spark: SparkSession) -> EngineRun:
            found = repair_ledgers(spark, self.metadata_url, tasks, self.settings)
            return EngineRun(found, spark.sparkContext.applicationId)

        return await self._in_thread(work, say)

    async def audit(self, say: Say) -> SparkAudit:
        """Counts of all ledgers that are wholly ok, and which others have to be looked at."""
        return await self._in_thread(lambda spark: audit_ledgers(spark, self.metadata_url), say)

    async def _in_thread(self, work: Callable[[SparkSession], Result], say: Say) -> Result:
        def run() -> Result:
            if self.session is not None:
                return work(self.session)
            say("starting Spark")
            with spark_session(master=self.master) as spark:
                say(f"Spark is up: {spark.sparkContext.applicationId}")
                with _progress(spark, say):
                    return work(spark)

        return await _in_daemon_thread(run)


@contextmanager
def _progress(spark: SparkSession, say: Say) -> Iterator[None]:
    """Say now and then how many tasks are done. A daemon thread: others would hold the exit."""
    over = threading.Event()
    tracker = spark.sparkContext.statusTracker()

    def watch() -> None:
        said = ""
        while not over.wait(PROGRESS_EVERY_S):
            stages = [tracker.getStageInfo(stage_id) for stage_id in tracker.getActiveStageIds()]
            done = sum(stage.numCompletedTasks for stage in stages if stage is not None)
            tasks = sum(stage.numTasks for stage in stages if stage is not None)
            line = f"Spark: {done} of {tasks} tasks"
            if tasks and line != said:
                say(line)
                said = line

    threading.Thread(target=watch, name="spark-progress", daemon=True).start()
    try:
        yield
    finally:
        over.set()


@dataclass(frozen=True)
class RepairBatches:
    """The function of the one mapInArrow: repairs the ledgers of its batches."""

    metadata_url: str
    settings: RepairSettings

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with BlockingCluster(self.metadata_url) as blocking:
            work = LedgerRepair(blocking.cluster, self.settings)
            for batch in batches:
                tasks = [
                    LedgerTask(LedgerId(r["ledger_id"]), r["limbo"]) for r in batch.to_pylist()
                ]
                if tasks:
                    yield outcome_batch(blocking.run(work.repair(tasks)))


def outcome_batch(outcomes: Sequence[LedgerOutcome]) -> pa.RecordBatch:
    """Outcomes as one Arrow batch."""
    rows = [outcome.row() for outcome in outcomes]
    columns = {name: [row[name] for row in rows] for name in OUTCOME_SCHEMA.names}
    return pa.RecordBatch.from_pydict(columns, schema=OUTCOME_SCHEMA)


def repair_ledgers(
    spark: SparkSession,
    metadata_url: str,
    tasks: Sequence[LedgerTask],
    settings: RepairSettings,
) -> list[LedgerOutcome]:
    """Repair in Spark tasks, once; the outcomes in the order of `tasks`."""
    table = pa.table(
        {
            "ledger_id": pa.array([task.ledger_id for task in tasks], pa.int64()),
            "limbo": pa.array([task.limbo for task in tasks], pa.bool_()),
        }
    )
    parts = min(
        max(len(tasks) // LEDGERS_PER_TASK, spark.sparkContext.defaultParallelism), TASKS_MAX
    )
    work = RepairBatches(metadata_url, settings)
    outcomes = (
        spark.createDataFrame(table)
        .repartition(parts, "ledger_id")
        .mapInArrow(work, from_arrow_schema(OUTCOME_SCHEMA))
    )
    found = {
        row["ledger_id"]: LedgerOutcome.from_row(row) for row in snapshot(outcomes).to_pylist()
    }
    return [found[task.ledger_id] for task in tasks]


def snapshot(frame: Any) -> pa.Table:
    """The rows of a data frame by exactly one action: written to Parquet, then read from there."""
    with tempfile.TemporaryDirectory(prefix="bookie-rows-") as folder:
        path = Path(folder, "rows")
        frame.write.parquet(str(path))
        return pq.read_table(path)


def judge_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The function of the audit's mapInArrow."""
    for batch in batches:
        yield pa.RecordBatch.from_pydict(judged_columns(batch.to_pylist()), schema=JUDGED_SCHEMA)


def audit_ledgers(spark: SparkSession, metadata_url: str) -> SparkAudit:
    """Judge every ledger from one snapshot; see SparkAudit for what is left to the driver."""
    for source in (LedgersSource, AvailabilitySource):
        spark.dataSource.register(source)
    ledgers = spark.read.format(LedgersSource.name()).option("metadata", metadata_url).load()
    answers = spark.read.format(AvailabilitySource.name()).option("metadata", metadata_url).load()
    holdings = f.collect_list(f.struct(*HOLDING_COLUMNS)).alias("holdings")
    judged = (
        ledgers.join(answers.groupBy("ledger_id").agg(holdings), "ledger_id", "left")
        .select("ledger_id", "metadata", "holdings")
        .mapInArrow(judge_batches, from_arrow_schema(JUDGED_SCHEMA))
    )
    rows = snapshot(judged)
    doubtful = rows.filter(pc.field("doubtful"))["ledger_id"].to_pylist()
    ok = rows.filter(~pc.field("doubtful"))
    return SparkAudit(
        counts=AuditCounts(*(pc.sum(ok[name]).as_py() or 0 for name in COUNT_NAMES)),
        marked=pc.sum(ok["marked"]).as_py() or 0,
        doubtful=tuple(sorted(map(LedgerId, doubtful))),
        spark_app_id=spark.sparkContext.applicationId,
    )
