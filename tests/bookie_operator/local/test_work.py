"""Passes over the cluster of a directory."""

from pathlib import Path

from bookie.metadata.memory import MemoryStore
from bookie.metadata.store import MetadataStore
from bookie_operator.control import GrpcControl
from bookie_operator.local.stored import known_cluster
from bookie_operator.local.up import Work
from bookie_operator.metrics import OperatorMetrics
from bookie_operator.observe import Observer
from bookie_operator.platform.folders import LocalFolders
from bookie_operator.platform.local import LocalPlatform
from operator_scenes import cluster


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
