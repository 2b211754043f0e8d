"""The address book by itself: what it says of bookies that it cannot name."""

import asyncio

import pytest
from bookie.client.addresses import AddressBook
from bookie.errors import UnavailableError
from bookie.ids import BookieId
from bookie.metadata.memory import MemoryStore
from bookie.metadata.store import BOOT_EPOCH_PROPERTY, BookieInfo, Endpoint
from bookie.testing.metadata import FaultyStore
from bookie.wire.identity import Identity

B0 = BookieId("bookie-0")
AT = Endpoint("bookie-run", "host", 1, "bookie-run")


@pytest.fixture
def store() -> FaultyStore:
    return FaultyStore(MemoryStore())


async def registered(store: FaultyStore, *, epoch: str = "1") -> AddressBook:
    await store.initialise()
    await store.register(BookieInfo(B0, (AT,), {BOOT_EPOCH_PROPERTY: epoch}))
    return AddressBook(store, ttl_s=0.0)


@pytest.mark.parametrize(
    ("said", "epoch"), [("7", 7), ("", 0), ("-1", 0), ("x", 0), ("\u0663", 0), ("9" * 99, 0)]
)
async def test_a_registration_names_the_boot_that_is_meant_or_none(
    store: FaultyStore, said: str, epoch: int
) -> None:
    book = await registered(store, epoch=said)
    cluster = await store.initialise()
    assert await book.find(B0) == (AT, Identity(cluster, B0, epoch))


async def test_the_highest_epoch_outlives_registrations(store: FaultyStore) -> None:
    book = await registered(store, epoch="7")
    await book.find(B0)
    await store.unregister(B0)
    with pytest.raises(UnavailableError, match="bookie-0 is not registered"):
        await book.find(B0)
    book.saw(B0, 6)
    assert book.meant(B0).epoch == 7


async def test_who_is_registered_with_other_endpoints_is_not_called_absent(
    store: FaultyStore,
) -> None:
    await registered(store)
    book = AddressBook(store, ttl_s=0.0, endpoint_ids=("bookie-admin-advertised", "bookie-admin"))
    expected = "registered without the endpoint bookie-admin-advertised or bookie-admin"
    with pytest.raises(UnavailableError, match=expected):
        await book.find(B0)
    await store.unregister(B0)
    with pytest.raises(UnavailableError, match="bookie-0 is not registered"):
        await book.find(B0)


async def test_what_the_store_could_not_say_is_not_said_of_the_bookie(store: FaultyStore) -> None:
    book = AddressBook(store, ttl_s=0.0)
    with pytest.raises(UnavailableError, match=r"cannot look up bookie-0: .* holds no cluster yet"):
        await book.find(B0)
    store.is_out = True
    with pytest.raises(UnavailableError, match="cannot look up bookie-0: simulated outage"):
        await book.find(B0)


async def test_the_cluster_is_asked_for_once_and_lookups_go_together(store: FaultyStore) -> None:
    book = await registered(store)
    for _ in range(2):
        await asyncio.gather(*(book.find(B0) for _ in range(9)))
    assert (store.calls.count("instance_id"), store.calls.count("bookies")) == (1, 2)


async def test_a_client_elsewhere_takes_the_advertised_address_where_there_is_one(
    store: FaultyStore,
) -> None:
    elsewhere = Endpoint("bookie-run-advertised", "elsewhere", 2, "bookie-run")
    inside = await registered(store)
    book = AddressBook(store, ttl_s=0.0, endpoint_ids=("bookie-run-advertised", "bookie-run"))
    assert (await book.find(B0)).endpoint == AT
    await store.register(BookieInfo(B0, (elsewhere, AT), {BOOT_EPOCH_PROPERTY: "1"}))
    assert (await book.find(B0)).endpoint == elsewhere
    assert (await inside.find(B0)).endpoint == AT


async def test_of_a_store_that_hangs_nothing_is_said_of_the_bookie(
    store: FaultyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = await registered(store)
    await book.find(B0)
    monkeypatch.setattr("bookie.client.addresses.REFRESH_TIMEOUT_S", 0)
    store.before = lambda _name: asyncio.Event().wait()
    with pytest.raises(UnavailableError, match=r"cannot look up bookie-9: .* in time"):
        await book.find(BookieId("bookie-9"))
    await book.close()
