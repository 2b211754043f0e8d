"""The local kubelet: starts, notices ends, backs off, and finds running bookies again."""

import json
import os
import signal
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from bookie.ids import BookieId
from bookie_operator.model.tls import TlsMode
from bookie_operator.observed import Exit, Process
from bookie_operator.plan.actions import BookieTemplate, template_of
from bookie_operator.platform.folders import LocalFolders, held
from bookie_operator.platform.kubelet import (
    LOG_BYTES_MAX,
    Command,
    Kubelet,
    Record,
    record_of,
    record_tree,
)
from bookie_operator.platform.processes import Children, ProcessId, is_alive, send, wait_gone
from bookie_operator.platform.volumes import create_volume
from fake_processes import bookie_like, ends_at_once, until
from operator_scenes import cluster

pytestmark = pytest.mark.process
B0 = BookieId("bookie-0")
URL = "zk://127.0.0.1:2181/ledgers"
SECURE: dict[str, Any] = {
    "tls": {"mode": "Required"},
    "authentication": {"mechanisms": ["digest-md5"], "usersSecret": "stock-users"},
    "metadata": {"connect": URL, "credentialsSecret": "zk-login"},
}
"""All that a template may have."""


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


class Node:
    """One directory with a kubelet on it."""

    def __init__(self, root: Path, command: Command = bookie_like) -> None:
        self.clock = Clock()
        self.folders = LocalFolders(root)
        self.folders.make()
        self.template: BookieTemplate = template_of(cluster().spec, B0)
        for disk in self.template.disks:
            create_volume(self.folders, B0, disk.name, size=disk.size)
        self.children = Children(lambda: None)
        self.kubelet = Kubelet(self.folders, self.children, command=command, clock=self.clock)
        self.kubelet.metadata_url = URL

    def process(self) -> Process:
        process = self.kubelet.bookies()[B0].process
        assert process is not None
        return process

    def identity(self) -> ProcessId:
        found = self.kubelet.process_of(B0)
        assert found is not None
        return found


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    node = Node(tmp_path)
    yield node
    process = node.kubelet.process_of(B0)
    if process is not None:
        send(process, signal.SIGKILL)
        wait_gone(process, 10)
        node.children.is_alive(process)  # reaps it
    node.children.close()


async def test_a_bookie_runs_and_tells_where_its_control_plane_is(node: Node) -> None:
    node.kubelet.ensure(node.template)
    await until(lambda: node.process().control == "127.0.0.1:4242")
    assert node.process().running and node.process().revision == node.template.revision


async def test_only_what_this_process_tells_is_where_its_control_plane_is(node: Node) -> None:
    """Another one may have written the file: a former one, or one that nobody has on record."""
    node.kubelet.ensure(node.template)
    await until(lambda: node.process().control is not None)
    said = node.folders.bookie(B0) / "runtime.json"
    told = json.loads(said.read_text())
    for others in (told | {"pid": told["pid"] + 1}, told | {"pid": None}, {}, [], told["pid"]):
        said.write_text(json.dumps(others))
        assert node.process().control is None
    said.write_text(json.dumps(told))
    assert node.process().control == "127.0.0.1:4242"


async def test_settings_hand_the_volumes_uids_to_the_bookie(node: Node) -> None:
    node.kubelet.ensure(node.template)
    settings = yaml.safe_load((node.folders.bookie(B0) / "settings.yaml").read_text())
    volumes = node.kubelet.bookies()[B0].volumes
    assert settings["journal"]["volumeUid"] == volumes["journal"].uid
    assert [disk["volumeUid"] for disk in settings["ledgers"]] == [
        volumes["ledger-0"].uid,
        volumes["ledger-1"].uid,
    ]
    assert settings["cookieFix"] == {"policy": "Approve"}
    assert settings["metadata"] == URL and settings["ports"]["run"] == 0


async def test_a_bookie_that_runs_is_not_started_beside_itself(node: Node) -> None:
    node.kubelet.ensure(node.template)
    before = node.identity()
    for url in (URL, None, URL):
        node.kubelet.metadata_url = url
        node.kubelet.tick()
        assert node.identity() == before


async def test_nothing_starts_before_the_metadata_store_has_an_address(node: Node) -> None:
    node.kubelet.metadata_url = None
    node.kubelet.ensure(node.template)
    assert not node.process().running
    node.kubelet.metadata_url = URL
    assert node.process().running


async def test_a_killed_bookie_is_started_again_at_once(node: Node) -> None:
    node.kubelet.ensure(node.template)
    first = node.identity()
    os.kill(first.pid, signal.SIGKILL)
    await until(lambda: node.process().instance not in ("", str(first)))
    after = node.process()
    assert after.restarts == 1 and after.last_exit is not None
    assert after.last_exit.code == -signal.SIGKILL
    assert after.last_exit.reason == "killed by SIGKILL"


