"""Access lists: what a store with a login or a certificate makes, and how lists are put right."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from bookie.ids import BookieId, LedgerId
from bookie.metadata.access import OPEN, Access
from bookie.metadata.access_lists import BATCH
from bookie.metadata.login_check import check_login
from bookie.metadata.session import ZooKeeperSettings
from bookie.metadata.store import BookieInfo, Cookie, StoredBoot
from bookie.metadata.zookeeper import ZooKeeperStore
from kazoo.exceptions import NoAuthError, NoNodeError, UnimplementedError
from kazoo.security import ACL, OPEN_ACL_UNSAFE, Id
from metadata_cases import some_ledger
from syrupy.assertion import SnapshotAssertion
from transcripts import Words
from znode_record import QUICK, ZnodeRecord, recorded

pytestmark = pytest.mark.process

B1 = BookieId("bookie-1:3181")
FLEET, CLIENT = Id("world", "anyone"), Id("digest", "client:hash")
LEDGER = replace(some_ledger(LedgerId(3)), creation_token=7)
CLOSED = Access((FLEET,), CLIENT, is_super=True)


@pytest.fixture
async def znodes(
    zookeeper_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> AsyncIterator[ZnodeRecord]:
    async with recorded(zookeeper_url, monkeypatch) as record:
        record.has_lists, record.folder = True, str(tmp_path)
        yield record


def login(folder: Path, user: str = "fleet", password: str = "hunter-2") -> Path:
    path = folder / f"{user}.yaml"
    path.write_text(f"scheme: digest\nuser: {user}\npassword: {password}\n")
    return path


async def opened(znodes: ZnodeRecord, settings: ZooKeeperSettings) -> ZooKeeperStore:
    """A store, and what it asks for at first."""
    store = await ZooKeeperStore.open(znodes.address, znodes.root, settings=settings)
    znodes.stores.append(store)
    znodes.tell()
    return store


async def filled(znodes: ZnodeRecord, store: ZooKeeperStore) -> None:
    """Something of each kind."""
    await znodes.do("the cluster", store.initialise())
    await znodes.do("a barrier", store.barrier())
    await znodes.do("an id", store.new_ledger_id())
    await znodes.do("a ledger", store.create_ledger(LEDGER))
    cookie = Cookie(B1, ("/j",), ("/l",), "instance")
    await znodes.do("a cookie", store.create_cookie(cookie))
    await znodes.do("a bookie", store.register(BookieInfo(B1, ())))
    await znodes.do("a boot", store.write_boot(B1, StoredBoot(1), version=None))
    for name in ("logs/orders", "audit"):
        await znodes.do(name, store.write_value(name, b"1", version=None))
    marks = store.underreplication
    await znodes.do("a mark", marks.mark(LedgerId(3), [B1], now_ms=5))
    await znodes.do("a lock", marks.lock(LedgerId(3), holder="here"))


async def test_what_a_login_makes(
    znodes: ZnodeRecord, snapshot: SnapshotAssertion, tmp_path: Path
) -> None:
    znodes.hand.add_auth("digest", "fleet:hunter-2")
    settings = replace(QUICK, login=login(tmp_path))
    store = await opened(znodes, settings)
    await filled(znodes, store)
    assert snapshot(extension_class=Words) == znodes.text


async def test_what_a_login_makes_in_a_fleet_that_moves(
    znodes: ZnodeRecord, snapshot: SnapshotAssertion, tmp_path: Path
) -> None:
    """Lists stay open; that they are to be closed is known."""
    settings = replace(QUICK, login=login(tmp_path), open_access=True)
    store = await opened(znodes, settings)
    await znodes.do("the cluster", store.initialise())
    znodes.lines += [repr(store.session.access), repr(store.session.closed_access)]
    lists = await znodes.do("the lists", store.access_lists())
    await znodes.do("closed", lists.check(store.session.closed_access, apply=True))
    await znodes.do("closed again", lists.check(store.session.closed_access, apply=True))
    znodes.hand.add_auth("digest", "fleet:hunter-2")
    await znodes.do("opened", lists.check(OPEN, apply=True))
    assert snapshot(extension_class=Words) == znodes.text


async def test_whose_login_it_is(
    znodes: ZnodeRecord, snapshot: SnapshotAssertion, tmp_path: Path
) -> None:
    znodes.hand.add_auth("digest", "fleet:hunter-2")
    nobody = await znodes.open(initialise=False)
    one = await znodes.open(initialise=False, settings=replace(QUICK, login=login(tmp_path)))
    await znodes.do("no cluster", check_login(one))
    await one.initialise()
    znodes.tell()
    await znodes.do("its owner", check_login(one))
    await znodes.do("who has no login", check_login(nobody))
    other = replace(QUICK, login=login(tmp_path, "other"))
    two = await znodes.open(initialise=False, settings=other)
    await znodes.do("another", check_login(two))
    cookie = Cookie(B1, ("/j",), ("/l",), "instance")
    for store in (nobody, two):
        await znodes.do("reads", store.instance_id())
        await znodes.do("writes a cookie", store.create_cookie(cookie))
        await znodes.do("creates a ledger", store.create_ledger(LEDGER))
        await znodes.do("deletes it", store.delete_ledger(LEDGER.ledger_id))
    znodes.hand.set_acls(znodes.at("/INSTANCEID"), OPEN_ACL_UNSAFE)
    await znodes.do("another, where it is open", check_login(two))
    assert snapshot(extension_class=Words) == znodes.text


async def test_who_are_we(znodes: ZnodeRecord, snapshot: SnapshotAssertion, tmp_path: Path) -> None:
    """A server that does not say, and one that has us for its super user."""

    async def asked(title: str) -> None:
        settings = replace(QUICK, login=login(tmp_path))
        opening = ZooKeeperStore.open(znodes.address, znodes.root, settings=settings)
        found = await znodes.do(title, opening)
        if isinstance(found, ZooKeeperStore):
            znodes.stores.append(found)
            znodes.lines += [repr(found.session.closed_access), found.session.shown_as]

    await asked("it says")
    znodes.refuse("^whoami", UnimplementedError())
    await asked("it is too old")
    znodes.answer("^whoami", [Id("ip", "127.0.0.1"), Id("super", "fleet")])
    await asked("we are its super user")
    assert snapshot(extension_class=Words) == znodes.text


async def test_lists_are_put_right(znodes: ZnodeRecord, snapshot: SnapshotAssertion) -> None:
    store = await znodes.open()
    await filled(znodes, store)
    znodes.lines.clear()
    znodes._names_given = {k: v for k, v in znodes._names_given.items() if v[0] != "#"}
    for path in ("/elsewhere/a", "/00/0000/L0003/odd", "../bookie-operator/other/epochs"):
        znodes.put(path)
    await znodes.do("lists", store.access_lists())
    lists = await store.access_lists()
    wanted = CLOSED
    await znodes.do("looked at", lists.check(wanted, apply=False))
    znodes.left_out = r"(getacl|getchildren) \S+"
    mine = [ACL(31, CLIENT)]
    znodes.refuse("^setacl .*LAYOUT", NoAuthError())
    znodes.refuse("^getacl .*INSTANCEID", NoAuthError())
    znodes.refuse("^getchildren .*cookies", NoAuthError())
    znodes.refuse("^getacl .*cookies", NoAuthError())
    znodes.refuse("^getacl .*/00$", NoNodeError())
    znodes.refuse("^setacl .*idgen", NoNodeError())
    await znodes.do("put right", lists.check(wanted, apply=True))
    await znodes.do("again", lists.check(wanted, apply=True))
    znodes.hand.set_acls(znodes.at("/00/0000/L0003"), mine)
    znodes.answer("^getacl .*L0003$", (mine, None), times=2)
    await znodes.do("one's own, under a super user", lists.check(wanted, apply=False))
    await znodes.do("and under none", lists.check(replace(wanted, is_super=False), apply=False))
    znodes.lose("^setacl", times=2)
    await znodes.do("opened, two answers are lost", lists.check(OPEN, apply=True))
    znodes.silence("^getacl")
    store.session.settings = replace(QUICK, operation_timeout_s=0.05)
    await znodes.do("no answer comes", lists.check(OPEN, apply=False))
    assert snapshot(extension_class=Words) == znodes.text


async def test_many_lists(znodes: ZnodeRecord, snapshot: SnapshotAssertion) -> None:
    store = await znodes.open()
    for number in range(BATCH + 1):
        znodes.hand.create(znodes.at(f"/00/0000/L{number:04d}"), makepath=True)
    lists = await store.access_lists()
    znodes._asked.clear()
    found = await lists.check(CLOSED, apply=False)
    asked = [one.words for one in znodes._asked if "/L0" not in one.words]
    text = "\n".join([*asked, f"{len(znodes._asked)} requests", *map(str, found), ""])
    assert snapshot(extension_class=Words) == znodes._named(text)
