"""Draining a whole bookie: what it refuses, what outlives restarts, what health counts."""

import asyncio
import errno
import os
import threading
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import grpc
import pytest
from bookie.boot.drain_marker import DRAIN_NAME
from bookie.errors import UnavailableError
from bookie.ids import BookieId, LedgerId
from bookie.metadata.memory import MemoryStore
from bookie.protocol.status import Status
from bookie.server.drain import REST_FACTOR, Drain
from bookie.server.state import BookieState, ReadOnlyReason
from bookie.testing.disk import SimDisk
from bookie.testing.metadata import FaultyStore
from bookie.wire.admin import bookie_admin_pb2 as pb
from server_lab import ME, ServerLab
from virtual_time import clock, in_virtual_time

OTHERS = tuple(map(BookieId, ("bookie-7", "bookie-8", "bookie-9")))


def hasten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bookie counts at once and often, and announces itself as soon as it should."""
    monkeypatch.setattr("bookie.server.housekeeping.DRAIN_INTERVAL_S", 0.002)
    monkeypatch.setattr("bookie.server.housekeeping.ANNOUNCE_INTERVAL_S", 0.002)
    monkeypatch.setattr("bookie.server.drain.SETTLE_S", 0.0)
    monkeypatch.setattr("bookie.server.drain.COUNT_PAUSE_S", 0.0)
    monkeypatch.setattr("bookie.server.drain.REST_FACTOR", 0)


@pytest.fixture
async def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ServerLab]:
    """Counts at once and often."""
    hasten(monkeypatch)
    lab = ServerLab(tmp_path)
    await lab.start()
    yield lab
    await lab.end()


async def drain(lab: ServerLab, *, cancel: bool = False) -> int:
    reply = await lab.call("Drain", pb.DrainRequest(cancel=cancel))
    return int(reply.phase)


async def health(lab: ServerLab) -> pb.Health:
    found: pb.Health = await lab.call("GetHealth", pb.GetHealthRequest())
    return found


async def counted(lab: ServerLab, ledgers: int) -> None:
    """Until health says so."""
    found = await health(lab)
    while not (found.ledgers_counted and found.ledgers_naming_it == ledgers):
        found = await health(lab)


async def recovering(lab: ServerLab, ledger_id: LedgerId) -> None:
    found = await lab.store.read_ledger(ledger_id)
    await lab.store.write_ledger(found.value.in_recovery(), version=found.version)


def marker_files(lab: ServerLab) -> int:
    return sum(lab.disk.exists(folder / DRAIN_NAME) for folder in lab.directories)


async def test_it_refuses_writers_and_serves_readers_and_recoverers(server: ServerLab) -> None:
    ledger = await server.ledger()
    await server.add(ledger, 0)
    assert await drain(server) == pb.DRAINING
    assert (await server.store.bookies())[ME].read_only
    assert await server.add(ledger, 1) is Status.READ_ONLY
    assert await server.add(ledger, 1, recovery=True) is Status.OK
    assert await server.held(ledger, 0, 9) == [0, 1]


async def test_a_cancel_makes_it_writable_and_leaves_no_trace(server: ServerLab) -> None:
    await drain(server)
    assert await drain(server, cancel=True) == pb.SERVING
    found = await health(server)
    assert not (found.draining or found.ledgers_counted or marker_files(server))
    assert not (await server.store.bookies())[ME].read_only
    assert await server.add(await server.ledger(), 0) is Status.OK


async def test_it_still_drains_after_a_clean_stop_and_after_a_kill(server: ServerLab) -> None:
    await drain(server)
    assert marker_files(server) == 3
    await server.stop()
    await server.start()
    assert (await health(server)).phase == pb.DRAINING
    await server.restart()
    assert (await health(server)).draining
    assert (await server.store.bookies())[ME].read_only


async def test_it_says_that_it_drains_while_it_boots(server: ServerLab) -> None:
    await drain(server)
    await server.stop()
    server.metadata.is_out = True
    bookie = server.begin()
    await server.until(lambda: bool(bookie.state.message))
    found = await health(server)
    assert (found.phase, found.draining, found.ledgers_counted) == (pb.BOOTING, True, False)
    server.metadata.is_out = False
    await server.until_registered()


async def test_a_count_is_as_old_as_the_beginning_of_its_listing(
    server: ServerLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who named the bookie since may not be in it."""
    now = [1000.0]

    async def listing(name: str) -> None:
        now[0] = 2000.0 if name == "barrier" else now[0]

    monkeypatch.setattr("bookie.server.drain.time", SimpleNamespace(time=lambda: now[0]))
    monkeypatch.setattr("bookie.server.drain.COUNT_PAUSE_S", 3600.0)
    server.metadata.before = listing
    await drain(server)
    await counted(server, 0)
    assert server.bookie is not None and (count := server.bookie.control.serving.drain.count)
    assert count.at_ms == 1_000_000


