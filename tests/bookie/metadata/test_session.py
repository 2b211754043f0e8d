"""A read through a ZooKeeper server that lags behind the others (S38): one server never does."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from bookie.errors import UnavailableError
from bookie.metadata.session import (
    ANSWERS,
    REQUESTS_IN_FLIGHT_MAX,
    ZooKeeperSession,
    ZooKeeperSettings,
)
from kazoo.exceptions import KazooException, RolledBackError, RuntimeInconsistency
from virtual_time import clock, in_virtual_time


class Answer:
    """kazoo's asynchronous result, ready at once."""

    exception = None

    def __init__(self, value: object) -> None:
        self.value = value

    def rawlink(self, callback: Callable[["Answer"], None]) -> None:
        callback(self)


class LaggingServer:
    """A kazoo client; its server has not heard of the newest write before it is told to sync."""

    connected = True

    def __init__(self) -> None:
        self.shown = "old"

    def sync_async(self, _path: str) -> Answer:
        self.shown = "new"
        return Answer("/")

    def get_async(self, _path: str) -> Answer:
        return Answer(self.shown)


async def read(*, synced_in: int | None = None) -> Any:
    session = ZooKeeperSession("nowhere:1", settings=ZooKeeperSettings())
    session._client = LaggingServer()
    return await session.read(lambda zk: zk.get_async("/ledgers"), synced_in=synced_in)


async def test_s38_a_read_is_no_older_than_its_question() -> None:
    assert await read() == "new"


async def test_a_listing_syncs_once_for_each_session() -> None:
    assert await read(synced_in=0) == "old"  # its first read has synced: these go after that one
    assert await read(synced_in=-1) == "new"  # the session was lost since, and its promise with it


class Changes:
    """kazoo's transaction, of which the server has refused the change at `place` for `cause`."""

    def __init__(self, place: int, cause: KazooException) -> None:
        self.place, self.cause, self.made = place, cause, 0

    def create(self, _path: str) -> None:
        self.made += 1

    def commit_async(self) -> Answer:
        before = [RolledBackError()] * self.place
        behind = [RuntimeInconsistency()] * (self.made - self.place - 1)
        return Answer([*before, self.cause, *behind])


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("cause", [one() for one in ANSWERS], ids=lambda one: type(one).__name__)
async def test_of_several_changes_the_one_that_was_refused_says_why(
    cause: KazooException, place: int
) -> None:
    """Those before it say that they were rolled back, which is no answer: a caller that looks again
    after a lost race would take the store for one that is away."""
    session = ZooKeeperSession("nowhere:1", settings=ZooKeeperSettings())
    session._client = SimpleNamespace(connected=True, transaction=lambda: Changes(place, cause))

    def fill(changes: Changes) -> None:
        for path in ("/a", "/b", "/c"):
            changes.create(path)

    with pytest.raises(type(cause)):
        await session.transact(fill)


class Unanswered(Answer):
    """It never comes."""

    def rawlink(self, callback: Callable[[Answer], None]) -> None:
        """Nobody calls back."""


class SilentServer(LaggingServer):
    def get_async(self, _path: str) -> Answer:
        return Unanswered("")

    def stop(self) -> None:
        """The session ends."""

    close = stop


async def test_who_waits_for_a_silent_server_is_told_when_the_session_is_closed() -> None:
    session = ZooKeeperSession("nowhere:1", settings=ZooKeeperSettings(operation_timeout_s=5.0))
    session._client = SilentServer()
    reading = asyncio.create_task(session.read(lambda zk: zk.get_async("/ledgers")))
    await asyncio.sleep(0)  # it has asked
    await session.close()
    with pytest.raises(UnavailableError, match="was closed"):
        await reading


@in_virtual_time
async def test_who_waits_behind_others_requests_waits_no_longer_than_its_own_deadline() -> None:
    session = ZooKeeperSession("nowhere:1", settings=ZooKeeperSettings(operation_timeout_s=5.0))
    session._client = SilentServer()
    session._client.trouble = None
    began = clock()
    asked = [session.read(lambda zk: zk.get_async("/")) for _ in range(3 * REQUESTS_IN_FLIGHT_MAX)]
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {UnavailableError}
    assert clock() - began < 5.5
