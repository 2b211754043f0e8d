"""Unclean stops of a whole bookie, seen by its clients: S1, S24, S26, S27, S29, S38-S40, S44, S46.

Real boot, storage, admission and sockets; the kill is the image of the folders at that moment.
"""

import asyncio
from typing import Any

import pytest
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.protocol.ledger import Fragment
from bookie.protocol.status import Status
from bookie.server.lifecycle import ExitCode
from bookie.testing.disk import SimDisk
from bookie.wire.admin import bookie_admin_pb2 as pb
from server_lab import ENSEMBLE, ME, ServerLab

OTHERS = tuple(map(BookieId, ("bookie-1", "bookie-2", "bookie-3")))


async def name_it(lab: ServerLab, ledger_id: LedgerId, first: int) -> None:
    """An ensemble change that brings this bookie in."""
    found = await lab.store.read_ledger(ledger_id)
    fragments = (*found.value.fragments, Fragment(EntryId(first), ENSEMBLE))
    await lab.store.write_ledger(found.value.with_fragments(fragments), version=found.version)


async def test_s1_s24_an_old_writer_is_refused_after_close_and_crash(server: ServerLab) -> None:
    ledger = await server.ledger()
    await server.add(ledger, 0)
    assert await server.fence(ledger) is Status.OK
    await server.close_ledger(ledger, 0)
    await server.restart()
    assert await server.add(ledger, 1) is Status.FENCED


async def test_s1_s24_also_when_its_fence_request_never_arrived(server: ServerLab) -> None:
    ledger = await server.ledger()
    await server.add(ledger, 0)
    await server.close_ledger(ledger, 0)  # the others were fenced, that was enough
    await server.restart()
    assert await server.add(ledger, 1) is Status.READ_ONLY


async def crashed_and_cleared(lab: ServerLab) -> LedgerId:
    """An open ledger whose writer has replaced the bookie that crashed, and which left limbo."""
    ledger = await lab.ledger()
    await lab.add(ledger, 0)
    await lab.restart()
    assert await lab.add(ledger, 1) is Status.READ_ONLY
    found = await lab.store.read_ledger(ledger)
    elsewhere = found.value.with_fragments([Fragment(EntryId(0), OTHERS)])
    await lab.store.write_ledger(elsewhere, version=found.version)
    [answer] = (await lab.call("ClearLimbo", pb.ClearLimboRequest(ledger_ids=[ledger]))).results
    assert answer.cleared
    assert await lab.absent(ledger, 1) in (Status.NO_SUCH_ENTRY, Status.NO_SUCH_LEDGER)
    return ledger


async def test_r24_a_ledger_of_which_all_is_back_takes_adds_again(server: ServerLab) -> None:
    ledger = await crashed_and_cleared(server)
    await name_it(server, ledger, 1)
    assert await server.add(ledger, 1) is Status.OK


async def test_r24_its_fence_stands_as_before(server: ServerLab) -> None:
    ledger = await server.ledger()
    await server.add(ledger, 0)
    assert await server.fence(ledger) is Status.OK
    await server.close_ledger(ledger, -1)
    await server.restart()
    await server.call("ClearLimbo", pb.ClearLimboRequest(ledger_ids=[ledger]))
    assert await server.add(ledger, 1) is Status.FENCED


@pytest.mark.parametrize("lost", ["a disk", "notes"])
async def test_s1_where_fences_may_be_lost_its_old_writer_is_refused_for_ever(
    server: ServerLab, lost: str
) -> None:
    if lost == "a disk":
        server.wipe_on_kill = (1,)
    else:
        await server.stop()
        server.tree["durability"]["noteIdleFlushes"] = None
        await server.start()
    assert await server.add(await crashed_and_cleared(server), 1) is Status.FENCED


async def test_s1_where_the_boot_fences_nothing_the_fence_itself_outlives_the_crash(
    idle_server: ServerLab,
) -> None:
    idle_server.tree["durability"] = {"journalWriteData": True}
    await idle_server.start()
    ledger = await idle_server.ledger()
    assert await idle_server.fence(ledger) is Status.OK
    await idle_server.restart()
    assert await idle_server.add(ledger, 0) is Status.FENCED


async def test_s46_the_bookie_that_a_recoverer_replaced_refuses_too(server: ServerLab) -> None:
    ledger = await server.ledger()
    await server.add(ledger, 0)
    found = await server.store.read_ledger(ledger)
    without = found.value.closed(EntryId(0), length=8, fragments=[Fragment(EntryId(0), OTHERS)])
    await server.store.write_ledger(without, version=found.version)
    server.wipe_on_kill = (0, 1, 2)  # its fence goes with the disks
    await server.restart()
    assert await server.add(ledger, 1) is Status.READ_ONLY


