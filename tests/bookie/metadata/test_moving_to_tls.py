"""A fleet moves to a ZooKeeper under TLS, server and clients one after the other, and back."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from bookie.errors import UnavailableError
from bookie.metadata.access import OPEN
from bookie.metadata.embedded import EmbeddedSettings, EmbeddedZooKeeper
from bookie.metadata.session import ZooKeeperSettings
from bookie.metadata.zookeeper import ZooKeeperStore
from bookie.tls.principals import Role
from tls_fleet import TlsFleet

pytestmark = pytest.mark.process


class MovingZooKeeper:
    """One server that keeps folder and port."""

    def __init__(self, directory: Path) -> None:
        self.fleet = TlsFleet(directory / "tls")
        self.credentials = self.fleet.folder(Role.BOOKIE)
        self._directory = directory / "zookeeper"
        self._server = EmbeddedZooKeeper.start(self._directory, settings=self._settings())
        self.address = self._server.address

    def _settings(self, *, tls: bool = False, plain: bool = False) -> EmbeddedSettings:
        folder = self.fleet.folder(Role.ZOOKEEPER) if tls else None
        return EmbeddedSettings(fsync=False, tls=folder, plain=plain)

    def restart(self, *, tls: bool, plain: bool) -> None:
        port = self._server.port
        self._server.stop()
        settings = self._settings(tls=tls, plain=plain)
        self._server = EmbeddedZooKeeper.start(self._directory, port=port, settings=settings)

    def stop(self) -> None:
        self._server.stop()

    async def open(self, *, tls: bool, moving: bool = False) -> ZooKeeperStore:
        settings = ZooKeeperSettings(
            session_timeout_s=4.0,
            operation_timeout_s=10.0,
            tls=self.credentials if tls else None,
            open_access=moving,
        )
        return await ZooKeeperStore.open(self.address, "/ledgers", settings=settings)


@pytest.fixture
def zookeeper(tmp_path: Path) -> Iterator[MovingZooKeeper]:
    moving = MovingZooKeeper(tmp_path)
    yield moving
    moving.stop()


async def test_a_fleet_moves_to_tls_without_a_pause(zookeeper: MovingZooKeeper) -> None:
    before = await zookeeper.open(tls=False)
    await before.initialise()
    value = await before.write_value("one", b"plain", version=None)
    zookeeper.restart(tls=True, plain=True)
    after = await zookeeper.open(tls=True, moving=True)
    value = await after.write_value("one", b"tls", version=value.version)
    await after.write_value("two", b"tls", version=None)
    # A process that has not moved yet changes what one that has moved made.
    value = await before.write_value("one", b"plain", version=value.version)
    two = await before.read_value("two")
    assert two is not None and await before.write_value("two", b"plain", version=two.version)
    await before.close()
    zookeeper.restart(tls=True, plain=False)
    assert await after.write_value("one", b"tls", version=value.version)
    await after.close()


async def test_what_was_closed_is_opened_before_a_fleet_moves_back(
    zookeeper: MovingZooKeeper,
) -> None:
    zookeeper.restart(tls=True, plain=True)
    closed = await zookeeper.open(tls=True)
    await closed.initialise()
    value = await closed.write_value("one", b"tls", version=None)
    plain = await zookeeper.open(tls=False)
    with pytest.raises(UnavailableError, match="does not allow this read to whoever shows no"):
        await plain.read_value("one")
    await (await closed.access_lists()).check(OPEN, apply=True)
    assert await plain.write_value("one", b"plain", version=value.version)
    for store in (closed, plain):
        await store.close()
