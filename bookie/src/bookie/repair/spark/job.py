"""Work handed to Spark: where the session comes from, how it is waited for, and its errors by name.

What runs in it is in `spark_repair`, `spark_audit` and `spark_moves`.
"""

import asyncio
import os
import re
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from pyspark.sql import SparkSession

from bookie.errors import (
    InconsistentError,
    MetadataFormatError,
    SettingsError,
    UnavailableError,
)
from bookie.repair.engine.choice import SPARK_KUBERNETES
from bookie.repair.engine.driver_pod import DriverPod
from bookie.repair.engine.engine import EngineRun
from bookie.repair.look.same_cluster import SameCluster
from bookie.repair.look.survey import BulkAudit, Scope
from bookie.repair.mend.ledger_move import Told
from bookie.repair.mend.ledger_repair import RepairSettings
from bookie.repair.mend.outcome import Done, LedgerTask
from bookie.repair.reports.audit_progress import Looked, nobody_looks
from bookie.repair.reports.printing import Say
from bookie.repair.spark.session import spark_session
from bookie.repair.spark.sources import AvailabilitySource
from bookie.repair.spark.spark_audit import audit_ledgers
from bookie.repair.spark.spark_moves import Round, RoundRun, move_ledgers
from bookie.repair.spark.spark_repair import repair_ledgers

OWN_ERRORS: Final = (InconsistentError, MetadataFormatError, SettingsError, UnavailableError)
Result = TypeVar("Result")


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

    `source`: the table that is audited; None = the product's own.
    """

    metadata_url: str
    settings: RepairSettings = field(default_factory=RepairSettings)
    session: SparkSession | None = None
    source: type[AvailabilitySource] | None = None

    async def repair(
        self, engine: str, tasks: Sequence[LedgerTask], same: SameCluster, say: Say, done: Done
    ) -> EngineRun:
        """The outcomes of all tasks, in their order, on the `same` cluster; `done` is told of them
        from a thread.
        """
        if not tasks:
            return EngineRun(())
        return await self._in_thread(
            engine,
            say,
            lambda spark: repair_ledgers(
                spark, self.metadata_url, tasks, same, self.settings, done
            ),
        )

    async def move(self, engine: str, asked: Round, say: Say, told: Told) -> RoundRun:
        """What became of one round's ledgers; `told` of them from a thread."""
        return await self._in_thread(
            engine, say, lambda spark: move_ledgers(spark, self.metadata_url, asked, told)
        )

    async def audit(
        self, engine: str, scope: Scope, say: Say, looked: Looked = nobody_looks
    ) -> BulkAudit:
        """Counts of all ledgers that are wholly ok, and which others have to be looked at.

        `looked` is told from a thread how far the tasks are.
        """
        return await self._in_thread(
            engine,
            say,
            lambda spark: audit_ledgers(spark, self.metadata_url, scope, self.source, looked),
        )

    async def _in_thread(
        self, engine: str, say: Say, work: Callable[[SparkSession], Result]
    ) -> Result:
        session = self.session
        if session is not None:
            return await _in_daemon_thread(lambda: named_errors(work, session))

        def run() -> Result:
            with _session(engine, say) as spark:
                return named_errors(work, spark)

        return await _in_daemon_thread(run)

    @asynccontextmanager
    async def kept(self, engine: str, say: Say) -> AsyncIterator["SparkJobs"]:
        """These jobs with one session for one piece of work after the other.

        Who is interrupted does not wait for its end: it dies with the process and its JVM.
        """
        session = _session(engine, say)
        spark = await _in_daemon_thread(session.__enter__)
        try:
            yield replace(self, session=spark)
        except Exception as error:
            told = type(error), error, error.__traceback__
            if not await _in_daemon_thread(lambda: session.__exit__(*told)):
                raise
        except BaseException:
            ending = threading.Thread(target=session.__exit__, args=(None, None, None), daemon=True)
            ending.start()
            raise
        else:
            await _in_daemon_thread(lambda: session.__exit__(None, None, None))


def _session(engine: str, say: Say) -> AbstractContextManager[SparkSession]:
    in_pods = engine == SPARK_KUBERNETES
    driver = DriverPod.from_environment(os.environ) if in_pods else None
    say("starting Spark")
    return spark_session(driver, say=say)


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
