"""A Spark session for one repair or audit: on this machine, or with executors in pods of their own.

Beside it runs a watch that tells the progress and ends work that no executor comes for: Spark
itself would wait for ever.
"""

import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from bookie.metadata.java import find_java
from bookie.protocol.errors import UnavailableError
from bookie.repair.driver_pod import JVM_FLAGS, DriverPod, executor_template, spark_conf
from bookie.repair.executor_pods import ExecutorPods, Patience, no_executors
from bookie.repair.java_home import java_home
from bookie.repair.steps import Say

LOOPBACK: Final = "127.0.0.1"
WATCH_EVERY_S: Final = 2.0
QUIET_LOG: Final = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""
EVERYWHERE: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.memory": "512m",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
    # A second attempt at the same time is safe and only costs the bookies twice.
    "spark.speculation": "false",
}
LOCAL: Final = {
    "spark.master": "local[2]",
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
}


@contextmanager
def spark_session(driver: DriverPod | None = None) -> Iterator[SparkSession]:
    """A session of our own, in this process or as the driver in this pod.

    Its folders are gone afterwards, its JVM ends with the process.
    """
    # Workers must run this interpreter: the `python3` on PATH has other packages.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if driver is None:
        os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    with (
        tempfile.TemporaryDirectory(prefix="bookie-spark-") as scratch,
        _java_home(Path(scratch)),
    ):
        where = LOCAL if driver is None else _in_pods(driver, Path(scratch))
        builder = SparkSession.builder.appName("bookie-repair")
        for name, value in (EVERYWHERE | where | _in_scratch(Path(scratch))).items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        try:
            yield spark
        finally:
            spark.stop()


@contextmanager
def _java_home(scratch: Path) -> Iterator[None]:
    given = os.environ.get("JAVA_HOME")
    os.environ["JAVA_HOME"] = str(java_home(find_java(), scratch))
    try:
        yield
    finally:
        # It may be the stand-in, which goes with the scratch folder.
        if given is None:
            del os.environ["JAVA_HOME"]
        else:
            os.environ["JAVA_HOME"] = given


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


@contextmanager
def watched(spark: SparkSession, say: Say, driver: DriverPod | None = None) -> Iterator[None]:
    """Says progress while the block works, and ends it when its executors do not come.

    Raises UnavailableError, with what became of the executors' pods, when it was ended so or when
    Spark gave them up itself.
    """
    watch = _Watch(spark, say, driver)
    # A daemon: any other thread would hold up the end of the program.
    threading.Thread(target=watch.run, name="spark-watch", daemon=True).start()
    try:
        yield
    except Exception as error:
        if (why := watch.why_no_executors()) is not None:
            raise UnavailableError(why) from error
        raise
    finally:
        watch.over.set()


class _Watch:
    """Looks at the session from a thread beside the work."""

    def __init__(self, spark: SparkSession, say: Say, driver: DriverPod | None) -> None:
        self.over = threading.Event()
        self._context = spark.sparkContext
        self._say = say
        self._said = ""
        self._driver = driver
        self._story = ""
        self._gave_up = False
        self._jvm_lost = False
        if driver is not None:
            app_id = spark.sparkContext.applicationId
            self._pods = ExecutorPods(driver.api_server, driver.namespace, app_id)
            self._patience = Patience(driver.start_deadline_s, now=time.monotonic())

    def run(self) -> None:
        while not (self.over.wait(WATCH_EVERY_S) or self._gave_up):
            try:
                self._tell_progress()
                if self._driver is not None:
                    self._look_after_executors()
            except Exception:  # whatever py4j makes of a JVM that has ended
                self._jvm_lost = True
                return

    def why_no_executors(self) -> str | None:
        """In words, when the work ended for lack of executors."""
        if self._driver is None or not (self._gave_up or self._is_jvm_lost()):
            return None
        return no_executors(self._driver, self._story, late=self._gave_up)

    def _is_jvm_lost(self) -> bool:
        try:
            self._context._jsc.sc().isStopped()
        except Exception:  # as above
            self._jvm_lost = True
        return self._jvm_lost

    def _tell_progress(self) -> None:
        tracker = self._context.statusTracker()
        stages = [tracker.getStageInfo(stage_id) for stage_id in tracker.getActiveStageIds()]
        done = sum(stage.numCompletedTasks for stage in stages if stage is not None)
        tasks = sum(stage.numTasks for stage in stages if stage is not None)
        line = f"Spark: {done} of {tasks} tasks"
        if tasks and line != self._said:
            self._say(line)
            self._said = line

    def _look_after_executors(self) -> None:
        # The driver itself counts as one.
        executors = self._context._jsc.sc().getExecutorMemoryStatus().size() - 1
        if not executors:
            # Looked at now: Spark deletes the pods that failed.
            self._story = self._pods.story()
        if self._patience.is_over(executors, now=time.monotonic()):
            self._gave_up = True
            self._context.cancelAllJobs()
