"""What the store of a cluster asks of ZooKeeper about the cluster itself and its ledgers."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from bookie.errors import MetadataFormatError
from bookie.frames.entry import DigestType
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.metadata.layout import LAYOUT_TEXT
from bookie.protocol.ledger import Fragment, LedgerMetadata
from kazoo.exceptions import NoAuthError, NodeExistsError
from syrupy.assertion import SnapshotAssertion
from transcripts import Words
from znode_record import ZnodeRecord, recorded

pytestmark = pytest.mark.process


@pytest.fixture
async def znodes(zookeeper_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ZnodeRecord]:
    async with recorded(zookeeper_url, monkeypatch) as record:
        yield record


ONE, TWO = BookieId("bookie-1:3181"), BookieId("bookie-2:3181")


def ledger(number: int, **more: Any) -> LedgerMetadata:
    fields: dict[str, Any] = {"digest_type": DigestType.HMAC, "password": b"secret"}
    fields |= {"ctime_ms": 1000, "creation_token": 71}
    fragments = (Fragment(EntryId(0), (ONE, TWO)),)
    return LedgerMetadata(LedgerId(number), 2, 2, 1, fragments, **(fields | more))


async def test_a_cluster_is_made(znodes: ZnodeRecord, snapshot: SnapshotAssertion) -> None:
    one = await znodes.open(initialise=False)
    await znodes.do("is there one?", one.instance_id())
    await znodes.do("made", one.initialise())
    await znodes.do("made again", one.initialise())
    two = await znodes.open(initialise=False)
    await znodes.do("its second client", two.initialise())
    await znodes.do("which one is it?", two.instance_id())
    znodes.remove("/LAYOUT")
    await znodes.do(
        "its maker died before LAYOUT, and a client looks", one.read_ledger(LedgerId(1))
    )
    three = await znodes.open(initialise=False)
    await znodes.do("one that never saw LAYOUT", three.read_ledger(LedgerId(1)))
    await znodes.do("made right", three.initialise())
    assert snapshot(extension_class=Words) == znodes.text


async def test_a_cluster_is_made_step_by_step(
    znodes: ZnodeRecord, snapshot: SnapshotAssertion
) -> None:
    """Its root is there already, its maker is disturbed, or an answer is lost."""
    one = await znodes.open(initialise=False)
    znodes.put("")
    await znodes.do("there is a root", one.initialise())
    znodes.remove()
    znodes.first("^transaction", lambda: znodes._put("/INSTANCEID", b"theirs"))
    await znodes.do("somebody is faster", one.initialise())
    znodes.remove()
    znodes.lose("^transaction")
    await znodes.do("the answer to the transaction is lost", one.initialise())
    znodes.remove()
    znodes.drop("^transaction")
    znodes.lose("^create /ledgers/LAYOUT")
    await znodes.do("it does not arrive, and the next answer is lost", one.initialise())
    znodes.remove()
    znodes.put("/cookies")
    znodes.lose("^create /ledgers/INSTANCEID")
    await znodes.do("of what is made one by one", one.initialise())
    znodes.remove("/INSTANCEID")
    znodes.refuse("^transaction", NoAuthError())
    await znodes.do("it is not allowed", one.initialise())
    assert snapshot(extension_class=Words) == znodes.text


async def test_a_cluster_that_is_not_ours(znodes: ZnodeRecord, snapshot: SnapshotAssertion) -> None:
    one = await znodes.open()
    await one.create_ledger(ledger(1))
    znodes.tell()
    znodes.put("/INSTANCEID", b"of-another")
    await znodes.do("a ledger that is there", one.read_ledger(LedgerId(1)))
    await znodes.do("one that is not", one.read_ledger(LedgerId(2)))
    await znodes.do("both", one.read_ledgers([LedgerId(1), LedgerId(2)]))
    await znodes.do("another's access lists", one.access_lists())
    await znodes.do("a value", one.read_value("audit"))
    await znodes.do("bookies need no cluster", one.bookies())
    await znodes.do("it is made ours", one.initialise())
    znodes.remove()
    await znodes.do("all is gone: a ledger", one.read_ledger(LedgerId(1)))
    await znodes.do("all is gone: all ledgers", listed(one))
    await znodes.do("all is gone: a new ledger", one.create_ledger(ledger(2)))
    znodes.remove()
    two = await znodes.open(initialise=False)
    await znodes.do("one that was never there: a value", two.read_value("audit"))
    await znodes.do("a new ledger", two.create_ledger(ledger(2)))
    await znodes.do("an id", two.new_ledger_id())
    await znodes.do("access lists", two.access_lists())
    await znodes.do("made again by one that knew it", one.initialise())
    await znodes.do("a value by it", one.write_value("audit", b"x", version=None))
    assert snapshot(extension_class=Words) == znodes.text


LAYOUTS = {
    "hierarchical": LAYOUT_TEXT,
    "legacy": LAYOUT_TEXT.replace("Hier", "LegacyHier"),
    "without its package": "2\nLegacyHierarchicalLedgerManagerFactory:1",
    "another version of it": LAYOUT_TEXT.replace(":1", ":2"),
    "long": LAYOUT_TEXT.replace("Hier", "LongHier"),
    "version 1": "1\nhierarchical:1",
    "version 3": LAYOUT_TEXT.replace("2\n", "3\n"),
    "flat": LAYOUT_TEXT.replace("Hierarchical", "Flat"),
    "no text": "\x00\ufffd",
    "empty": "",
}


async def test_layouts(znodes: ZnodeRecord, snapshot: SnapshotAssertion) -> None:
    """Whoever has read one LAYOUT goes on with it; who initialises reads it again."""
    one = await znodes.open()
    for name, text in LAYOUTS.items():
        znodes.put("/LAYOUT", text.encode())
        znodes.say(name)
        if isinstance(await znodes.do("initialise", one.initialise()), MetadataFormatError):
            continue
        await znodes.do("create", one.create_ledger(ledger(7)))
        await znodes.do("delete", one.delete_ledger(LedgerId(7)))
    znodes.put("/LAYOUT", LAYOUTS["long"].encode())
    two = await znodes.open(initialise=False)
    await znodes.do("long", two.create_ledger(ledger(7)))
    znodes.put("/LAYOUT", LAYOUT_TEXT.encode())
    await znodes.do("hierarchical meanwhile", two.read_ledger(LedgerId(7)))
    assert snapshot(extension_class=Words) == znodes.text


async def test_a_barrier(znodes: ZnodeRecord, snapshot: SnapshotAssertion) -> None:
    one, two = await znodes.open(), await znodes.open()
    await znodes.do("the first", one.barrier())
    await znodes.do("the second", one.barrier())
    await znodes.do("of another", two.barrier())
    folder = f"../bookie-operator/{await one.instance_id()}/barriers"
    znodes._asked.clear()
    znodes.remove(folder)
    await znodes.do("it was removed", one.barrier())
    await znodes.do("the one behind", one.barrier())
    znodes.lose("^setdata")
    await znodes.do("an answer is lost", one.barrier())
    three = await znodes.open()
    znodes.remove(folder)
    znodes.first("^create", lambda: znodes._put(folder, b""))
    await znodes.do("somebody else makes it first", three.barrier())
    znodes.refuse("^setdata", NoAuthError())
    await znodes.do("it is not allowed", three.barrier())
    await znodes.do("and then it is", three.barrier())
    assert snapshot(extension_class=Words) == znodes.text


async def test_ids(znodes: ZnodeRecord, snapshot: SnapshotAssertion) -> None:
    one = await znodes.open()
    await znodes.do("the first", one.new_ledger_id())
    await znodes.do("the second", one.new_ledger_id())
    znodes.lose("^create")
    await znodes.do("an answer is lost: a number is wasted", one.new_ledger_id())
    znodes.lose("^delete")
    await znodes.do("nobody knows of the deletion", one.new_ledger_id())
    znodes.drop("^delete")
    await znodes.do("the deletion does not arrive", one.new_ledger_id())
    znodes.refuse("^delete", NoAuthError())
    await znodes.do("it is not allowed", one.new_ledger_id())
    znodes.refuse("^create", NoAuthError())
    await znodes.do("nor is the creation", one.new_ledger_id())
    assert snapshot(extension_class=Words) == znodes.text


@pytest.mark.parametrize("number", ["2147483646", "2147483647", "-2147483648"])
async def test_ids_where_the_short_counter_ends(
    znodes: ZnodeRecord, snapshot: SnapshotAssertion, number: str
) -> None:
    one, two = await znodes.open(), await znodes.open()
    znodes.answer("^create", znodes.at(f"/idgen/ID-{number}"))
    await znodes.do("the short counter ends", one.new_ledger_id())
    await znodes.do("by the same", one.new_ledger_id())
    await znodes.do("by another", two.new_ledger_id())
    await znodes.do("by it again", two.new_ledger_id())
    assert snapshot(extension_class=Words) == znodes.text


async def test_long_ids(znodes: ZnodeRecord, snapshot: SnapshotAssertion) -> None:
    one = await znodes.open()
    folders = (
        "HOB-0000000009",
        "HOB-0000000010",
        "HOB-2147483648",
        "HOB-99999999999",
        "HOB-x",
        "y",
    )
    for name in folders:
        znodes.put(f"/idgen-long/{name}")
    await znodes.do("the highest counts", one.new_ledger_id())
    high = znodes.at("/idgen-long/HOB-000000001{}/ID-{}")
    znodes.answer("^create", high.format(0, 2**31 - 1))
    await znodes.do("it ends", one.new_ledger_id())
    await znodes.do("the one behind it is the highest now", one.new_ledger_id())
    for number in range(4):
        znodes.answer("^create", high.format(number, -(2**31)))
    await znodes.do("four have ended", one.new_ledger_id())
    znodes.put("/idgen-long/HOB-2147483647")
    await znodes.do("the highest half there is", one.new_ledger_id())
    znodes.answer("^create", znodes.at("/idgen-long/HOB-2147483647/ID--1"))
    await znodes.do("it has ended", one.new_ledger_id())
    assert snapshot(extension_class=Words) == znodes.text


async def test_the_first_long_id(znodes: ZnodeRecord, snapshot: SnapshotAssertion) -> None:
    one = await znodes.open()
    znodes.answer("^create /ledgers/idgen/", znodes.at(f"/idgen/ID-{2**31 - 1}"))
    znodes.first("^create /ledgers/idgen-long ", lambda: znodes._put("/idgen-long", b""))
    await znodes.do("somebody else made the folder", one.new_ledger_id())
    two = await znodes.open()
    znodes.refuse("^getchildren", NoAuthError())
    await znodes.do("nobody may list the halves", two.new_ledger_id())
    await znodes.do("now they may", two.new_ledger_id())
    assert snapshot(extension_class=Words) == znodes.text


async def test_creating_ledgers(znodes: ZnodeRecord, snapshot: SnapshotAssertion) -> None:
    one, two = await znodes.open(), await znodes.open()
    await znodes.do("the first", one.create_ledger(ledger(1)))
    await znodes.do("again", one.create_ledger(ledger(1)))
    await znodes.do("its neighbour", two.create_ledger(ledger(2)))
    await znodes.do("by somebody else", two.create_ledger(ledger(2, creation_token=9)))
    await znodes.do(
        "with no token", two.create_ledger(ledger(2, password_is_stored=False, password=b""))
    )
    znodes.lose("^create /ledgers/00/0000/L0003")
    await znodes.do("an answer is lost", one.create_ledger(ledger(3)))
    znodes.first("^create /ledgers/00/0001$|^create /ledgers/00/0001 ", nothing)
    await znodes.do("in a folder of its own", one.create_ledger(ledger(10_000)))
    await one.write_ledger(ledger(3).in_recovery(), version=0)
    znodes.tell()
    await znodes.do("again, once it was written", one.create_ledger(ledger(3)))
    znodes.refuse("^create /ledgers/00/0000/L0004", NodeExistsError())
    await znodes.do("deleted as soon as made", one.create_ledger(ledger(4)))
    znodes.put("/00/0000/L0005", b"unreadable")
    await znodes.do("what is there cannot be read", one.create_ledger(ledger(5)))
    await znodes.do("too large", one.create_ledger(ledger(6, custom={"a": bytes(999_887)})))
    await znodes.do("just not", one.create_ledger(ledger(6, custom={"a": bytes(999_886)})))
    for number in (-1, 2**31 - 2, 2**31 - 1, 2**32, 2**63 - 1, 2**63):
        await znodes.do(f"id {number}", one.create_ledger(ledger(number)))
    made = await one.create_ledger(ledger(8, creation_token=0))
    assert 0 < made.value.creation_token < 2**63
    assert snapshot(extension_class=Words) == znodes.text


def nothing() -> None:
    """Somebody else looks on."""


async def test_a_folder_goes_while_a_ledger_is_created(
    znodes: ZnodeRecord, snapshot: SnapshotAssertion
) -> None:
    one = await znodes.open()
    znodes.first("L0001", lambda: znodes._remove("/00"), skip=1)
    await znodes.do("once", one.create_ledger(ledger(1)))
    for tries in (3, 4):
        for _ in range(tries):
            znodes.first("^create /ledgers/01/0000 ''", lambda: znodes._remove("/01"))
        await znodes.do(f"{tries} times", one.create_ledger(ledger(10**8 + 1)))
        if tries == 3:
            await znodes.do("deleted", one.delete_ledger(LedgerId(10**8 + 1)))
    assert snapshot(extension_class=Words) == znodes.text


def listed(store: Any) -> Any:
    async def all_of_them() -> list[LedgerId]:
        return [one async for one in store.ledger_ids()]

    return all_of_them()


V1 = b"BookieMetadataFormatVersion\t1\n2\n2\n0\n0\tbookie-1:3181\tbookie-2:3181\n"
V2 = (
    b"BookieMetadataFormatVersion\t2\nquorumSize: 2\nensembleSize: 2\nlength: 7\n"
    b'lastEntryId: 4\nstate: CLOSED\nsegment {\n  ensembleMember: "bookie-1:3181"\n'
    b'  ensembleMember: "bookie-2:3181"\n  firstEntryId: 0\n}\ndigestType: CRC32\npassword: "p"\n'
)


async def test_reading_ledgers(znodes: ZnodeRecord, snapshot: SnapshotAssertion) -> None:
    one = await znodes.open()
    await one.create_ledger(ledger(1))
    for number, raw in ((2, V1), (3, V2), (4, b"unreadable"), (6, b"")):
        znodes.put(f"/00/0000/L000{number}", raw)
    znodes._asked.clear()
    for number in range(1, 8):
        await znodes.do(f"ledger {number}", one.read_ledger(LedgerId(number)))
    good, bad = [LedgerId(n) for n in (3, 1, 2, 5)], [LedgerId(n) for n in (6, 1, 4)]
    await znodes.do("those that can be read, and one that is not", one.read_ledgers(good))
    await znodes.do("with unreadable ones", one.read_ledgers(bad))
    unreadable: dict[LedgerId, MetadataFormatError] = {}
    await znodes.do("which are put aside", one.read_ledgers(bad, unreadable=unreadable))
    znodes.lines.append(f"{unreadable}")
    await znodes.do("none", one.read_ledgers([]))
    for number in (0, 255, 256):
        await one.create_ledger(ledger(1000 + number))
    znodes._asked.clear()
    many = [LedgerId(n) for n in range(1000, 1512)]
    await znodes.do("512", one.read_ledgers(many))
    await znodes.do("513", one.read_ledgers([*many, LedgerId(1)]))
    znodes.drop("^multi-read", times=2)
    await znodes.do("the first two answers are lost", one.read_ledgers([LedgerId(1)]))
    znodes.answer("^multi-read", [-102])
    await znodes.do("one may not be read", one.read_ledgers([LedgerId(1)]))
    znodes.refuse("^getdata", NoAuthError())
    await znodes.do("nor here", one.read_ledger(LedgerId(1)))
    assert snapshot(extension_class=Words) == znodes.text


async def test_writing_ledgers(znodes: ZnodeRecord, snapshot: SnapshotAssertion) -> None:
    one, two = await znodes.open(), await znodes.open()
    made = (await one.create_ledger(ledger(1))).value
    znodes.tell()
    await znodes.do("in recovery", one.write_ledger(made.in_recovery(), version=0))
    await znodes.do("of the version before", two.write_ledger(made, version=0))
    closed = made.closed(EntryId(4), length=50)
    await znodes.do("closed", two.write_ledger(closed, version=1))
    await znodes.do("of a version to come", two.write_ledger(closed, version=3))
    await znodes.do("there is none", one.write_ledger(ledger(2), version=0))
    znodes.lose("^setdata")
    await znodes.do("an answer is lost", one.write_ledger(closed, version=2))
    znodes.drop("^setdata")
    await znodes.do("it does not arrive", one.write_ledger(closed, version=3))
    await znodes.do("now it does", one.write_ledger(closed, version=3))
    large = replace(closed, custom={"a": bytes(1_000_000)})
    await znodes.do("too large", one.write_ledger(large, version=4))
    znodes.refuse("^setdata", NoAuthError())
    await znodes.do("not allowed", one.write_ledger(closed, version=4))
    old = LedgerMetadata(LedgerId(2), 2, 2, 2, made.fragments, password_is_stored=False, ctime_ms=5)
    znodes.put("/00/0000/L0002", V1)
    await znodes.do("of the oldest form", one.write_ledger(old, version=0))
    assert snapshot(extension_class=Words) == znodes.text


async def test_deleting_ledgers(znodes: ZnodeRecord, snapshot: SnapshotAssertion) -> None:
    one = await znodes.open()
    for number in (1, 2, 10_000, 20_000, 30_000, 40_000, 2**40):
        await one.create_ledger(ledger(number))
    await one.write_ledger(ledger(2).in_recovery(), version=0)
    znodes.tell()
    await znodes.do("one of two", one.delete_ledger(LedgerId(1)))
    await znodes.do("again", one.delete_ledger(LedgerId(1)))
    await znodes.do("of another version", one.delete_ledger(LedgerId(2), version=0))
    await znodes.do("the last of a folder", one.delete_ledger(LedgerId(2), version=1))
    await znodes.do("of a long path", one.delete_ledger(LedgerId(2**40), version=0))
    znodes.lose("^delete")
    await znodes.do("an answer is lost", one.delete_ledger(LedgerId(10_000)))
    await znodes.do("so somebody looks again", one.delete_ledger(LedgerId(10_000)))
    znodes.refuse("^delete /ledgers/00/0002 ", NoAuthError())
    await znodes.do("its folder stays", one.delete_ledger(LedgerId(20_000)))
    znodes.first("^delete /ledgers/00/0003 ", lambda: znodes._put("/00/0003/L0001", b"new"))
    await znodes.do("a new one in its folder", one.delete_ledger(LedgerId(30_000)))
    znodes.first("^delete /ledgers/00/0004 ", lambda: znodes._remove("/00"))
    await znodes.do("somebody else removes its folders", one.delete_ledger(LedgerId(40_000)))
    await znodes.do("an id that none has", one.delete_ledger(LedgerId(-1)))
    assert snapshot(extension_class=Words) == znodes.text


async def test_listing_ledgers(znodes: ZnodeRecord, snapshot: SnapshotAssertion) -> None:
    one = await znodes.open()
    await znodes.do("none", listed(one))
    paths = (
        "00/0000/L0002", "00/0000/L0001", "00/0000/ID-1", "00/0000/L12345", "00/000a/L0001",
        "00/00000/L0001", "21/4748/L3646", "000/0000/0021/4748/L3647", "922/3372/0368/5477/L5807",
        "922/3372/0368/5477/L580x", "0000/0000/L0001", "0a/0000/L0001", "other/0000/L0001",
        "000/0000/0000/0000/L0007", "00/0001", "idgen/ID-0000000001",
    )  # fmt: skip
    for path in paths:
        znodes.put(f"/{path}")
    await znodes.do("all", listed(one))
    znodes.first("^getchildren /ledgers/00/0000$", lambda: znodes._remove("/00/0000"))
    await znodes.do("a folder goes meanwhile", listed(one))
    znodes.refuse("^getchildren /ledgers/21$", NoAuthError())
    await znodes.do("a folder may not be read", listed(one))
    znodes.drop("^getchildren /ledgers/21$")
    await znodes.do("a request is lost", listed(one))
    znodes.put("/999/9999/9999/9999/L9999")
    await znodes.do("an id beyond all", one.read_ledgers(await listed(one)))
    znodes.remove("/999")
    for number in range(40):
        znodes.hand.create(znodes.at(f"/01/{number:04d}/L0001"), makepath=True)
    znodes.put("/01/0040")
    znodes.left_out = r"getchildren \S+"
    await znodes.do("many folders", listed(one))
    assert snapshot(extension_class=Words) == znodes.text
