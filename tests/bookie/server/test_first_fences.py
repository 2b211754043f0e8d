"""A9: a fence of a ledger that does not exist leaves nothing behind; of one that does, all."""

import asyncio

import pytest
from bookie.errors import MetadataFormatError, NoSuchLedgerError, UnavailableError
from bookie.ids import LedgerId
from bookie.metadata.memory import MemoryCluster, MemoryStore
from bookie.metadata.store import Versioned
from bookie.protocol.admission import UNCONFIRMED_FENCES_MAX, rule_first_fence
from bookie.protocol.ledger import LedgerMetadata
from bookie.protocol.status import Status
from bookie.server.first_fences import LOOKUPS_MAX, FirstFences, in_store
from server_lab import ServerLab

L7 = LedgerId(7)


async def turns() -> None:
    """Every lookup that can end has ended."""
    for _ in range(10):
        await asyncio.sleep(0)


def held(server: ServerLab) -> list[LedgerId]:
    assert server.bookie is not None and server.bookie.control.booted is not None
    return server.bookie.control.booted.storage.ledger_ids()


@pytest.mark.parametrize("by_read", [False, True])
async def test_a9_a_fence_of_an_id_that_nobody_has_leaves_no_record(
    server: ServerLab, by_read: bool
) -> None:
    nobodys = LedgerId(await server.store.new_ledger_id() + 1)
    for ledger in (nobodys, *map(LedgerId, range(1000, 1020))):
        if by_read:
            status = (await server.read(ledger, 0, 0, fence=True))[0]
        else:
            status = await server.fence(ledger)
        assert status is Status.BAD_REQUEST and not status.is_known
    assert held(server) == []
    assert await server.ledger() == nobodys and await server.add(nobodys, 0) is Status.OK


@pytest.mark.parametrize("by_read", [False, True])
async def test_a9_a_ledger_that_exists_is_fenced_though_nothing_of_it_is_here(
    server: ServerLab, by_read: bool
) -> None:
    ledger = await server.ledger()
    answer = server.read(ledger, 0, 0, fence=True) if by_read else server.lac(ledger, fence=True)
    assert (await answer)[0] is Status.OK
    assert await server.add(ledger, 0) is Status.FENCED


async def test_a9_a_recovery_need_not_wait_for_this_bookies_own_connection_to_the_store(
    server: ServerLab,
) -> None:
    ledger = await server.ledger()
    server.metadata.is_out = True
    assert await server.fence(ledger) is Status.OK
    assert await server.add(ledger, 0) is Status.FENCED


def test_a9_fences_that_nobody_could_look_up_are_bounded() -> None:
    most = UNCONFIRMED_FENCES_MAX
    asked = {exists: rule_first_fence(exists, unconfirmed=most) for exists in (True, False, None)}
    assert asked == {True: Status.OK, False: Status.BAD_REQUEST, None: Status.OVERLOADED}
    assert rule_first_fence(None, unconfirmed=most - 1) is Status.OK


async def test_a9_lookups_are_bounded_and_what_is_unseen_counts_until_the_store_is_back() -> None:
    away = asyncio.Event()

    async def exists(_ledger_id: LedgerId) -> bool:
        await away.wait()
        raise UnavailableError("away")

    fences, told = FirstFences(exists), list[Status]()
    for number in range(LOOKUPS_MAX + 1):
        fences.ask(LedgerId(number), lambda: told.append(Status.OK), told.append)
    assert told == [Status.OVERLOADED]
    away.set()
    for _ in range(UNCONFIRMED_FENCES_MAX // LOOKUPS_MAX):
        await turns()
        for number in range(LOOKUPS_MAX):
            fences.ask(LedgerId(len(told) + number), lambda: told.append(Status.OK), told.append)
    await turns()
    assert told.count(Status.OK) == UNCONFIRMED_FENCES_MAX
    fences.confirm()
    fences.ask(L7, lambda: told.append(Status.NOT_READY), told.append)
    await turns()
    assert told[-1] is Status.NOT_READY, "fenced again"
    fences.end()


class Misread(MemoryStore):
    """A store whose answer to a read of a ledger is this error; None: the ledger."""

    def __init__(self, error: Exception | None) -> None:
        super().__init__(MemoryCluster())
        self.error = error

    async def read_ledger(self, ledger_id: LedgerId) -> Versioned[LedgerMetadata]:
        if self.error is not None:
            raise self.error
        return Versioned(LedgerMetadata(ledger_id, 1, 1, 1, ()), 0)


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (None, Status.OK),
        (NoSuchLedgerError(L7), Status.BAD_REQUEST),
        (MetadataFormatError("what cannot be read exists all the same"), Status.OK),
        (UnavailableError("away"), Status.OK),
        (TimeoutError("no answer in time"), Status.OK),
    ],
)
async def test_a9_whatever_becomes_of_a_lookup_the_fence_is_answered_once(
    error: Exception | None, answer: Status
) -> None:
    fences, told = FirstFences(in_store(Misread(error))), list[Status]()
    fences.ask(L7, lambda: told.append(Status.OK), told.append)
    await turns()
    assert told == [answer]
    fences.ask(L7, lambda: False, told.append)
    await turns()
    assert told == [answer, answer if answer is not Status.OK else Status.OVERLOADED]


async def test_a9_fences_of_ledgers_that_exist_and_cannot_be_read_are_not_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fences, told = FirstFences(in_store(Misread(MetadataFormatError("garbled")))), list[Status]()
    for number in range(UNCONFIRMED_FENCES_MAX + 1):
        fences.ask(LedgerId(number), lambda: told.append(Status.OK), told.append)
        await turns()
    assert told == [Status.OK] * (UNCONFIRMED_FENCES_MAX + 1)
    assert "could not be looked up" not in caplog.text


async def test_a9_a_store_that_is_silent_holds_no_fence_up_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bookie.server.first_fences.LOOKUP_S", 0.0)

    async def silent(_ledger_id: LedgerId) -> bool:
        return await asyncio.get_running_loop().create_future()

    fences, told = FirstFences(silent), list[Status]()
    fences.ask(L7, lambda: told.append(Status.OK), told.append)
    await turns()
    assert told == [Status.OK]
