"""A process that slept beyond its lease while requests that it had taken waited inside it."""

import asyncio
import struct
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from bookie.ids import EntryId, LedgerId
from bookie.protocol.status import Status
from bookie.server.connections import RunConnection
from bookie.server.first_fences import FirstFences
from bookie.server.operations import Operations
from bookie.server.pacing import BusyRates, Pacing
from bookie.server.requests import RunService
from bookie.server.sessions import Sessions
from bookie.server.state import BookieState, Phase
from bookie.server.stock import StockConnection, StockService
from bookie.storage.modes import DurabilityMode
from bookie.wire.native import ENVELOPE, LacRequest, Op, ReadRequest
from bookie.wire.stock.messages import Outcome
from server_lab import KEY, ME, frame
from stock_client import V2Client, V3Client
from storage_kit import StorageKit

LEASE_S = 75.0


class Outbox(asyncio.Transport):
    """A socket that takes everything at once."""

    def __init__(self) -> None:
        super().__init__()
        self.sent, self.has_sent = b"", asyncio.Event()

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def writelines(self, list_of_data: Any) -> None:
        self.sent += b"".join(list_of_data)
        self.has_sent.set()

    def get_write_buffer_size(self) -> int:
        return 0


class Lab:
    """Operations on a storage, with a lease of 75 s by a clock that tests move."""

    def __init__(self, root: Path) -> None:
        self.now, self.known = 0.0, asyncio.Event()
        self.kit = StorageKit(root / "bookie", DurabilityMode.MEMORY)
        self.state = BookieState(ME, clock=lambda: self.now)
        self.state.phase, self.state.lease_until = Phase.SERVING, LEASE_S
        self.operations = Operations(
            self.kit.storage, self.state, reader=ThreadPoolExecutor(1), reads_in_flight_max=9,
            pacing=Pacing(BusyRates(), clock=lambda: 1.0),
            first_fences=FirstFences(self._exists),
        )  # fmt: skip
        self.sessions = Sessions(self.state.traffic, connections_max=9)

    def run_port(self) -> RunConnection:
        connection = RunConnection(RunService(self.operations, self.sessions))
        connection.is_greeted = True
        return connection

    def stock_port(self) -> StockConnection:
        return StockConnection(StockService(self.operations, self.sessions))

    async def _exists(self, _ledger_id: LedgerId) -> bool:
        await self.known.wait()
        return True


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Lab]:
    lab = Lab(tmp_path)
    yield lab
    lab.kit.end()


def hear(connection: Any, sent: bytes) -> None:
    connection.get_buffer(-1)[: len(sent)] = sent
    connection.buffer_updated(len(sent))


def stock_add(ledger: int) -> bytes:
    body = V2Client(None, None).add(ledger, 0)  # type: ignore[arg-type]
    return struct.pack(">i", len(body)) + body


def native_add(ledger: int, entry: int = 0) -> bytes:
    body = KEY + bytes(frame(ledger, entry))
    return ENVELOPE.pack(len(body), Op.ADD_RUN, 0, 0, ledger) + body


@pytest.mark.parametrize("port", ["run", "stock"])
async def test_an_add_that_waited_for_room_is_ruled_on_by_the_lease_as_it_is(
    lab: Lab, port: str
) -> None:
    outbox, is_run = Outbox(), port == "run"
    connection, add = (lab.run_port(), native_add) if is_run else (lab.stock_port(), stock_add)
    connection.connection_made(outbox)
    lab.operations._facts._waiting_max = 1
    with lab.kit.sim.held_syncs():
        hear(connection, add(1))  # its key and note are on their way to the disk
        hear(connection, add(2))  # no room for another fact
        assert connection._blocked and outbox.sent == b""
        lab.now = LEASE_S + 1000  # SIGSTOP, or a machine that was suspended
    lab.kit.pump(lambda: lab.operations._facts.has_room)
    for _ in range(5):
        await asyncio.sleep(0)
    lab.kit.pump(lambda: lab.operations._facts.has_room)
    for _ in range(5):
        await asyncio.sleep(0)
    held = lab.kit.storage.last_entry_id(LedgerId(2))
    assert held == -1, f"stored after its lease, and answered {outbox.sent[-28:].hex()}"


async def test_an_add_that_lay_in_the_socket_is_not_stored_after_the_lease(lab: Lab) -> None:
    connection = lab.run_port()
    connection.connection_made(Outbox())
    hear(connection, native_add(1))
    lab.kit.pump(lambda: lab.operations._facts.are_durable(LedgerId(1)))  # the next needs no ruling
    hear(connection, native_add(1, 1))
    lab.now = LEASE_S + 1000
    hear(connection, native_add(1, 2))
    assert lab.kit.storage.last_entry_id(LedgerId(1)) == 1


@pytest.mark.parametrize("by_read", [False, True])
async def test_a_first_fence_is_ruled_on_by_the_lease_as_it_is(lab: Lab, by_read: bool) -> None:
    told: asyncio.Future[tuple[Status, Any]] = asyncio.get_running_loop().create_future()
    asker = lab.stock_port()

    def then(status: Status, found: Any, _why: str) -> None:
        told.set_result((status, found))

    if by_read:
        wish = ReadRequest(LedgerId(7), EntryId(0), EntryId(0), 1, KEY)
        assert lab.operations.read(asker, wish, fence=True, then=then)
    else:
        lac = LacRequest(LedgerId(7), KEY, EntryId(-1))
        assert lab.operations.read_lac(asker, lac, fence=True, then=then)
    await asyncio.sleep(0)
    lab.now = LEASE_S + 1000  # it sleeps while the metadata store is asked
    lab.known.set()
    for _ in range(5):
        await asyncio.sleep(0)
    if not told.done():
        lab.kit.pump(lambda: lab.operations._facts.are_durable(LedgerId(7)))
    assert await told == (Status.NOT_READY, None)


