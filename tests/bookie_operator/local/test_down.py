"""What `local down` ends, in which order, and what it leaves behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from bookie.ids import BookieId
from bookie_operator.errors import DirectoryInUseError
from bookie_operator.local.down import delete_everything, down, running_bookies, take_down
from bookie_operator.model.bookie_status import BookieState
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.condition_types import Condition, ConditionType
from bookie_operator.model.status import ClusterStatus
from bookie_operator.plan.actions import template_of
from bookie_operator.plan.degraded import _BROKEN
from bookie_operator.plan.planner import plan
from bookie_operator.platform.folders import LocalFolders, held, read_json, write_json
from bookie_operator.platform.kubelet import Record, record_tree
from bookie_operator.platform.processes import ProcessId, identify, is_alive, send, wait_gone
from fake_processes import pausing, stubborn
from operator_scenes import at, cluster, observed

pytestmark = pytest.mark.process
STAYS = {"lock", "secrets", "page.json"}
"""The lock of who takes it down, what people brought, and the key of a page that is open."""


@pytest.fixture
def folders(tmp_path: Path) -> LocalFolders:
    folders = LocalFolders(tmp_path)
    folders.make()
    return folders


@pytest.fixture
def ended() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that are ended after the test."""
    found: list[subprocess.Popen[bytes]] = []
    yield found
    for one in found:
        one.kill()
        one.communicate()


def running(ended: list[subprocess.Popen[bytes]]) -> ProcessId:
    """A process that ends by SIGTERM."""
    ended.append(pausing())
    process = identify(ended[-1].pid)
    assert process is not None
    return process


def test_down_leaves_a_process_alone_that_has_the_number_of_a_killed_operator(
    folders: LocalFolders, ended: list[subprocess.Popen[bytes]]
) -> None:
    stranger = running(ended)
    folders.lock_file.write_text(f"{stranger.pid}\n")
    with held(folders.lock_file), pytest.raises(DirectoryInUseError):
        down(folders, delete_volumes=False, report=print)
    assert is_alive(stranger)


def test_down_ends_an_operator_that_began_before_the_clock_was_set_forward(
    folders: LocalFolders, ended: list[subprocess.Popen[bytes]]
) -> None:
    lines = "import fcntl, os, signal, sys; file = open(sys.argv[1], 'a'); fcntl.flock(file, 2)"
    lines += "; file.write(str(os.getpid())); file.flush(); print(flush=True); signal.pause()"
    command = [sys.executable, "-c", lines, str(folders.lock_file)]
    ended.append(subprocess.Popen(command, stdout=subprocess.PIPE))
    assert ended[-1].stdout is not None and ended[-1].stdout.readline()
    os.utime(folders.lock_file, (0, 1000.0))
    assert down(folders, delete_volumes=False, report=print)
    assert ended[-1].wait() == -signal.SIGTERM


def test_down_stops_bookies_however_far_the_clock_was_set(
    folders: LocalFolders, ended: list[subprocess.Popen[bytes]]
) -> None:
    process = running(ended)
    recorded = replace(process, created=process.created + 3 * 3600)  # the clock was set back since
    record = Record(template_of(cluster().spec, BookieId("bookie-0")), recorded)
    write_json(folders.bookie(BookieId("bookie-0")) / "process.json", record_tree(record))
    assert running_bookies(folders) == {"bookie-0": process}
    assert down(folders, delete_volumes=False, report=print) and not is_alive(process)


def test_the_store_is_there_until_every_bookie_has_stopped(
    folders: LocalFolders, ended: list[subprocess.Popen[bytes]]
) -> None:
    store, spec = running(ended), cluster().spec
    write_json(folders.zookeeper_file, store.as_dict() | {"port": 1})
    for name in map(BookieId, ("bookie-0", "bookie-1")):
        record = Record(template_of(spec, name), running(ended))
        write_json(folders.bookie(name) / "process.json", record_tree(record))
    seen: list[bool] = []
    assert take_down(folders, report=lambda _line: seen.append(is_alive(store)))
    assert seen == [True, True] and not is_alive(store)


