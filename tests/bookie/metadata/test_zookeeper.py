"""What only ZooKeeper can show: znodes as Apache's tools read them, lost sessions, outages."""

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from bookie.errors import (
    BadRequestError,
    MetadataConflictError,
    MetadataFormatError,
    NoSuchLedgerError,
    UnavailableError,
)
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.metadata.boots import encode_boot
from bookie.metadata.codec import decode_ledger
from bookie.metadata.cookie import encode_cookie
from bookie.metadata.layout import LAYOUT_TEXT
from bookie.metadata.service_info import encode_info
from bookie.metadata.session import ZooKeeperSettings
from bookie.metadata.store import (
    BookieInfo,
    Cookie,
    Endpoint,
    MetadataStore,
    StoredBoot,
    Underreplication,
)
from bookie.metadata.znodes import ZNODE_BYTES_MAX
from bookie.metadata.zookeeper import ZooKeeperStore
from bookie.protocol.ledger import Fragment, LedgerMetadata
from zookeeper_fixture import OwnZooKeeper, expire, let_register

pytestmark = pytest.mark.process

B0 = BookieId("bookie-0:3181")
INFO = BookieInfo(B0, (Endpoint("bookie-run", "h", 3182, "bookie-run"),), {"bootEpoch": "3"})
QUICK = ZooKeeperSettings(
    session_timeout_s=4.0,
    connect_timeout_s=10.0,
    operation_timeout_s=5.0,
    registration_wait_s=0.2,
)


def ledger(ledger_id: int) -> LedgerMetadata:
    return LedgerMetadata(
        ledger_id=LedgerId(ledger_id),
        ensemble_size=1,
        write_quorum=1,
        ack_quorum=1,
        fragments=(Fragment(EntryId(0), (B0,)),),
    )


def split(url: str) -> tuple[str, str]:
    hosts, _, path = url.removeprefix("zk://").partition("/")
    return hosts, f"/{path}"


async def opened(url: str, settings: ZooKeeperSettings = QUICK) -> ZooKeeperStore:
    store = await ZooKeeperStore.open(*split(url), settings=settings)
    await store.initialise()
    return store


@pytest.fixture
async def store(zookeeper_url: str) -> AsyncIterator[ZooKeeperStore]:
    store = await opened(zookeeper_url)
    yield store
    await store.close()


async def znode(store: ZooKeeperStore, path: str) -> bytes:
    raw, _ = await store.session.read(lambda zk: zk.get_async(path))
    assert isinstance(raw, bytes)
    return raw


async def children(store: ZooKeeperStore, path: str) -> set[str]:
    return set(await store.session.read(lambda zk: zk.get_children_async(path)))


async def put(store: ZooKeeperStore, path: str, raw: bytes) -> None:
    await store.session.write(lambda zk: zk.create_async(path, raw, makepath=True))


async def wipe(store: ZooKeeperStore, path: str) -> None:
    for name in await children(store, path):
        await wipe(store, f"{path}/{name}")
    await store.session.write(lambda zk: zk.delete_async(path))


async def eventually(store: ZooKeeperStore, path: str, *, there: bool) -> None:
    """Waits, by watching, until the znode exists or does not."""
    async with asyncio.timeout(20):
        changed = asyncio.Event()

        def told(_event: Any) -> None:
            store.session.post(changed.set)

        while True:
            stat = await store.session.read(lambda zk: zk.exists_async(path, watch=told))
            if (stat is not None) == there:
                return
            await changed.wait()
            changed.clear()


# Znodes
async def test_a_new_cluster_looks_as_apaches_tools_leave_it(
    store: ZooKeeperStore, zookeeper_url: str
) -> None:
    root = split(zookeeper_url)[1]
    assert await children(store, root) == {"LAYOUT", "INSTANCEID", "available"}
    assert await children(store, f"{root}/available") == {"readonly"}
    assert await znode(store, f"{root}/LAYOUT") == LAYOUT_TEXT.encode()
    instance_id = (await znode(store, f"{root}/INSTANCEID")).decode()
    assert str(uuid.UUID(instance_id)) == instance_id == await store.instance_id()


