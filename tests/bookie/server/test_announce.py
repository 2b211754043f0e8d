"""What the registration says when the metadata store does not say what became of a write."""

import asyncio
from itertools import product

import pytest
from bookie.ids import BookieId
from bookie.metadata.memory import MemoryCluster, MemoryStore
from bookie.metadata.store import TLS_AUTH
from bookie.server.advertised import endpoints_of
from bookie.server.announce import Announcer
from bookie.server.state import BookieState, Phase, ReadOnlyReason
from bookie.testing.metadata import FaultyStore

BOOKIE = BookieId("bookie-1")


async def announced() -> tuple[Announcer, BookieState, FaultyStore]:
    """A bookie that serves and is registered as writable."""
    store = FaultyStore(MemoryStore(MemoryCluster()))
    state = BookieState(BOOKIE, phase=Phase.SERVING)
    announcer = Announcer(store, state, host="h", ports={"run": 1}, boot_epoch=1)
    await announcer.announce()
    return announcer, state, store


async def switched(announcer: Announcer, state: BookieState, *, read_only: bool) -> None:
    state.switch_read_only(ReadOnlyReason.PERSON, read_only)
    await announcer.announce()


async def test_a_rack_that_is_known_after_the_first_announcement_is_announced() -> None:
    store = FaultyStore(MemoryStore(MemoryCluster()))
    state, racks = BookieState(BOOKIE, phase=Phase.SERVING), [None, None, "/zone-a", "/zone-b"]
    announcer = Announcer(
        store, state, host="h", ports={"run": 1}, boot_epoch=1, rack=lambda: racks.pop(0)
    )
    found = []
    for _ in range(4):
        await announcer.announce()
        found.append((await store.bookies())[BOOKIE].rack)
    assert found == ["/default-rack", "/default-rack", "/zone-a", "/zone-b"]


async def test_a_change_taken_back_after_its_reply_was_lost_is_announced_again() -> None:
    announcer, state, store = await announced()
    store.lost_replies = 1
    await switched(announcer, state, read_only=True)
    await switched(announcer, state, read_only=False)
    assert not (await store.bookies())[BOOKIE].read_only


async def test_what_an_announcement_without_a_reply_says_is_not_known() -> None:
    announcer, state, store = await announced()
    await switched(announcer, state, read_only=True)
    assert announcer.is_read_only
    store.lost_replies = 1
    await switched(announcer, state, read_only=False)
    assert not announcer.is_read_only


async def test_a_stock_client_finds_the_advertised_address_before_the_bookies_own() -> None:
    store = FaultyStore(MemoryStore(MemoryCluster()))
    state = BookieState(BOOKIE, phase=Phase.SERVING)
    known = [(), endpoints_of({"stock": "elsewhere:31811", "run": "elsewhere:31812"})]
    announcer = Announcer(
        store, state, host="h", ports={"run": 1, "stock": 2}, boot_epoch=1, advertised=known.pop
    )
    await announcer.announce()
    endpoints = (await store.bookies())[BOOKIE].endpoints
    assert [(one.protocol, one.host) for one in endpoints] == [
        *(("bookie-rpc", "elsewhere"), ("bookie-run", "elsewhere")),
        *(("bookie-rpc", "h"), ("bookie-run", "h")),
    ]
    await announcer.announce()
    assert [one.host for one in (await store.bookies())[BOOKIE].endpoints] == ["h", "h"]


@pytest.mark.parametrize(("before", "behind"), [*product(range(3), repeat=2)])
async def test_whatever_is_announced_beside_a_withdrawal_is_withdrawn(
    before: int, behind: int
) -> None:
    announcer, state, store = await announced()
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def slow(name: str) -> None:
        if name == "register":
            reached.set()
            await go_on.wait()

    store.before = slow
    state.switch_read_only(ReadOnlyReason.PERSON, True)
    changes = [asyncio.create_task(announcer.announce()) for _ in range(before)]
    if changes:
        await reached.wait()
    state.phase = Phase.STOPPING
    changes.append(asyncio.create_task(announcer.withdraw()))
    changes += [asyncio.create_task(announcer.announce()) for _ in range(behind)]
    await asyncio.sleep(0)
    go_on.set()
    await asyncio.gather(*changes)
    assert BOOKIE not in await store.bookies()


@pytest.mark.parametrize(("has_tls", "auth"), [(True, (TLS_AUTH,)), (False, ())])
async def test_only_a_bookie_under_tls_says_that_clients_need_it(
    has_tls: bool, auth: tuple[str, ...]
) -> None:
    store, state = MemoryStore(MemoryCluster()), BookieState(BOOKIE, phase=Phase.SERVING)
    ports = {"stock": 1, "run": 2, "admin": 3}
    await Announcer(store, state, host="h", ports=ports, boot_epoch=1, has_tls=has_tls).announce()
    endpoints = (await store.bookies())[BOOKIE].endpoints
    assert [one.auth for one in endpoints] == [auth] * len(ports)
