"""A ZooKeeper under TLS, seen by its clients: who gets in, what they hear, what they may do."""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from datetime import timedelta
from operator import methodcaller
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from bookie.errors import SettingsError, UnavailableError
from bookie.ids import BookieId
from bookie.metadata.embedded import EmbeddedSettings, EmbeddedZooKeeper, free_port
from bookie.metadata.layout import Paths
from bookie.metadata.opening import open_store
from bookie.metadata.pausing import PAUSED_NAME
from bookie.metadata.session import ZooKeeperSettings
from bookie.metadata.store import Cookie, MetadataStore
from bookie.metadata.zookeeper import ZooKeeperStore
from bookie.monitoring.commands import ask
from bookie.tls.principals import Principal, Role
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from metadata_cases import some_ledger
from tls_fleet import TlsFleet

pytestmark = pytest.mark.process

HOUR = timedelta(hours=1)
REFUSED_S = 3.0  # who is refused tries as long, and asks why within it
COOKIE = Cookie(BookieId("bookie-0"), ("/journal",), ("/ledger",), "instance")

Open = Callable[..., Awaitable[ZooKeeperStore]]


@pytest.fixture
def url(secure_zookeeper: EmbeddedZooKeeper, zookeeper_roots: Iterator[str]) -> str:
    return f"zks://{secure_zookeeper.address}{next(zookeeper_roots)}"


@pytest.fixture
async def opened(url: str) -> AsyncIterator[Open]:
    """Opens stores of the cluster; all are closed at the end."""
    async with AsyncExitStack() as stack:

        async def another(
            credentials: Path, *, at: str = url, wait_s: float = 15.0
        ) -> MetadataStore:
            settings = ZooKeeperSettings(tls=credentials, connect_timeout_s=wait_s)
            store = await open_store(at, settings=settings)
            stack.push_async_callback(store.close)
            return store

        yield another  # type: ignore[misc]


# Who gets in
async def test_a1_nobody_without_a_certificate_gets_in(secure_zookeeper: EmbeddedZooKeeper) -> None:
    settings = ZooKeeperSettings(connect_timeout_s=REFUSED_S)
    with pytest.raises(UnavailableError, match="it speaks TLS alone, use zks://"):
        await open_store(f"zk://{secure_zookeeper.address}/ledgers", settings=settings)


async def test_a_url_for_tls_needs_credentials() -> None:
    with pytest.raises(SettingsError, match=r"zks:// and no credentials.*BOOKIE_TLS__DIRECTORY"):
        await open_store("zks://127.0.0.1:2181/ledgers")


async def test_a_folder_that_holds_nothing_is_named(opened: Open, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=rf"{tmp_path}/tls.crt, which cannot be read"):
        await opened(tmp_path)


async def test_a_server_of_another_authority_is_refused(opened: Open, tmp_path: Path) -> None:
    other = TlsFleet(tmp_path)
    with pytest.raises(UnavailableError, match=r"no authority in .*/ca.crt has signed .*put its"):
        await opened(other.folder(Role.BOOKIE), wait_s=REFUSED_S)


async def test_a_client_of_another_authority_hears_that_it_is_refused(
    opened: Open, tls_fleet: TlsFleet
) -> None:
    other = tls_fleet.new_authority("other")
    folder = tls_fleet.folder(Role.BOOKIE, "stranger", signed_by=other)
    with pytest.raises(UnavailableError, match=r"refuses .*/tls.crt .*signed by an authority"):
        await opened(folder, wait_s=REFUSED_S)


async def test_an_expired_certificate_of_ours_is_named(opened: Open, tls_fleet: TlsFleet) -> None:
    folder = tls_fleet.folder(Role.BOOKIE, "expired", lasting=-HOUR)
    with pytest.raises(UnavailableError, match=r"refuses .*/tls.crt .*valid now"):
        await opened(folder, wait_s=REFUSED_S)


async def test_a_zookeeper_of_another_fleet_is_refused(opened: Open, tmp_path: Path) -> None:
    fleet = TlsFleet(tmp_path / "tls")
    other = Principal("storage", "other", Role.ZOOKEEPER, "zookeeper")
    settings = EmbeddedSettings(fsync=False, tls=fleet.folder_of(other))
    words = r"certificate of zookeeper zookeeper of storage/other, expected .* of storage/demo"
    with (
        EmbeddedZooKeeper.start(tmp_path / "zookeeper", settings=settings) as server,
        pytest.raises(UnavailableError, match=words),
    ):
        await opened(fleet.folder(Role.BOOKIE), at=server.url, wait_s=REFUSED_S)