async def test_an_interrupted_initialisation_is_completed(zookeeper_url: str) -> None:
    hosts, root = split(zookeeper_url)
    store = await ZooKeeperStore.open(hosts, root, settings=QUICK)
    await put(store, f"{root}/available", b"")
    assert await store.initialise() == await store.initialise()
    assert "readonly" in await children(store, f"{root}/available")
    await store.close()


async def test_a_cluster_that_does_not_exist_is_not_an_empty_one(zookeeper_url: str) -> None:
    store = await ZooKeeperStore.open(*split(zookeeper_url), settings=QUICK)
    for asking in (
        store.read_ledger(LedgerId(0)),
        anext(store.ledger_ids()),
        store.read_boot(B0),
    ):
        with pytest.raises(UnavailableError, match="initialise it first"):
            await asking
    await store.close()


async def test_a_cluster_of_another_layout_is_refused(
    store: ZooKeeperStore, zookeeper_url: str
) -> None:
    hosts, root = split(zookeeper_url)
    other = LAYOUT_TEXT.replace("Hierarchical", "Flat").encode()
    await store.session.write(lambda zk: zk.set_async(f"{root}/LAYOUT", other))
    second = await ZooKeeperStore.open(hosts, root, settings=QUICK)
    with pytest.raises(MetadataFormatError, match="Flat"):
        await second.read_ledger(LedgerId(0))
    await second.close()


async def test_ledgers_cookies_and_registrations_lie_at_bookkeepers_paths(
    store: ZooKeeperStore, zookeeper_url: str
) -> None:
    root = split(zookeeper_url)[1]
    cookie = Cookie(B0, ("/j",), ("/l",), "instance")
    await store.create_cookie(cookie)
    await store.register(INFO)
    registered = f"{root}/available/{B0}"
    _, stat = await store.session.read(lambda zk: zk.get_async(registered))
    assert stat.ephemeralOwner == store.session.session_id
    for ledger_id, path in ((3, "00/0000/L0003"), (2**31, "000/0000/0021/4748/L3648")):
        created = await store.create_ledger(ledger(ledger_id))
        raw = await znode(store, f"{root}/{path}")
        assert decode_ledger(raw, ledger_id=LedgerId(ledger_id)) == created.value
    assert await znode(store, f"{root}/cookies/{B0}") == encode_cookie(cookie)
    assert await znode(store, registered) == encode_info(INFO)


async def test_what_is_ours_alone_lies_beside_the_cluster(
    store: ZooKeeperStore, zookeeper_url: str
) -> None:
    root = split(zookeeper_url)[1]
    before = await children(store, root)
    await store.write_boot(B0, StoredBoot(7), version=None)
    await store.write_value("logs/a", b"x", version=None)
    assert await children(store, root) == before
    own = f"{root.removesuffix('ledgers')}bookie-operator/{await store.instance_id()}"
    assert await znode(store, f"{own}/epochs/{B0}") == encode_boot(StoredBoot(7))
    assert await znode(store, f"{own}/values/logs%2Fa") == b"x"


async def test_a_deleted_ledger_leaves_no_empty_folders(
    store: ZooKeeperStore, zookeeper_url: str
) -> None:
    root = split(zookeeper_url)[1]
    for ledger_id in (1, 20_000, 2**40):
        await store.create_ledger(ledger(ledger_id))
    await store.delete_ledger(LedgerId(1))
    await store.delete_ledger(LedgerId(2**40))
    assert await children(store, f"{root}/00") == {"0002"}
    assert "000" not in await children(store, root)


async def test_ids_go_on_above_31_bits_when_the_short_counter_has_ended(
    store: ZooKeeperStore, zookeeper_url: str
) -> None:
    root = split(zookeeper_url)[1]
    assert await store.new_ledger_id() == 0
    await put(store, f"{root}/idgen-long/HOB-0000000002/x", b"")
    second = await opened(zookeeper_url)
    assert [await s.new_ledger_id() for s in (store, second)] == [(2 << 32) + 1, (2 << 32) + 2]
    await second.close()


