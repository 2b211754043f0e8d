"""The engine that works in Spark's tasks, in one session for one job.

Spark is started with the first ledgers, so that a job that is refused has not waited for it, and
ends with the job's work. Tasks run what the process itself would run: `survey.tallied`,
`LedgerRepair`, `LedgerMoves`. Locks and refusals stay with the driver.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from types import TracebackType
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from bookie.errors import BadRequestError, NotEnoughBookiesError
from bookie.ids import LedgerId
from bookie.protocol.ledger import LedgerMetadata
from bookie.protocol.placement import Racks
from bookie.repair.engine.choice import SPARK_KUBERNETES, EngineChoice
from bookie.repair.engine.driver_pod import DriverPod
from bookie.repair.look.audit import read_ledgers
from bookie.repair.look.cluster import Cluster
from bookie.repair.look.same_cluster import SameCluster
from bookie.repair.look.survey import BulkAudit, Looked, Scope, tallied, total_of
from bookie.repair.mend.ledger_move import Handover, LedgerMoves, planned
from bookie.repair.mend.ledger_repair import LedgerRepair, RepairSettings
from bookie.repair.mend.move_plan import are_made
from bookie.repair.mend.outcome import Done, LedgerTask, Outcome
from bookie.repair.reports.progress_lines import Say
from bookie.repair.spark.arrow import bytes_read_of, columns_of
from bookie.repair.spark.failures import named_errors
from bookie.repair.spark.session import spark_session
from bookie.repair.spark.sources import AvailabilitySource, EntriesSource, options_of
from bookie.repair.spark.tasks import (
    ActionResult,
    Item,
    OnParts,
    broadcasted,
    parts_of,
    run_on,
    workers,
)

Result = TypeVar("Result")
Value = TypeVar("Value")
Work = Callable[[Sequence[Item]], Coroutine[Any, Any, list[Outcome]]]


class SparkEngine:
    """An `Engine`; enter it around the work. `session`: one that is there already.

    `source`: the table that a survey judges; None = the product's own.
    """

    is_in_process = False

    def __init__(
        self,
        choice: EngineChoice,
        cluster: Cluster,
        same: SameCluster,
        say: Say,
        *,
        session: SparkSession | None = None,
        source: type[AvailabilitySource] | None = None,
    ) -> None:
        if not cluster.metadata_url:
            raise BadRequestError(f"engine {choice.name}: only this process can reach the cluster")
        self.spark_app_id: str | None = None
        """Id of the Spark application; None until the session has begun."""
        self.executors: frozenset[str] = frozenset()
        """Names of executors that were ever seen."""
        self._choice, self._cluster, self._same, self._say = choice, cluster, same, say
        self._source = source
        self._session: Any = session
        """The Spark session; None = Spark is not started."""
        self._own: AbstractContextManager[SparkSession] | None = None
        """The session that this engine started, to be ended with it."""

    async def survey(self, scope: Scope, looked: Looked) -> BulkAudit:
        """See `Engine`; judged and counted where the rows are."""
        assert scope.chosen is None, "ledgers that are named one by one are looked at in process"
        table = self._source or (AvailabilitySource if scope.digests is None else EntriesSource)
        url = self._cluster.metadata_url
        ran = await self._in_spark(lambda spark: survey_in(spark, url, scope, table, looked))
        return total_of(ran.results)

    async def repair(
        self, tasks: Sequence[LedgerTask], settings: RepairSettings, done: Done
    ) -> Sequence[Outcome]:
        """See `Engine`."""
        outcomes, _tried_again = await self._on_parts(tasks, _repair_worker, settings, done)
        return [outcomes[task.ledger_id] for task in tasks]

    async def move(
        self, outcomes: Sequence[Outcome], handover: Handover, settings: RepairSettings, done: Done
    ) -> None:
        """See `Engine`."""
        in_flight = settings.audit.metadata_in_flight
        before = await self._read((one.ledger_id for one in outcomes), in_flight)
        worker = partial(_move_worker, handover=handover)
        found, tried_again = await self._on_parts(outcomes, worker, settings, done)
        for outcome in outcomes:
            outcome.take(found[outcome.ledger_id])
        # A try may move a ledger and be cut off before it says so; the second try then finds
        # nothing to do. Whether the ledger was moved, its metadata of before and after says.
        unsure = [one for one in outcomes if one.ledger_id in tried_again and not one.moved]
        after = await self._read((one.ledger_id for one in unsure), in_flight)
        for outcome in unsure:
            was, now = before.get(outcome.ledger_id), after.get(outcome.ledger_id)
            outcome.moved = was is not None and now is not None and was_moved(was, now, handover)

    async def _read(
        self, ledger_ids: Iterable[LedgerId], in_flight: int
    ) -> dict[LedgerId, LedgerMetadata]:
        store = self._cluster.store
        found = await read_ledgers(store, ledger_ids, unreadable={}, in_flight=in_flight)
        return {ledger_id: metadata.value for ledger_id, metadata in found.items()}

    async def _on_parts(
        self,
        items: Sequence[Item],
        worker: Callable[..., Work[Item]],
        settings: RepairSettings,
        done: Done,
    ) -> tuple[dict[LedgerId, Outcome], set[LedgerId]]:
        """What came of each ledger, and which of them were tried again.

        A rate is divided by the number of tasks that run at once: a bound that does not depend on
        how they share a bookie.
        """
        if not items:
            return {}, set()

        def run(spark: SparkSession) -> ActionResult[list[Outcome]]:
            slots = workers(spark)
            parts = parts_of(items, workers=slots)
            shared = settings.shared_by(min(slots, len(parts)))
            broadcast = broadcasted(spark, parts)
            work = partial(worker, settings=shared)
            task = OnParts(self._cluster.metadata_url, self._same, broadcast, work)
            numbers = spark.range(0, len(parts), 1, len(parts))
            try:
                return run_on(numbers, task, lambda made: done([*chain(*made)]))
            finally:
                broadcast.destroy()  # it would stay as long as the session

        ran = await self._in_spark(run)
        outcomes = {outcome.ledger_id: outcome for outcome in chain(*ran.results)}
        return outcomes, {outcome.ledger_id for outcome in chain(*ran.tried_again)}

    # Session
    async def _in_spark(
        self, work: Callable[[SparkSession], ActionResult[Result]]
    ) -> ActionResult[Result]:
        """The work, in a thread of its own, with errors of ours where there are any."""
        session = self._session
        if session is None:
            own = self._opened()
            session = self._session = await in_daemon_thread(own.__enter__)
            self._own = own
        ran = await in_daemon_thread(lambda: named_errors(work, session))
        self.spark_app_id = session.sparkContext.applicationId
        self.executors |= ran.executors
        return ran

    def _opened(self) -> AbstractContextManager[SparkSession]:
        in_pods = self._choice.name == SPARK_KUBERNETES
        driver = DriverPod.from_environment(os.environ) if in_pods else None
        self._say("starting Spark")
        return spark_session(driver, say=self._say)

    async def __aenter__(self) -> "SparkEngine":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the session. An interrupt does not wait for it: it dies with this process."""
        own, self._own = self._own, None
        if own is None:
            return
        if error is None or isinstance(error, Exception):
            # It may say why there was no executor, in place of this error.
            await in_daemon_thread(lambda: own.__exit__(kind, error, trace))
        else:
            threading.Thread(target=own.__exit__, args=(None, None, None), daemon=True).start()