async def test_an_expired_certificate_of_a_zookeeper_is_named(
    opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOOKIE_ZOOKEEPER_RENEWAL_S", "0.05")
    fleet = TlsFleet(tmp_path / "tls")
    settings = EmbeddedSettings(fsync=False, tls=fleet.folder(Role.ZOOKEEPER))
    with EmbeddedZooKeeper.start(tmp_path / "zookeeper", settings=settings) as server:
        fleet.folder(Role.ZOOKEEPER, lasting=-HOUR)
        own = fleet.folder(Role.BOOKIE)
        while "has expired" not in refusal(server, own):
            os.sched_yield()
        with pytest.raises(UnavailableError, match=r"has expired, expected one that is valid now"):
            await opened(own, at=server.url, wait_s=REFUSED_S)


def refusal(server: EmbeddedZooKeeper, credentials: Path) -> str:
    """Why it is not spoken to now; empty while it is."""
    try:
        ask((server.host, server.port), b"ruok", credentials=credentials)
    except UnavailableError as error:
        return str(error)
    return ""


async def test_a_port_without_tls_is_named(
    opened: Open, tls_fleet: TlsFleet, zookeeper_server: EmbeddedZooKeeper
) -> None:
    with pytest.raises(UnavailableError, match=r"over TLS|the handshake|does not speak TLS"):
        plain = f"zks://{zookeeper_server.address}/ledgers"
        await opened(tls_fleet.folder(Role.BOOKIE), at=plain, wait_s=REFUSED_S)


async def test_where_nobody_listens_the_reason_is_given(opened: Open, tls_fleet: TlsFleet) -> None:
    with pytest.raises(UnavailableError, match="Connection refused"):
        at = f"zks://127.0.0.1:{free_port()}/ledgers"
        await opened(tls_fleet.folder(Role.BOOKIE), at=at, wait_s=REFUSED_S)


# Who may do what
async def test_a1_a_client_cannot_take_away_what_a_cluster_lives_by(
    opened: Open, url: str, tls_fleet: TlsFleet
) -> None:
    bookie = await opened(tls_fleet.folder(Role.BOOKIE))
    instance_id = await bookie.initialise()
    await bookie.create_cookie(COOKIE)
    client = await opened(tls_fleet.folder(Role.CLIENT))
    paths = Paths(urlsplit(url).path)
    for path in (paths.instance_id, paths.layout, f"{paths.cookies}/bookie-0"):
        for attempt in (methodcaller("delete_async", path), methodcaller("set_async", path, b"")):
            with pytest.raises(UnavailableError, match="does not allow this write to client one"):
                await client.session.write(attempt)
    assert await client.instance_id() == instance_id
    assert await client.read_cookie(COOKIE.bookie_id) is not None


async def test_a_client_makes_writes_and_deletes_ledgers_and_logs(
    opened: Open, tls_fleet: TlsFleet
) -> None:
    await (await opened(tls_fleet.folder(Role.BOOKIE))).initialise()
    client = await opened(tls_fleet.folder(Role.CLIENT))
    ledger_id = await client.new_ledger_id()
    made = await client.create_ledger(some_ledger(ledger_id))
    written = await client.write_ledger(made.value, version=made.version)
    await client.delete_ledger(ledger_id, version=written.version)
    await client.barrier()
    log = await client.write_value("logs/orders", b"[]", version=None)
    await client.write_value("logs/orders", b"[1]", version=log.version)


@pytest.mark.parametrize("name", ["repair/checkpoint-deep", "audit/findings", PAUSED_NAME])
async def test_a_client_makes_no_value_of_the_fleet_before_the_fleet_does(
    opened: Open, tls_fleet: TlsFleet, name: str
) -> None:
    """A checkpoint of a scrub says which copies need no look any more."""
    job = await opened(tls_fleet.folder(Role.JOB))
    await job.initialise()
    client = await opened(tls_fleet.folder(Role.CLIENT))
    with pytest.raises(UnavailableError, match="does not allow this write to client one"):
        await client.write_value(name, b"forged", version=None)
    assert await job.read_value(name) is None


async def test_the_fleet_mends_what_a_client_made_and_each_other(
    opened: Open, tls_fleet: TlsFleet
) -> None:
    bookie = await opened(tls_fleet.folder(Role.BOOKIE))
    await bookie.initialise()
    client, job = [await opened(tls_fleet.folder(role)) for role in (Role.CLIENT, Role.JOB)]
    made = await client.create_ledger(some_ledger(await client.new_ledger_id()))
    await job.write_ledger(made.value, version=made.version)
    cookie = await bookie.create_cookie(COOKIE)
    await job.write_cookie(COOKIE, version=cookie.version)


async def test_a_client_of_another_fleet_reads_nothing(
    opened: Open, url: str, tls_fleet: TlsFleet
) -> None:
    await (await opened(tls_fleet.folder(Role.BOOKIE))).initialise()
    folder = tls_fleet.folder_of(Principal("storage", "other", Role.CLIENT, "one"))
    files = {"ca": "ca.crt", "certfile": "tls.crt", "keyfile": "tls.key"}
    shown = {option: str(folder / name) for option, name in files.items()}
    stranger = KazooClient(urlsplit(url).netloc, use_ssl=True, **shown)
    await asyncio.to_thread(stranger.start)
    with pytest.raises(NoAuthError):
        await asyncio.to_thread(stranger.get, Paths(urlsplit(url).path).instance_id)
    await asyncio.to_thread(stranger.stop)
    stranger.close()


# Renewal
async def test_a_reconnection_shows_the_certificate_of_now(
    opened: Open, tls_fleet: TlsFleet, caplog: pytest.LogCaptureFixture
) -> None:
    store = await opened(tls_fleet.folder(Role.BOOKIE, "renewed"))
    await store.initialise()
    folder = tls_fleet.folder(Role.BOOKIE, "renewed")
    reconnected = asyncio.Event()
    store.session.on_connected.add(reconnected.set)
    with caplog.at_level(logging.INFO):
        store.session._client._connection._socket.shutdown(socket.SHUT_RDWR)
        await asyncio.wait_for(reconnected.wait(), 10)
    assert f"{folder} was read again" in caplog.text


async def test_no_log_has_a_ledgers_password(
    opened: Open, tls_fleet: TlsFleet, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(1):
        store = await opened(tls_fleet.folder(Role.BOOKIE))
        await store.initialise()
        ledger = some_ledger(await store.new_ledger_id(), password=b"hunter-2")
        made = await store.create_ledger(ledger)
        log = logging.getLogger("test")
        log.info("%r", await store.read_ledger(made.value.ledger_id))
    assert caplog.records and "hunter-2" not in caplog.text
