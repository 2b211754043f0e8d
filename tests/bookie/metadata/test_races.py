"""What comes between two requests of one question to ZooKeeper: moves, lost sessions, news."""

import asyncio
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest
from bookie.errors import MetadataConflictError, UnavailableError
from bookie.ids import BookieId, LedgerId
from bookie.metadata.layout import Paths
from bookie.metadata.listing import FolderWalk
from bookie.metadata.multi_read import NO_NODE
from bookie.metadata.registration import Registration
from bookie.metadata.service_info import encode_info
from bookie.metadata.session import ZooKeeperSession, ZooKeeperSettings
from bookie.metadata.store import BookieInfo
from bookie.metadata.underreplication import UNLOCK_TRIES_MAX, ZooKeeperUnderreplication
from bookie.metadata.znodes import Znodes
from bookie.metadata.zookeeper import ZooKeeperStore
from kazoo.exceptions import (
    ConnectionLoss,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionExpiredError,
)
from virtual_time import clock, in_virtual_time

PATHS = Paths("/ledgers")
B0 = BookieId("b0")
INFO = BookieInfo(B0, ())
SESSION_ID = 7


@dataclass
class Answer:
    """kazoo's asynchronous result, ready at once."""

    value: Any
    exception: Exception | None = None

    def rawlink(self, callback: Callable[["Answer"], None]) -> None:
        callback(self)


@dataclass
class Stat:
    version: int = 0
    ctime: int = 0
    ephemeralOwner: int = SESSION_ID  # kazoo's name


class Server:
    """A kazoo client, its server and its znodes. `before`: called at each request but a sync, with
    how many there were."""

    connected, trouble, shown_as = True, None, "nobody"
    client_id = SESSION_ID, b""
    owner = SESSION_ID
    """Whose session made the znodes."""

    def __init__(self, *paths: str) -> None:
        self.shown = dict.fromkeys(paths, encode_info(INFO))
        """What it has heard of by now; of what it has not, it hears when it is told to sync."""
        self.newest: dict[str, bytes] | None = None
        self.before: Callable[[int], None] = lambda _count: None
        self.count = 0

    def sync_async(self, _path: str) -> Answer:
        self.shown, self.newest = self.newest or self.shown, None
        return Answer("/")

    def _asked(self, found: Callable[[], Any]) -> Answer:
        self.before(self.count)
        self.count += 1
        try:
            return Answer(found())
        except KeyError:
            return Answer(None, NoNodeError())

    def get_async(self, path: str) -> Answer:
        return self._asked(lambda: (self.shown[path], Stat(ephemeralOwner=self.owner)))

    def exists_async(self, path: str, watch: object = None) -> Answer:
        stat = Stat(ephemeralOwner=self.owner)
        return self._asked(lambda: stat if path in self.shown else None)

    def get_children_async(self, path: str) -> Answer:
        start = f"{path}/"
        below = [one.removeprefix(start) for one in self.shown if one.startswith(start)]
        return self._asked(lambda: sorted({one.partition("/")[0] for one in below}))

    def delete_async(self, path: str, version: int = -1) -> Answer:
        return self._asked(lambda: self.shown.pop(path))


def session_on(server: Server) -> ZooKeeperSession:
    session = ZooKeeperSession("nowhere:1", settings=ZooKeeperSettings())
    session._client = server
    return session


WRITABLE, READ_ONLY = f"{PATHS.writable}/{B0}", f"{PATHS.read_only}/{B0}"


@pytest.mark.parametrize("at", range(8))
@pytest.mark.parametrize("places", [(WRITABLE, READ_ONLY), (READ_ONLY, WRITABLE)])
async def test_a_bookie_that_moves_between_any_two_requests_of_a_listing_is_in_it(
    places: tuple[str, str], at: int
) -> None:
    server = Server(places[0])

    def move(count: int) -> None:
        if count == at:
            server.shown[places[1]] = server.shown.pop(places[0])

    server.before = move
    assert (await ZooKeeperStore(session_on(server), PATHS).bookies()).keys() == {B0}


@pytest.mark.parametrize("synced_in", [None, 0])
async def test_s38_what_a_session_said_that_was_lost_meanwhile_is_asked_again(
    synced_in: int | None,
) -> None:
    session = session_on(server := Server())

    def lose(count: int) -> None:
        if count == 0:
            session.generation += 1
            server.shown, server.newest = {"/a": b"old"}, {"/a": b"new"}

    server.before = lose
    found = await session.read(lambda zk: zk.get_async("/a"), synced_in=synced_in)
    assert found[0] == b"new"


class SessionLostBehindEachRead(ZooKeeperSession):
    async def read(self, begin: Any, *, synced_in: int | None = None) -> Any:
        found = await super().read(begin, synced_in=synced_in)
        self.generation += 1
        return found