async def test_a_denial_behind_a_fence_is_judged_by_the_lease_as_it_is(lab: Lab) -> None:
    told: asyncio.Future[tuple[Status, Any]] = asyncio.get_running_loop().create_future()
    asker = lab.run_port()
    asker.connection_made(Outbox())
    hear(asker, native_add(7))
    lab.kit.pump(lambda: lab.operations._facts.are_durable(LedgerId(7)))

    def then(status: Status, found: Any, _why: str) -> None:
        told.set_result((status, found))

    wish = ReadRequest(LedgerId(7), EntryId(5), EntryId(5), 1, KEY)
    with lab.kit.sim.held_syncs():
        assert lab.operations.read(asker, wish, fence=True, then=then)
        lab.now = LEASE_S + 1000  # it sleeps while the fence is written
    lab.kit.pump(lambda: lab.operations._facts.are_durable(LedgerId(7)))
    assert await told == (Status.NOT_READY, None)


async def test_what_was_read_before_it_slept_is_not_answered_with(lab: Lab) -> None:
    told: asyncio.Future[tuple[Status, Any]] = asyncio.get_running_loop().create_future()
    wish = ReadRequest(LedgerId(7), EntryId(5), EntryId(5), 1, KEY)
    asker = lab.run_port()
    asker.connection_made(Outbox())
    hear(asker, native_add(7))
    lab.kit.pump(lambda: lab.operations._facts.are_durable(LedgerId(7)))
    assert lab.operations.read(
        asker, wish, fence=False, then=lambda status, found, _why: told.set_result((status, found))
    )
    lab.now = LEASE_S + 1000  # its reader is in another thread
    assert await told == (Status.NOT_READY, None)


@pytest.mark.parametrize("phase", [Phase.SERVING, Phase.STOPPING])
async def test_a_read_that_its_fence_came_too_late_for_gives_its_place_back(
    lab: Lab, phase: Phase
) -> None:
    """Else a few lapses of the lease would leave no place for any read."""
    asker, told = lab.run_port(), list[Status]()
    asker.connection_made(Outbox())
    for ledger in range(1, 21):  # more than may be under way
        hear(asker, native_add(ledger))
        lab.kit.pump(lambda: lab.operations._facts.are_durable(LedgerId(ledger)))  # noqa: B023
        wish = ReadRequest(LedgerId(ledger), EntryId(5), EntryId(5), 1, KEY)
        with lab.kit.sim.held_syncs():
            assert lab.operations.read(asker, wish, fence=True, then=lambda s, *_: told.append(s))
            lab.now, lab.state.phase = lab.now + LEASE_S * (phase is Phase.SERVING), phase
        lab.kit.pump(lambda: lab.operations._facts.are_durable(LedgerId(ledger)))  # noqa: B023
        lab.state.phase = Phase.SERVING
        lab.state.extend_lease(lab.now + LEASE_S)
    assert told == [Status.NOT_READY] * 20
    assert asker.reads_under_way == asker.reply_bytes == lab.state.traffic.reply_bytes == 0


async def test_what_a_long_poll_ends_in_is_judged_by_the_lease_as_it_is(lab: Lab) -> None:
    outbox = Outbox()
    connection = lab.stock_port()
    connection.connection_made(outbox)
    hear(connection, stock_add(7))
    lab.kit.pump(lambda: lab.operations._facts.are_durable(LedgerId(7)))
    other = lab.stock_port()
    replies = Outbox()
    other.connection_made(replies)
    poll = V3Client(None, None).poll(  # type: ignore[arg-type]
        7, previous=3, timeout_ms=60_000, piggyback=False, entry_id=5
    )
    hear(other, struct.pack(">i", len(poll)) + poll)
    assert lab.state.traffic.long_polls == 1
    lab.now = LEASE_S + 1000
    [wait] = lab.operations._waits._waits[LedgerId(7)]
    lab.operations._waits._finish(wait)  # its timer is the first that is due
    await replies.has_sent.wait()
    answer = V3Client(None, None).parse(replies.sent[4:])  # type: ignore[arg-type]
    assert answer.outcome is Outcome.UNKNOWN_LEDGER_STATE, answer.outcome


async def test_an_add_is_not_acknowledged_by_who_slept_beyond_its_lease(lab: Lab) -> None:
    outbox = Outbox()
    connection = lab.run_port()
    connection.connection_made(outbox)
    with lab.kit.sim.held_syncs():
        hear(connection, native_add(1))  # in memory; its key and note are on their way to the disk
        assert outbox.sent == b""
        lab.now = LEASE_S + 1000
    lab.kit.pump(lambda: lab.operations._facts.are_durable(LedgerId(1)))
    await asyncio.sleep(0)
    status = Status(ENVELOPE.unpack_from(outbox.sent)[2])
    assert status is not Status.OK, "its successor never heard of this entry"
