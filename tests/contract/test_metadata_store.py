"""The metadata contract: every claim holds in memory and on a real ZooKeeper, TLS or not."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import pytest
from bookie.errors import (
    MetadataConflictError,
    MetadataFormatError,
    NoSuchLedgerError,
    UnavailableError,
)
from bookie.frames.entry import DigestType
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.metadata.layout import ledger_path
from bookie.metadata.memory import MemoryStore
from bookie.metadata.opening import open_store
from bookie.metadata.store import (
    BookieInfo,
    Cookie,
    Endpoint,
    MetadataStore,
    StoredBoot,
    UnderreplicationMark,
    Unreadable,
    Versioned,
)
from bookie.metadata.zookeeper import ZooKeeperStore
from bookie.protocol.ledger import Fragment, LedgerMetadata

B0, B1, B2 = (BookieId(f"bookie-{number}:3181") for number in range(3))
RUN = Endpoint("bookie-run", "host-a", 3182, "bookie-run")

OpenAnother = Callable[[], Awaitable[MetadataStore]]


def ledger(ledger_id: int, **changes: object) -> LedgerMetadata:
    plain = LedgerMetadata(
        ledger_id=LedgerId(ledger_id),
        ensemble_size=3,
        write_quorum=3,
        ack_quorum=2,
        fragments=(Fragment(EntryId(0), (B0, B1, B2)),),
        digest_type=DigestType.HMAC,
        password=b"secret\x00\xff",
        ctime_ms=1_700_000_000_000,
        custom={"application": b"test", "empty": b""},
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


COOKIE = Cookie(B0, ("/journal",), ("/ledger-0", "/ledger-1"), "instance")


@pytest.fixture(
    params=[
        "memory",
        pytest.param("zookeeper", marks=pytest.mark.process),
        pytest.param("secure_zookeeper", marks=pytest.mark.process),
    ]
)
def url(request: pytest.FixtureRequest) -> str:
    if request.param == "memory":
        return f"memory://{request.node.nodeid}"
    found: str = request.getfixturevalue(f"{request.param}_url")
    return found


@pytest.fixture
async def open_another(url: str) -> AsyncIterator[OpenAnother]:
    """Opens further sessions on the same cluster; all are closed at the end."""
    stores: list[MetadataStore] = []

    async def another() -> MetadataStore:
        stores.append(await open_store(url))
        return stores[-1]

    yield another
    for store in stores:
        await store.close()


@pytest.fixture
async def store(open_another: OpenAnother) -> MetadataStore:
    store = await open_another()
    await store.initialise()
    return store


# The cluster
async def test_no_instance_id_before_initialise(open_another: OpenAnother) -> None:
    store = await open_another()
    assert await store.instance_id() is None
    instance_id = await store.initialise()
    assert instance_id == await store.instance_id() == await store.initialise()


async def test_racing_initialisers_agree_on_one_instance_id(open_another: OpenAnother) -> None:
    stores = [await open_another() for _ in range(5)]
    assert len(set(await asyncio.gather(*(store.initialise() for store in stores)))) == 1


async def test_a_closed_store_says_so(open_another: OpenAnother) -> None:
    store = await open_another()
    await store.close()
    await store.close()
    with pytest.raises(UnavailableError, match="closed"):
        await store.instance_id()


# Ledgers
async def test_new_ledger_ids_rise_over_sessions(
    store: MetadataStore, open_another: OpenAnother
) -> None:
    other = await open_another()
    ids = [await source.new_ledger_id() for source in (store, other, store, other)]
    assert ids == sorted(set(ids))


async def test_concurrent_draws_never_give_an_id_twice(store: MetadataStore) -> None:
    ids = await asyncio.gather(*(store.new_ledger_id() for _ in range(30)))
    assert len(set(ids)) == 30


@pytest.mark.parametrize("ledger_id", [0, 7, 2**31 - 2, 2**31 - 1, 2**31, 2**62 + 5, 2**63 - 1])
async def test_a_created_ledger_reads_back_the_same_elsewhere(
    store: MetadataStore, open_another: OpenAnother, ledger_id: int
) -> None:
    created = await store.create_ledger(ledger(ledger_id))
    assert created.value == replace(ledger(ledger_id), creation_token=created.value.creation_token)
    assert await (await open_another()).read_ledger(LedgerId(ledger_id)) == created


async def test_many_ledgers_read_as_one_by_one_and_missing_ones_are_left_out(
    store: MetadataStore, open_another: OpenAnother
) -> None:
    ids = [*map(LedgerId, range(300)), LedgerId(2**62 + 5)]
    created = await asyncio.gather(*(store.create_ledger(ledger(i)) for i in ids))
    other = await open_another()
    found = await other.read_ledgers([LedgerId(777), *ids, LedgerId(2**62)])
    assert found == dict(zip(ids, created, strict=True))
    assert await other.read_ledgers([]) == {}


Garble = Callable[[int], Awaitable[None]]


@pytest.fixture
async def garble(url: str, open_another: OpenAnother) -> Garble:
    """Somebody else writes what nobody understands into the metadata of a ledger."""

    async def spoil(ledger_id: int) -> None:
        store = await open_another()
        if isinstance(store, MemoryStore):
            store.cluster.garbled.add(LedgerId(ledger_id))
            return
        assert isinstance(store, ZooKeeperStore)
        path = f"{url.split('/', 3)[3]}/{ledger_path(LedgerId(ledger_id))}"
        garbage = b"BookieMetadataFormatVersion\t4\n?"
        await store.session.write(lambda zk: zk.set_async(f"/{path}", garbage))

    return spoil


async def test_a7_one_ledger_that_cannot_be_read_is_told_apart_from_many(
    store: MetadataStore, garble: Garble
) -> None:
    one, two = [await store.create_ledger(ledger(i)) for i in (1, 2)]
    await garble(2)
    asked = [LedgerId(i) for i in (1, 2, 3)]
    unreadable: Unreadable = {}
    assert await store.read_ledgers(asked, unreadable=unreadable) == {1: one}
    assert list(unreadable) == [two.value.ledger_id] and "ledger 2" in str(unreadable[LedgerId(2)])
    assert [found async for found in store.ledger_ids()] == [1, 2]
    with pytest.raises(MetadataFormatError, match="ledger 2"):
        await store.read_ledger(LedgerId(2))


async def test_a7_who_has_no_answer_for_what_cannot_be_read_gets_an_error(
    store: MetadataStore, garble: Garble
) -> None:
    await store.create_ledger(ledger(2))
    await garble(2)
    with pytest.raises(MetadataFormatError, match="ledger 2"):
        await store.read_ledgers([LedgerId(1), LedgerId(2)])


async def test_many_ledgers_are_read_as_others_left_them(
    store: MetadataStore, open_another: OpenAnother
) -> None:
    created = await store.create_ledger(ledger(1))
    other = await open_another()
    won = await store.write_ledger(created.value.in_recovery(), version=created.version)
    assert await other.read_ledgers([LedgerId(1)]) == {1: won}


async def test_creating_an_existing_ledger_is_a_conflict(store: MetadataStore) -> None:
    await store.create_ledger(ledger(1))
    with pytest.raises(MetadataConflictError, match="1"):
        await store.create_ledger(ledger(1))


async def test_a_repeated_create_with_the_same_token_finds_its_own(store: MetadataStore) -> None:
    wanted = ledger(1, creation_token=99)
    assert await store.create_ledger(wanted) == await store.create_ledger(wanted)


async def test_a_missing_ledger_is_told_apart(store: MetadataStore) -> None:
    with pytest.raises(NoSuchLedgerError):
        await store.read_ledger(LedgerId(5))
    with pytest.raises(NoSuchLedgerError):
        await store.write_ledger(ledger(5), version=0)
    with pytest.raises(NoSuchLedgerError):
        await store.delete_ledger(LedgerId(5))


async def test_only_one_of_two_writers_of_a_version_wins(
    store: MetadataStore, open_another: OpenAnother
) -> None:
    created = await store.create_ledger(ledger(1))
    other = await open_another()
    won = await store.write_ledger(created.value.in_recovery(), version=created.version)
    with pytest.raises(MetadataConflictError):
        await other.write_ledger(
            created.value.closed(EntryId(4), length=9), version=created.version
        )
    assert won.version > created.version
    assert await other.read_ledger(LedgerId(1)) == won


async def test_racing_writers_leave_exactly_one_winner(
    store: MetadataStore, open_another: OpenAnother
) -> None:
    created = await store.create_ledger(ledger(1))
    stores = [store, *[await open_another() for _ in range(4)]]
    closings = [created.value.closed(EntryId(n), length=n) for n in range(len(stores))]
    results = await asyncio.gather(
        *(s.write_ledger(c, version=0) for s, c in zip(stores, closings, strict=True)),
        return_exceptions=True,
    )
    won = [result for result in results if isinstance(result, Versioned)]
    assert [await store.read_ledger(LedgerId(1))] == won


async def test_a_closed_ledger_keeps_its_end_and_fragments(store: MetadataStore) -> None:
    created = await store.create_ledger(ledger(1))
    fragments = (*created.value.fragments, Fragment(EntryId(10), (B2, B1, B0)))
    closed = created.value.closed(EntryId(12), length=345, fragments=fragments)
    written = await store.write_ledger(closed, version=created.version)
    assert await store.read_ledger(LedgerId(1)) == written == Versioned(closed, written.version)


async def test_deletion_names_a_version_or_none(store: MetadataStore) -> None:
    created = await store.create_ledger(ledger(1))
    with pytest.raises(MetadataConflictError):
        await store.delete_ledger(LedgerId(1), version=created.version + 1)
    await store.delete_ledger(LedgerId(1), version=created.version)
    await store.create_ledger(ledger(1))
    await store.delete_ledger(LedgerId(1))
    assert [found async for found in store.ledger_ids()] == []


async def test_listing_is_complete_and_rising(store: MetadataStore) -> None:
    ids = [2**62, 3, 2**31 - 1, 0, 10_000, 99_999_999, 2**31 - 2, 2**31, 2**63 - 1, 12]
    await asyncio.gather(*(store.create_ledger(ledger(number)) for number in ids))
    assert [found async for found in store.ledger_ids()] == sorted(ids)


async def test_listing_sees_at_once_what_another_session_did(
    store: MetadataStore, open_another: OpenAnother
) -> None:
    other = await open_another()
    for number in range(5):
        await other.create_ledger(ledger(number))
        assert [found async for found in store.ledger_ids()] == list(range(number + 1))


async def test_a_listing_may_be_left_early(store: MetadataStore) -> None:
    for number in (1, 2, 2**40):
        await store.create_ledger(ledger(number))
    async for found in store.ledger_ids():
        assert found == 1
        break


# Bookies
async def test_a_registration_is_seen_with_all_it_says(
    store: MetadataStore, open_another: OpenAnother
) -> None:
    info = BookieInfo(B0, (RUN,), {"bootEpoch": "4"})
    await store.register(info)
    assert await (await open_another()).bookies() == {B0: info}


async def test_a_registration_moves_to_read_only_and_back(store: MetadataStore) -> None:
    info = BookieInfo(B0, (RUN,))
    for read_only in (False, True, True, False):
        await store.register(replace(info, read_only=read_only))
        assert await store.bookies() == {B0: replace(info, read_only=read_only)}


async def test_a_registration_ends_with_unregister(store: MetadataStore) -> None:
    for bookie_id in (B0, B1):
        await store.register(BookieInfo(bookie_id, (RUN,), read_only=bookie_id == B1))
    await store.unregister(B1)
    await store.unregister(B2)
    assert list(await store.bookies()) == [B0]


@pytest.mark.parametrize("listings", range(4))
async def test_a_registration_that_was_given_up_ends_with_unregister(
    store: MetadataStore, open_another: OpenAnother, listings: int
) -> None:
    other = await open_another()
    registering = asyncio.create_task(store.register(BookieInfo(B0, (RUN,))))
    for _ in range(listings):
        await asyncio.sleep(0)
        await other.bookies()
    registering.cancel()
    await asyncio.gather(registering, return_exceptions=True)
    await store.unregister(B0)
    assert await store.bookies() == {}


async def test_a_registration_ends_with_its_store(
    store: MetadataStore, open_another: OpenAnother
) -> None:
    other = await open_another()
    await other.register(BookieInfo(B0, (RUN,)))
    await other.close()
    assert await store.bookies() == {}


# Cookies and boot epochs
async def test_a_cookie_is_created_once_and_then_changed_by_version(store: MetadataStore) -> None:
    assert await store.read_cookie(B0) is None
    created = await store.create_cookie(COOKIE)
    with pytest.raises(MetadataConflictError):
        await store.create_cookie(COOKIE)
    changed = await store.write_cookie(
        replace(COOKIE, ledger_dirs=("/new",)), version=created.version
    )
    with pytest.raises(MetadataConflictError):
        await store.write_cookie(COOKIE, version=created.version)
    assert await store.read_cookie(B0) == changed


async def test_a_cookie_that_is_not_there_cannot_be_changed(store: MetadataStore) -> None:
    with pytest.raises(MetadataConflictError):
        await store.write_cookie(COOKIE, version=0)


async def test_all_cookies_are_listed(store: MetadataStore) -> None:
    assert await store.cookies() == {}
    for bookie_id in (B0, B1):
        await store.create_cookie(replace(COOKIE, bookie_id=bookie_id))
    assert await store.cookies() == {b: replace(COOKIE, bookie_id=b) for b in (B0, B1)}


async def test_boots_are_compared_and_set(store: MetadataStore) -> None:
    assert await store.read_boot(B0) is None
    first = await store.write_boot(B0, StoredBoot(1), version=None)
    with pytest.raises(MetadataConflictError):
        await store.write_boot(B0, StoredBoot(1), version=None)
    wanted = StoredBoot(12, "a nonce", generation=7, rolled_back="it was at 9")
    second = await store.write_boot(B0, wanted, version=first.version)
    with pytest.raises(MetadataConflictError):
        await store.write_boot(B0, StoredBoot(13), version=first.version)
    assert await store.read_boot(B0) == second == Versioned(wanted, second.version)


async def test_a_boot_written_again_unchanged_has_another_version(store: MetadataStore) -> None:
    first = await store.write_boot(B0, StoredBoot(1), version=None)
    again = await store.write_boot(B0, StoredBoot(1), version=first.version)
    assert again.version > first.version


async def test_behind_a_barrier_everything_written_before_is_seen(
    store: MetadataStore, open_another: OpenAnother
) -> None:
    made = await store.create_ledger(ledger(3))
    another = await open_another()
    for _ in range(2):
        await another.barrier()
    assert await another.read_ledger(made.value.ledger_id) == made


# Under-replication marks
async def test_a_ledger_has_no_mark_before_it_is_marked(store: MetadataStore) -> None:
    assert await store.underreplication.read_mark(LedgerId(1)) is None
    assert [mark async for mark in store.underreplication.marks()] == []


async def test_a_mark_reads_back_the_same_elsewhere(
    store: MetadataStore, open_another: OpenAnother
) -> None:
    made = await store.underreplication.mark(LedgerId(1), [B0, B1, B0], now_ms=1234)
    assert made == UnderreplicationMark(LedgerId(1), (B0, B1), 1234, version=0)
    assert await (await open_another()).underreplication.read_mark(LedgerId(1)) == made


async def test_a_mark_may_name_no_bookie(store: MetadataStore) -> None:
    made = await store.underreplication.mark(LedgerId(1), (), now_ms=5)
    assert made.missing == () and await store.underreplication.read_mark(LedgerId(1)) == made


async def test_a_further_missing_bookie_joins_the_mark_and_dates_it_anew(
    store: MetadataStore,
) -> None:
    first = await store.underreplication.mark(LedgerId(1), [B1], now_ms=10)
    both = await store.underreplication.mark(LedgerId(1), [B0, B1], now_ms=20)
    assert both == UnderreplicationMark(LedgerId(1), (B1, B0), 20, version=first.version + 1)
    assert await store.underreplication.read_mark(LedgerId(1)) == both


async def test_a_bookie_that_is_named_already_changes_nothing(store: MetadataStore) -> None:
    first = await store.underreplication.mark(LedgerId(1), [B1, B0], now_ms=10)
    assert await store.underreplication.mark(LedgerId(1), [B0], now_ms=20) == first
    assert await store.underreplication.read_mark(LedgerId(1)) == first


async def test_racing_markers_lose_no_bookie(
    store: MetadataStore, open_another: OpenAnother
) -> None:
    bookies = [BookieId(f"bookie-{number}:3181") for number in range(6)]
    stores = [store, *[await open_another() for _ in bookies[1:]]]
    await asyncio.gather(
        *(
            s.underreplication.mark(LedgerId(1), [bookie], now_ms=n)
            for n, (s, bookie) in enumerate(zip(stores, bookies, strict=True))
        )
    )
    mark = await store.underreplication.read_mark(LedgerId(1))
    assert mark is not None and sorted(mark.missing) == bookies


async def test_marks_are_listed_by_rising_ledger_id(store: MetadataStore) -> None:
    ids = [*map(LedgerId, range(300)), *map(LedgerId, (2**16, 2**31 - 1, 2**32, 2**63 - 1))]
    made = await asyncio.gather(
        *(store.underreplication.mark(i, [B0], now_ms=i % 1000) for i in reversed(ids))
    )
    assert [mark async for mark in store.underreplication.marks()] == made[::-1]


async def test_a_listing_of_marks_may_be_left_early(store: MetadataStore) -> None:
    for number in (1, 2, 2**40):
        await store.underreplication.mark(LedgerId(number), [B0], now_ms=1)
    async for found in store.underreplication.marks():
        assert found.ledger_id == 1
        break


async def test_a_mark_is_cleared_by_its_version_only(store: MetadataStore) -> None:
    marks = store.underreplication
    first = await marks.mark(LedgerId(1), [B0], now_ms=1)
    second = await marks.mark(LedgerId(1), [B1], now_ms=2)
    assert not await marks.clear(LedgerId(1), version=first.version)
    assert await marks.read_mark(LedgerId(1)) == second
    assert await marks.clear(LedgerId(1), version=second.version)
    assert await marks.read_mark(LedgerId(1)) is None


async def test_clearing_leaves_the_neighbours_and_may_be_done_twice(store: MetadataStore) -> None:
    marks = store.underreplication
    for number in (1, 2, 2**40):
        await marks.mark(LedgerId(number), [B0], now_ms=1)
    assert [await marks.clear(LedgerId(2), version=0) for _ in range(2)] == [True, True]
    assert [mark.ledger_id async for mark in marks.marks()] == [1, 2**40]


async def test_a_cleared_ledger_can_be_marked_again(store: MetadataStore) -> None:
    marks = store.underreplication
    await marks.mark(LedgerId(1), [B0], now_ms=1)
    await marks.clear(LedgerId(1), version=0)
    again = await marks.mark(LedgerId(1), [B1], now_ms=7)
    assert again == UnderreplicationMark(LedgerId(1), (B1,), 7, version=0)


async def test_a_ledger_is_locked_by_one_session(
    store: MetadataStore, open_another: OpenAnother
) -> None:
    other = await open_another()
    assert await store.underreplication.lock(LedgerId(1), holder="here")
    assert not await other.underreplication.lock(LedgerId(1), holder="there")
    assert not await store.underreplication.lock(LedgerId(1), holder="here"), "nor twice by one"
    assert await other.underreplication.lock(LedgerId(2), holder="there")
    await store.underreplication.unlock(LedgerId(1))
    assert await other.underreplication.lock(LedgerId(1), holder="there")


async def test_nobody_unlocks_what_another_locked(
    store: MetadataStore, open_another: OpenAnother
) -> None:
    other = await open_another()
    await other.underreplication.unlock(LedgerId(1))
    await store.underreplication.lock(LedgerId(1), holder="here")
    await other.underreplication.unlock(LedgerId(1))
    assert not await other.underreplication.lock(LedgerId(1), holder="there")


async def test_a_lock_ends_with_its_session(
    store: MetadataStore, open_another: OpenAnother
) -> None:
    other = await open_another()
    await other.underreplication.lock(LedgerId(1), holder="there")
    await other.close()
    assert await store.underreplication.lock(LedgerId(1), holder="here")


async def test_a_lock_does_not_keep_a_ledger_from_being_marked_and_cleared(
    store: MetadataStore, open_another: OpenAnother
) -> None:
    await store.underreplication.lock(LedgerId(1), holder="here")
    marked = await (await open_another()).underreplication.mark(LedgerId(1), [B0], now_ms=1)
    assert await store.underreplication.clear(LedgerId(1), version=marked.version)


async def test_replication_is_on_until_it_is_switched_off(
    store: MetadataStore, open_another: OpenAnother
) -> None:
    other = await open_another()
    assert await store.underreplication.is_enabled()
    for enabled in (False, False, True, True, False):
        await store.underreplication.set_enabled(enabled)
        assert await other.underreplication.is_enabled() is enabled


async def test_the_delay_of_recovery_is_none_until_it_is_set(
    store: MetadataStore, open_another: OpenAnother
) -> None:
    other = await open_another()
    assert await store.underreplication.recovery_delay_s() is None
    for seconds in (0, 600):
        await store.underreplication.set_recovery_delay_s(seconds)
        assert await other.underreplication.recovery_delay_s() == seconds


async def test_nothing_is_said_of_marks_where_there_is_no_store(
    open_another: OpenAnother,
) -> None:
    store = await open_another()
    await store.initialise()
    await store.close()
    for asked in (
        store.underreplication.is_enabled(),
        store.underreplication.read_mark(LedgerId(1)),
    ):
        with pytest.raises(UnavailableError, match="closed"):
            await asked


# Values
async def test_values_are_compared_and_set_and_deleted(store: MetadataStore) -> None:
    assert await store.read_value("logs/orders") is None
    first = await store.write_value("logs/orders", b"\x00a", version=None)
    second = await store.write_value("logs/orders", b"", version=first.version)
    for version in (None, first.version):
        with pytest.raises(MetadataConflictError):
            await store.write_value("logs/orders", b"late", version=version)
    with pytest.raises(MetadataConflictError):
        await store.delete_value("logs/orders", version=first.version)
    assert await store.read_value("logs/orders") == second
    await store.delete_value("logs/orders", version=second.version)
    assert await store.read_value("logs/orders") is None


async def test_a_value_may_be_named_like_the_folder_of_another(store: MetadataStore) -> None:
    names = ("logs", "logs/a", "logs/a/b", "log%2F", "ärger .. /")
    for name in names:
        await store.write_value(name, name.encode(), version=None)
    for name in names:
        found = await store.read_value(name)
        assert found is not None and found.value == name.encode()


async def test_a_lost_race_for_a_list_leaves_the_winner(
    store: MetadataStore, open_another: OpenAnother
) -> None:
    other = await open_another()
    results = await asyncio.gather(
        *(s.write_value("logs/x", n, version=None) for s, n in ((store, b"1"), (other, b"2"))),
        return_exceptions=True,
    )
    assert sorted(type(result).__name__ for result in results) == [
        "MetadataConflictError",
        "Versioned",
    ]


async def test_counting_by_compare_and_set_loses_nothing(
    store: MetadataStore, open_another: OpenAnother
) -> None:
    await store.write_value("counter", b"0", version=None)
    stores = [store, await open_another(), await open_another()]

    async def add_one(source: MetadataStore) -> None:
        for _ in itertools.count():
            found = await source.read_value("counter")
            assert found is not None
            try:
                wanted = b"%d" % (int(found.value) + 1)
                await source.write_value("counter", wanted, version=found.version)
                return
            except MetadataConflictError:
                continue

    await asyncio.gather(*(add_one(source) for source in stores * 5))
    assert await store.read_value("counter") == Versioned(b"15", 15)