def test_the_last_status_says_that_nothing_runs(folders: LocalFolders) -> None:
    whole = cluster()
    status = plan(whole, observed(), ClusterStatus()).status
    assert status.ready_replicas and status.is_true(ConditionType.AVAILABLE)
    write_json(folders.status_file, whole.model_copy(update={"status": status}).as_dict())
    take_down(folders, report=lambda _line: None)
    after = BookieCluster.model_validate(read_json(folders.status_file)).status
    assert (after.phase, after.ready_replicas, after.disruptions_allowed) == ("Stopped", 0, 0)
    assert {one.state for one in after.bookies} == {BookieState.DOWN}
    assert not after.is_true(ConditionType.AVAILABLE) and not after.is_true(ConditionType.READY)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Ready True AsWanted", "False Stopped"),
        ("RepairRunning True JobStarted", "False Stopped"),
        ("MixedDurability True JournalModeFlip", "False Stopped"),
        ("CookieFixPending True Approved", "False Stopped"),
        ("CookieFixPending True SuspectDisk", "True SuspectDisk"),
        *((f"Degraded True {reason}", "False Stopped") for reason in _BROKEN.values()),
        ("Degraded True AuditFindings", "True AuditFindings"),
        ("Stalled True BookieCrashLoop", "False Stopped"),
        ("Stalled True RolloutHalted", "True RolloutHalted"),
        ("LimboPresent False NoLimbo", "Unknown BookiesNotBooted"),
        ("LimboPresent True UncleanShutdown", "True UncleanShutdown"),
        ("DurabilityVerified True AuditClean", "Unknown BookiesNotBooted"),
        ("DurabilityVerified False AuditFindings", "False AuditFindings"),
        ("MetadataRolledBack True OlderThanSeen", "True OlderThanSeen"),
        ("SpaceLow False EnoughSpace", "False EnoughSpace"),
        ("SpaceLow True DiskNearlyFull", "True DiskNearlyFull"),
        ("CertificatesValid True AllValid", "True AllValid"),
    ],
)
def test_a_condition_says_what_is_true_of_a_fleet_that_does_not_run(
    folders: LocalFolders, before: str, after: str
) -> None:
    """What was found and waits for a person or for the next start is still so."""
    words = dict(zip(("type", "status", "reason"), before.split(), strict=True))
    known = Condition.model_validate(words | {"last_transition_time": at(0)})
    status = ClusterStatus(conditions=(known,))
    write_json(folders.status_file, cluster().model_copy(update={"status": status}).as_dict())
    for _ in range(2):  # the second time nothing ran any more
        take_down(folders, report=lambda _line: None)
        stored = BookieCluster.model_validate(read_json(folders.status_file))
        [one] = stored.status.conditions
        assert f"{one.status} {one.reason}" == after


def available_since(status: ClusterStatus) -> datetime:
    """When Available became what it is."""
    condition = status.condition(ConditionType.AVAILABLE)
    assert condition is not None and condition.last_transition_time is not None
    return condition.last_transition_time


def test_the_last_status_says_since_when_nothing_runs(folders: LocalFolders) -> None:
    whole = cluster()
    status = plan(whole, observed(), ClusterStatus()).status
    write_json(folders.status_file, whole.model_copy(update={"status": status}).as_dict())
    moments = []
    for _ in range(2):
        take_down(folders, report=lambda _line: None)
        after = BookieCluster.model_validate(read_json(folders.status_file)).status
        moments.append(available_since(after))
    assert moments[0] == moments[1] > available_since(status)


def test_one_bookie_that_had_to_be_killed_is_enough_for_an_unclean_stop(
    folders: LocalFolders, ended: list[subprocess.Popen[bytes]]
) -> None:
    ended.append(subprocess.Popen(stubborn(), stdout=subprocess.PIPE))
    assert ended[0].stdout and ended[0].stdout.readline() == b"ready\n"
    stays = identify(ended[0].pid)
    assert stays is not None
    whole = cluster(grace_period_seconds=1)
    write_json(folders.status_file, whole.as_dict())
    for name, process in (("bookie-0", stays), ("bookie-1", running(ended))):
        record = Record(template_of(whole.spec, BookieId(name)), process)
        write_json(folders.bookie(BookieId(name)) / "process.json", record_tree(record))
    assert not take_down(folders, report=lambda _line: None)


def test_of_a_fleet_that_is_deleted_the_next_one_finds_nothing(folders: LocalFolders) -> None:
    for folder in (folders.zookeeper, folders.tls, folders.secrets):
        folder.mkdir()
    for path in vars(folders).values():
        if not path.exists():
            path.write_text('{"once": "bookie-0/2/UncleanShutdown"}')
    assert len(list(folders.events())) == 2
    delete_everything(folders)
    assert {one.name for one in folders.root.iterdir()} == STAYS
    assert not list(folders.events()), "else it would not say again what it says once"


PARENT = """
import signal, subprocess, sys
print(subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"]).pid, flush=True)
signal.pause()
"""


def test_what_a_job_has_started_ends_with_it(folders: LocalFolders) -> None:
    command = [sys.executable, "-c", PARENT]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as job:
        assert job.stdout is not None
        child, process = identify(int(job.stdout.readline())), identify(job.pid)
        assert child is not None and process is not None
        tree = {"process": process.as_dict(), "endedAt": None}
        write_json(folders.jobs / "j" / "job.json", tree)
        take_down(folders, report=lambda _line: None)
    is_over = wait_gone(child, 10)
    send(child, signal.SIGKILL)
    assert is_over