@pytest.mark.parametrize("half", ["9999999999", "2147483648", "9" * 5000])
async def test_a_counter_beyond_all_ids_is_none(
    store: ZooKeeperStore, zookeeper_url: str, half: str
) -> None:
    """Every client may make one, and a bookie that boots uncleanly draws an id."""
    await put(store, f"{split(zookeeper_url)[1]}/idgen-long/HOB-{half}", b"")
    assert await store.new_ledger_id() == 1 << 32


async def test_an_id_is_given_although_nobody_knows_whether_its_znode_is_gone(
    store: ZooKeeperStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = store.session.write

    async def unanswered(begin: Any, **options: bool) -> Any:
        if (answer := await write(begin, **options)) is True:
            raise UnavailableError("the reply to a deletion is lost")
        return answer

    monkeypatch.setattr(store.session, "write", unanswered)
    assert [await store.new_ledger_id() for _ in range(2)] == [0, 1]


async def test_a_cluster_that_was_wiped_or_made_anew_denies_nothing(
    store: ZooKeeperStore, zookeeper_url: str
) -> None:
    created = await store.create_ledger(ledger(1))
    second = await ZooKeeperStore.open(*split(zookeeper_url), settings=QUICK)
    await wipe(second, split(zookeeper_url)[1])
    for ask in denials(store, created.value).values():
        with pytest.raises(UnavailableError, match="initialise it first"):
            await ask()
    await second.initialise()
    for ask in denials(store, created.value).values():
        with pytest.raises(UnavailableError, match="initialised again"):
            await ask()
    await second.close()


async def test_a_store_that_makes_its_cluster_anew_goes_on_with_the_new_one(
    store: ZooKeeperStore, zookeeper_url: str
) -> None:
    former = await store.instance_id()
    await wipe(store, split(zookeeper_url)[1])
    made = await store.initialise()
    assert made == await store.instance_id() != former
    assert await store.create_ledger(ledger(1)) == await store.read_ledger(LedgerId(1))


async def test_whatever_is_asked_of_a_store_is_known_to_deny_something_or_nothing(
    store: ZooKeeperStore,
) -> None:
    asked = {
        name
        for part in (MetadataStore, Underreplication)
        for name, found in vars(part).items()
        if not name.startswith("_") and callable(found)
    }
    assert asked == denials(store, ledger(1)).keys() | DENY_NOTHING


DENY_NOTHING = {
    "barrier", "close", "initialise", "instance_id", "new_ledger_id", "unregister",
    # Who finds another value than expected reads again.
    "create_cookie", "create_ledger", "delete_value", "write_boot", "write_cookie", "write_value",
    "lock", "mark", "set_enabled", "set_recovery_delay_s", "unlock",
    # Who is there: that somebody is not, says nothing of what there is.
    "bookies", "cookies",
}  # fmt: skip


def denials(
    store: ZooKeeperStore, metadata: LedgerMetadata
) -> dict[str, Callable[[], Awaitable[object]]]:
    """Requests whose plain answer would be: there is no such thing."""
    ledger_id, marks = metadata.ledger_id, store.underreplication
    return {
        "read_ledger": lambda: store.read_ledger(ledger_id),
        "read_ledgers": lambda: store.read_ledgers([ledger_id]),
        "write_ledger": lambda: store.write_ledger(metadata, version=0),
        "delete_ledger": lambda: store.delete_ledger(ledger_id),
        "ledger_ids": lambda: anext(store.ledger_ids()),
        "read_cookie": lambda: store.read_cookie(B0),
        "read_boot": lambda: store.read_boot(B0),
        "read_value": lambda: store.read_value("logs/a"),
        "register": lambda: store.register(INFO),
        "marks": lambda: anext(marks.marks()),
        "read_mark": lambda: marks.read_mark(ledger_id),
        "clear": lambda: marks.clear(ledger_id, version=0),
        "is_enabled": lambda: marks.is_enabled(),
        "recovery_delay_s": lambda: marks.recovery_delay_s(),
    }


async def test_metadata_of_no_known_format_is_neither_absent_nor_skipped(
    store: ZooKeeperStore, zookeeper_url: str
) -> None:
    root = split(zookeeper_url)[1]
    await put(store, f"{root}/00/0000/L0005", b"garbage")
    assert [found async for found in store.ledger_ids()] == [5]
    with pytest.raises(MetadataFormatError, match="ledger 5"):
        await store.read_ledger(LedgerId(5))


async def test_one_bookies_garbage_does_not_hide_the_others(
    store: ZooKeeperStore, zookeeper_url: str
) -> None:
    root = split(zookeeper_url)[1]
    await store.register(INFO)
    await put(store, f"{root}/available/odd:1", b"\xff\xff")
    await put(store, f"{root}/available/readonly/old:3181", b"")
    found = await store.bookies()
    assert found[B0] == INFO
    assert found[BookieId("odd:1")].endpoints == ()
    assert found[BookieId("old:3181")].endpoints[0].port == 3181


async def test_too_large_a_value_is_refused_before_it_breaks_the_connection(
    store: ZooKeeperStore,
) -> None:
    with pytest.raises(BadRequestError, match="store less"):
        await store.write_value("big", bytes(ZNODE_BYTES_MAX + 1), version=None)
    await store.write_value("big", bytes(ZNODE_BYTES_MAX), version=None)


# Sessions
async def test_a_registration_returns_after_its_session_expired(
    store: ZooKeeperStore, zookeeper_url: str
) -> None:
    watcher = await opened(zookeeper_url)
    await store.register(INFO)
    path = f"{split(zookeeper_url)[1]}/available/{B0}"
    before = store.session.session_id
    await expire(store)
    await eventually(watcher, path, there=True)
    assert await watcher.bookies() == {B0: INFO}
    assert store.session.session_id != before
    await watcher.close()


async def test_a_registration_that_somebody_removed_returns(
    store: ZooKeeperStore, zookeeper_url: str
) -> None:
    watcher = await opened(zookeeper_url)
    await store.register(INFO)
    path = f"{split(zookeeper_url)[1]}/available/{B0}"
    await watcher.session.write(lambda zk: zk.delete_async(path))
    await eventually(watcher, path, there=True)
    await watcher.close()


async def test_a_registration_that_is_not_allowed_is_refused_in_our_words(
    store: ZooKeeperStore,
) -> None:
    await let_register(store, False)
    with pytest.raises(UnavailableError, match=r"does not allow this write .*: use the cred"):
        await store.register(INFO)


async def test_a_registration_that_was_refused_returns_once_it_is_allowed(
    store: ZooKeeperStore, zookeeper_url: str
) -> None:
    watcher = await opened(zookeeper_url)
    await store.register(INFO)
    await let_register(watcher, False)
    async with warned("bookie.metadata.registration") as said:
        await expire(store)
    assert "will be tried again" in said[0] and "does not allow" in said[0]
    await let_register(watcher, True)
    await eventually(watcher, f"{store.paths.writable}/{B0}", there=True)
    await watcher.close()


@asynccontextmanager
async def warned(name: str) -> AsyncIterator[list[str]]:
    """Ends once this logger has warned, at once or later; what it said."""
    said, has_warned = list[str](), asyncio.Event()

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())
            has_warned.set()

    ear = Ear(logging.WARNING)
    logging.getLogger(name).addHandler(ear)
    yield said
    await asyncio.wait_for(has_warned.wait(), 20)
    logging.getLogger(name).removeHandler(ear)


