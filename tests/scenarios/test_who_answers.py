"""A1: bookies of two clusters have the same ids, and the one uses the address of the other.

The proofs of the safety review, on real bookies over both wires: one bookie is cleanly down, its
namesake listens where it was, and nothing that the namesake says or does counts.
"""

import asyncio

import pytest
from bookie.client.bookkeeper_client import Client
from bookie.client.pool import BookiePool
from bookie.frames.build import build_run
from bookie.frames.entry import DigestType, EntryCodec, master_key
from bookie.ids import NO_ENTRY, BookieId, EntryId, LedgerId
from bookie.metadata.memory import MemoryStore
from bookie.metadata.store import MetadataStore
from bookie.protocol.availability import EntrySet
from bookie.protocol.status import Status
from bookie.repair.look.grpc_control import GrpcControl
from bookie.testing.metadata import FaultyStore
from bookie.wire.native import LacRequest, ReadRequest
from town import ENSEMBLE, QUICK, LatePool, Town, new_ledger

B0, B1, B2 = ENSEMBLE
STALE = pytest.mark.parametrize("is_stale", [False, True], ids=["known before", "registered still"])


async def add(
    pool: BookiePool, bookie_id: BookieId, ledger_id: LedgerId, entry_id: int, payload: bytes
) -> Status:
    codec = EntryCodec(ledger_id, DigestType.CRC32C, b"")
    lac = EntryId(entry_id - 1)
    entry = codec.encode(EntryId(entry_id), payload, lac=lac, length=len(payload))
    run = build_run(ledger_id, EntryId(entry_id), [entry], lac=lac)
    answer: asyncio.Future[Status] = asyncio.get_running_loop().create_future()
    pool.add_run(bookie_id, master_key=master_key(b""), frame=run, on_reply=answer.set_result)
    return await answer


async def give_away(town: Town, *, is_stale: bool) -> None:
    """`is_stale`: the store does not know yet that the bookie has gone."""
    gone = await town.give_address("ours", B0, to="theirs")
    if is_stale:
        await town.store("ours").register(gone.info)


async def fence(pool: BookiePool, ledger_id: LedgerId) -> Status:
    request = LacRequest(ledger_id, master_key(b""))
    return (await pool.read_lac(B0, request, fence=True))[0]


async def until(pool: BookiePool, ledger_id: LedgerId, wanted: Status) -> None:
    while await fence(pool, ledger_id) is not wanted:  # noqa: ASYNC110  # another process
        await asyncio.sleep(0.001)


async def end_of(store: MetadataStore, ledger_id: LedgerId) -> int:
    found = (await store.read_ledger(ledger_id)).value
    assert found.is_closed and found.last_entry_id is not None
    return found.last_entry_id


@STALE
async def test_a1_what_was_acknowledged_is_not_truncated_by_a_namesakes_denials(
    town: Town, is_stale: bool
) -> None:
    store = town.store("ours")
    ledger_id = await new_ledger(store)
    pool = LatePool(store, late=B1, others={B0, B2})
    assert [await add(pool, one, ledger_id, 0, b"acked") for one in (B0, B1)] == [Status.OK] * 2
    await give_away(town, is_stale=is_stale)
    async with Client(store, pool) as client:
        reader = await client.recover_ledger(ledger_id)
        assert await end_of(store, ledger_id) == 0, "one bookie was down: within f"
        (entry,) = await reader.read(EntryId(0), EntryId(0))
        assert bytes(entry.payload) == b"acked"
    await pool.close()


