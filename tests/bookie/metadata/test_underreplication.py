"""Marks of under-replicated ledgers as znodes: the bytes, folders and locks that Apache's see."""

from collections.abc import AsyncIterator

import pytest
from bookie.errors import MetadataFormatError
from bookie.ids import BookieId, LedgerId
from bookie.metadata.layout import Paths
from bookie.metadata.multi_read import Znode
from bookie.metadata.session import ZooKeeperSettings
from bookie.metadata.store import UnderreplicationMark
from bookie.metadata.underreplication import decode_mark, encode_mark
from bookie.metadata.zookeeper import ZooKeeperStore
from zookeeper_fixture import expire

L1 = LedgerId(1)
B0, B1 = BookieId("bookie-0:3181"), BookieId("bookie-1:3181")
MARK = UnderreplicationMark(L1, (B0, B1), 1_700_000_000_000, version=3)
TEXT = b'replica: "bookie-0:3181"\nreplica: "bookie-1:3181"\nctime: 1700000000000\n'


# The text
def test_a_mark_is_the_text_of_apaches_auditor() -> None:
    assert encode_mark(MARK) == TEXT
    assert decode_mark(Znode(TEXT, 3, 5), L1) == MARK


@pytest.mark.parametrize("text", [TEXT.replace(b"\n", b" "), TEXT.replace(b": ", b":")])
def test_a_mark_is_read_however_it_is_spaced(text: bytes) -> None:
    assert decode_mark(Znode(text, 3, 5), L1) == MARK


def test_a_mark_without_a_time_has_its_znodes() -> None:
    assert decode_mark(Znode(b"", 0, 77), L1) == UnderreplicationMark(L1, (), 77, version=0)


@pytest.mark.parametrize("raw", [b"\xff", b"replica: 3", b"copies: 1", b"ctime: x"])
def test_garbage_is_no_mark(raw: bytes) -> None:
    with pytest.raises(MetadataFormatError, match="ledger 1"):
        decode_mark(Znode(raw, 0, 0), L1)


# The znodes
@pytest.fixture
async def store(zookeeper_url: str) -> AsyncIterator[ZooKeeperStore]:
    hosts, _, path = zookeeper_url.removeprefix("zk://").partition("/")
    settings = ZooKeeperSettings(session_timeout_s=4.0, operation_timeout_s=5.0)
    store = await ZooKeeperStore.open(hosts, f"/{path}", settings=settings)
    await store.initialise()
    yield store
    await store.close()


@pytest.fixture
def paths(zookeeper_url: str) -> Paths:
    return Paths("/" + zookeeper_url.removeprefix("zk://").partition("/")[2])


async def znode(store: ZooKeeperStore, path: str) -> bytes:
    raw, _ = await store.session.read(lambda zk: zk.get_async(path))
    assert isinstance(raw, bytes)
    return raw


async def children(store: ZooKeeperStore, path: str) -> list[str]:
    return sorted(await store.session.read(lambda zk: zk.get_children_async(path)))


async def put(store: ZooKeeperStore, path: str, raw: bytes) -> None:
    await store.session.write(lambda zk: zk.create_async(path, raw, makepath=True))


@pytest.mark.process
async def test_marks_locks_and_switches_lie_at_bookkeepers_paths(
    store: ZooKeeperStore, paths: Paths
) -> None:
    await store.underreplication.mark(L1, MARK.missing, now_ms=MARK.ctime_ms)
    await store.underreplication.lock(L1, holder="a-host")
    await store.underreplication.set_enabled(False)
    await store.underreplication.set_recovery_delay_s(60)
    base = f"{paths.root}/underreplication"
    assert await znode(store, f"{base}/LAYOUT") == b'type: "BASIC"\nversion: 1\n'
    assert await znode(store, f"{base}/ledgers/0000/0000/0000/0001/urL0000000001") == TEXT
    assert await znode(store, f"{base}/locks/urL0000000001") == b'bookieId: "a-host"\n'
    assert await znode(store, f"{base}/disable") == b""
    assert await znode(store, f"{base}/lostBookieRecoveryDelay") == b"60"


