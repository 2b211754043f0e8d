"""The store that fails on demand."""

import asyncio

import pytest
from bookie.errors import MetadataConflictError, NoSuchLedgerError, UnavailableError
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.metadata.memory import MemoryStore
from bookie.metadata.store import StoredBoot
from bookie.protocol.ledger import Fragment, LedgerMetadata
from bookie.testing.metadata import FaultyStore

L1, B0 = LedgerId(1), BookieId("b0")
LEDGER = LedgerMetadata(
    ledger_id=L1,
    ensemble_size=1,
    write_quorum=1,
    ack_quorum=1,
    fragments=(Fragment(EntryId(0), (B0,)),),
)


@pytest.fixture
def store() -> FaultyStore:
    return FaultyStore(MemoryStore())


async def test_an_outage_stops_everything_before_it_happens(store: FaultyStore) -> None:
    store.is_out = True
    for asking in (store.create_ledger(LEDGER), anext(store.ledger_ids()), store.bookies()):
        with pytest.raises(UnavailableError):
            await asking
    store.is_out = False
    assert [found async for found in store.ledger_ids()] == []


async def test_a_lost_reply_did_happen(store: FaultyStore) -> None:
    store.lost_replies = 1
    with pytest.raises(UnavailableError, match="did happen"):
        await store.write_boot(B0, StoredBoot(1), version=None)
    with pytest.raises(MetadataConflictError):
        await store.write_boot(B0, StoredBoot(1), version=None)


async def test_frozen_reads_lag_behind_until_thawed(store: FaultyStore) -> None:
    await store.freeze_ledgers()
    created = await store.create_ledger(LEDGER)
    assert [found async for found in store.ledger_ids()] == []
    with pytest.raises(NoSuchLedgerError):
        await store.read_ledger(L1)
    store.thaw()
    assert await store.read_ledger(L1) == created


async def test_a_hook_lets_somebody_go_first(store: FaultyStore) -> None:
    created = await store.create_ledger(LEDGER)

    async def first(name: str) -> None:
        if name == "write_ledger":
            await store.inner.write_ledger(created.value.in_recovery(), version=0)

    store.before = first
    with pytest.raises(MetadataConflictError):
        await store.write_ledger(created.value, version=created.version)
    await asyncio.gather(store.read_ledger(L1), store.instance_id())
    assert store.calls[-2:] == ["read_ledger", "instance_id"]


async def test_a_late_write_happens_when_it_lands(store: FaultyStore) -> None:
    store.late_writes = 1
    with pytest.raises(UnavailableError, match="may happen yet"):
        await store.write_boot(B0, StoredBoot(1), version=None)
    assert await store.read_boot(B0) is None
    await store.land()
    assert await store.read_boot(B0) is not None
