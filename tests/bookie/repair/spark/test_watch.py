"""The watch beside a session: work that no executor comes for is given up, whenever it begins."""

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
from bookie.repair.engine.driver_pod import DriverPod
from bookie.repair.reports.progress_lines import say_nothing
from bookie.repair.spark import session
from bookie.repair.spark.session import Watch

ENVIRONMENT = {
    "KUBERNETES_SERVICE_HOST": "10.96.0.1",
    "POD_IP": "10.244.0.9",
    "POD_NAME": "demo-bookie-1-2-1-x7k2p",
    "POD_NAMESPACE": "data",
    "REPAIR_IMAGE": "bookie-operator/repair:dev",
}


@dataclass
class FakeContext:
    """A context of Spark without executors, whose job 7 begins once it was looked at twice."""

    looks: int = 0
    cancelled: list[int] = field(default_factory=list)

    @property
    def _jsc(self) -> Any:
        self.looks += 1
        status = SimpleNamespace(size=lambda: 1)  # the driver itself
        return SimpleNamespace(sc=lambda: SimpleNamespace(getExecutorMemoryStatus=lambda: status))

    @property
    def jobs(self) -> list[int]:
        return [7] if self.looks > 2 else []

    def statusTracker(self) -> Any:
        return SimpleNamespace(getActiveStageIds=lambda: [], getActiveJobsIds=lambda: self.jobs)

    def cancelAllJobs(self) -> None:
        self.cancelled += self.jobs


def test_work_that_begins_once_the_deadline_is_over_is_given_up_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As when its ledgers took long to list, or were locked while the last executor went."""
    monkeypatch.setattr(session, "WATCH_EVERY_S", 0.0)
    context = FakeContext()
    watch = Watch(say_nothing, replace(DriverPod.from_environment(ENVIRONMENT), start_deadline_s=0))
    watch.context = context  # type: ignore[assignment]
    watch.run()
    assert context.cancelled == [7] and watch.why_no_executors(RuntimeError("cancelled"))