async def test_ends_in_a_row_are_waited_out(tmp_path: Path) -> None:
    node = Node(tmp_path, ends_at_once)
    node.kubelet.ensure(node.template)
    await until(lambda: node.process().restarts == 1 and not node.process().running)
    assert not node.process().running, "the second restart waits a second"
    node.clock.advance(1)
    assert node.process().restarts == 2
    await until(lambda: not node.process().running)
    node.children.close()


async def test_a_wait_for_the_next_start_does_not_outlast_a_clock_that_is_set_back(
    tmp_path: Path,
) -> None:
    node = Node(tmp_path, ends_at_once)
    node.kubelet.ensure(node.template)
    await until(lambda: node.process().restarts == 1 and not node.process().running)
    node.clock.advance(-3 * 3600)
    assert node.process().restarts == 2
    await until(lambda: not node.process().running)
    node.children.close()


async def test_a_bookie_that_waits_for_its_next_start_is_not_one_in_plain(tmp_path: Path) -> None:
    """Else the whole fleet would be on its way from plain to TLS, and take plain meanwhile."""
    node = Node(tmp_path, ends_at_once)
    node.template = template_of(cluster(tls={"mode": "Required"}).spec, B0)
    node.kubelet.ensure(node.template)
    await until(lambda: node.process().restarts == 1 and not node.process().running)
    assert node.process().tls is TlsMode.REQUIRED
    node.children.close()


async def test_a_bookie_that_does_not_run_counts_as_what_it_is_to_take(tmp_path: Path) -> None:
    node = Node(tmp_path, ends_at_once)
    node.kubelet.ensure(node.template)
    await until(lambda: node.process().restarts == 1 and not node.process().running)
    for mode in ("Required", "Accepted", "Off"):
        node.kubelet.ensure(template_of(cluster(tls={"mode": mode}).spec, B0))
        assert not node.process().running and node.process().tls is TlsMode(mode)
    node.children.close()


async def test_a_bookie_that_left_and_comes_back_is_started(node: Node) -> None:
    node.kubelet.ensure(node.template)
    before = node.identity()
    node.kubelet.hold(B0)
    send(before, signal.SIGKILL)
    wait_gone(before, 10)
    await until(lambda: not node.process().running)
    node.kubelet.forget(B0)
    assert node.kubelet.bookies()[B0].process is None
    node.kubelet.ensure(node.template)
    assert node.process().running and node.identity() != before


@pytest.mark.parametrize(("row", "wait"), [(1, None), (2, 1), (3, 2), (5, 8), (50, 60)])
def test_back_off_doubles_up_to_a_minute(row: int, wait: float | None) -> None:
    from bookie_operator.observed import Exit

    now = datetime(2026, 1, 1, tzinfo=UTC)
    template = template_of(cluster().spec, B0)
    record = Record(template, row=row, last_exit=Exit(now, 1, "x"))
    expected = None if wait is None else now + timedelta(seconds=wait)
    assert record.next_start_at == expected


def earlier_record(**template: Any) -> dict[str, Any]:
    """As process.json of bookie-0 was written before templates held the options as they are."""
    disks = ("journal", "ledger-0", "ledger-1")
    written = {
        "bookie_id": "bookie-0",
        "image": cluster().spec.image,
        "disks": [
            {"name": disk, "role": disk.split("-")[0], "size": "10Gi", "storage_class": ""}
            for disk in disks
        ],
        "journal_write_data": False,
        "ack": "sync",
        "flush_interval_seconds": 10.0,
        "asks_before_cookie_fix": True,
        "pod": "{}",
        "compaction_bytes_per_second_busy": None,
        "recovery_bytes_per_second_busy": 2097152,
        "collect_grace_seconds": None,
        "collect_share_max": 0.5,
    }
    return {
        "template": written | template,
        "process": None,
        "revision": "",
        "startedAt": None,
        "restarts": 0,
        "row": 0,
        "lastExit": None,
    }


def test_operators_before_and_after_an_upgrade_read_each_others_records() -> None:
    spec = cluster(
        ack="sync", recoveryBytesPerSecondBusy=2**21, collectShareMax=0.5, tls={"mode": "Off"}
    ).spec
    record = Record(template_of(spec, B0))
    assert record_of(earlier_record()) == record
    written = json.loads(json.dumps(record_tree(record)))["template"]
    earlier = earlier_record()["template"]
    assert written == {name: fact for name, fact in earlier.items() if fact is not None}