async def test_s38_a_walk_relies_on_no_sync_of_a_session_younger_than_its_read() -> None:
    session = SessionLostBehindEachRead("nowhere:1", settings=ZooKeeperSettings())
    server = session._client = Server()
    walk = FolderWalk(session, PATHS.root)
    for number in range(3):
        server.shown, server.newest = {}, {f"{PATHS.root}/{number}": b""}
        assert await walk.tops() == [str(number)]


async def test_news_of_a_registration_that_comes_while_it_is_put_right_is_looked_into() -> None:
    looks = 0

    async def look() -> None:
        nonlocal looks
        looks += 1
        if looks in (2, 3):
            registration._watch(None)

    registration = Registration(session_on(Server(WRITABLE)), PATHS, INFO, check_cluster=look)
    await registration.announce(INFO)
    registration._watch(None)
    for _ in range(60):
        await asyncio.sleep(0)
    assert looks == 4
    await registration.abandon()


@pytest.mark.parametrize("failures", [1, 2, 5])
async def test_a_registration_is_tried_until_it_is_right(
    failures: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bookie.metadata.registration.RETRY_DELAY_S", 0.0)
    looks, is_right = 0, asyncio.Event()

    async def look() -> None:
        nonlocal looks
        looks += 1
        if 1 < looks < failures + 2:
            raise UnavailableError("away")
        if looks == failures + 2:
            is_right.set()

    registration = Registration(session_on(Server(WRITABLE)), PATHS, INFO, check_cluster=look)
    await registration.announce(INFO)
    registration._watch(None)  # the only news that there are
    await asyncio.wait_for(is_right.wait(), 5)
    await registration.abandon()


async def nothing() -> None: ...


class SessionLostBehindTransactions(ZooKeeperSession):
    """Each change happens; of those in `unheard` nobody hears, and the session is another then."""

    unheard: tuple[int, ...] = ()
    changes = 0

    async def transact(self, fill: Callable[[Any], None], *, repeat: bool = False) -> None:
        server, number = self._client, self.changes
        self.changes += 1
        server.shown, server.owner = {WRITABLE: b"half"}, self.session_id
        if number in self.unheard:
            server.client_id = server.owner + 1, b""
            raise UnavailableError("lost")


@pytest.mark.parametrize("unheard", [(0,), (1,), (0, 1), (1, 2), (0, 1, 2)])
async def test_what_an_announcement_that_nobody_heard_of_left_behind_is_our_own(
    unheard: tuple[int, ...],
) -> None:
    session = SessionLostBehindTransactions(
        "nowhere:1", settings=ZooKeeperSettings(registration_wait_s=0.0)
    )
    session._client, session.unheard = Server(), unheard
    registration = Registration(session, PATHS, INFO, check_cluster=nothing)
    for number in range(4):
        with pytest.raises(UnavailableError) if number in unheard else nullcontext():
            await registration.announce(replace(INFO, properties={"turn": str(number)}))
    await registration.abandon()


class ChangesUnheard(ZooKeeperSession):
    """The registration is made, and this comes in place of the answer."""

    instead: type[BaseException]

    async def transact(self, fill: Callable[[Any], None], *, repeat: bool = False) -> None:
        self._client.shown[WRITABLE] = b""
        raise self.instead


@pytest.mark.parametrize("instead", [UnavailableError, asyncio.CancelledError])
async def test_a_first_registration_that_nobody_heard_of_ends_with_unregister(
    instead: type[BaseException],
) -> None:
    session = ChangesUnheard("nowhere:1", settings=ZooKeeperSettings())
    session._client, session.instead = (server := Server(PATHS.instance_id)), instead
    store = ZooKeeperStore(session, PATHS)
    with pytest.raises(instead):
        await store.register(INFO)
    await store.unregister(B0)
    assert WRITABLE not in server.shown


@in_virtual_time
@pytest.mark.parametrize("wait_s", [0.5, 30.0])
async def test_who_finds_a_rival_waits_for_its_end_as_long_as_it_was_told(wait_s: float) -> None:
    settings = ZooKeeperSettings(session_timeout_s=4.0, registration_wait_s=wait_s)
    session = ZooKeeperSession("nowhere:1", settings=settings)
    session._client = server = Server(WRITABLE)
    server.owner = SESSION_ID + 1
    began = clock()
    with pytest.raises(MetadataConflictError, match=f"within {wait_s:g} s"):
        await Registration(session, PATHS, INFO, check_cluster=nothing).announce(INFO)
    assert wait_s <= clock() - began < wait_s + 1


@pytest.mark.parametrize("place", [WRITABLE, READ_ONLY])
async def test_who_gives_up_leaves_a_rivals_registration(place: str) -> None:
    session = ZooKeeperSession("nowhere:1", settings=ZooKeeperSettings(registration_wait_s=0.0))
    session._client = server = Server(place, PATHS.instance_id)
    server.owner = SESSION_ID + 1
    store = ZooKeeperStore(session, PATHS)
    with pytest.raises(MetadataConflictError):
        await store.register(INFO)
    await store.unregister(B0)
    assert place in server.shown


LOCK = PATHS.mark_lock(LedgerId(1))


class UnheardDeletes(Server):
    """Nobody hears of the first `unheard` deletes; `meanwhile` says what comes of each."""

    deletes, unheard = 0, 1
    meanwhile: Callable[[], None] = staticmethod(lambda: None)

    def delete_async(self, path: str, version: int = -1) -> Answer:
        self.deletes += 1
        if self.deletes > self.unheard:
            return super().delete_async(path, version)
        self.meanwhile()
        return Answer(None, ConnectionLoss())


def marks_on(server: Server) -> ZooKeeperUnderreplication:
    return ZooKeeperUnderreplication(session_on(server), PATHS, check_cluster=nothing)


async def test_an_unlock_that_nobody_heard_of_leaves_the_next_workers_lock() -> None:
    server = UnheardDeletes(LOCK)

    def lock_by_another() -> None:
        server.owner = SESSION_ID + 1

    server.meanwhile = lock_by_another
    await marks_on(server).unlock(LedgerId(1))
    assert LOCK in server.shown


async def test_a_clear_that_nobody_heard_of_leaves_the_mark_that_came_since() -> None:
    server = UnheardDeletes(mark := PATHS.mark(LedgerId(1)))
    with pytest.raises(UnavailableError):
        await marks_on(server).clear(LedgerId(1), version=0)
    assert mark in server.shown and server.deletes == 1


class UnheardCreates(Server):
    """Each create happens, and its answer is lost; whoever asks again finds the znode."""

    def create_async(self, path: str, raw: bytes, **_options: bool) -> Answer:
        if path in self.shown:
            return Answer(None, NodeExistsError())
        self.shown[path] = raw
        return Answer(None, ConnectionLoss())


async def test_a_lock_whose_reply_was_lost_is_ours_however_often_and_never_twice() -> None:
    marks = marks_on(server := UnheardCreates())
    server.shown[PATHS.marks_layout] = b'type: "BASIC"\nversion: 1\n'
    for _ in range(3):
        assert await marks.lock(LedgerId(1), holder="here")
        assert not await marks.lock(LedgerId(1), holder="here")
        await marks.unlock(LedgerId(1))


class UnprunedServer(Server):
    """It deletes the mark, and for its folder it has this error."""

    error: type[Exception]

    def delete_async(self, path: str, version: int = -1) -> Answer:
        is_mark = path == PATHS.mark(LedgerId(1))
        return super().delete_async(path, version) if is_mark else Answer(None, self.error())


@pytest.mark.parametrize("error", [NotEmptyError, NoNodeError, ConnectionLoss, SessionExpiredError])
async def test_a_mark_that_is_cleared_is_cleared_whatever_becomes_of_its_folder(
    error: type[Exception],
) -> None:
    server = UnprunedServer(mark := PATHS.mark(LedgerId(1)))
    server.error = error
    assert await marks_on(server).clear(LedgerId(1), version=0)
    assert mark not in server.shown


@pytest.mark.parametrize("unheard", range(UNLOCK_TRIES_MAX + 1))
async def test_an_unlock_that_does_not_arrive_is_tried_again_and_not_without_end(
    unheard: int,
) -> None:
    server = UnheardDeletes(LOCK)
    server.unheard = unheard
    gives_up = unheard == UNLOCK_TRIES_MAX
    with pytest.raises(UnavailableError) if gives_up else nullcontext():
        await marks_on(server).unlock(LedgerId(1))
    assert (LOCK in server.shown) == gives_up


async def test_an_unregister_that_failed_can_be_repeated() -> None:
    server = UnheardDeletes(WRITABLE, PATHS.instance_id)
    store = ZooKeeperStore(session_on(server), PATHS)
    await store.register(INFO)
    with pytest.raises(UnavailableError):
        await store.unregister(B0)
    await store.unregister(B0)
    assert WRITABLE not in server.shown


class ErringServer(Server):
    """It answers this error about each znode of a multiRead."""

    handler = SimpleNamespace(async_result=lambda: Answer(None))

    def __init__(self, error: int) -> None:
        super().__init__()
        self.error = error

    def _call(self, _request: object, result: Answer) -> None:
        result.value = [self.error]


NO_AUTH, CONNECTION_LOSS, SESSION_EXPIRED = -102, -4, -112


@pytest.mark.parametrize("error", [NO_AUTH, CONNECTION_LOSS, SESSION_EXPIRED, -1])
async def test_of_many_znodes_only_those_that_there_are_not_are_absent(error: int) -> None:
    """An access list of somebody else must not make ledgers look deleted."""
    with pytest.raises(UnavailableError, match=f"/a: error {error}"):
        await Znodes(session_on(ErringServer(error))).get_many(["/a"])
    assert await Znodes(session_on(ErringServer(NO_NODE))).get_many(["/a"]) == [None]
