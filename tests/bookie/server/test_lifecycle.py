"""A bookie's whole life: boots, outages of the metadata store, every end and its exit code."""

import asyncio
import errno
import json
import os
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from bookie.boot.lock import FolderLock
from bookie.boot.marker import read_marker
from bookie.boot.stamps import STAMP_NAME, read_stamp, write_stamp
from bookie.errors import UnavailableError
from bookie.metadata.memory import MemoryStore
from bookie.metadata.store import StoredBoot
from bookie.protocol.status import Status
from bookie.server.lifecycle import Bookie, ExitCode, Host
from bookie.server.state import Phase
from bookie.testing.disk import SimDisk
from server_lab import KIB, ME, UNTIL_SECONDS_MAX, ServerLab


def markers(lab: ServerLab) -> list[bool]:
    """Of each directory, whether it says that the stop was unclean."""
    return [read_marker(lab.disk, path).is_dirty for path in lab.directories]


async def refused(lab: ServerLab, words: str) -> None:
    """It stays up to say why, until it is told to stop."""
    bookie = lab.begin()
    await lab.until(lambda: bookie.state.phase is Phase.REFUSED)
    assert words in bookie.state.message
    assert ME not in await lab.store.bookies()
    assert await lab.stop() is ExitCode.REFUSED


# ---- calm ---------------------------------------------------------------------------------------


def store_hangs(lab: ServerLab, *, at: str = "") -> asyncio.Event:
    """The metadata store does not answer any more, or not this request; the event tells that it
    was asked."""
    reached = asyncio.Event()

    async def hang(name: str) -> None:
        if at in ("", name):
            reached.set()
            await asyncio.Event().wait()

    lab.metadata.before = hang
    return reached


async def test_a_clean_life_leaves_no_marker_and_no_registration(server: ServerLab) -> None:
    assert all(markers(server))
    assert await server.stop() is ExitCode.CLEAN
    assert not any(markers(server))
    assert not await server.store.bookies()


async def test_what_was_acked_from_memory_is_there_after_a_clean_stop(server: ServerLab) -> None:
    ledger = await server.ledger()
    await server.add(ledger, 0, 100)
    await server.stop()
    await server.start()
    assert await server.held(ledger, 0, 200) == list(range(100))


async def test_it_registers_where_it_listens_with_its_boot_epoch(server: ServerLab) -> None:
    assert server.bookie is not None
    info = (await server.store.bookies())[ME]
    assert {e.endpoint_id: e.port for e in info.endpoints} == {
        "bookie-rpc": server.bookie.ports["stock"], "bookie-run": server.bookie.ports["run"],
        "bookie-admin": server.bookie.ports["admin"],
    }  # fmt: skip
    assert info.properties == {"bootEpoch": "1"} and not info.read_only


async def test_the_runtime_file_says_who_and_where(idle_server: ServerLab, tmp_path: Path) -> None:
    path = tmp_path / "run" / "runtime.json"
    idle_server.tree["runtimeFile"] = str(path)
    bookie = await idle_server.start()
    told = json.loads(path.read_text())
    assert (told["pid"], told["bookieId"], told["ports"]) == (os.getpid(), ME, bookie.ports)


# ---- boots that wait or refuse ------------------------------------------------------------------


async def test_s25_no_port_and_no_registration_before_the_marks_are_durable(
    idle_server: ServerLab,
) -> None:
    reached, go_on = asyncio.Event(), asyncio.Event()
    await idle_server.start()
    ledger = await idle_server.ledger()
    await idle_server.kill()

    async def slow_listing(name: str) -> None:
        if name == "ledger_ids":
            reached.set()
            await go_on.wait()

    idle_server.metadata.before = slow_listing
    bookie = idle_server.begin()
    await reached.wait()
    assert "run" not in bookie.ports and ME not in await idle_server.store.bookies()
    assert bookie.state.phase is Phase.MARKING
    idle_server.metadata.before = None
    go_on.set()
    await idle_server.until_registered()
    assert await idle_server.absent(ledger, 0) is Status.UNKNOWN


