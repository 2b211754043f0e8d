"""Where the engine `spark-local` runs its tasks, as functions of the environment.

By default in threads of one JVM beside this process (`local`). BOOKIE_SPARK_MASTER may name
`local-cluster[executors,cores,MiB]` instead: executors as processes of their own on this machine,
which may die one by one as pods do.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bookie.errors import SettingsError
from bookie.repair.engine.driver_pod import JVM_FLAGS, TASK_FAILURES_MAX

MASTER_VARIABLE: Final = "BOOKIE_SPARK_MASTER"
DEFAULT_MASTER: Final = "local[2,4]"
"""Two tasks at once, each tried four times at most."""
HEAP_MIB_MIN: Final = 512
"""Spark refuses heaps below 450 MiB."""
_LOCAL: Final = re.compile(r"local\[[1-9]\d*(,[1-9]\d*)?\]")
_CLUSTER: Final = re.compile(r"local-cluster\[([1-9]\d*),([1-9]\d*),([1-9]\d*)\]")


@dataclass(frozen=True, slots=True)
class LocalMaster:
    """Spark's name for it, with how much memory each executor has. `executors`: processes of their
    own, 0 = none; `cores` of each.
    """

    name: str
    executors: int = 0
    cores: int = 0

    def conf(self) -> dict[str, str]:
        """Spark's settings for this master, besides those that every session has."""
        conf = {"spark.master": self.name}
        if not self.executors:
            return conf
        return conf | {
            "spark.executor.instances": str(self.executors),
            "spark.executor.cores": str(self.cores),
            "spark.executor.memory": f"{HEAP_MIB_MIN}m",
            "spark.executor.extraJavaOptions": JVM_FLAGS,
            # The end of an executor counts as a failure of the task that ran.
            "spark.task.maxFailures": str(TASK_FAILURES_MAX),
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": "30s",
            "spark.locality.wait": "0s",
        }


def local_master(environ: Mapping[str, str]) -> LocalMaster:
    """What the environment asks for; SettingsError when that is nothing `spark-local` can be."""
    name = (environ.get(MASTER_VARIABLE) or DEFAULT_MASTER).replace(" ", "")
    if _LOCAL.fullmatch(name):
        return LocalMaster(name)
    found = _CLUSTER.fullmatch(name)
    if found is None or int(found[3]) < HEAP_MIB_MIN:
        raise SettingsError(
            f"{MASTER_VARIABLE} is {name!r}, expected local[threads], local[threads,tries] or "
            f"local-cluster[executors,cores,MiB] with {HEAP_MIB_MIN} MiB or more"
        )
    return LocalMaster(name, int(found[1]), int(found[2]))


def writable_home(installed: Path, scratch: Path) -> Path:
    """A SPARK_HOME whose `work` folder, where executors live, is ours: links to the installed one.

    A folder of packages is not to be written to, and may be read-only.
    """
    home = scratch / "spark-home"
    home.mkdir()
    for part in installed.iterdir():
        if part.name != "work":
            (home / part.name).symlink_to(part)
    return home
