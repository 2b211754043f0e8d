"""What the store asks of ZooKeeper about bookies: registrations, cookies, boots, our own values."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Final

import pytest
from bookie.ids import BookieId
from bookie.metadata import zookeeper
from bookie.metadata.service_info import encode_info
from bookie.metadata.store import BookieInfo, Cookie, Endpoint, StoredBoot
from kazoo.exceptions import NoAuthError
from syrupy.assertion import SnapshotAssertion
from transcripts import Words
from znode_record import QUICK, ZnodeRecord, recorded
from zookeeper_fixture import expire

pytestmark = pytest.mark.process

B1, B2 = BookieId("bookie-1:3181"), BookieId("bookie-2:3181")
RPC: Final = Endpoint("bookie-rpc", "10.0.0.1", 3181, "bookie-rpc", ("tls",))
RUN: Final = Endpoint("bookie-run", "10.0.0.1", 3182, "bookie-run")
INFO: Final = BookieInfo(B1, (RPC, RUN), {"rack": "/a", "bootEpoch": "3"})
WATCHED: Final = r"exists /ledgers/available/.* watched -> there"


@pytest.fixture
async def znodes(zookeeper_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ZnodeRecord]:
    async with recorded(zookeeper_url, monkeypatch) as record:
        yield record


async def test_a_registration(znodes: ZnodeRecord, snapshot: SnapshotAssertion) -> None:
    one = await znodes.open()
    await znodes.do("writable", one.register(INFO))
    await znodes.do("again", one.register(INFO))
    await znodes.do("another rack", one.register(replace(INFO, properties={"rack": "/b"})))
    await znodes.do("read-only", one.register(replace(INFO, read_only=True)))
    await znodes.do("again", one.register(replace(INFO, read_only=True)))
    await znodes.do("another boot", one.register(replace(INFO, properties={}, read_only=True)))
    await znodes.do("writable again", one.register(INFO))
    await znodes.do("a second one", one.register(replace(INFO, bookie_id=B2)))
    await znodes.do("all", one.bookies())
    await znodes.do("one leaves", one.unregister(B1))
    await znodes.do("it leaves again", one.unregister(B1))
    await znodes.do("it comes again", one.register(INFO))
    await znodes.do("an id that none has", one.register(replace(INFO, bookie_id=BookieId("a/b"))))
    assert snapshot(extension_class=Words) == znodes.text


async def test_a_first_registration_that_is_read_only(
    znodes: ZnodeRecord, snapshot: SnapshotAssertion
) -> None:
    """Its folder is made where there is none."""
    one = await znodes.open()
    znodes.remove("/available/readonly")
    await znodes.do("read-only", one.register(replace(INFO, read_only=True)))
    await znodes.do("it leaves", one.unregister(B1))
    znodes.remove("/available/readonly")
    await znodes.do("writable", one.register(INFO))
    await znodes.do("it leaves", one.unregister(B1))
    znodes.remove("/available")
    await znodes.do("all", one.bookies())
    assert snapshot(extension_class=Words) == znodes.text


async def test_registrations_that_somebody_left(
    znodes: ZnodeRecord, snapshot: SnapshotAssertion
) -> None:
    """Of an earlier boot, of a later one, of the same, of none, unreadable, at both places."""
    one = await znodes.open()
    left = {
        "of an earlier boot": replace(INFO, properties={"bootEpoch": "2"}),
        "of the same boot": INFO,
        "of a later boot": replace(INFO, properties={"bootEpoch": "4"}),
        "of no boot": replace(INFO, properties={}),
        "of a boot that is no number": replace(INFO, properties={"bootEpoch": "x"}),
    }
    raws = {what: encode_info(info) for what, info in left.items()}
    raws |= {"empty, as old bookies leave it": b"", "unreadable": b"\xff"}
    for what, raw in raws.items():
        for place in ("", "/readonly"):
            znodes.put(f"/available{place}/{B1}", raw, ephemeral=True)
            await znodes.do(f"{what}, at available{place}", one.register(INFO))
            await one.unregister(B1)
            znodes._asked.clear()
            if znodes.hand.exists(znodes.at(f"/available{place}/{B1}")):
                znodes.remove(f"/available{place}/{B1}")
    znodes.put(f"/available/{B1}", b"", ephemeral=True)
    await znodes.do("a rival", one.register(INFO))
    await znodes.do("who gives up leaves it", one.unregister(B1))
    assert snapshot(extension_class=Words) == znodes.text


async def test_a_rival_that_ends(znodes: ZnodeRecord, snapshot: SnapshotAssertion) -> None:
    one = await znodes.open(settings=replace(QUICK, registration_wait_s=20.0))
    znodes.put(f"/available/{B1}", encode_info(INFO), ephemeral=True)
    registering = asyncio.create_task(one.register(INFO))
    await znodes.until(WATCHED)
    znodes.put(f"/available/{B1}", b"it goes on")
    await znodes.until(WATCHED, count=2)
    znodes.remove(f"/available/{B1}")
    await znodes.do("a rival changes, and ends", registering)
    await one.unregister(B1)
    znodes.tell()
    two = await znodes.open()
    await two.register(INFO)
    znodes.tell()
    registering = asyncio.create_task(one.register(replace(INFO, read_only=True)))
    await znodes.until(f"A.*{WATCHED}")
    await two.close()
    await znodes.do("it was another's", registering)
    assert snapshot(extension_class=Words) == znodes.text


async def test_races_of_registrations(znodes: ZnodeRecord, snapshot: SnapshotAssertion) -> None:
    one = await znodes.open()
    path = f"/available/{B1}"

    def come() -> None:
        znodes._put(path, encode_info(replace(INFO, properties={"bootEpoch": "2"})), ephemeral=True)

    znodes.first("^transaction", come)
    await znodes.do("somebody comes", one.register(INFO))
    znodes.first("^transaction", lambda: znodes._remove(path))
    await znodes.do("somebody removes it", one.register(replace(INFO, read_only=True)))
    znodes.first("^transaction", lambda: znodes._put(f"/available/readonly/{B1}", b""))
    await znodes.do(
        "somebody writes it", one.register(replace(INFO, properties={}, read_only=True))
    )
    znodes.first("^transaction", lambda: znodes._put(f"/available/readonly/{B1}", b""))
    await znodes.do("and once more", one.register(INFO))
    await one.unregister(B1)
    znodes.tell()
    for _ in range(8):
        znodes.first("^exists .*watched", lambda: znodes._remove(path))
    await znodes.do("it is removed eight times", one.register(INFO))
    assert snapshot(extension_class=Words) == znodes.text


async def test_a_registration_without_an_answer(
    znodes: ZnodeRecord, snapshot: SnapshotAssertion
) -> None:
    one = await znodes.open()
    znodes.lose("^transaction")
    await znodes.do("it is made, and nobody hears of it", one.register(INFO))
    await znodes.do("so it leaves", one.unregister(B1))
    znodes.drop("^transaction")
    await znodes.do("it is not made", one.register(INFO))
    await znodes.do("it comes again", one.register(INFO))
    znodes.lose("^transaction")
    await znodes.do("it moves, and nobody hears of it", one.register(replace(INFO, read_only=True)))
    await znodes.do("once more", one.register(replace(INFO, read_only=True)))
    znodes.drop("^delete")
    await znodes.do("its end does not arrive", one.unregister(B1))
    await znodes.do("its end arrives", one.unregister(B1))
    znodes.lose("^exists .*watched", times=2)
    await znodes.do("the watch is asked for again", one.register(INFO))
    znodes.first("^delete", lambda: znodes._remove(f"/available/{B1}"))
    await znodes.do("somebody else removes it first", one.unregister(B1))
    assert snapshot(extension_class=Words) == znodes.text


async def test_a_registration_is_kept(
    znodes: ZnodeRecord, snapshot: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bookie.metadata.registration.RETRY_DELAY_S", 0.0)
    one = await znodes.open()
    await znodes.do("registered", one.register(INFO))
    znodes.remove(f"/available/{B1}")
    await znodes.until(WATCHED)
    znodes.say("somebody removed it")
    znodes.tell()
    znodes._put(f"/available/{B1}", b"")
    await znodes.until(WATCHED)
    znodes.say("somebody wrote it")
    znodes.tell()
    znodes.refuse("^transaction", NoAuthError(), times=2)
    znodes.remove(f"/available/{B1}")
    await znodes.until(WATCHED)
    znodes.say("somebody removed it, and it is not allowed twice")
    znodes.tell()
    await znodes.do("it leaves", one.unregister(B1))
    assert snapshot(extension_class=Words) == znodes.text


async def test_a_registration_of_a_session_that_expired(
    znodes: ZnodeRecord, snapshot: SnapshotAssertion
) -> None:
    one = await znodes.open()
    await znodes.do("registered", one.register(INFO))
    await expire(one)
    await znodes.until(WATCHED)
    shown = await one.bookies()
    assert shown == {B1: INFO}
    znodes._asked.clear()
    znodes.tell("it is there again")
    await znodes.do("it leaves", one.unregister(B1))
    assert snapshot(extension_class=Words) == znodes.text


async def test_all_bookies(
    znodes: ZnodeRecord, snapshot: SnapshotAssertion, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = await znodes.open()
    await znodes.do("none", one.bookies())
    raws = {"apache:3181": b"", "odd": b"", "10.0.0.9:99999": b"", "unreadable": b"\xff\xff"}
    for name, raw in raws.items():
        znodes.put(f"/available/{name}", raw)
    full = replace(INFO, properties={"rack": "", "bootEpoch": "x", "a": "b"})
    znodes.put(f"/available/{B1}", encode_info(full))
    znodes.put(f"/available/readonly/{B2}", encode_info(full))
    znodes.put("/available/readonly/unreadable-too", b"\x01")
    await znodes.do("all", one.bookies())
    moved = f"/available/{B1}", f"/available/readonly/{B1}"

    def move() -> None:
        znodes._put(moved[1], encode_info(INFO))
        znodes._remove(moved[0])

    znodes.first(f"^getdata .*{B1}", move)
    await znodes.do("one becomes read-only meanwhile", one.bookies())
    znodes.first(f"^getdata .*{B1}", lambda: znodes._remove(moved[1]))
    await znodes.do("it ends meanwhile", one.bookies())
    znodes.put(moved[0], encode_info(INFO))
    znodes.first("^getchildren /ledgers/available$", move, skip=1)
    await znodes.do("one moves between two lists", one.bookies())
    znodes.remove(moved[1])
    monkeypatch.setattr(zookeeper, "READS_AT_ONCE", 2)
    await znodes.do("two at a time", one.bookies())
    znodes.refuse("^getdata .*odd", NoAuthError())
    await znodes.do("one may not be read", one.bookies())
    assert snapshot(extension_class=Words) == znodes.text


COOKIE: Final = Cookie(B1, ("/j0", "/j1"), ("/l0", "/l1"), "instance", ("/i",))


async def test_cookies(znodes: ZnodeRecord, snapshot: SnapshotAssertion) -> None:
    one, two = await znodes.open(), await znodes.open()
    await znodes.do("none", one.read_cookie(B1))
    await znodes.do("none at all", one.cookies())
    await znodes.do("the first", one.create_cookie(COOKIE))
    await znodes.do("again", two.create_cookie(COOKIE))
    await znodes.do("read", two.read_cookie(B1))
    moved = replace(COOKIE, ledger_dirs=("/l2",))
    await znodes.do("written", two.write_cookie(moved, version=0))
    await znodes.do("of the version before", one.write_cookie(COOKIE, version=0))
    await znodes.do("there is none", one.write_cookie(replace(COOKIE, bookie_id=B2), version=0))
    znodes.lose("^create")
    second = replace(COOKIE, bookie_id=B2, layout_version=4)
    await znodes.do("an answer is lost", one.create_cookie(second))
    await znodes.do("again", one.create_cookie(second))
    await znodes.do("all", one.cookies())
    znodes.put("/cookies/apache:3181", b"3\napache:3181\n/j\n2\t/a\t/b\n")
    await znodes.do("one of Apache's", one.read_cookie(BookieId("apache:3181")))
    znodes.first(f"^getdata /ledgers/cookies/{B2}", lambda: znodes._remove(f"/cookies/{B2}"))
    await znodes.do("one goes meanwhile", one.cookies())
    znodes.put("/cookies/odd", b"9\n")
    await znodes.do("one cannot be read", one.cookies())
    for name in ("readonly", "ReadOnly", "a/b", "", ".", "..", "a b"):
        await znodes.do(f"an id that none has: {name!r}", one.read_cookie(BookieId(name)))
    assert snapshot(extension_class=Words) == znodes.text


async def test_boots(znodes: ZnodeRecord, snapshot: SnapshotAssertion) -> None:
    one, two = await znodes.open(), await znodes.open()
    await znodes.do("none", one.read_boot(B1))
    boot = StoredBoot(7, "nonce", 12, 6, "", lease_s=75.0)
    await znodes.do("the first", one.write_boot(B1, boot, version=None))
    await znodes.do("again", two.write_boot(B1, boot, version=None))
    await znodes.do("read", two.read_boot(B1))
    later = replace(boot, epoch=8, rolled_back="ledger 12")
    await znodes.do("the next", two.write_boot(B1, later, version=0))
    await znodes.do("of the version before", one.write_boot(B1, later, version=0))
    await znodes.do("there is none", one.write_boot(B2, boot, version=0))
    znodes.lose("^setdata")
    await znodes.do("an answer is lost", one.write_boot(B1, boot, version=1))
    await znodes.do("read", one.read_boot(B1))
    folder = f"../bookie-operator/{await one.instance_id()}/epochs"
    znodes._asked.clear()
    for number, raw in enumerate((b"7", b'{"epoch": 3}', b"")):
        znodes.put(f"{folder}/b{number}", raw)
        await znodes.do(f"{raw!r}", one.read_boot(BookieId(f"b{number}")))
    await znodes.do("an id that none has", one.write_boot(BookieId("a/b"), boot, version=None))
    assert snapshot(extension_class=Words) == znodes.text


async def test_values(znodes: ZnodeRecord, snapshot: SnapshotAssertion) -> None:
    one, two = await znodes.open(), await znodes.open()
    for name in ("logs/orders", "audit/findings", "log", "logs/", "ä /%"):
        znodes.say(name)
        await znodes.do("none", one.read_value(name))
        await znodes.do("the first", one.write_value(name, b"1", version=None))
        await znodes.do("again", two.write_value(name, b"1", version=None))
        await znodes.do("the next", two.write_value(name, b"2", version=0))
        await znodes.do("of the version before", one.write_value(name, b"3", version=0))
        await znodes.do("read", one.read_value(name))
        await znodes.do("delete another version", one.delete_value(name, version=0))
        await znodes.do("delete", one.delete_value(name, version=1))
        await znodes.do("delete again", one.delete_value(name, version=1))
        await znodes.do("write what was deleted", one.write_value(name, b"4", version=1))
    znodes.say("names and sizes")
    for name in ("", ".", "..", "n" * 251):
        await znodes.do(repr(name[:10]), one.read_value(name))
    await znodes.do("a long name", one.write_value("n" * 250, b"", version=None))
    await znodes.do("too large", one.write_value("big", bytes(1_000_001), version=None))
    await znodes.do("just not", one.write_value("big", bytes(1_000_000), version=None))
    await znodes.do("too large now", one.write_value("big", bytes(1_000_001), version=0))
    znodes.silence("^delete")
    one.session.settings = replace(QUICK, operation_timeout_s=0.05)
    await znodes.do("no answer comes", one.delete_value("big", version=0))
    assert snapshot(extension_class=Words) == znodes.text