@pytest.mark.process
async def test_a_cleared_mark_leaves_no_empty_folders(store: ZooKeeperStore, paths: Paths) -> None:
    for ledger_id in (1, 2, 2**40):
        await store.underreplication.mark(LedgerId(ledger_id), [B0], now_ms=1)
    await store.underreplication.clear(LedgerId(2**40), version=0)
    assert await children(store, f"{paths.marks}/0000") == ["0000"]
    for ledger_id in (1, 2):
        await store.underreplication.clear(LedgerId(ledger_id), version=0)
    assert await children(store, paths.marks) == []


@pytest.mark.process
async def test_reading_leaves_the_cluster_as_it_was(store: ZooKeeperStore, paths: Paths) -> None:
    assert [mark async for mark in store.underreplication.marks()] == []
    await store.underreplication.read_mark(L1)
    await store.underreplication.unlock(L1)
    assert "underreplication" not in await children(store, paths.root)


@pytest.mark.process
async def test_marks_kept_in_another_form_are_refused(store: ZooKeeperStore, paths: Paths) -> None:
    await put(store, paths.marks_layout, b'type: "FLAT" version: 2')
    for asked in (
        store.underreplication.read_mark(L1),
        store.underreplication.mark(L1, [B0], now_ms=1),
        anext(store.underreplication.marks()),
    ):
        with pytest.raises(MetadataFormatError, match="FLAT"):
            await asked


@pytest.mark.process
async def test_one_marks_garbage_hides_neither_the_others_nor_itself(
    store: ZooKeeperStore, paths: Paths, caplog: pytest.LogCaptureFixture
) -> None:
    await store.underreplication.mark(L1, [B0], now_ms=1)
    await put(store, paths.mark(LedgerId(2)), b"\xff")
    assert [(m.ledger_id, m.missing) async for m in store.underreplication.marks()] == [
        (1, (B0,)),
        (2, ()),
    ]
    assert "ledger 2" in caplog.text
    with pytest.raises(MetadataFormatError, match="ledger 2"):
        await store.underreplication.mark(LedgerId(2), [B0], now_ms=1)
    assert await store.underreplication.clear(LedgerId(2), version=0)


@pytest.mark.process
async def test_strange_and_empty_folders_are_no_marks(store: ZooKeeperStore, paths: Paths) -> None:
    await store.underreplication.mark(L1, [B0], now_ms=1)
    for strange in ("0000/0000/0000/0002", "ffff/ffff/ffff/ffff", "0000/odd", "LOST"):
        await put(store, f"{paths.marks}/{strange}", b"")
    assert [mark.ledger_id async for mark in store.underreplication.marks()] == [1]


@pytest.mark.process
async def test_a_lock_is_lost_with_its_session_and_never_taken_from_another(
    store: ZooKeeperStore, zookeeper_url: str
) -> None:
    hosts, _, path = zookeeper_url.removeprefix("zk://").partition("/")
    other = await ZooKeeperStore.open(hosts, f"/{path}")
    assert await store.underreplication.lock(L1, holder="here")
    await expire(store)
    assert await other.underreplication.lock(L1, holder="there")
    await store.underreplication.unlock(L1)
    assert not await store.underreplication.lock(L1, holder="here")
    await other.close()


@pytest.mark.process
async def test_a_lock_whose_reply_was_lost_is_ours(store: ZooKeeperStore, paths: Paths) -> None:
    await store.underreplication.mark(L1, [B0], now_ms=1)
    path = paths.mark_lock(L1)
    await store.session.write(lambda zk: zk.create_async(path, b"", ephemeral=True))
    assert await store.underreplication.lock(L1, holder="here")