async def test_a_stop_during_the_boot_is_clean_and_keeps_the_older_markers(
    idle_server: ServerLab,
) -> None:
    await idle_server.start()
    await idle_server.kill()
    reached = store_hangs(idle_server, at="ledger_ids")
    idle_server.begin()
    await reached.wait()
    assert await idle_server.stop() is ExitCode.CLEAN
    assert all(markers(idle_server))


async def test_a_metadata_store_that_is_away_is_waited_for(idle_server: ServerLab) -> None:
    idle_server.metadata.is_out = True
    bookie = idle_server.begin()
    await idle_server.until(lambda: "waiting for the metadata store" in bookie.state.message)
    idle_server.metadata.is_out = False
    await idle_server.until_registered()


@pytest.mark.parametrize("operation", ["read_cookie", "ledger_ids", "write_boot"])
async def test_a_metadata_store_that_goes_away_during_the_boot_only_delays_it(
    idle_server: ServerLab, operation: str
) -> None:
    await idle_server.start()
    ledger = await idle_server.ledger()
    await idle_server.kill()
    failures = 2

    async def fail_twice(name: str) -> None:
        nonlocal failures
        if name == operation and failures:
            failures -= 1
            raise UnavailableError("away for a moment")

    idle_server.metadata.before = fail_twice
    await idle_server.start()
    assert await idle_server.absent(ledger, 0) is Status.UNKNOWN


async def test_a_stop_while_the_metadata_store_is_away_ends_it(idle_server: ServerLab) -> None:
    idle_server.metadata.is_out = True
    bookie = idle_server.begin()
    await idle_server.until(lambda: "waiting for the metadata store" in bookie.state.message)
    assert await idle_server.stop() is ExitCode.CLEAN


async def test_a_stop_does_not_wait_for_a_metadata_store_that_hangs(
    idle_server: ServerLab,
) -> None:
    reached = store_hangs(idle_server)
    idle_server.begin()
    await reached.wait()
    assert await idle_server.stop() is ExitCode.CLEAN


async def test_a_second_bookie_on_the_same_folders_is_refused_and_names_the_first(
    server: ServerLab, tmp_path: Path
) -> None:
    runtime = tmp_path / "runtime.json"
    runtime.write_text(json.dumps({"pid": 1, "bookieId": ME}))
    second = Bookie(server.settings.model_copy(update={"runtime_file": runtime}))
    life = asyncio.create_task(second.run())
    await server.until(lambda: second.state.phase is Phase.REFUSED)
    assert f"in use by another bookie process (pid {os.getpid()})" in second.state.message
    assert json.loads(runtime.read_text())["pid"] == 1, "the file of the one that serves"
    second.stop()
    assert await life is ExitCode.REFUSED
    assert await server.add(await server.ledger(), 0) is Status.OK


async def test_a_second_bookie_boots_once_the_first_has_ended(idle_server: ServerLab) -> None:
    directories = idle_server.directories
    for directory in directories:
        directory.mkdir(parents=True, exist_ok=True)
    with FolderLock(directories):
        bookie = idle_server.begin()
        await idle_server.until(lambda: bookie.state.phase is Phase.REFUSED)
    await idle_server.until(lambda: bookie.state.phase is Phase.SERVING)


async def test_a_bookie_that_got_its_folders_is_refused_no_more_whatever_it_waits_for(
    idle_server: ServerLab,
) -> None:
    for directory in idle_server.directories:
        directory.mkdir(parents=True, exist_ok=True)
    reached = store_hangs(idle_server)
    with FolderLock(idle_server.directories):
        bookie = idle_server.begin()
        await idle_server.until(lambda: bookie.state.phase is Phase.REFUSED)
    await reached.wait()
    assert (bookie.state.phase, bookie.state.message) == (Phase.BOOTING, "")


class SlowLock(FolderLock):
    """Its folders are on a disk that answers when the test lets it."""

    def __init__(self, directories: Sequence[Path]) -> None:
        super().__init__(directories)
        self.began, self.may_go_on = threading.Event(), threading.Event()
        self.was_acquired = False

    def acquire(self) -> None:
        self.began.set()
        assert self.may_go_on.wait(UNTIL_SECONDS_MAX), "the event loop waits for this disk"
        super().acquire()
        self.was_acquired = True


