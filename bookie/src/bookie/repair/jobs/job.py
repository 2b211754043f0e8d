"""What all jobs have in common: one cluster from begin to end, one engine, and a result object.

begin -> list what there is to do -> `engine`, opened once, for so many ledgers -> `result`.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from bookie.repair.engine.choice import INLINE, EngineChoice, check_engine, choose_engine
from bookie.repair.engine.engine import Engine, Engines, InProcess
from bookie.repair.look.cluster import Cluster
from bookie.repair.look.same_cluster import SameCluster
from bookie.repair.reports.ledger_progress import LedgerProgress
from bookie.repair.reports.progress_lines import Say
from bookie.repair.reports.result import Document, Started


def open_engine(
    choice: EngineChoice, cluster: Cluster, same: SameCluster, say: Say, **spark: Any
) -> AbstractAsyncContextManager[Engine]:
    """The engine that was chosen, while the context is open; `spark`: see `SparkEngine`."""
    if choice.name == INLINE:
        return nullcontext(InProcess(cluster))
    # Imported when it is used: who works in process needs no pyspark installed.
    from bookie.repair.spark.engine import SparkEngine

    return SparkEngine(choice, cluster, same, say, **spark)


@dataclass(slots=True)
class Job:
    """One job, from its begin to its result object."""

    kind: str
    """Kind of the job, as in the result object."""
    requested: str
    """The engine asked for; `check_engine` accepted it."""
    cluster: Cluster
    same: SameCluster
    """Checks that the cluster is still the one on which the job began."""
    say: Say
    engines: Engines
    started: Started = field(default_factory=Started.now)
    choice: EngineChoice | None = None
    """The engine and why; None until the number of ledgers is known."""
    progress: LedgerProgress | None = None
    """Progress for the result object; None: the result has none."""
    spark_app_id: str | None = None
    """Application id of the job's last Spark session; None without one."""
    executors: frozenset[str] = frozenset()
    """Executors that worked, when the engine ended."""

    @classmethod
    async def begin(
        cls, kind: str, requested: str, cluster: Cluster, say: Say, engines: Engines
    ) -> "Job":
        """Raises SettingsError for an engine that there is not here, UnavailableError without
        metadata store, InconsistentError where bookies of several clusters meet.
        """
        check_engine(requested)
        return cls(kind, requested, cluster, await SameCluster.look(cluster.store), say, engines)

    async def choose(self, ledgers: int) -> EngineChoice:
        """The engine for so many ledgers; SettingsError when the one asked for cannot run here."""
        # In a thread: looking for Java starts a program.
        self.choice = await asyncio.to_thread(choose_engine, self.requested, ledgers=ledgers)
        return self.choice

    def follow(self, ledgers: int) -> LedgerProgress:
        """Say how far the engine is of so many ledgers, and in the end in the result."""
        self.progress = LedgerProgress(ledgers, self.say)
        return self.progress

    @asynccontextmanager
    async def engine(self) -> AsyncIterator[Engine]:
        """The engine that was chosen, open."""
        assert self.choice is not None, "choose first"
        async with self.engines(self.choice, self.cluster, self.same, self.say) as engine:
            try:
                yield engine
            finally:
                self.spark_app_id, self.executors = engine.spark_app_id, engine.executors

    def result(self, **fields: Any) -> Document:
        """The result object: who worked and how long, then these fields."""
        assert self.choice is not None
        progress = {} if self.progress is None else {"progress": self.progress.json()}
        return {
            **self.started.json(self.kind),
            "engine": self.choice.name,
            "engine_reason": self.choice.reason,
            "spark_app_id": self.spark_app_id,
            "executors": len(self.executors),
            "executor_names": sorted(self.executors),
            **progress,
            **fields,
        }
