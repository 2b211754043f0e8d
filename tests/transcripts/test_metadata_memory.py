"""The same asked of the store in memory and of ZooKeeper: where answers are alike, where not."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from bookie.frames.entry import DigestType
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.metadata.memory import MemoryCluster, MemoryStore
from bookie.metadata.store import BookieInfo, Cookie, MetadataStore, StoredBoot
from bookie.protocol.ledger import Fragment, LedgerMetadata
from syrupy.assertion import SnapshotAssertion
from transcripts import Words
from znode_record import ZnodeRecord, facts, recorded

pytestmark = pytest.mark.process

A, B = BookieId("a:3181"), BookieId("b:3181")
INFO = BookieInfo(A, (), {"bootEpoch": "3"})
COOKIE = Cookie(A, ("/j",), ("/l",), "instance")
ONE, TWO = LedgerId(1), LedgerId(2)


@pytest.fixture
async def znodes(zookeeper_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ZnodeRecord]:
    async with recorded(zookeeper_url, monkeypatch) as record:
        yield record


def ledger(number: int = 1, **more: Any) -> LedgerMetadata:
    fragments = (Fragment(EntryId(0), (A,)),)
    fields = {"digest_type": DigestType.HMAC, "creation_token": 7, "ctime_ms": 9} | more
    return LedgerMetadata(LedgerId(number), 1, 1, 1, fragments, **fields)


async def every(of: Any) -> list[Any]:
    return [one async for one in of]


Act = Callable[[MetadataStore, MetadataStore], Awaitable[object]]
"""What is asked of two stores of one cluster."""

LEDGERS: dict[str, Act] = {
    "no ledger is read": lambda s, _: s.read_ledger(ONE),
    "nor written": lambda s, _: s.write_ledger(ledger(), version=0),
    "nor deleted": lambda s, _: s.delete_ledger(ONE),
    "an id": lambda s, _: s.new_ledger_id(),
    "another's": lambda _, t: t.new_ledger_id(),
    "created": lambda s, _: s.create_ledger(ledger()),
    "created again": lambda s, _: s.create_ledger(ledger()),
    "created by another": lambda _, t: t.create_ledger(ledger(creation_token=8)),
    "a second": lambda _, t: t.create_ledger(ledger(2)),
    "read": lambda _, t: t.read_ledger(ONE),
    "written": lambda s, _: s.write_ledger(ledger().in_recovery(), version=0),
    "written again": lambda s, _: s.write_ledger(ledger(), version=0),
    "created again, though written": lambda s, _: s.create_ledger(ledger()),
    "read together": lambda s, _: s.read_ledgers([TWO, LedgerId(3), ONE]),
    "listed": lambda s, _: every(s.ledger_ids()),
    "deleted, another version": lambda s, _: s.delete_ledger(ONE, version=0),
    "deleted": lambda s, _: s.delete_ledger(ONE, version=1),
    "deleted, whatever its version": lambda s, _: s.delete_ledger(TWO),
    "listed now": lambda s, _: every(s.ledger_ids()),
    "a barrier": lambda s, _: s.barrier(),
}
BOOKIES: dict[str, Act] = {
    "none": lambda s, _: s.bookies(),
    "registered": lambda s, _: s.register(INFO),
    "by another": lambda _, t: t.register(INFO),
    "read-only": lambda s, _: s.register(replace(INFO, read_only=True)),
    "all": lambda _, t: t.bookies(),
    "another leaves": lambda _, t: t.unregister(A),
    "all of them": lambda _, t: t.bookies(),
    "it leaves": lambda s, _: s.unregister(A),
    "none now": lambda _, t: t.bookies(),
    "no cookie": lambda s, _: s.read_cookie(A),
    "a cookie": lambda s, _: s.create_cookie(COOKIE),
    "again": lambda _, t: t.create_cookie(COOKIE),
    "written": lambda s, _: s.write_cookie(replace(COOKIE, instance_id="i"), version=0),
    "of the version before": lambda s, _: s.write_cookie(COOKIE, version=0),
    "of none": lambda s, _: s.write_cookie(replace(COOKIE, bookie_id=B), version=0),
    "all cookies": lambda _, t: t.cookies(),
    "no boot": lambda s, _: s.read_boot(A),
    "a boot": lambda s, _: s.write_boot(A, StoredBoot(1), version=None),
    "a boot again": lambda s, _: s.write_boot(A, StoredBoot(1), version=None),
    "the next": lambda s, _: s.write_boot(A, StoredBoot(2), version=0),
    "the one before": lambda s, _: s.write_boot(A, StoredBoot(2), version=0),
    "the boot": lambda _, t: t.read_boot(A),
    "no value": lambda s, _: s.read_value("v"),
    "a value": lambda s, _: s.write_value("v", b"1", version=None),
    "its next": lambda s, _: s.write_value("v", b"2", version=0),
    "its delete, another version": lambda s, _: s.delete_value("v", version=0),
    "its delete": lambda s, _: s.delete_value("v", version=1),
    "its delete again": lambda s, _: s.delete_value("v", version=1),
}
MARKS: dict[str, Act] = {
    "none": lambda s, _: every(s.underreplication.marks()),
    "one is read": lambda s, _: s.underreplication.read_mark(ONE),
    "marked": lambda s, _: s.underreplication.mark(TWO, [A, B, A], now_ms=5),
    "marked again": lambda _, t: t.underreplication.mark(TWO, [B], now_ms=6),
    "one more": lambda _, t: t.underreplication.mark(TWO, [BookieId("c")], now_ms=7),
    "another": lambda _, t: t.underreplication.mark(ONE, [], now_ms=8),
    "all": lambda s, _: every(s.underreplication.marks()),
    "cleared, another version": lambda s, _: s.underreplication.clear(TWO, version=0),
    "cleared": lambda s, _: s.underreplication.clear(TWO, version=1),
    "cleared again": lambda s, _: s.underreplication.clear(TWO, version=1),
    "locked": lambda s, _: s.underreplication.lock(ONE, holder="here"),
    "locked again": lambda s, _: s.underreplication.lock(ONE, holder="here"),
    "by another": lambda _, t: t.underreplication.lock(ONE, holder="there"),
    "another unlocks": lambda _, t: t.underreplication.unlock(ONE),
    "it still has it": lambda _, t: t.underreplication.lock(ONE, holder="there"),
    "unlocked": lambda s, _: s.underreplication.unlock(ONE),
    "so another has it": lambda _, t: t.underreplication.lock(ONE, holder="there"),
    "on": lambda s, _: s.underreplication.is_enabled(),
    "switched off": lambda s, _: s.underreplication.set_enabled(False),
    "off": lambda _, t: t.underreplication.is_enabled(),
    "no delay": lambda s, _: s.underreplication.recovery_delay_s(),
    "a delay": lambda s, _: s.underreplication.set_recovery_delay_s(7),
    "the delay": lambda _, t: t.underreplication.recovery_delay_s(),
    "another's registration": lambda _, t: t.register(replace(INFO, bookie_id=B)),
    "another is closed": lambda _, t: t.close(),
    "its lock is gone": lambda s, _: s.underreplication.lock(ONE, holder="here"),
    "so is its registration": lambda s, _: s.bookies(),
    "it answers nothing": lambda _, t: t.bookies(),
    "nor that": lambda _, t: t.underreplication.is_enabled(),
}


async def answer(act: Act, stores: tuple[MetadataStore, MetadataStore]) -> str:
    try:
        return facts(await act(*stores))
    except Exception as error:
        return f"! {type(error).__name__}: {error}"


@pytest.mark.parametrize("acts", [LEDGERS, BOOKIES, MARKS], ids=["ledgers", "bookies", "marks"])
async def test_both_stores(
    znodes: ZnodeRecord, snapshot: SnapshotAssertion, acts: dict[str, Act]
) -> None:
    cluster = MemoryCluster()
    memory = MemoryStore(cluster), MemoryStore(cluster)
    assert await memory[0].initialise() == await memory[1].initialise()
    zookeeper = await znodes.open(), await znodes.open()
    lines = []
    for title, act in acts.items():
        first, second = await answer(act, memory), await answer(act, zookeeper)
        alike = [first] if first == second else [f"in memory: {first}", f"ZooKeeper: {second}"]
        lines += [title, *(f"    {one}" for one in alike)]
    assert snapshot(extension_class=Words) == "\n".join([*lines, ""])


async def test_ledgers_that_nobody_can_read(snapshot: SnapshotAssertion) -> None:
    store = MemoryStore()
    for number in (1, 2):
        await store.create_ledger(ledger(number))
    store.cluster.garbled = {ONE, LedgerId(9)}
    unreadable: dict[Any, Any] = {}
    acts: dict[str, Act] = {
        "one": lambda s, _: s.read_ledger(ONE),
        "both": lambda s, _: s.read_ledgers([ONE, TWO, LedgerId(9)]),
        "put aside": lambda s, _: s.read_ledgers([ONE, TWO, LedgerId(9)], unreadable=unreadable),
        "deleted": lambda s, _: s.delete_ledger(ONE),
        "no more": lambda s, _: s.read_ledger(ONE),
    }
    lines = [f"{title}: {await answer(act, (store, store))}" for title, act in acts.items()]
    assert snapshot(extension_class=Words) == "\n".join([*lines, facts(unreadable), ""])