async def test_a_lock_that_is_acquired_after_its_bookie_was_cancelled_is_given_up(
    idle_server: ServerLab,
) -> None:
    lock = SlowLock(idle_server.directories)
    bookie = Bookie(idle_server.settings, host=Host(lock=lambda _directories: lock))
    life = asyncio.create_task(bookie.run())
    await asyncio.to_thread(lock.began.wait)
    life.cancel()
    await asyncio.wait([life], timeout=0)
    assert not life.done(), "it waits for what its thread may still acquire"
    lock.may_go_on.set()
    await asyncio.wait([life])
    assert life.cancelled() and lock.was_acquired
    with FolderLock(idle_server.directories):
        """Nobody has it any more."""


async def test_a_stamp_of_another_bookie_is_refused(server: ServerLab) -> None:
    await server.stop()
    assert server.bookie is None
    disk = server.disk
    stamp = read_stamp(disk, server.directories[1])
    assert stamp is not None
    write_stamp(disk, server.directories[1], replace(stamp, bookie_id="bookie-7"))
    await refused(server, "it is stamped as a disk of bookie bookie-7")


async def test_a_refused_boot_leaves_the_folders_to_the_person_who_mends_them(
    server: ServerLab,
) -> None:
    await server.stop()
    server.overwrite(server.directories[1] / STAMP_NAME, b"{")
    bookie = server.begin()
    await server.until(lambda: bookie.state.phase is Phase.REFUSED)
    with FolderLock(server.directories):
        pass


async def test_a_port_that_is_taken_is_said_with_what_to_do(
    server: ServerLab, caplog: pytest.LogCaptureFixture
) -> None:
    assert server.bookie is not None
    for name in ("admin", "http", "run", "stock"):
        ports = {"run": 0, "stock": 0, "admin": 0, "http": 0, name: server.bookie.ports[name]}
        other = ServerLab(server.root / name)
        other.tree |= {"ports": ports, "bookieId": "bookie-9"}
        other.begin()
        assert await other.ended() is ExitCode.ERROR
        assert f"set ports.{name} to another port" in caplog.text
        await other.end()


# ---- serving ------------------------------------------------------------------------------------


async def test_it_serves_on_while_the_metadata_store_is_away(server: ServerLab) -> None:
    ledger = await server.ledger()
    server.metadata.is_out = True
    assert await server.add(ledger, 0) is Status.OK
    assert await server.fence(ledger) is Status.OK
    assert await server.stop() is ExitCode.CLEAN
    assert not any(markers(server))


async def test_a_registration_that_failed_is_tried_again(idle_server: ServerLab) -> None:
    idle_server.tree["ports"] = {"run": 0, "stock": 0, "admin": 0, "http": 0}
    failures = 1

    async def fail_once(name: str) -> None:
        nonlocal failures
        if name == "register" and failures:
            failures -= 1
            raise UnavailableError("away for a moment")

    idle_server.metadata.before = fail_once
    bookie = await idle_server.start()
    await idle_server.until(lambda: not bookie.state.message)
    assert bookie.state.phase is Phase.SERVING


async def test_another_boot_of_the_same_id_elsewhere_ends_this_one(
    server: ServerLab,
) -> None:
    await server.stop()
    server.tree["lease"] = {"confirmSeconds": 0.01}
    await server.start()
    ledger = await server.ledger()
    await server.add(ledger, 0)
    epoch = await server.store.read_boot(ME)
    assert epoch is not None
    await server.store.write_boot(ME, StoredBoot(epoch.value.epoch + 1), version=epoch.version)
    assert await server.ended() is ExitCode.ERROR
    assert ME not in await server.store.bookies()


async def test_a2_no_port_is_open_before_the_store_has_confirmed_who_serves(
    idle_server: ServerLab,
) -> None:
    server, open_ports = idle_server, list[bool]()

    async def note(name: str) -> None:
        if name == "write_boot" and server.bookie is not None:
            open_ports.append("run" in server.bookie.ports)

    server.metadata.before = note
    await server.start()
    assert open_ports[:3] == [False] * 3, "claimed, about to serve, confirmed"