async def test_s38_a_ledger_that_it_was_just_brought_into_is_in_limbo(server: ServerLab) -> None:
    ledger = await server.ledger(ensemble=OTHERS)
    await name_it(server, ledger, 5)
    assert await server.add(ledger, 5) is Status.OK
    await server.restart()
    assert await server.absent(ledger, 5) is Status.UNKNOWN
    assert await server.add(ledger, 6) is Status.READ_ONLY


@pytest.mark.parametrize("place", [0, 1, 2])
async def test_s39_one_lost_directory_makes_every_absence_unknown(
    server: ServerLab, place: int
) -> None:
    ledgers = [await server.ledger() for _ in range(4)]
    closed = await server.ledger(closed_at=0)
    for ledger in (*ledgers, closed):
        await server.add(ledger, 0)
    await server.stop()
    server.wipe(place)
    await server.start()
    for ledger in (*ledgers, closed):
        assert await server.absent_now(ledger, 0) in (Status.OK, Status.UNKNOWN)
        assert await server.absent(ledger, 7) is Status.UNKNOWN
        assert await server.add(ledger, 7) is Status.READ_ONLY


async def test_s40_a_deleted_ledger_is_refused_after_the_crash(server: ServerLab) -> None:
    ledger = await server.ledger()
    await server.add(ledger, 0)
    await server.fence(ledger)
    await server.store.delete_ledger(ledger)
    server.wipe_on_kill = (0, 1, 2)
    await server.restart()
    assert await server.add(ledger, 1) is Status.READ_ONLY


async def test_s29_a_crash_without_a_journal_is_checked_by_a_boot_with_one(
    server: ServerLab,
) -> None:
    ledger = await server.ledger()
    await server.add(ledger, 0)
    await server.kill()
    server.tree["durability"] = {"journalWriteData": True}
    await server.start()
    assert await server.absent(ledger, 0) is Status.UNKNOWN


@pytest.mark.parametrize(
    "durability", [{"journalWriteData": True}, {"journalWriteData": False, "ack": "sync"}]
)
async def test_with_durable_acks_a_kill_loses_nothing_and_denies_with_authority(
    idle_server: ServerLab, durability: dict[str, Any]
) -> None:
    idle_server.tree["durability"] = durability
    await idle_server.start()
    ledger = await idle_server.ledger()
    assert await idle_server.add(ledger, 0, 50) is Status.OK
    await idle_server.restart()
    assert await idle_server.held(ledger, 0, 99) == list(range(50))
    assert await idle_server.absent(ledger, 50) is Status.NO_SUCH_ENTRY
    assert await idle_server.add(ledger, 50) is Status.OK


async def test_s27_a_power_cut_right_after_the_first_ack_is_noticed(
    idle_server: ServerLab,
) -> None:
    disk = idle_server.disk
    await idle_server.start()
    ledger = await idle_server.ledger()
    assert await idle_server.add(ledger, 0) is Status.OK
    cut = disk.power_cut()
    assert await idle_server.stop() is ExitCode.DISK_FAILED
    idle_server.disk = cut
    await idle_server.start()
    assert await idle_server.absent(ledger, 0) is Status.UNKNOWN


@pytest.mark.parametrize("seed", range(6))
async def test_s44_whatever_a_power_cut_leaves_a_fence_that_was_told_is_there(
    idle_server: ServerLab, seed: int
) -> None:
    disk = idle_server.disk
    await idle_server.start()
    ledgers = [await idle_server.ledger() for _ in range(3)]
    told = [ledger for ledger in ledgers if await idle_server.fence(ledger) is Status.OK]
    image = disk.crash(seed)
    assert isinstance(image, SimDisk)
    assert await idle_server.stop() is ExitCode.DISK_FAILED
    idle_server.disk = image
    await idle_server.start()
    assert len(told) == 3
    for ledger in told:
        assert await idle_server.add(ledger, 0) is Status.FENCED


@pytest.mark.parametrize("operation", ["barrier", "ledger_ids", "read_ledger"])
async def test_s26_a_kill_in_the_middle_of_the_marking_is_made_good_by_the_next_boot(
    idle_server: ServerLab, operation: str
) -> None:
    await idle_server.start()
    ledgers = [await idle_server.ledger() for _ in range(3)]
    for ledger in ledgers:
        await idle_server.add(ledger, 0)
    await idle_server.kill()
    reached = asyncio.Event()

    async def hang(name: str) -> None:
        if name == operation:
            reached.set()
            await asyncio.Event().wait()

    idle_server.metadata.before = hang
    idle_server.begin()
    await reached.wait()
    await idle_server.kill()
    idle_server.metadata.before = None
    await idle_server.start()
    for ledger in ledgers:
        assert await idle_server.absent(ledger, 0) is Status.UNKNOWN
    assert ME in await idle_server.store.bookies()
