"""One suite for both control planes: in memory, and the same served over real gRPC."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from bookie.frames.build import build_run
from bookie.frames.entry import DigestType, EntryCodec, master_key
from bookie.ids import NO_ENTRY, BookieId, EntryId, LedgerId
from bookie.metadata.memory import MemoryStore
from bookie.metadata.store import ADMIN_ENDPOINT, BookieInfo, Endpoint, MetadataStore
from bookie.protocol.availability import EMPTY, EntrySet
from bookie.protocol.ledger import Fragment, LedgerMetadata, LedgerState
from bookie.protocol.status import Status
from bookie.repair.look.bookie_control import BookieControl, Marks
from bookie.repair.look.grpc_control import CALLS_MAX, AdminSettings, GrpcControl
from bookie.testing.admin_service import served_control
from bookie.testing.certificates import Authority
from bookie.testing.control import FakeControl
from bookie.testing.fleet import FakeFleet
from bookie.testing.metadata import FaultyStore
from bookie.tls.environment import DIRECTORY_VARIABLE, MODE_VARIABLE
from bookie.tls.principals import Role
from bookie.wire.admin import bookie_admin_pb2 as pb
from bookie.wire.admin.bookie_admin_pb2_grpc import (
    BookieAdminServicer,
    add_BookieAdminServicer_to_server,
)
from bookie.wire.admin.client import Dial, dial_with
from bookie.wire.admin.request_answer import RequestAnswer
from bookie.wire.identity import Identity
from dead_channels import DeadChannels

SETTINGS = AdminSettings(deadline_s=5.0, slow_deadline_s=5.0)
LEDGER = LedgerId(3)


@pytest.fixture
def fleet() -> FakeFleet:
    return FakeFleet(3)


@pytest.fixture
def store() -> MetadataStore:
    return MemoryStore()


@pytest.fixture(params=["memory", "grpc"])
async def control(
    request: pytest.FixtureRequest, fleet: FakeFleet, store: MetadataStore
) -> AsyncIterator[BookieControl]:
    fake = FakeControl(fleet, store)
    if request.param == "memory":
        yield fake
        return
    async with served_control(fake, marks_per_page=2):
        client = GrpcControl(store, settings=SETTINGS)
        yield client
        await client.close()


def put(fleet: FakeFleet, number: int, first: int, count: int, *, flush: bool = False) -> None:
    codec = EntryCodec(LEDGER, DigestType.CRC32C, b"")
    bodies = [
        codec.encode(EntryId(i), b"x", lac=EntryId(i - 1), length=i + 1)
        for i in range(first, first + count)
    ]
    frame = build_run(LEDGER, EntryId(first), bodies, lac=NO_ENTRY)
    assert fleet[number].add_run(master_key(b""), frame) is Status.OK
    if flush:
        fleet[number].flush()


async def closed_ledger(fleet: FakeFleet, store: MetadataStore, *, last: int) -> None:
    fragment = Fragment(EntryId(0), tuple(fleet.ids))
    await store.create_ledger(
        LedgerMetadata(
            LEDGER, 3, 3, 2, (fragment,), state=LedgerState.CLOSED, last_entry_id=EntryId(last)
        )
    )


async def test_marks_come_in_rising_order_over_all_pages(
    control: BookieControl, fleet: FakeFleet
) -> None:
    for ledger_id in (9, 2, 5, 7, 4):
        fleet[0].mark(LedgerId(ledger_id), limbo=ledger_id % 2 == 1, unchecked=True)
    found = await control.list_marks(fleet.ids[0])
    assert found.status is Status.OK
    assert [(m.ledger_id, m.limbo) for m in found.marks] == [
        (2, False), (4, False), (5, True), (7, True), (9, True),
    ]  # fmt: skip


class Going(FakeControl):
    """The bookies go away once `pages` of marks are told."""

    pages = 0

    async def list_marks(self, bookie_id: BookieId) -> Marks:
        self.pages -= 1
        self.fleet[bookie_id].down = self.pages < 0
        return await super().list_marks(bookie_id)


@pytest.mark.parametrize("pages", range(4))
async def test_marks_are_all_only_if_every_page_came(
    fleet: FakeFleet, store: MetadataStore, pages: int
) -> None:
    fake = Going(fleet, store)
    fake.pages = pages
    for ledger_id in range(5):
        fleet[0].mark(LedgerId(ledger_id), limbo=True)
    async with served_control(fake, marks_per_page=2):
        client = GrpcControl(store, settings=SETTINGS)
        found = await client.list_marks(fleet.ids[0])
        await client.close()
    assert (found.status is Status.OK) is (pages == 3)
    assert [mark.ledger_id for mark in found.marks] == list(range(min(2 * pages, 5)))


async def test_availability_tells_entries_lac_and_absent_ledgers(
    control: BookieControl, fleet: FakeFleet
) -> None:
    put(fleet, 0, 0, 5)
    found = await control.availability(fleet.ids[0], [LEDGER, LedgerId(99)])
    assert found[LEDGER].entries == EntrySet.from_ranges([(0, 4)])
    assert (found[LEDGER].status, found[LEDGER].lac) == (Status.OK, 3)
    assert found[LedgerId(99)].status is Status.NO_SUCH_LEDGER
    assert found[LedgerId(99)].denies_absent


async def test_s42_a_limbo_bookie_shows_what_is_there_and_denies_nothing(
    control: BookieControl, fleet: FakeFleet
) -> None:
    put(fleet, 0, 0, 2)
    fleet[0].mark(LEDGER, limbo=True)
    holding = (await control.availability(fleet.ids[0], [LEDGER]))[LEDGER]
    assert holding.limbo and not holding.denies_absent and holding.has_searched
    assert len(holding.entries) == 2


async def test_a_bookie_that_is_down_is_an_answer(control: BookieControl, fleet: FakeFleet) -> None:
    fleet[1].down = True
    bookie_id = fleet.ids[1]
    assert (await control.list_marks(bookie_id)).status is Status.UNREACHABLE
    holding = (await control.availability(bookie_id, [LEDGER]))[LEDGER]
    assert holding.status is Status.UNREACHABLE and not holding.has_searched
    assert await control.flush(bookie_id) is Status.UNREACHABLE


async def test_a_bookie_nobody_knows_is_unreachable(control: BookieControl) -> None:
    stranger = BookieId("stranger")
    assert (await control.list_marks(stranger)).status is Status.UNREACHABLE
    cleared = (await control.clear(stranger, [LEDGER]))[LEDGER]
    assert (cleared.cleared, cleared.reason) == (False, "Unreachable")


async def test_clear_needs_the_entries_to_be_there_and_synced(
    control: BookieControl, fleet: FakeFleet, store: MetadataStore
) -> None:
    await closed_ledger(fleet, store, last=4)
    fleet[0].mark(LEDGER, limbo=True)
    fleet[0].ledgers[LEDGER].fenced = False
    put_recovered(fleet, 5)
    assert (await control.clear(fleet.ids[0], [LEDGER]))[LEDGER].reason == "EntriesMissing"
    assert await control.flush(fleet.ids[0]) is Status.OK
    assert (await control.clear(fleet.ids[0], [LEDGER]))[LEDGER].cleared
    assert (await control.clear(fleet.ids[0], [LEDGER]))[LEDGER].is_done


def put_recovered(fleet: FakeFleet, count: int) -> None:
    ledger = fleet[0].ledgers[LEDGER]
    codec = EntryCodec(LEDGER, DigestType.CRC32C, b"")
    for i in map(EntryId, range(count)):
        ledger.entries[i] = codec.encode(i, b"x", lac=NO_ENTRY, length=1)


async def test_a_recorded_loss_is_shown_with_the_availability(
    control: BookieControl, fleet: FakeFleet, store: MetadataStore
) -> None:
    await closed_ledger(fleet, store, last=9)
    put(fleet, 0, 0, 2)
    lost = EntrySet.from_ranges([(2, 3), (7, 7)])
    answer = await control.record_loss(
        fleet.ids[0], LEDGER, lost, reason="test", by_person=False, answered_by=fleet.ids
    )
    assert answer.accepted
    holding = (await control.availability(fleet.ids[0], [LEDGER]))[LEDGER]
    assert holding.lost == lost
    assert (await control.availability(fleet.ids[0], [LedgerId(8)]))[LedgerId(8)].lost == EMPTY


async def test_a_loss_is_taken_back_of_what_is_named_and_of_all(
    control: BookieControl, fleet: FakeFleet, store: MetadataStore
) -> None:
    await closed_ledger(fleet, store, last=9)
    put(fleet, 0, 0, 2)
    lost = EntrySet.from_ranges([(2, 3), (7, 7)])
    first = fleet.ids[0]
    await control.record_loss(
        first, LEDGER, lost, reason="test", by_person=False, answered_by=fleet.ids
    )
    some, by = EntrySet.from_ranges([(3, 5)]), {"by": "ann", "reason": "wrong"}
    assert await control.retract_loss(first, LEDGER, some, **by) == (True, "", 1, True)
    assert await control.retract_loss(first, LEDGER, EMPTY, **by) == (True, "", 2, True)
    holding = (await control.availability(first, [LEDGER]))[LEDGER]
    assert holding.lost == EMPTY and holding.status is Status.UNKNOWN


async def test_another_bookie_at_the_address_answers_nothing_and_is_changed_by_nothing(
    fleet: FakeFleet, store: MetadataStore
) -> None:
    fake = FakeControl(fleet, store)
    put(fleet, 1, 0, 3)
    async with served_control(fake) as ports:
        endpoint = Endpoint(ADMIN_ENDPOINT, "127.0.0.1", ports[fleet.ids[1]], "grpc")
        await store.register(BookieInfo(fleet.ids[0], (endpoint,)))
        client = GrpcControl(store, settings=SETTINGS)
        answer = await client.availability(fleet.ids[0], [LEDGER])
        assert answer[LEDGER].status is Status.UNREACHABLE
        assert await client.flush(fleet.ids[0]) is Status.UNREACHABLE
        assert (await client.list_marks(fleet.ids[0])).message.startswith("this is bookie")
        await client.close()
    assert fake.asked == []


@pytest.mark.parametrize(
    "other", [{"cluster": "another"}, {"bookie": "bookie-9"}, {"epoch": 1}, {"epoch": 0}, None]
)
async def test_a1_a_reply_of_another_process_is_no_answer(
    fleet: FakeFleet, store: MetadataStore, other: dict[str, Any] | None
) -> None:
    """Whatever its guard let through, or had it none."""
    own = Identity(await store.initialise(), fleet.ids[0], 2)
    told = () if other is None else replace(own, **other).to_metadata()

    async def answer(_request: Any, context: Any) -> pb.GetAvailabilityReply:
        await context.send_initial_metadata(told)
        denied = pb.LedgerAvailability(ledger_id=LEDGER, status=Status.NO_SUCH_LEDGER)
        return pb.GetAvailabilityReply(ledgers=[denied])

    service = BookieAdminServicer()
    service.GetAvailability = answer  # type: ignore[method-assign]
    server = grpc.aio.server()
    add_BookieAdminServicer_to_server(service, server)  # type: ignore[no-untyped-call]
    there, own_id = at(server.add_insecure_port("127.0.0.1:0")), fleet.ids[0]
    await store.register(BookieInfo(own_id, (there,), {"bootEpoch": "2"}))
    await server.start()
    client = GrpcControl(store, settings=SETTINGS)
    assert (await client.availability(own_id, [LEDGER]))[LEDGER].status is Status.UNREACHABLE
    told = own.to_metadata()
    assert (await client.availability(own_id, [LEDGER]))[LEDGER].denies_absent
    await client.close()
    await server.stop(None)


def at(port: int) -> Endpoint:
    return Endpoint(ADMIN_ENDPOINT, "127.0.0.1", port, "grpc")


@asynccontextmanager
async def silent() -> AsyncIterator[tuple[Endpoint, asyncio.Semaphore]]:
    """The control plane of a bookie that never answers, and what counts the calls that came."""
    calls = asyncio.Semaphore(0)

    async def hang(_request: Any, _context: Any) -> None:
        calls.release()
        await asyncio.Event().wait()

    service = BookieAdminServicer()
    service.Flush = hang  # type: ignore[method-assign]
    server = grpc.aio.server()
    add_BookieAdminServicer_to_server(service, server)  # type: ignore[no-untyped-call]
    there = at(server.add_insecure_port("127.0.0.1:0"))
    await server.start()
    yield there, calls
    await server.stop(None)


async def test_a_call_under_way_to_an_address_that_was_left_is_unreachable(
    fleet: FakeFleet, store: MetadataStore
) -> None:
    bookie_id = fleet.ids[0]
    async with served_control(FakeControl(fleet, store)) as ports, silent() as (there, calls):
        await store.register(BookieInfo(bookie_id, (there,)))
        client = GrpcControl(store, settings=replace(SETTINGS, address_ttl_s=0.0))
        under_way = asyncio.create_task(client.flush(bookie_id))
        await calls.acquire()
        await store.register(BookieInfo(bookie_id, (at(ports[bookie_id]),)))
        assert await client.flush(bookie_id) is Status.OK
        assert await under_way is Status.UNREACHABLE, "and its task was not cancelled"
        await client.close()


async def test_a_call_that_waited_for_others_to_an_address_that_was_left_goes_to_the_new_one(
    fleet: FakeFleet, store: MetadataStore
) -> None:
    bookie_id = fleet.ids[0]
    async with served_control(FakeControl(fleet, store)) as ports, silent() as (there, calls):
        await store.register(BookieInfo(bookie_id, (there,)))
        client = GrpcControl(store, settings=replace(SETTINGS, address_ttl_s=0.0))
        asked = [asyncio.create_task(client.flush(bookie_id)) for _ in range(CALLS_MAX + 1)]
        for _ in range(CALLS_MAX):
            await calls.acquire()
        await store.register(BookieInfo(bookie_id, (at(ports[bookie_id]),)))
        assert await client.flush(bookie_id) is Status.OK
        assert await asyncio.gather(*asked) == [Status.UNREACHABLE] * CALLS_MAX + [Status.OK]
        await client.close()


async def test_calls_that_find_a_new_address_at_once_share_one_connection(
    store: MetadataStore,
) -> None:
    await store.initialise()
    bookie_id, channels = BookieId("bookie-0"), DeadChannels()
    settings = replace(SETTINGS, address_ttl_s=0.0)
    client = GrpcControl(store, settings=settings, dial=lambda _has_tls: channels.dial)
    for port in (1, 2):
        await store.register(BookieInfo(bookie_id, (at(port),)))
        await asyncio.gather(*(client.flush(bookie_id) for _ in range(3)))
    assert (len(channels), channels.open_count) == (2, 1)
    await client.close()
    assert channels.open_count == 0


async def test_a1_an_address_whose_bookie_is_not_registered_is_forgotten(
    fleet: FakeFleet, store: MetadataStore
) -> None:
    known = FaultyStore(store)
    async with served_control(FakeControl(fleet, store)):
        client = GrpcControl(known, settings=replace(SETTINGS, address_ttl_s=0.0))
        bookie_id = fleet.ids[0]
        assert await client.flush(bookie_id) is Status.OK
        known.is_out = True
        assert await client.flush(bookie_id) is Status.OK, "a store that is away changes nothing"
        known.is_out = False
        await store.unregister(bookie_id)
        assert await client.flush(bookie_id) is Status.UNREACHABLE
        assert "is not registered" in (await client.list_marks(bookie_id)).message
        await client.close()


async def test_a_bookie_drains_until_it_is_cancelled(
    control: BookieControl, fleet: FakeFleet
) -> None:
    bookie_id = fleet.ids[1]
    assert await control.is_draining(bookie_id) is False
    assert (await control.drain(bookie_id)).accepted
    assert await control.is_draining(bookie_id) is True and fleet[1].read_only
    assert (await control.drain(bookie_id, cancel=True)).accepted
    assert await control.is_draining(bookie_id) is False


async def test_a_bookie_with_marks_refuses_to_drain_and_a_silent_one_is_unknown(
    control: BookieControl, fleet: FakeFleet
) -> None:
    fleet[1].mark(LEDGER, limbo=True)
    assert await control.drain(fleet.ids[1]) == RequestAnswer(False, "bookie-1 has marks")
    fleet[1].down = True
    assert await control.is_draining(fleet.ids[1]) is None
    assert not (await control.drain(fleet.ids[1])).accepted


@pytest.mark.parametrize(("mode", "status"), [("Accepted", Status.OK), ("", Status.UNREACHABLE)])
async def test_a_bookie_without_tls_is_asked_in_plain_where_that_is_accepted(
    fleet: FakeFleet,
    store: MetadataStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mode: str,
    status: Status,
) -> None:
    authority = await asyncio.to_thread(Authority.make, tmp_path, "fleet")
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(authority.sign("job", Role.JOB).folder))
    monkeypatch.setenv(MODE_VARIABLE, mode)
    async with served_control(FakeControl(fleet, store)):
        client = GrpcControl(store, settings=SETTINGS)
        assert await client.flush(fleet.ids[0]) is status
        await client.close()


async def test_a_bookie_that_comes_back_with_tls_at_its_address_is_dialled_anew(
    fleet: FakeFleet, store: MetadataStore
) -> None:
    dialled: list[bool] = []

    def dial(has_tls: bool) -> Dial:
        dialled.append(has_tls)
        return dial_with(None)

    async with served_control(FakeControl(fleet, store)) as ports:
        one, there = fleet.ids[0], at(ports[fleet.ids[0]])
        client = GrpcControl(store, settings=replace(SETTINGS, address_ttl_s=0.0), dial=dial)
        for endpoint in (there, there, replace(there, auth=("tls",))):
            await store.register(BookieInfo(one, (endpoint,)))
            assert await client.flush(one) is Status.OK
        await client.close()
    assert dialled == [False, True]
