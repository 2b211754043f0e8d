"""The fake fleet answers as the rules say and does what a test orders."""

import asyncio

from bookie.frames.build import build_run
from bookie.frames.entry import DigestType, EntryCodec, master_key
from bookie.frames.frame import FLAG_RECOVERY
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.metadata.memory import MemoryStore
from bookie.protocol.ledger import Fragment, LedgerMetadata
from bookie.protocol.status import Status
from bookie.testing.fleet import FakeFleet
from bookie.wire.native import LacRequest, ReadReply, ReadRequest

LEDGER = LedgerId(0)
KEY = master_key(b"")
CODEC = EntryCodec(LEDGER, DigestType.CRC32C, b"")
B0 = BookieId("bookie-0")


def frame(first: int, count: int = 1, *, flags: int = 0) -> bytes:
    entries = [
        CODEC.encode(EntryId(i), b"x" * 10, lac=EntryId(i - 1), length=10 * (i + 1))
        for i in range(first, first + count)
    ]
    return build_run(LEDGER, EntryId(first), entries, lac=EntryId(first - 1), flags=flags)


async def add(fleet: FakeFleet, first: int, count: int = 1, *, flags: int = 0) -> Status:
    future: asyncio.Future[Status] = asyncio.get_running_loop().create_future()
    fleet.add_run(
        B0,
        master_key=KEY,
        frame=frame(first, count, flags=flags),
        on_reply=future.set_result,
    )
    return await future


async def read(fleet: FakeFleet, first: int, last: int, *, fence: bool = False) -> ReadReply:
    request = ReadRequest(LEDGER, EntryId(first), EntryId(last), 1 << 20, KEY)
    status, reply = await fleet.read(B0, request, fence=fence)
    assert status is Status.OK and reply is not None
    return reply


async def test_what_was_added_is_read_back_and_the_rest_denied() -> None:
    fleet = FakeFleet(1)
    assert await add(fleet, 0, 3) is Status.OK
    reply = await read(fleet, 0, 9)
    assert (reply.lac, reply.last_entry_id, reply.answered_through) == (1, 2, 9)
    assert (len(reply.runs), reply.absent) == (1, Status.NO_SUCH_ENTRY)


async def test_a_fencing_read_refuses_normal_adds_and_lets_recovery_adds_through() -> None:
    fleet = FakeFleet(1)
    assert (await read(fleet, 0, 0, fence=True)).absent is Status.NO_SUCH_ENTRY
    assert await add(fleet, 0) is Status.FENCED
    assert await add(fleet, 0, flags=FLAG_RECOVERY) is Status.OK


async def test_a_held_request_reaches_the_bookie_only_when_released() -> None:
    fleet = FakeFleet(1)
    fleet.hold(0)
    adding = asyncio.ensure_future(add(fleet, 0))
    await fleet.settle()
    assert fleet[0].held(LEDGER) == [] and not adding.done()
    fleet.release(0)
    assert await adding is Status.OK


async def test_a_held_reply_leaves_the_entry_stored_and_the_caller_waiting() -> None:
    fleet = FakeFleet(1)
    fleet.hold_replies(0)
    adding = asyncio.ensure_future(add(fleet, 0))
    await fleet.settle()
    assert fleet[0].held(LEDGER) == [0] and not adding.done()
    fleet.held(0)[0].drop()
    assert await adding is Status.UNREACHABLE


async def test_a_crash_loses_what_was_not_flushed_and_boot_marks_limbo() -> None:
    fleet, store = FakeFleet(1), MemoryStore()
    await store.create_ledger(LedgerMetadata(LEDGER, 1, 1, 1, (Fragment(EntryId(0), (B0,)),)))
    await add(fleet, 0)
    fleet[0].flush()
    await add(fleet, 1)
    fleet[0].crash()
    await fleet[0].boot(store)
    assert (await read(fleet, 0, 1)).absent is Status.UNKNOWN
    assert fleet[0].held(LEDGER) == [0]
    assert await add(fleet, 2) is Status.READ_ONLY


async def test_a_range_larger_than_asked_for_is_answered_in_parts() -> None:
    fleet = FakeFleet(1)
    await add(fleet, 0, 4)
    request = ReadRequest(LEDGER, EntryId(0), EntryId(9), 100, KEY)
    _status, reply = await fleet.read(B0, request)
    assert reply is not None and reply.answered_through == 1


async def test_a_long_poll_waits_for_the_lac_or_the_test() -> None:
    fleet = FakeFleet(1)
    await add(fleet, 0)
    waiting = asyncio.ensure_future(fleet.wait_lac(B0, LacRequest(LEDGER, KEY, EntryId(-1), 1000)))
    await fleet.settle()
    assert not waiting.done()
    await add(fleet, 1)
    status, reply = await waiting
    assert status is Status.OK and reply is not None and reply.lac == 0


async def test_a_bookie_that_is_down_is_unreachable() -> None:
    fleet = FakeFleet(1)
    fleet[0].down = True
    assert await add(fleet, 0) is Status.UNREACHABLE