@pytest.mark.parametrize("is_secure", [False, True])
@pytest.mark.parametrize("has_run", [False, True])
def test_of_a_bookie_the_next_operator_knows_all_that_was_known(
    has_run: bool, is_secure: bool
) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    template = template_of(cluster(**(SECURE if is_secure else {})).spec, B0)
    assert bool(template.tls and template.authentication and template.login_secret) is is_secure
    record = Record(template)
    if has_run:
        lasted, process = timedelta(seconds=5), ProcessId(4711, 2.5, "boot 7")
        ended = Exit(at, -signal.SIGKILL, "killed by SIGKILL", lasted, is_planned=True)
        record = Record(template, process, "rev-1", at, 3, 2, ended, TlsMode.ACCEPTED)
    assert record_of(json.loads(json.dumps(record_tree(record)))) == record


def test_a_record_is_read_though_a_bound_is_narrower_since() -> None:
    record = record_of(earlier_record(flush_interval_seconds=0.001))
    assert record_tree(record)["template"]["flush_interval_seconds"] == 0.001


async def test_nothing_starts_while_another_holds_the_bookie(node: Node) -> None:
    with held(node.folders.bookie(B0) / "lock"):
        node.kubelet.ensure(node.template)
        assert not node.process().running
    assert node.process().running


@pytest.mark.parametrize("is_full", [False, True])
async def test_of_a_log_that_is_full_nothing_is_lost_at_the_next_start(
    node: Node, is_full: bool
) -> None:
    """What a bookie said before its end is what people look for."""
    folder = node.folders.bookie(B0)
    log, old, size = folder / "log.txt", folder / "log.old.txt", LOG_BYTES_MAX + is_full
    folder.mkdir()
    log.write_text("the former process\n")
    os.truncate(log, size)  # sparse: takes no room
    node.kubelet.ensure(node.template)
    assert node.process().running and old.exists() == is_full
    with (old if is_full else log).open() as kept:
        assert kept.readline() == "the former process\n"
        assert os.fstat(kept.fileno()).st_size >= size


async def test_nothing_starts_without_all_volumes(node: Node) -> None:
    node.folders.claim(B0, "ledger-1").unlink()
    node.kubelet.ensure(node.template)
    assert not node.process().running


async def test_an_end_that_was_expected_of_a_process_excuses_no_other_ones(node: Node) -> None:
    node.kubelet.ensure(node.template)
    first = node.identity()
    os.kill(first.pid, signal.SIGKILL)  # before it could be asked to
    await until(lambda: node.process().running and node.identity() != first)
    node.kubelet.expect_end(B0, first)
    second = node.identity()
    os.kill(second.pid, signal.SIGKILL)
    await until(lambda: node.process().instance != str(second))
    end = node.process().last_exit
    assert end is not None and not end.is_planned


@pytest.mark.parametrize(
    ("ends", "waits"),
    [
        (("asked", "asked", "asked"), False),
        (("killed", "asked", "killed"), False),
        (("asked", "killed"), False),
        (("asked", "killed", "killed"), True),
    ],
    ids=str,
)
async def test_only_failures_in_a_row_are_waited_out(
    node: Node, ends: tuple[str, ...], waits: bool
) -> None:
    node.kubelet.ensure(node.template)
    for end in ends:
        process = node.identity()
        if end == "asked":
            node.kubelet.expect_end(B0, process)
        os.kill(process.pid, signal.SIGKILL)
        wait_gone(process, 10)
        await until(lambda: node.process().last_exit is not None)
    assert node.process().running is not waits


async def test_the_next_operator_adopts_a_running_bookie(node: Node) -> None:
    node.kubelet.ensure(node.template)
    before = node.identity()
    later = Kubelet(node.folders, Children(lambda: None), command=bookie_like)
    later.adopt()
    assert later.process_of(B0) == before
    process = later.bookies()[B0].process
    assert process is not None and process.running and process.restarts == 0
    assert is_alive(before)


async def test_an_adopted_bookie_that_ends_is_started_again(node: Node) -> None:
    node.kubelet.ensure(node.template)
    before = node.identity()
    children = Children(lambda: None)
    later = Kubelet(node.folders, children, command=bookie_like)
    later.metadata_url = URL
    later.adopt()
    os.kill(before.pid, signal.SIGKILL)
    wait_gone(before, 10)
    await until(lambda: later.bookies()[B0].process is not None and later.process_of(B0) != before)
    after = later.process_of(B0)
    assert after is not None and is_alive(after)
    send(after, signal.SIGKILL)
    wait_gone(after, 10)
    children.is_alive(after)
    children.close()
