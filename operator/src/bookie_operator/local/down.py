"""`local down`: stop the operator, then jobs, then bookies gracefully, then ZooKeeper.

Bookies get SIGTERM and may flush for the cluster's grace period: after a clean stop, the next start
needs no repair. ZooKeeper stops last, since a stopping bookie still talks to it.
"""

import shutil
import signal
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Final

from bookie.ids import BookieId

from bookie_operator.errors import LocalError
from bookie_operator.local.stored import stored_cluster
from bookie_operator.model.base import whole_milliseconds
from bookie_operator.model.bookie_status import BookieState
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.condition_types import Condition, ConditionType
from bookie_operator.platform.embedded import EmbeddedStore
from bookie_operator.platform.folders import (
    LocalFolders,
    bookie_held,
    operator_lock,
    operator_pid,
    read_json,
    write_json,
)
from bookie_operator.platform.processes import (
    ProcessId,
    has_open,
    identify,
    known_again,
    send,
    stop,
    wait_gone,
)

OPERATOR_WAIT_S: Final = 20.0
GRACE_DEFAULT_S: Final = 300.0
_RUNNING: Final = (
    ConditionType.READY,
    ConditionType.AVAILABLE,
    ConditionType.PROGRESSING,
    ConditionType.REPAIR_RUNNING,
    ConditionType.MIXED_DURABILITY,
)
"""Conditions that are True only of what runs."""
_OF_PROCESSES: Final = ("BookieDown", "BookieCrashLoop", "BookieUnresponsive", "Approved")
"""Reasons of other conditions that are True only of a process that runs or is to run again."""
_GOOD: Final[Mapping[str, str]] = {
    ConditionType.LIMBO_PRESENT: "False",
    ConditionType.DURABILITY_VERIFIED: "True",
}
"""The good status of conditions that are good only while every bookie says so: one that was killed
may have forgotten entries, and an audit counts no more once a bookie was away."""

Report = Callable[[str], None]


def down(folders: LocalFolders, *, delete_volumes: bool, report: Report) -> bool:
    """Stop everything in this directory; True when every bookie stopped cleanly."""
    if not folders.exists:
        raise LocalError(f"no cluster was ever started in {folders.root}: choose another --dir")
    _stop_operator(folders, report)
    with operator_lock(folders):
        clean = take_down(folders, report=report)
        if delete_volumes:
            delete_everything(folders)
            report(f"deleted the cluster in {folders.root}; your secrets and the page's key stay")
    return clean


def take_down(folders: LocalFolders, *, report: Report) -> bool:
    """Stop jobs, bookies and ZooKeeper; the caller holds the operator's lock."""
    for job in _jobs(folders):
        send(job, signal.SIGKILL, group=True)
    cluster = _last_known(folders, report)
    grace_s = float(cluster.spec.grace_period_seconds) if cluster else GRACE_DEFAULT_S
    running = running_bookies(folders)
    with ThreadPoolExecutor(max_workers=max(1, len(running))) as pool:
        stops = {
            bookie_id: pool.submit(_stop_bookie, folders, bookie_id, process, grace_s)
            for bookie_id, process in running.items()
        }
    clean = True
    for bookie_id, stopping in stops.items():
        was_clean = stopping.result()
        clean = clean and was_clean
        killed = f"killed after {grace_s:.0f} s: its next start counts as unclean"
        report(f"{bookie_id} {'stopped' if was_clean else killed}")
    EmbeddedStore(folders).stop()
    if cluster is not None:
        write_json(folders.status_file, _stopped(cluster).as_dict())
    return clean


def _last_known(folders: LocalFolders, report: Report) -> BookieCluster | None:
    """None: nothing was published, or what there is cannot be read; the fleet is stopped without
    it."""
    try:
        return stored_cluster(folders)
    except LocalError as error:
        report(f"{error}; bookies have {GRACE_DEFAULT_S:.0f} s to stop")
        return None


def running_bookies(folders: LocalFolders) -> dict[BookieId, ProcessId]:
    """The bookies' processes that run now, by the kubelet's records, and as the clock is now."""
    running = {}
    for path in sorted(folders.bookies.glob("*/process.json")):
        tree = read_json(path)
        process = known_again(ProcessId.of(tree["process"])) if tree and tree["process"] else None
        if process is not None:
            running[BookieId(path.parent.name)] = process
    return running


def delete_everything(folders: LocalFolders) -> None:
    """Delete volumes, claims, records, credentials and metadata, but not the directory and its
    lock."""
    for folder in (
        folders.claims,
        folders.volumes,
        folders.bookies,
        folders.jobs,
        folders.tasks,
        folders.zookeeper,
        folders.tls,
    ):
        shutil.rmtree(folder, ignore_errors=True)
    for file in (
        folders.cluster_file,
        folders.status_file,
        folders.events_file,
        folders.old_events_file,
        folders.operator_log,
        folders.zookeeper_file,
    ):
        file.unlink(missing_ok=True)


def _stop_operator(folders: LocalFolders, report: Report) -> None:
    pid = operator_pid(folders)
    operator = identify(pid) if pid is not None else None
    # A number in the lock may be that of an operator which was killed, and another process's now.
    if operator is None or not has_open(operator, folders.lock_file):
        return
    send(operator, signal.SIGTERM)
    if not wait_gone(operator, OPERATOR_WAIT_S):
        send(operator, signal.SIGKILL)  # it holds nothing that is not on disk
        wait_gone(operator, OPERATOR_WAIT_S)
    report(f"operator (process {operator.pid}) stopped")


def _stop_bookie(
    folders: LocalFolders, bookie_id: BookieId, process: ProcessId, grace_s: float
) -> bool:
    with bookie_held(folders, bookie_id, grace_s=grace_s):
        return stop(process, grace_s=grace_s)


def _jobs(folders: LocalFolders) -> list[ProcessId]:
    records = [read_json(path) for path in sorted(folders.jobs.glob("*/job.json"))]
    return [
        ProcessId.of(tree["process"])
        for tree in records
        if tree is not None and tree["endedAt"] is None
    ]


def _stopped(cluster: BookieCluster) -> BookieCluster:
    """The last status, changed to say that nothing runs; its numbers of limbo stay."""
    status = cluster.status
    now = whole_milliseconds(datetime.now(UTC))
    bookies = tuple(
        bookie.model_copy(update={"state": BookieState.DOWN, "message": "taken down"})
        for bookie in status.bookies
    )
    update = {
        "phase": "Stopped",
        "ready_replicas": 0,
        "disruptions_allowed": 0,
        "conditions": tuple(_after_stop(one, now) for one in status.conditions),
        "bookies": bookies,
    }
    return cluster.model_copy(update={"status": status.model_copy(update=update)})


def _after_stop(condition: Condition, now: datetime) -> Condition:
    """The condition of a cluster that was taken down. What was found and waits for a person, or for
    the next start, stays."""
    if condition.type in _RUNNING or condition.reason in _OF_PROCESSES:
        status, reason = "False", "Stopped"
    elif condition.status == _GOOD.get(condition.type):
        status, reason = "Unknown", "BookiesNotBooted"
    else:
        return condition
    since = now if condition.status != status else condition.last_transition_time
    update = {
        "status": status,
        "reason": reason,
        "message": "the cluster was taken down",
        "last_transition_time": since,
    }
    return condition.model_copy(update=update)