async def test_a_withdrawn_registration_does_not_return_after_an_expiry(
    store: ZooKeeperStore,
) -> None:
    await store.register(INFO)
    await store.unregister(B0)
    await expire(store)
    assert await store.bookies() == {}


async def test_reads_and_writes_go_on_after_an_expiry(store: ZooKeeperStore) -> None:
    created = await store.create_ledger(ledger(1))
    await expire(store)
    assert await store.read_ledger(LedgerId(1)) == created
    await store.write_ledger(created.value.in_recovery(), version=0)


async def test_the_left_over_of_an_earlier_boot_gives_way(
    store: ZooKeeperStore, zookeeper_url: str
) -> None:
    killed = await opened(zookeeper_url)
    await killed.register(INFO)
    later = BookieInfo(B0, INFO.endpoints, {"bootEpoch": "4"}, read_only=True)
    await store.register(later)
    assert await store.bookies() == {B0: later}
    await killed.close()
    assert await store.bookies() == {B0: later}


@pytest.mark.parametrize("is_read_only", [False, True])
async def test_a_bookie_is_registered_at_one_place_whoever_put_it_at_the_other(
    store: ZooKeeperStore, zookeeper_url: str, is_read_only: bool
) -> None:
    """A process of an earlier boot looked before the later one registered, and wrote after it."""
    late, root = await opened(zookeeper_url), f"{split(zookeeper_url)[1]}/available"
    later = BookieInfo(B0, INFO.endpoints, {"bootEpoch": "4"}, read_only=is_read_only)
    await store.register(later)
    other = f"{root}/{B0}" if is_read_only else f"{root}/readonly/{B0}"
    await late._session.write(lambda zk: zk.create_async(other, encode_info(INFO), ephemeral=True))
    await store.register(later)
    assert await late._znodes.get(other) is None and await store.bookies() == {B0: later}
    await late.close()


