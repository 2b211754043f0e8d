"""What a session of Spark is given to do, without one."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from bookie.ids import LedgerId
from bookie.repair.engine.choice import EngineChoice
from bookie.repair.look.same_cluster import SameCluster
from bookie.repair.mend.copy import CopySettings
from bookie.repair.mend.ledger_repair import RepairSettings
from bookie.repair.mend.outcome import LedgerTask, Outcome
from bookie.repair.reports.progress_lines import say_nothing
from bookie.repair.spark import engine
from bookie.repair.spark.tasks import ActionResult, OnParts
from repair_lab import RepairLab

RATE = 1000


@pytest.mark.parametrize("slots", [1, 2, 7])
@pytest.mark.parametrize("ledgers", [1, 2, 120])
async def test_no_bookie_gets_more_than_its_rate_of_all_tasks_together(
    monkeypatch: pytest.MonkeyPatch, slots: int, ledgers: int
) -> None:
    ids, tasks = [*map(LedgerId, range(ledgers))], list[OnParts[Any, Any]]()

    def ran(_rows: object, task: OnParts[Any, Any], _done: object) -> ActionResult[list[Outcome]]:
        tasks.append(task)
        return ActionResult([[*map(Outcome, ids)]], [], frozenset())

    monkeypatch.setattr(engine, "run_on", ran)
    monkeypatch.setattr(engine, "workers", lambda _spark: slots)
    monkeypatch.setattr(engine, "broadcasted", broadcasted)
    cluster = replace(RepairLab().cluster, metadata_url="memory://lab")
    choice = EngineChoice("spark-local", "a test")
    spark = SimpleNamespace(range=lambda *_: None, sparkContext=SimpleNamespace(applicationId=""))
    made = engine.SparkEngine(choice, cluster, SameCluster(""), say_nothing, session=spark)  # type: ignore[arg-type]
    settings = RepairSettings(copy=CopySettings(bytes_per_second=RATE))
    await made.repair([*map(LedgerTask, ids)], settings, lambda _done: None)
    [task] = tasks
    share = task.worker.keywords["settings"].copy.bytes_per_second  # type: ignore[attr-defined]
    assert 0 < share * min(slots, len(task.parts.value)) <= RATE


def broadcasted(_spark: object, parts: object) -> SimpleNamespace:
    return SimpleNamespace(value=parts, destroy=lambda: None)