def survey_in(
    spark: SparkSession,
    metadata_url: str,
    scope: Scope,
    table: type[AvailabilitySource],
    looked: Looked,
) -> ActionResult[BulkAudit]:
    """Judge every ledger where its rows are, a result for each batch of them."""
    spark.dataSource.register(table)
    options = options_of(metadata_url, scope, tasks_at_once=workers(spark))
    rows = spark.read.format(table.name()).options(**options).load()
    looked_at = 0

    def note(found: Sequence[BulkAudit]) -> None:
        nonlocal looked_at
        looked_at += sum(one.looked_at for one in found)
        looked(looked_at)

    looked(0)
    return run_on(rows, JudgeBatches(scope.racks), note)


@dataclass(frozen=True)
class JudgeBatches:
    """The task of a survey."""

    racks: Racks

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[BulkAudit]:
        for batch in batches:
            found = tallied(*columns_of(batch), self.racks)
            yield replace(found, bytes_read=bytes_read_of(batch))


def _repair_worker(cluster: Cluster, settings: RepairSettings) -> Work[LedgerTask]:
    return LedgerRepair(cluster, settings).repair


def _move_worker(
    cluster: Cluster, settings: RepairSettings, *, handover: Handover
) -> Work[Outcome]:
    ledgers = LedgerMoves(cluster, handover, settings)

    async def move(part: Sequence[Outcome]) -> list[Outcome]:
        # A worker that tries again has the same broadcast: it stays as it came.
        outcomes = [replace(outcome) for outcome in part]
        await ledgers.move(outcomes)
        return outcomes

    return move


def was_moved(before: LedgerMetadata, after: LedgerMetadata, handover: Handover) -> bool:
    """True when all that this handover had planned of the ledger has happened."""
    try:
        moves = planned(before, handover)
    except NotEnoughBookiesError:
        return False
    return bool(moves) and are_made(after, moves)


async def in_daemon_thread(work: Callable[[], Value]) -> Value:
    """Blocking work that an interrupt leaves behind, to die with the process and its JVM.

    A thread of the event loop's executor would hold up the end of the program until Spark is done;
    a repair may be stopped anywhere.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[Value] = loop.create_future()

    def settle(settled: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop is closed: the result is not wanted any more
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