async def test_a_live_registration_of_another_process_is_not_taken(
    store: ZooKeeperStore, zookeeper_url: str
) -> None:
    other = await opened(zookeeper_url)
    await other.register(INFO)
    with pytest.raises(MetadataConflictError, match="another session"):
        await store.register(INFO)
    await other.close()
    await store.register(INFO)
    assert await store.bookies() == {B0: INFO}


async def test_a_left_over_is_waited_out(zookeeper_url: str) -> None:
    patient = ZooKeeperSettings(registration_wait_s=20.0)
    store, other = await opened(zookeeper_url, patient), await opened(zookeeper_url)
    await other.register(INFO)
    registering = asyncio.create_task(store.register(INFO))
    await asyncio.sleep(0)
    await other.close()
    await registering
    assert await store.bookies() == {B0: INFO}
    await store.close()


# Outages
PATIENT = ZooKeeperSettings(operation_timeout_s=120.0, session_timeout_s=4.0)
"""On a busy machine a server takes a while to start."""


async def test_a_store_outlives_an_outage(own_zookeeper: OwnZooKeeper) -> None:
    store = await opened(own_zookeeper.url, PATIENT)
    created = await store.create_ledger(ledger(1))
    await store.register(INFO)
    own_zookeeper.stop()
    store.session.settings = replace(PATIENT, operation_timeout_s=0.3)
    for asking in (
        store.read_ledger(LedgerId(1)),
        store.write_ledger(created.value, version=0),
        anext(store.ledger_ids()),
        store.new_ledger_id(),
    ):
        with pytest.raises(UnavailableError):
            await asking
    reconnected = asyncio.Event()
    store.session.on_connected.add(reconnected.set)
    store.session.settings = PATIENT
    await asyncio.to_thread(own_zookeeper.start)
    await reconnected.wait()
    assert await store.read_ledger(LedgerId(1)) == created
    await eventually(store, f"{split(own_zookeeper.url)[1]}/available/{B0}", there=True)
    assert await store.bookies() == {B0: INFO}
    await store.close()


async def test_a_read_waits_through_a_short_outage(own_zookeeper: OwnZooKeeper) -> None:
    store = await opened(own_zookeeper.url, PATIENT)
    created = await store.create_ledger(ledger(1))
    own_zookeeper.stop()
    reading = asyncio.create_task(store.read_ledger(LedgerId(1)))
    await asyncio.to_thread(own_zookeeper.start)
    assert await reading == created
    with pytest.raises(NoSuchLedgerError):
        await store.read_ledger(LedgerId(2))
    await store.close()


async def test_closing_does_not_wait_for_a_dead_server(own_zookeeper: OwnZooKeeper) -> None:
    store = await opened(own_zookeeper.url)
    await store.register(INFO)
    own_zookeeper.stop()
    reading = asyncio.create_task(store.read_ledger(LedgerId(1)))
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await store.close()
    with pytest.raises(UnavailableError, match="closed"):
        await reading
