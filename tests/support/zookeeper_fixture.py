"""A real ZooKeeper for tests: one server for the whole run, each test with its own root path."""

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from bookie.metadata.embedded import EmbeddedSettings, EmbeddedZooKeeper
from bookie.metadata.zookeeper import ZooKeeperStore
from bookie.tls.environment import DIRECTORY_VARIABLE
from bookie.tls.principals import Role
from kazoo.client import KazooClient
from kazoo.security import make_acl
from tls_fleet import TlsFleet


@pytest.fixture(scope="session")
def zookeeper_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    """The shared server. Nobody stops it: tests of outages start their own."""
    directory = tmp_path_factory.mktemp("zookeeper")
    with EmbeddedZooKeeper.start(directory, settings=EmbeddedSettings(fsync=False)) as server:
        yield server


@pytest.fixture(scope="session")
def zookeeper_roots() -> Iterator[str]:
    """Root paths that no other test of this run has."""
    return (f"/t{number}/ledgers" for number in itertools.count())


@pytest.fixture
def zookeeper_url(zookeeper_server: EmbeddedZooKeeper, zookeeper_roots: Iterator[str]) -> str:
    """Metadata URL of a cluster that does not exist yet."""
    return f"zk://{zookeeper_server.address}{next(zookeeper_roots)}"


@pytest.fixture(scope="session")
def tls_fleet(tmp_path_factory: pytest.TempPathFactory) -> TlsFleet:
    """Whose certificates `secure_zookeeper` takes. Tests that change files make their own."""
    return TlsFleet(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="session")
def secure_zookeeper(
    tls_fleet: TlsFleet, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedZooKeeper]:
    """A server that speaks TLS alone, shared as the other one is."""
    settings = EmbeddedSettings(fsync=False, tls=tls_fleet.folder(Role.ZOOKEEPER))
    directory = tmp_path_factory.mktemp("secure-zookeeper")
    with EmbeddedZooKeeper.start(directory, settings=settings) as server:
        yield server


@pytest.fixture
def secure_zookeeper_url(
    secure_zookeeper: EmbeddedZooKeeper,
    zookeeper_roots: Iterator[str],
    tls_fleet: TlsFleet,
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    """Metadata URL of a cluster that does not exist yet, for the bookie that the environment has
    the credentials of."""
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tls_fleet.folder(Role.BOOKIE)))
    return f"zks://{secure_zookeeper.address}{next(zookeeper_roots)}"


class OwnZooKeeper:
    """A server of one test's own, to stop and start again on the same port and folder."""

    def __init__(self, directory: Path) -> None:
        self._server = EmbeddedZooKeeper.start(directory, settings=EmbeddedSettings(fsync=False))
        self.url = self._server.url

    def start(self) -> None:
        """Starts it again; blocking."""
        self._server = EmbeddedZooKeeper.start(
            self._server.directory,
            port=self._server.port,
            settings=EmbeddedSettings(fsync=False),
        )

    def stop(self) -> None:
        self._server.stop()


@pytest.fixture
def own_zookeeper(tmp_path: Path) -> Iterator[OwnZooKeeper]:
    """A ZooKeeper for a test of outages."""
    own = OwnZooKeeper(tmp_path / "zookeeper")
    yield own
    own.stop()


async def let_register(store: ZooKeeperStore, is_allowed: bool) -> None:
    """Bookies may register, or everybody may only read which ones are registered."""
    rights = [make_acl("world", "anyone", read=True, admin=True, all=is_allowed)]
    await store.session.write(lambda zk: zk.set_acls_async(store.paths.writable, rights))


async def expire(store: ZooKeeperStore) -> None:
    """Ends the session on the server, from a second client that takes it over."""
    loop = asyncio.get_running_loop()
    reconnected = asyncio.Event()
    store.session.on_connected.add(reconnected.set)
    generation = store.session.generation
    while store.session.generation == generation:
        reconnected.clear()
        thief = KazooClient(store.session.hosts, client_id=store.session.client_id, timeout=10.0)
        await loop.run_in_executor(None, thief.start)
        await loop.run_in_executor(None, thief.stop)
        thief.close()
        await asyncio.wait_for(reconnected.wait(), 10)
    store.session.on_connected.discard(reconnected.set)
