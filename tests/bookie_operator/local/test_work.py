"""Passes over the cluster of a directory."""

import os
import signal
from datetime import datetime
from pathlib import Path

import pytest
import yaml
from bookie.ids import BookieId
from bookie.metadata.memory import MemoryStore
from bookie.metadata.store import MetadataStore
from bookie_operator import observe
from bookie_operator.control import GrpcControl
from bookie_operator.errors import ForbiddenError
from bookie_operator.local.stored import known_cluster
from bookie_operator.local.up import Work, up
from bookie_operator.metrics import OperatorMetrics
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.observe import Observer, Opener
from bookie_operator.plan.actions import Event, template_of
from bookie_operator.platform.folders import LocalFolders, write_json
from bookie_operator.platform.kubelet import Record, record_tree
from bookie_operator.platform.local import LocalPlatform
from bookie_operator.platform.processes import identify
from fake_processes import pausing
from operator_scenes import cluster, manifest


async def opened(_url: str) -> MetadataStore:
    return MemoryStore()


async def test_a_status_file_that_was_moved_away_is_written_again(tmp_path: Path) -> None:
    folders, of = LocalFolders(tmp_path), cluster(paused=True, metadata={"connect": "zk://a:1/w"})
    folders.make()
    platform, control = LocalPlatform(folders, grace_s=1), GrpcControl()
    observer = Observer(platform, control, opener=opened)
    metrics = OperatorMetrics()
    work = Work(platform, observer, control, folders=folders, cluster=of, metrics=metrics)
    for _pass in range(3):
        await work.run_pass()
        assert known_cluster(folders).metadata.name == of.metadata.name
        folders.status_file.unlink()
    for one in (observer, control, platform):
        await one.close()


async def forbidden(_url: str) -> MetadataStore:
    raise ForbiddenError("why")


@pytest.mark.parametrize(("opener", "result"), [(opened, "done"), (forbidden, "failed")])
async def test_a_pass_that_could_not_look_counts_as_failed(
    tmp_path: Path, opener: Opener, result: str
) -> None:
    folders, of = LocalFolders(tmp_path), cluster(paused=True, metadata={"connect": "zk://a:1/w"})
    folders.make()
    platform, control, metrics = LocalPlatform(folders, grace_s=1), GrpcControl(), OperatorMetrics()
    observer = Observer(platform, control, opener=opener)
    await Work(platform, observer, control, folders=folders, cluster=of, metrics=metrics).run_pass()
    labels = {"namespace": "local", "cluster": "demo", "result": result}
    assert metrics.registry.get_sample_value("bookie_operator_passes_total", labels) == 1
    for one in (observer, control, platform):
        await one.close()


class Impatient:
    """A screen that ends the operator once it has shown the cluster."""

    def __init__(self, number: signal.Signals) -> None:
        self.events: list[str] = []
        self._number = number

    def show_event(self, event: Event, *, at: datetime | None = None) -> None:
        self.events.append(f"{event.reason} {event.message}")

    def show_cluster(self, cluster: BookieCluster) -> None:
        os.kill(os.getpid(), self._number)


@pytest.mark.process
@pytest.mark.parametrize(
    ("number", "told"), [(signal.SIGINT, ["Stopping bookie-0 stopped"]), (signal.SIGTERM, [])]
)
def test_an_interrupt_stops_the_fleet_and_a_termination_the_operator_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, told: list[str]
) -> None:
    monkeypatch.setattr(observe, "METADATA_DEADLINE_S", 0.01)
    folders, path, screen = LocalFolders(tmp_path / "d"), tmp_path / "x.yaml", Impatient(number)
    spec = {"paused": True, "metadata": {"connect": "zk://127.0.0.1:1/w"}}
    path.write_text(yaml.safe_dump(manifest(**spec)))
    folders.make()
    bookie, name = pausing(), BookieId("bookie-0")
    record = Record(template_of(cluster().spec, name), identify(bookie.pid))
    write_json(folders.bookie(name) / "process.json", record_tree(record))
    assert up(folders, path, screen) == 0
    is_over = bookie.poll() is not None
    bookie.kill()
    bookie.wait()
    assert [one for one in screen.events if one.startswith("Stopping")] == told
    assert is_over is bool(told) and folders.cluster_file.read_text() == path.read_text()
