"""A Spark session for one repair or audit: on this machine, or with executors in pods of their own.

Beside it runs a watch that says the progress and ends work that no executor comes for: Spark
itself would wait for ever.
"""

import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

import pyspark
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from bookie.errors import UnavailableError
from bookie.metadata.java import find_java
from bookie.repair.engine.driver_pod import JVM_FLAGS, DriverPod, executor_template, spark_conf
from bookie.repair.reports.progress_lines import Say, say_nothing
from bookie.repair.spark.executor_pods import ExecutorDeadline, ExecutorPods, no_executors
from bookie.repair.spark.failures import java_reason, text_of
from bookie.repair.spark.java_home import java_home
from bookie.repair.spark.master import local_master, writable_home
from bookie.repair.spark.security import AUTHENTICATED, SUBMIT_ARGUMENTS, with_secret

LOOPBACK: Final = "127.0.0.1"
WATCH_EVERY_S: Final = 2.0
QUIET_LOG: Final = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex{3}
"""
EVERYWHERE: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.memory": "512m",
    "spark.sql.shuffle.partitions": "4",
    # Few ledgers have few bytes; it is the bookies' answers that take time, side by side.
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    # A second attempt at the same time is safe and only costs the bookies twice.
    "spark.speculation": "false",
}
ON_THIS_MACHINE: Final = {
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
}


@contextmanager
def spark_session(
    driver: DriverPod | None = None, *, say: Say = say_nothing
) -> Iterator[SparkSession]:
    """A session of our own, in this process or as the driver in this pod, with a watch beside it.

    Its folders are gone afterwards, its JVM ends with the process. Raises UnavailableError, with
    what became of the executors' pods, when none came in time or Spark gave them up itself.
    """
    watch = Watch(say, driver)
    # A daemon: any other thread would hold up the end of the program.
    threading.Thread(target=watch.run, name="spark-watch", daemon=True).start()
    try:
        with _session(driver) as spark:
            say(f"Spark is up: {spark.sparkContext.applicationId}")
            watch.context = spark.sparkContext
            yield spark
    except Exception as error:
        if (why := watch.why_no_executors(error)) is not None:
            raise UnavailableError(why) from error
        raise
    finally:
        watch.end()


@contextmanager
def _session(driver: DriverPod | None) -> Iterator[SparkSession]:
    # Workers must run this interpreter: the `python3` on PATH has other packages.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if driver is None:
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    with (
        tempfile.TemporaryDirectory(prefix="bookie-spark-", ignore_cleanup_errors=True) as name,
        ExitStack() as stack,
    ):
        scratch = Path(name)
        stack.enter_context(_set("JAVA_HOME", str(java_home(find_java(), scratch))))
        where = _in_pods(driver, scratch) if driver else _on_this_machine(scratch, stack)
        builder = SparkSession.builder.appName("bookie-repair")
        for setting, value in (EVERYWHERE | AUTHENTICATED | where | _in_scratch(scratch)).items():
            builder = builder.config(setting, value)
        spark = _begun(builder)
        try:
            yield spark
        finally:
            with suppress(Py4JError, OSError):  # its JVM has ended: what failed of that says more
                spark.stop()


def _begun(builder: SparkSession.Builder) -> SparkSession:
    try:
        return builder.getOrCreate()
    except (PySparkException, Py4JError, OSError) as error:
        reason = java_reason(error) or f": {text_of(error)}"
        raise UnavailableError(f"Spark did not start{reason}") from error


@contextmanager
def _set(variable: str, value: str) -> Iterator[None]:
    """Set a variable within the block only, since the path may be deleted with the scratch
    folder."""
    given = os.environ.get(variable)
    os.environ[variable] = value
    try:
        yield
    finally:
        if given is None:
            del os.environ[variable]
        else:
            os.environ[variable] = given


def _on_this_machine(scratch: Path, stack: ExitStack) -> dict[str, str]:
    master = local_master(os.environ)
    stack.enter_context(_set(SUBMIT_ARGUMENTS, with_secret(scratch)))
    if master.executors:
        home = writable_home(Path(pyspark.__file__).parent, scratch)
        stack.enter_context(_set("SPARK_HOME", str(home)))
    return ON_THIS_MACHINE | master.conf()


def _in_pods(driver: DriverPod, scratch: Path) -> dict[str, str]:
    template = scratch / "executor.yaml"
    template.write_text(json.dumps(executor_template(driver)), encoding="utf-8")
    return spark_conf(driver, template)


def _in_scratch(scratch: Path) -> dict[str, str]:
    logging = scratch / "log4j2.properties"
    logging.write_text(QUIET_LOG, encoding="utf-8")
    options = f"{JVM_FLAGS} -Dlog4j2.configurationFile={logging.as_uri()}"
    return {
        "spark.driver.extraJavaOptions": options,
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": f"{scratch}/warehouse",
    }


class Watch:
    """Looks at the session from a thread beside the work; `context`: as soon as there is one."""

    def __init__(self, say: Say, driver: DriverPod | None) -> None:
        self.context: SparkContext | None = None
        self._over = threading.Event()
        self._say = say
        self._said = ""
        """The line of progress that was printed last."""
        self._driver = driver
        """The driver's pod; None: the work runs on this machine, without executor pods."""
        self._story = ""
        """Why there was no executor pod at the last look."""
        self._gave_up = False
        """Whether the session was ended because no executors came."""
        if driver is not None:
            self._pods = ExecutorPods(driver)
            self._patience = ExecutorDeadline(driver.start_deadline_s, now=time.monotonic())

    def run(self) -> None:
        while not (self._over.wait(WATCH_EVERY_S) or self._gave_up):
            # Whatever py4j makes of a JVM that has ended: the work itself fails of it, too.
            with suppress(Exception):
                self.look()

    def look(self) -> None:
        """One look at the session."""
        if self.context is not None:
            self._say_progress(self.context)
        if self._driver is not None:
            self._look_after_executors()

    def end(self) -> None:
        """End the watch, after success or failure of the work."""
        self._over.set()
        if self._driver is not None:
            try:
                self._pods.delete_unfinished()
            except UnavailableError as error:
                self._say(f"executor pods may be left: {error}")

    def why_no_executors(self, error: Exception) -> str | None:
        """Why the work ended without executors, in words; None if that was not the reason."""
        if self._driver is None:
            return None
        if self._gave_up:
            why = f"no executor came within {self._driver.start_deadline_s:g} s"
        elif self.context is None or not _is_alive(self.context):
            why = _why_ended(error)
        else:
            return None
        return no_executors(self._driver, why, self._story or self._pods.story())

    def _say_progress(self, context: SparkContext) -> None:
        tracker = context.statusTracker()
        stages = [tracker.getStageInfo(stage_id) for stage_id in tracker.getActiveStageIds()]
        done = sum(stage.numCompletedTasks for stage in stages if stage is not None)
        tasks = sum(stage.numTasks for stage in stages if stage is not None)
        line = f"Spark: {done} of {tasks} tasks"
        if tasks and line != self._said:
            self._say(line)
            self._said = line

    def _look_after_executors(self) -> None:
        # The driver itself counts as one.
        there = self.context._jsc.sc().getExecutorMemoryStatus().size() - 1 if self.context else 0
        if not there:
            self._story = self._pods.story()
        is_over = self._patience.is_over(there, now=time.monotonic())
        # What begins later has to be ended as well: until then there is nothing to give up.
        if is_over and self.context and self.context.statusTracker().getActiveJobsIds():
            self._gave_up = True
            self.context.cancelAllJobs()


def _why_ended(error: Exception) -> str:
    if isinstance(error, UnavailableError):
        return str(error)
    return f"Spark did not start or gave up{java_reason(error)}"


def _is_alive(context: SparkContext) -> bool:
    try:
        return not context._jsc.sc().isStopped()
    except Exception:  # py4j's, of several kinds
        return False
