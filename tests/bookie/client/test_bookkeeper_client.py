"""The client: create, open, recover, delete; what it leaves behind when it is closed."""

import asyncio

import pytest
from bookie.client.bookkeeper_client import CREATE_TRIES_MAX, Client, ClientSettings
from bookie.client.recovery import RecoverySettings
from bookie.errors import (
    BadRequestError,
    BookieError,
    LedgerClosedError,
    LedgerFencedError,
    MetadataConflictError,
    NoSuchLedgerError,
    NotEnoughBookiesError,
    UnauthorizedError,
    UnavailableError,
    UndecidableError,
)
from bookie.frames.entry import DigestType
from bookie.ids import EntryId, LedgerId
from bookie.metadata.memory import MemoryStore
from bookie.protocol.ledger import LedgerState
from writer_lab import WriterLab, error_of


async def lab_of(bookies: int = 3) -> WriterLab:
    lab = WriterLab(bookies)
    await lab.fleet.register(lab.memory)
    return lab


async def test_what_was_asked_for_is_what_is_stored() -> None:
    lab = await lab_of(4)
    writer = await lab.client.create_ledger(
        ensemble_size=4, write_quorum=3, ack_quorum=2, password=b"secret",
        digest_type=DigestType.HMAC, custom={"owner": b"me"},
    )  # fmt: skip
    stored = await lab.stored(writer)
    assert (stored.ensemble_size, stored.write_quorum, stored.ack_quorum) == (4, 3, 2)
    assert (stored.digest_type, stored.password) == (DigestType.HMAC, b"secret")
    assert (stored.custom, stored.state) == ({"owner": b"me"}, LedgerState.OPEN)
    assert set(stored.last_fragment.ensemble) == set(lab.fleet.ids) and stored.ctime_ms > 0


@pytest.mark.parametrize("quorums", [(2, 3, 2), (3, 2, 3), (3, 3, 0), (0, 0, 0)])
async def test_impossible_quorums_are_refused_before_anything_happens(
    quorums: tuple[int, int, int],
) -> None:
    lab = await lab_of()
    with pytest.raises(BadRequestError, match="ensemble >= write >= ack >= 1"):
        await lab.client.create_ledger(
            ensemble_size=quorums[0], write_quorum=quorums[1], ack_quorum=quorums[2]
        )
    assert not lab.store.calls


async def test_more_bookies_than_there_are_is_refused() -> None:
    lab = await lab_of(2)
    with pytest.raises(NotEnoughBookiesError):
        await lab.client.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2)


async def test_ids_taken_by_hand_are_passed_over() -> None:
    lab = await lab_of()
    taken = await lab.writer()

    class OnceTaken(MemoryStore):
        async def new_ledger_id(self) -> LedgerId:
            ids.append(await super().new_ledger_id())
            return taken.ledger_id if len(ids) == 1 else ids[-1]

    ids: list[LedgerId] = []
    client = Client(OnceTaken(lab.memory.cluster), lab.fleet)
    writer = await client.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2)
    assert writer.ledger_id == ids[1] != taken.ledger_id


async def test_ids_that_are_all_taken_are_tried_a_bounded_number_of_times() -> None:
    lab = await lab_of()
    lab.fail_calls(MetadataConflictError("taken"), "create_ledger")
    with pytest.raises(MetadataConflictError, match="taken already"):
        await lab.client.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2)
    assert lab.store.calls.count("create_ledger") == CREATE_TRIES_MAX


async def test_without_a_store_nothing_is_created() -> None:
    lab = await lab_of()
    lab.store.is_out = True
    with pytest.raises(UnavailableError):
        await lab.client.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2)


@pytest.mark.parametrize("digest_type", list(DigestType))
@pytest.mark.parametrize("quorums", [(3, 3, 2), (3, 2, 2), (4, 2, 1), (1, 1, 1)])
async def test_what_is_written_is_read(
    digest_type: DigestType, quorums: tuple[int, int, int]
) -> None:
    lab = await lab_of(4)
    ensemble, write, ack = quorums
    writer = await lab.client.create_ledger(
        ensemble_size=ensemble, write_quorum=write, ack_quorum=ack, password=b"pw",
        digest_type=digest_type,
    )  # fmt: skip
    payloads = [b"%d" % number * number for number in range(20)]
    await writer.wait_acked(writer.append_many(payloads))
    await writer.close()
    reader = await lab.client.open_ledger(writer.ledger_id, password=b"pw")
    read = await reader.read(EntryId(0), EntryId(19))
    assert [entry.payload for entry in read] == payloads and reader.is_closed


async def test_a_reader_does_not_disturb_the_writer() -> None:
    lab = await lab_of()
    writer = await lab.writer()
    await writer.append(b"a")
    reader = await lab.client.open_ledger(writer.ledger_id)
    assert not reader.is_closed
    await reader.read_lac()
    assert await writer.append(b"b") == 1


async def test_a_recovery_cuts_the_writer_off_and_keeps_what_was_acked() -> None:
    lab = await lab_of()
    writer = await lab.writer()
    await writer.append(b"a")
    reader = await lab.client.recover_ledger(writer.ledger_id)
    assert (reader.is_closed, reader.last_entry_id) == (True, 0)
    assert isinstance(await error_of(writer.append(b"b")), LedgerFencedError)


async def test_a_client_recovers_as_its_settings_say() -> None:
    lab = await lab_of()
    writer = await lab.writer()
    lab.down()
    settings = ClientSettings(recovery=RecoverySettings(attempts=3, backoff_s=0))
    client = Client(lab.store, lab.fleet, settings=settings)
    with pytest.raises(UndecidableError):
        await client.recover_ledger(writer.ledger_id)
    assert lab.store.calls.count("read_ledger") == 3


async def test_a_wrong_password_recovers_nothing() -> None:
    lab = await lab_of()
    writer = await lab.client.create_ledger(
        ensemble_size=3, write_quorum=3, ack_quorum=2, password=b"right"
    )
    await writer.append(b"a")
    with pytest.raises(UnauthorizedError):
        await lab.client.recover_ledger(writer.ledger_id, password=b"wrong")
    assert await writer.append(b"b") == 1


async def test_a_deleted_ledger_is_gone() -> None:
    lab = await lab_of()
    writer = await lab.writer()
    await lab.client.delete_ledger(writer.ledger_id)
    for call in (lab.client.delete_ledger, lab.client.open_ledger, lab.client.recover_ledger):
        with pytest.raises(NoSuchLedgerError):
            await call(writer.ledger_id)


async def test_a_closed_client_abandons_its_writers() -> None:
    lab = await lab_of()
    async with lab.client:
        writer = await lab.writer()
        lab.down()
        future = writer.append(b"x")
    assert isinstance(await error_of(future), LedgerClosedError)
    assert not (await lab.stored(writer)).is_closed


async def test_a_client_of_its_own_connections_closes_them() -> None:
    store = MemoryStore()
    async with Client(store) as client:
        with pytest.raises(BookieError):
            await client.create_ledger(ensemble_size=1, write_quorum=1, ack_quorum=1)
    assert len(asyncio.all_tasks()) == 1
