"""What a store asks of ZooKeeper about marks of under-replicated ledgers, locks and switches."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from bookie.ids import BookieId, LedgerId
from kazoo.exceptions import NoAuthError
from syrupy.assertion import SnapshotAssertion
from transcripts import Words
from znode_record import QUICK, ZnodeRecord, recorded

pytestmark = pytest.mark.process

B1, B2, B3 = (BookieId(f"bookie-{number}:3181") for number in (1, 2, 3))
ONE, TWO = LedgerId(1), LedgerId(2)
LAYOUT = b'type: "BASIC"\nversion: 1\n'
FOLDER = "/underreplication/ledgers/0000/0000/0000"


@pytest.fixture
async def znodes(zookeeper_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ZnodeRecord]:
    async with recorded(zookeeper_url, monkeypatch) as record:
        yield record


def all_of(marks: Any) -> Any:
    async def listed() -> list[Any]:
        return [one async for one in marks.marks()]

    return listed()


async def test_without_marks(znodes: ZnodeRecord, snapshot: SnapshotAssertion) -> None:
    """Whoever only looks makes nothing."""
    one = (await znodes.open()).underreplication
    await znodes.do("all", all_of(one))
    await znodes.do("one", one.read_mark(ONE))
    await znodes.do("clear one", one.clear(ONE, version=0))
    await znodes.do("unlock one", one.unlock(ONE))
    await znodes.do("is it on?", one.is_enabled())
    await znodes.do("the delay", one.recovery_delay_s())
    znodes.remove()
    for title, act in {
        "all": lambda: all_of(one),
        "one": lambda: one.read_mark(ONE),
        "clear one": lambda: one.clear(ONE, version=0),
        "is it on?": one.is_enabled,
        "the delay": one.recovery_delay_s,
        "mark one": lambda: one.mark(ONE, [B1], now_ms=5),
        "lock one": lambda: one.lock(ONE, holder="here"),
        "switch it off": lambda: one.set_enabled(False),
        "set the delay": lambda: one.set_recovery_delay_s(5),
    }.items():
        await znodes.do(f"no cluster: {title}", act())  # type: ignore[no-untyped-call]
    assert snapshot(extension_class=Words) == znodes.text


async def test_marks(znodes: ZnodeRecord, snapshot: SnapshotAssertion) -> None:
    one, two = [(await znodes.open()).underreplication for _ in range(2)]
    await znodes.do("the first", one.mark(ONE, [B1, B2, B1], now_ms=5))
    await znodes.do("the same", one.mark(ONE, [B2], now_ms=6))
    await znodes.do("one more", two.mark(ONE, [B2, B3], now_ms=7))
    await znodes.do("none more", two.mark(ONE, [], now_ms=8))
    await znodes.do("one that names nobody", one.mark(TWO, [], now_ms=9))
    await znodes.do("a large id", one.mark(LedgerId(2**40 + 5), [B1], now_ms=10))
    await znodes.do("read", two.read_mark(ONE))
    await znodes.do("all", all_of(two))
    await znodes.do("clear another version", two.clear(ONE, version=0))
    await znodes.do("clear", two.clear(ONE, version=1))
    await znodes.do("clear again", one.clear(ONE, version=1))
    await znodes.do("clear the last of its folder", one.clear(LedgerId(2**40 + 5), version=0))
    await znodes.do("mark again", one.mark(ONE, [B3], now_ms=11))
    for number in (-1, 2**63):
        await znodes.do(f"id {number}", one.read_mark(LedgerId(number)))
    await znodes.do("the last id", one.mark(LedgerId(2**63 - 1), [B1], now_ms=12))
    assert snapshot(extension_class=Words) == znodes.text


async def test_races_of_marks(znodes: ZnodeRecord, snapshot: SnapshotAssertion) -> None:
    one = (await znodes.open()).underreplication
    path = f"{FOLDER}/0001/urL0000000001"
    theirs = b'replica: "bookie-3:3181"\nctime: 1\n'
    znodes.first(
        "^create /ledgers/underreplication ", lambda: znodes._put("/underreplication", b"")
    )
    znodes.first("^create .*LAYOUT", lambda: znodes._put("/underreplication/LAYOUT", LAYOUT))
    znodes.first("^create .*urL0000000001", lambda: znodes._put(path, theirs))
    await znodes.do("somebody is first at all", one.mark(ONE, [B1], now_ms=5))
    znodes.first("^setdata", lambda: znodes._put(path, theirs))
    await znodes.do("somebody writes it", one.mark(ONE, [B2], now_ms=6))
    znodes.first("^setdata", lambda: znodes._remove(path))
    await znodes.do("somebody clears it", one.mark(ONE, [B1], now_ms=7))
    znodes.lose("^setdata")
    await znodes.do("an answer is lost", one.mark(ONE, [B2], now_ms=8))
    znodes.lose("^create .*urL0000000002", skip=1)
    await znodes.do("of the first mark too", one.mark(TWO, [B2], now_ms=8))
    for _ in range(16):
        znodes.first("^setdata", lambda: znodes._put(path, theirs))
    await znodes.do("it changes 16 times", one.mark(ONE, [BookieId("b")], now_ms=9))
    znodes.lose("^delete .*urL")
    await znodes.do("nobody hears that it is cleared", one.clear(TWO, version=0))
    znodes.refuse("^delete .*/0001 ", NoAuthError())
    await znodes.do("its folder stays", one.clear(ONE, version=17))
    znodes.put(path, theirs)
    znodes.refuse("^delete .*urL", NoAuthError())
    await znodes.do("it is not allowed", one.clear(ONE, version=0))
    znodes.refuse("^setdata", NoAuthError())
    await znodes.do("nor is marking", one.mark(ONE, [B1], now_ms=9))
    assert snapshot(extension_class=Words) == znodes.text


async def test_marks_of_others(znodes: ZnodeRecord, snapshot: SnapshotAssertion) -> None:
    one = (await znodes.open()).underreplication
    znodes.put("/underreplication/LAYOUT", LAYOUT)
    raws = {
        1: b'replica: "bookie-1:3181"\nreplica: "b"\nctime: 7\n', 2: b'replica: "b"\n',
        3: b"", 4: b"replica: 5", 5: b"\xff", 6: b"ctime: 7", 7: b'replika: "b"',
    }  # fmt: skip
    for number, raw in raws.items():
        znodes.put(f"{FOLDER}/{number:04x}/urL{number:010d}", raw)
        await znodes.do(f"{raw!r}", one.read_mark(LedgerId(number)))
    znodes.put("/underreplication/ledgers/ffff/0000/0000/0001/urL1", b"")
    for name in ("0008", "0009/urL0000000010", "000A/urL0000000010", "g000", "00010/x"):
        znodes.put(f"{FOLDER}/{name}", b"")
    await znodes.do("all", all_of(one))
    await znodes.do("mark what cannot be read", one.mark(LedgerId(5), [B1], now_ms=5))
    await znodes.do("clear it", one.clear(LedgerId(5), version=0))
    znodes.first("^multi-read", lambda: znodes._remove(f"{FOLDER}/0001"))
    await znodes.do("one is cleared meanwhile", all_of(one))
    znodes.answer("^multi-read", [-102] * 7)
    await znodes.do("they may not be read", all_of(one))
    assert snapshot(extension_class=Words) == znodes.text


async def test_many_marks(znodes: ZnodeRecord, snapshot: SnapshotAssertion) -> None:
    one = (await znodes.open()).underreplication
    znodes.put("/underreplication/LAYOUT", LAYOUT)
    for number in range(1, 258):
        znodes.hand.create(znodes.at(f"{FOLDER}/{number:04x}"), makepath=True)
    for number in (1, 256, 257):
        znodes.put(f"{FOLDER}/{number:04x}/urL{number:010d}", b'replica: "b"\nctime: 7\n')
    await znodes.do("two requests", all_of(one))
    assert snapshot(extension_class=Words) == znodes.text


FORMS = {
    "newer": b'type: "BASIC"\nversion: 2\n', "other": b'type: "OTHER"\nversion: 1\n',
    "empty": b"", "half": b'type: "BASIC"',
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
async def test_marks_of_another_form(
    znodes: ZnodeRecord, snapshot: SnapshotAssertion, form: str
) -> None:
    raw = FORMS[form]
    one = (await znodes.open()).underreplication
    znodes.put("/underreplication/LAYOUT", raw)
    for title, act in {
        "all": all_of(one), "one": one.read_mark(ONE), "mark": one.mark(ONE, [B1], now_ms=5),
        "lock": one.lock(ONE, holder="here"), "switch it off": one.set_enabled(False),
        "is it on?": one.is_enabled(), "delay": one.set_recovery_delay_s(5),
    }.items():  # fmt: skip
        await znodes.do(title, act)
    znodes.put("/underreplication/LAYOUT", LAYOUT)
    await znodes.do("now it is known", one.mark(ONE, [B1], now_ms=5))
    znodes.put("/underreplication/LAYOUT", raw)
    await znodes.do("and stays so", one.mark(TWO, [B1], now_ms=5))
    assert snapshot(extension_class=Words) == znodes.text


async def test_locks(znodes: ZnodeRecord, snapshot: SnapshotAssertion) -> None:
    stores = [await znodes.open() for _ in range(2)]
    one, two = [store.underreplication for store in stores]
    await znodes.do("locked", one.lock(ONE, holder="here"))
    await znodes.do("again", one.lock(ONE, holder="here"))
    await znodes.do("by another", two.lock(ONE, holder="there"))
    await znodes.do("another ledger", two.lock(TWO, holder="there"))
    await znodes.do("unlocked by another", two.unlock(ONE))
    await znodes.do("unlocked", one.unlock(ONE))
    await znodes.do("again", one.unlock(ONE))
    await znodes.do("now by another", two.lock(ONE, holder="there"))
    znodes.lose("^create .*urL")
    await znodes.do("an answer is lost", one.lock(LedgerId(3), holder="here"))
    await znodes.do("again", one.lock(LedgerId(3), holder="here"))
    znodes.lose("^delete")
    await znodes.do("of its end too", one.unlock(LedgerId(3)))
    znodes.lose("^create .*urL")
    await znodes.do("locked again, an answer is lost", one.lock(LedgerId(3), holder="here"))
    znodes.drop("^delete", times=2)
    await znodes.do("its end does not arrive twice", one.unlock(LedgerId(3)))
    await znodes.do("locked again", one.lock(LedgerId(3), holder="here"))
    znodes.drop("^delete", times=3)
    await znodes.do("nor three times", one.unlock(LedgerId(3)))
    znodes.first("^delete", lambda: znodes._remove("/underreplication/locks/urL0000000003"))
    await znodes.do("somebody removes it", one.unlock(LedgerId(3)))
    znodes.refuse("^create .*urL", NoAuthError())
    await znodes.do("it is not allowed", one.lock(LedgerId(3), holder="here"))
    await stores[1].close()
    await znodes.do("the other's session has ended", one.lock(TWO, holder="here"))
    assert snapshot(extension_class=Words) == znodes.text


async def test_switches(znodes: ZnodeRecord, snapshot: SnapshotAssertion) -> None:
    one, two = [(await znodes.open()).underreplication for _ in range(2)]
    await znodes.do("on, as it is", one.set_enabled(True))
    await znodes.do("off", one.set_enabled(False))
    await znodes.do("off again", two.set_enabled(False))
    await znodes.do("is it on?", two.is_enabled())
    await znodes.do("on", two.set_enabled(True))
    await znodes.do("is it on?", one.is_enabled())
    znodes.lose("^create")
    await znodes.do("off, an answer is lost", one.set_enabled(False))
    znodes.lose("^delete")
    await znodes.do("on, an answer is lost", one.set_enabled(True))
    await znodes.do("no delay", one.recovery_delay_s())
    await znodes.do("a delay", one.set_recovery_delay_s(300))
    await znodes.do("another", two.set_recovery_delay_s(0))
    await znodes.do("read", one.recovery_delay_s())
    znodes.lose("^setdata")
    await znodes.do("an answer is lost", one.set_recovery_delay_s(-1))
    znodes.put("/underreplication/lostBookieRecoveryDelay", b"soon")
    await znodes.do("unreadable", one.recovery_delay_s())
    znodes.refuse("^create", NoAuthError())
    await znodes.do("it is not allowed", one.set_recovery_delay_s(1))
    assert snapshot(extension_class=Words) == znodes.text


async def test_a_session_that_is_closed(znodes: ZnodeRecord, snapshot: SnapshotAssertion) -> None:
    store = await znodes.open(settings=replace(QUICK, operation_timeout_s=5.0))
    await store.underreplication.lock(ONE, holder="here")
    znodes.tell()
    znodes.silence("^getdata .*INSTANCEID")
    reading = asyncio.create_task(store.instance_id())
    await znodes.until("sync")
    await store.close()
    await store.close()
    await znodes.do("under way", reading)
    for title, act in {
        "a read": store.instance_id(), "a write": store.barrier(), "an id": store.new_ledger_id(),
        "marks": all_of(store.underreplication), "bookies": store.bookies(),
    }.items():  # fmt: skip
        await znodes.do(title, act)
    assert snapshot(extension_class=Words) == znodes.text


async def test_answers_that_do_not_come(znodes: ZnodeRecord, snapshot: SnapshotAssertion) -> None:
    store = await znodes.open()
    store.session.settings = replace(QUICK, operation_timeout_s=0.05)
    store.session._client.trouble = None
    znodes.silence("^getdata")
    await znodes.do("a read", store.instance_id())
    znodes.silence("^sync")
    await znodes.do("its sync", store.instance_id())
    znodes.silence("^multi-read")
    await znodes.do("many", store.read_ledgers([ONE]))
    store.session._client.trouble = "the cable is out"
    znodes.silence("^setdata")
    await znodes.do("a write", store.barrier())
    znodes.silence("^transaction")
    await znodes.do("a transaction", store.session.transact(lambda changes: changes.create("/x")))
    store.session.settings = QUICK
    store.session._client.trouble = None
    znodes.refuse("^sync", NoAuthError())
    await znodes.do("a sync that is not allowed", store.instance_id())
    znodes.drop("^sync")
    await znodes.do("a sync that is lost", store.instance_id())
    znodes.first("^getdata", lambda: lose_session(store.session))
    await znodes.do("the session is another one behind it", store.instance_id())
    assert snapshot(extension_class=Words) == znodes.text


def lose_session(session: Any) -> None:
    session.generation += 1
