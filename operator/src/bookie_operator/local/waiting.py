"""`local wait`: wait until the cluster is whole again, as `kubectl wait` does on Kubernetes.

A status counts only when it is younger than every bookie process: a status from before a bookie was
killed and restarted says nothing about now.
"""

import time
from collections.abc import Mapping
from typing import Final

from bookie.ids import BookieId

from bookie_operator.errors import LocalError
from bookie_operator.local.down import running_bookies
from bookie_operator.local.stored import known_cluster
from bookie_operator.model.bookie_status import BookieState
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.condition_types import ConditionType
from bookie_operator.platform.folders import LocalFolders, operator_pid

POLL_S: Final = 0.2


def wait_whole(folders: LocalFolders, *, timeout_s: float) -> float:
    """Block until every bookie serves, nothing is in limbo, no job runs and a recent audit is
    clean; return the seconds it took. LocalError names what is missing after `timeout_s`, or at
    once when no operator runs that could repair it.
    """
    began = time.monotonic()
    while missing := _looked(folders):
        waited = time.monotonic() - began
        if operator_pid(folders) is None:
            raise LocalError(
                f"no operator runs for {folders.root}, so nothing changes by itself: run "
                f"{folders.command('up')}; still missing: {'; '.join(missing)}"
            )
        if waited >= timeout_s:
            raise LocalError(
                f"not whole after {waited:.0f} s: {'; '.join(missing)}; see "
                f"{folders.command('status')}"
            )
        time.sleep(POLL_S)
    return time.monotonic() - began


def _looked(folders: LocalFolders) -> list[str]:
    cluster = known_cluster(folders)
    started = {bookie: process.created for bookie, process in running_bookies(folders).items()}
    return lacking(cluster, started, reached_at=folders.status_file.stat().st_mtime)


def lacking(
    cluster: BookieCluster, started: Mapping[BookieId, float], *, reached_at: float
) -> list[str]:
    """Sentences that say what this cluster lacks to be whole; none when it is whole.

    `started`: start time of each bookie process that runs now; `reached_at`: when the status was
    published; both in seconds since 1970.
    """
    status = cluster.status
    missing = [f"{b.id} is {b.state}" for b in status.bookies if b.state != BookieState.SERVING]
    unseen = [b.id for b in status.bookies if started.get(BookieId(b.id), reached_at) >= reached_at]
    if unseen:
        missing.append(f"the status is older than the process of {', '.join(unseen)}")
    if len(status.bookies) != cluster.spec.replicas:
        missing.append(f"{len(status.bookies)} of {cluster.spec.replicas} bookies exist")
    if status.observed_generation != cluster.metadata.generation:
        missing.append("the status is about an earlier manifest")
    if status.has_running_job:
        missing.append("a repair or an audit runs")
    for kind, wanted in (
        (ConditionType.LIMBO_PRESENT, "False"),
        (ConditionType.REPAIR_RUNNING, "False"),
        (ConditionType.DURABILITY_VERIFIED, "True"),
    ):
        found = status.condition(kind)
        if found is None or found.status != wanted:
            state = "is not known" if found is None else f"{found.status}: {found.message}"
            missing.append(f"{kind} {state}")
    return missing