@STALE
async def test_a1_a_namesake_gives_readers_nothing_and_its_writers_are_not_fenced(
    town: Town, is_stale: bool
) -> None:
    ours, theirs = town.store("ours"), town.store("theirs")
    ledger_id = await new_ledger(ours)
    pool = BookiePool(ours, settings=QUICK)
    assert await add(pool, B0, ledger_id, 0, b"ours") is Status.OK
    await give_away(town, is_stale=is_stale)
    await new_ledger(theirs)  # of the same id
    writer = BookiePool(theirs, settings=QUICK)
    assert await add(writer, B0, ledger_id, 0, b"theirs") is Status.OK
    for _ in range(3):  # connects, is refused, looks the address up and is refused again
        request = ReadRequest(ledger_id, EntryId(0), EntryId(0), 1 << 20, master_key(b""))
        assert await pool.read(B0, request, fence=True) == (Status.UNREACHABLE, None)
        assert await fence(pool, ledger_id) is Status.UNREACHABLE
    assert await add(writer, B0, ledger_id, 1, b"theirs") is Status.OK, "nobody has fenced it"
    await pool.close()
    await writer.close()


@STALE
async def test_b1_a_namesakes_control_plane_searches_clears_and_records_nothing(
    town: Town, is_stale: bool
) -> None:
    ours = town.store("ours")
    ledger_id = await new_ledger(ours)
    control = GrpcControl(ours)
    assert (await control.availability(B0, [ledger_id]))[ledger_id].denies_absent
    await give_away(town, is_stale=is_stale)
    await new_ledger(town.store("theirs"))
    found = (await control.availability(B0, [ledger_id]))[ledger_id]
    assert found.status is Status.UNREACHABLE and not found.has_searched
    assert (await control.list_marks(B0)).status is Status.UNREACHABLE
    assert (await control.clear(B0, [ledger_id]))[ledger_id].reason == "Unreachable"
    assert not (await control.drain(B0)).accepted
    lost = EntrySet.from_ranges([(0, 0)])
    told = await control.record_loss(
        B0, ledger_id, lost, reason="test", by_person=True, answered_by=[]
    )
    assert not told.accepted
    health = await town.tenants["theirs", B0].bookie.control.health()
    assert (health.losses_recorded, health.state.is_draining) == (0, False)
    await control.close()


async def test_a1_a_store_that_is_away_makes_no_namesake_the_one_meant(town: Town) -> None:
    store = FaultyStore(MemoryStore(town.clusters["ours"]))
    ledger_id = await new_ledger(store)
    pool, control = BookiePool(store, settings=QUICK), GrpcControl(store)
    assert await add(pool, B0, ledger_id, 0, b"ours") is Status.OK
    assert (await control.availability(B0, [ledger_id]))[ledger_id].has_searched
    await give_away(town, is_stale=False)
    store.is_out = True
    for _ in range(3):
        assert await fence(pool, ledger_id) is Status.UNREACHABLE
        assert not (await control.availability(B0, [ledger_id]))[ledger_id].has_searched
    await pool.close()
    await control.close()


async def test_b1_another_bookie_of_the_same_cluster_at_the_address_says_nothing(
    town: Town,
) -> None:
    store = town.store("ours")
    ledger_id = await new_ledger(store)
    pool = BookiePool(store, settings=QUICK)
    assert await add(pool, B0, ledger_id, 0, b"acked") is Status.OK
    gone = await town.stop("ours", B0)
    await town.start("ours", BookieId("bookie-3"), ports=gone.ports)
    await town.store("ours").register(gone.info)
    request = LacRequest(ledger_id, master_key(b""), lac=NO_ENTRY)
    for _ in range(3):
        assert await pool.read_lac(B0, request) == (Status.UNREACHABLE, None)
    await pool.close()


async def test_a1_whoever_comes_back_to_its_address_is_met_again(town: Town) -> None:
    store = town.store("ours")
    ledger_id = await new_ledger(store)
    pool, control = BookiePool(store, settings=QUICK), GrpcControl(store)
    assert await add(pool, B0, ledger_id, 0, b"acked") is Status.OK
    gone = await town.stop("ours", B0)
    await until(pool, ledger_id, Status.UNREACHABLE)
    await town.start("ours", B0, ports=gone.ports)
    await until(pool, ledger_id, Status.OK)
    assert (await control.availability(B0, [ledger_id]))[ledger_id].has_searched
    await pool.close()
    await control.close()