async def test_the_same_id_on_other_folders_is_refused_while_this_one_lives(
    server: ServerLab, tmp_path: Path
) -> None:
    rival = ServerLab(tmp_path / "elsewhere")
    rival.cluster = server.cluster
    rival.store = MemoryStore(server.cluster)
    bookie = rival.begin()
    await rival.until(lambda: bookie.state.phase is Phase.REFUSED)
    assert "registered and alive" in bookie.state.message
    assert await rival.stop() is ExitCode.REFUSED
    assert await server.add(await server.ledger(), 0) is Status.OK
    await rival.end()


# ---- disks that fail ----------------------------------------------------------------------------


@pytest.mark.parametrize("operation", ["sync", "write"])
async def test_s28_a_final_flush_that_fails_keeps_the_markers(
    idle_server: ServerLab, operation: str
) -> None:
    disk = idle_server.disk
    await idle_server.start()
    ledger = await idle_server.ledger()
    disk.fail(operation, pattern="*.log*", error=errno.EIO)  # first: the flusher may look any time
    await idle_server.add(ledger, 0)
    assert await idle_server.stop() is ExitCode.DISK_FAILED
    assert all(markers(idle_server))


async def test_s28_a_final_flush_without_space_keeps_the_markers_and_the_next_boot_checks(
    idle_server: ServerLab,
) -> None:
    disk = idle_server.disk
    await idle_server.start()
    ledger = await idle_server.ledger()
    disk.fail("write", pattern="*.log*", error=errno.ENOSPC)  # first: the flusher may look any time
    await idle_server.add(ledger, 0)
    assert await idle_server.stop() is ExitCode.DISK_FAILED
    idle_server.disk = disk.kill()
    await idle_server.start()
    assert await idle_server.absent(ledger, 5) is Status.UNKNOWN


async def test_a_disk_that_fails_while_serving_ends_the_bookie_and_keeps_the_markers(
    idle_server: ServerLab,
) -> None:
    disk = idle_server.disk
    idle_server.tree["durability"] |= {"ack": "sync"}
    await idle_server.start()
    ledger = await idle_server.ledger()
    assert await idle_server.add(ledger, 0) is Status.OK
    disk.fail("sync", pattern="*.log*", error=errno.EIO)
    assert not (await idle_server.add(ledger, 1)).is_known
    assert await idle_server.ended() is ExitCode.DISK_FAILED
    assert all(markers(idle_server))


async def test_a_disk_that_fails_at_the_boot_is_an_end_of_its_own(idle_server: ServerLab) -> None:
    disk = idle_server.disk
    disk.fail("create", pattern=STAMP_NAME + "*", error=errno.EIO)
    idle_server.begin()
    assert await idle_server.ended() is ExitCode.DISK_FAILED


async def test_a_full_disk_makes_it_read_only_but_not_for_recovery_and_passes(
    idle_server: ServerLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bookie.server.housekeeping.SPACE_INTERVAL_S", 0.005)
    disk = idle_server.disk
    idle_server.sizes |= {"log_file_bytes": 8192 * KIB}
    bookie = await idle_server.start()
    ledger = await idle_server.ledger()
    capacity, disk.capacity_bytes = disk.capacity_bytes, disk_in_use(disk)
    await idle_server.flush()
    await idle_server.until(lambda: bookie.state.phase is Phase.READ_ONLY)
    assert "GiB free, adds are taken again from" in bookie.state.explanation
    assert await idle_server.add(ledger, 0) is Status.READ_ONLY
    assert await idle_server.add(ledger, 0, recovery=True) is Status.OK
    assert (await idle_server.store.bookies())[ME].read_only
    disk.capacity_bytes = capacity
    await idle_server.flush()
    await idle_server.until(lambda: bookie.state.phase is Phase.SERVING)
    assert bookie.state.explanation == ""
    assert await idle_server.add(ledger, 1) is Status.OK


def disk_in_use(disk: SimDisk) -> int:
    space = disk.space(Path("/"))
    return space.total_bytes - space.free_bytes