def drain_over(store: FaultyStore) -> Drain:
    """The drain alone, of a bookie whose registration says that it drains."""
    state, nothing = BookieState(ME), cast(Any, None)
    state.switch_read_only(ReadOnlyReason.DRAIN, True)
    announced = cast(Any, SimpleNamespace(is_read_only=True))
    return Drain(store, state, marks=nothing, announcer=announced, disk=SimDisk(), directories=())


@in_virtual_time
async def test_a_bookie_rests_four_times_as_long_as_its_count_took() -> None:
    """A large cluster is listed a fifth of the time, however long the drain lasts."""
    began = list[float]()

    async def listing(name: str) -> None:
        if name == "barrier":
            began.append(clock())
            await asyncio.sleep(40)

    drain = drain_over(store := FaultyStore(MemoryStore()))
    store.before = listing
    while len(began) < 3:
        await drain.count_when_due()
        await asyncio.sleep(1)
    gaps = [later - earlier for earlier, later in pairwise(began)]
    assert gaps == [pytest.approx((1 + REST_FACTOR) * 40, abs=1)] * 2


async def test_a_count_of_a_drain_that_was_cancelled_is_none_of_the_next_one(
    server: ServerLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Since the second one began nobody has waited for those who had an older list of bookies."""
    listing, go_on = asyncio.Event(), asyncio.Event()

    async def listed(name: str) -> None:
        if name == "barrier":
            listing.set()
            await go_on.wait()

    server.metadata.before = listed
    await drain(server)
    await listing.wait()
    monkeypatch.setattr("bookie.server.drain.SETTLE_S", 3600.0)
    await drain(server, cancel=True)
    await drain(server)
    go_on.set()
    for _ in range(50):
        assert not (await health(server)).ledgers_counted


async def test_a_replaced_disk_does_not_end_the_drain(server: ServerLab) -> None:
    await drain(server)
    server.wipe_on_kill = (0,)
    await server.restart()
    assert (await health(server)).phase == pb.DRAINING


async def test_a_cancelled_drain_stays_cancelled(server: ServerLab) -> None:
    await drain(server)
    await drain(server, cancel=True)
    await server.restart()
    assert (await health(server)).phase == pb.SERVING


@pytest.mark.parametrize("closed_at", [None, 0])
async def test_limbo_and_unchecked_marks_refuse_it(
    server: ServerLab, closed_at: int | None
) -> None:
    await server.ledger(closed_at=closed_at)
    await server.restart()
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await drain(server)
    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert "drain it once a repair has cleared them" in str(caught.value.details())
    assert (await health(server)).phase == pb.SERVING and not marker_files(server)


async def test_limbo_that_comes_while_it_drains_neither_ends_nor_holds_it(
    server: ServerLab,
) -> None:
    await drain(server)
    await server.ledger()
    await server.restart()
    assert (await health(server)).limbo_ledgers == 1
    assert await drain(server) == pb.DRAINING
    assert await drain(server, cancel=True) == pb.SERVING


async def test_a_marker_that_cannot_be_written_refuses_the_drain(idle_server: ServerLab) -> None:
    disk = idle_server.disk
    await idle_server.start()
    disk.fail("sync", pattern=f"*{DRAIN_NAME}*")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await drain(idle_server)
    assert caught.value.code() is grpc.StatusCode.DATA_LOSS
    assert not (await health(idle_server)).draining


async def test_a_drain_that_was_refused_does_not_begin_at_the_next_start(
    idle_server: ServerLab,
) -> None:
    await idle_server.start()
    last = idle_server.directories[-1].name
    idle_server.disk.watch(lambda what, path: fail_in(last, what, path))
    with pytest.raises(grpc.aio.AioRpcError):
        await drain(idle_server)
    idle_server.disk.watch(None)
    assert not marker_files(idle_server)


def fail_in(directory: str, operation: str, path: Path) -> None:
    """An error of this one disk, whenever a file of it is synced."""
    if operation == "sync" and directory in path.parts:
        raise OSError(errno.EIO, os.strerror(errno.EIO))


async def test_a_marker_that_cannot_be_removed_leaves_the_drain_on(idle_server: ServerLab) -> None:
    disk = idle_server.disk
    await idle_server.start()
    await drain(idle_server)
    disk.fail("unlink", pattern=DRAIN_NAME)
    with pytest.raises(grpc.aio.AioRpcError):
        await drain(idle_server, cancel=True)
    assert (await health(idle_server)).draining


async def give_up(lab: ServerLab, *, then_cancel: bool) -> None:
    """A drain begins, and its caller goes away while the first marker is written. Returns once the
    last marker was written."""
    assert lab.bookie is not None
    switch, written = lab.bookie.control.serving.drain, threading.Event()
    last = ("rename", lab.directories[-1] / f"{DRAIN_NAME}.new")
    lab.disk.watch(lambda *operation: written.set() if operation == last else None)
    with lab.disk.held_syncs() as waiting:
        tasks = [asyncio.create_task(switch.begin())]
        await asyncio.to_thread(waiting.wait)
        tasks[0].cancel()
        if then_cancel:
            tasks.append(asyncio.create_task(switch.cancel()))
        await asyncio.wait(tasks, timeout=0)
    await asyncio.wait(tasks)
    await asyncio.to_thread(written.wait)


async def test_a_drain_whose_caller_gave_up_is_a_whole_one(server: ServerLab) -> None:
    await give_up(server, then_cancel=False)
    assert (await health(server)).draining and marker_files(server) == 3


async def test_a_cancel_ends_a_drain_whose_caller_gave_up(server: ServerLab) -> None:
    await give_up(server, then_cancel=True)
    assert not (await health(server)).draining and not marker_files(server)


async def test_health_counts_every_ledger_that_names_it(server: ServerLab) -> None:
    assert not (await health(server)).ledgers_counted
    await server.ledger()
    ledger = await server.ledger(closed_at=3)
    await server.ledger(ensemble=OTHERS)
    await drain(server)
    await counted(server, 2)
    await server.store.delete_ledger(ledger)
    await counted(server, 1)
    assert (await health(server)).counted_at_ms > 0


async def test_a_ledger_in_recovery_may_come_to_name_it_and_counts(server: ServerLab) -> None:
    ledger = await server.ledger(ensemble=OTHERS)
    await recovering(server, ledger)
    await drain(server)
    await counted(server, 1)
    await server.close_ledger(ledger, 0)
    await counted(server, 0)


async def test_a_metadata_store_that_is_away_makes_the_count_unknown(server: ServerLab) -> None:
    await drain(server)
    await counted(server, 0)
    server.metadata.is_out = True
    while (found := await health(server)).ledgers_counted:
        pass
    assert (found.ledgers_naming_it, found.counted_at_ms) == (0, 0)
    server.metadata.is_out = False
    await counted(server, 0)


async def test_nothing_is_counted_before_the_registration_says_read_only(
    server: ServerLab,
) -> None:
    async def refuse(name: str) -> None:
        if name == "register":
            raise UnavailableError("no registrations now")

    server.metadata.before = refuse
    await drain(server)
    server.metadata.calls.clear()
    await server.until(lambda: server.metadata.calls.count("register") > 5)
    assert "ledger_ids" not in server.metadata.calls
    server.metadata.before = None
    await counted(server, 0)
    assert (await server.store.bookies())[ME].read_only


async def test_a_count_lasts_no_longer_than_the_registration_that_it_rests_on(
    idle_server: ServerLab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def refuse(name: str) -> None:
        if name == "register":
            raise UnavailableError("no registrations now")

    hasten(monkeypatch)
    idle_server.tree["rackFile"] = str(tmp_path / "rack")
    await idle_server.start()
    await drain(idle_server)
    await counted(idle_server, 0)
    idle_server.metadata.before = refuse
    (tmp_path / "rack").write_text("/another")  # so that it is to be registered anew
    async with asyncio.timeout(30):
        while (await health(idle_server)).ledgers_counted:
            pass
    idle_server.metadata.before = None
    await counted(idle_server, 0)


async def test_a_count_under_way_when_the_drain_is_cancelled_is_dropped(
    server: ServerLab,
) -> None:
    reached, opened = asyncio.Event(), asyncio.Event()

    async def hold(name: str) -> None:
        if name == "ledger_ids":
            reached.set()
            await opened.wait()

    server.metadata.before = hold
    await drain(server)
    await reached.wait()
    await drain(server, cancel=True)
    opened.set()
    assert not (await health(server)).ledgers_counted


async def test_a7_a_ledger_that_cannot_be_read_counts_as_held(
    server: ServerLab, caplog: pytest.LogCaptureFixture
) -> None:
    foreign = await server.ledger(ensemble=OTHERS)
    server.cluster.garbled.add(foreign)
    await drain(server)
    await counted(server, 1)
    assert f"their metadata cannot be read ({foreign})" in caplog.text
    server.cluster.garbled.clear()
    await counted(server, 0)
