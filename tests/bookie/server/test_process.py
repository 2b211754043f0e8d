"""Bookies as real processes and over a real ZooKeeper: kills, clean ends, rivals, lost sessions."""

import asyncio
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from bookie.client.pool import BookiePool
from bookie.hosts import at_port, loopback
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.metadata.opening import open_store
from bookie.metadata.session import ZooKeeperSettings
from bookie.metadata.store import RUN_ENDPOINT, MetadataStore
from bookie.metadata.zookeeper import ZooKeeperStore
from bookie.protocol.ledger import Fragment, LedgerMetadata
from bookie.protocol.status import Status
from bookie.wire.admin import bookie_admin_pb2 as pb
from bookie.wire.admin.bookie_admin_pb2_grpc import BookieAdminStub
from bookie.wire.native import ReadRequest
from bookie_processes import BookieProcess
from server_lab import ENSEMBLE, KEY, ME, ServerLab, frame
from zookeeper_fixture import OwnZooKeeper, expire, let_register

pytestmark = pytest.mark.process
WAIT_S = 30.0


async def until(condition: Callable[[], Any], words: Callable[[], str] = str) -> None:
    """Until what other processes do is done; `words` for the failing test's message."""
    try:
        async with asyncio.timeout(WAIT_S):
            while not await condition():  # noqa: ASYNC110  # other processes tell nothing
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(words()) from None


class Outside:
    """One bookie process seen from outside: metadata, control plane, native port."""

    def __init__(self, process: BookieProcess, store: MetadataStore) -> None:
        self.process, self.store = process, store
        self.pool = BookiePool(store)

    async def serving(self) -> pb.Health:
        """Health once this very process serves and is registered."""

        async def there() -> bool:
            info = (await self.store.bookies()).get(ME)
            return info is not None and self.process.runtime.exists() and any(
                e.port == self.process.ports().get("admin") for e in info.endpoints
            )  # fmt: skip

        await until(there, lambda: self.process.words)
        return await self.health()

    async def health(self) -> pb.Health:
        target = at_port(loopback(), self.process.ports()["admin"])
        async with grpc.aio.insecure_channel(target) as channel:
            stub: Any = BookieAdminStub(channel)  # type: ignore[no-untyped-call]
            found: pb.Health = await stub.GetHealth(pb.GetHealthRequest(), timeout=5)
            return found

    async def ledger(self) -> LedgerId:
        fragments = (Fragment(EntryId(0), ENSEMBLE),)
        metadata = LedgerMetadata(await self.store.new_ledger_id(), 3, 3, 2, fragments)
        await self.store.create_ledger(metadata)
        return metadata.ledger_id

    async def add(self, ledger_id: int, first: int, count: int = 1) -> Status:
        answer: asyncio.Future[Status] = asyncio.get_running_loop().create_future()
        run = frame(ledger_id, first, count)
        self.pool.add_run(ME, master_key=KEY, frame=run, on_reply=answer.set_result)
        return await answer

    async def absent(self, ledger_id: int, entry_id: int) -> Status | None:
        """What it says of an entry that is not there, None when no answer came."""
        request = ReadRequest(LedgerId(ledger_id), EntryId(entry_id), EntryId(entry_id), 1000, KEY)
        status, reply = await self.pool.read(ME, request)
        return reply.absent if status is Status.OK and reply is not None else None


@pytest.fixture
async def outside(tmp_path: Path, zookeeper_url: str) -> AsyncIterator[Outside]:
    process = BookieProcess(ME, tmp_path / "bookie", zookeeper_url)
    seen = Outside(process, await open_store(zookeeper_url))
    await seen.store.initialise()
    process.start()
    yield seen
    process.stop()
    await seen.pool.close()
    await seen.store.close()


async def test_a_killed_process_boots_unclean_in_limbo_and_a_stopped_one_clean(
    outside: Outside,
) -> None:
    process = outside.process
    assert (await outside.serving()).boot.reason == "FirstBoot"
    ledger = await outside.ledger()
    assert await outside.add(ledger, 0, 100) is Status.OK
    process.kill()
    process.start()
    boot = (await outside.serving()).boot
    assert (boot.boot_epoch, boot.clean, boot.reason) == (2, False, "UncleanShutdown")
    assert (boot.ledgers_fenced, boot.ledgers_in_limbo) == (0, 1)

    async def unknown() -> bool:
        return await outside.absent(ledger, 0) is Status.UNKNOWN

    await until(unknown)
    assert await outside.add(ledger, 100) is Status.READ_ONLY
    assert process.stop() == 0
    process.start()
    found = await outside.serving()
    assert (found.boot.boot_epoch, found.boot.clean, found.boot.reason) == (3, True, "CleanStop")
    assert found.limbo_ledgers == 1, "S30: limbo stays over restarts"
    assert process.stop() == 0


async def test_a_second_process_on_the_same_folders_is_refused_and_names_the_first(
    outside: Outside,
) -> None:
    await outside.serving()
    rival = Outside(outside.process.rival(), outside.store)
    rival.process.start()

    async def refused() -> bool:
        if not rival.process.runtime.exists():
            return False
        return (await rival.health()).phase == pb.REFUSED

    await until(refused, lambda: rival.process.words)
    words = (await rival.health()).message
    assert f"in use by another bookie process (pid {outside.process.pid})" in words
    assert await asyncio.to_thread(ready, rival.process) == (503, f"REFUSED: {words}\n")
    assert rival.process.stop() == 3
    assert await outside.add(await outside.ledger(), 0) is Status.OK


def ready(process: BookieProcess) -> tuple[int, str]:
    url = f"http://{at_port(loopback(), process.ports()['http'])}/readyz"
    try:
        with urllib.request.urlopen(url) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


# ---- a real ZooKeeper under a bookie in this process --------------------------------------------


class OverZooKeeper(ServerLab):
    """A bookie of this process whose metadata is in a real ZooKeeper."""

    url: str
    zookeeper: ZooKeeperStore
    """The bookie's own session."""
    clients: MetadataStore

    async def _open(self, _url: str) -> MetadataStore:
        impatient = ZooKeeperSettings(operation_timeout_s=1.0, session_timeout_s=4.0)
        opened = await open_store(self.url, settings=impatient)
        assert isinstance(opened, ZooKeeperStore)
        self.zookeeper = opened
        return opened

    async def until_registered(self) -> None:
        async def there() -> bool:
            # Where it listens now: what an outage kept from being withdrawn is still there.
            info = (await self.clients.bookies()).get(ME)
            endpoint = info.endpoint(RUN_ENDPOINT) if info is not None else None
            assert self.bookie is not None
            return endpoint is not None and endpoint.port == self.bookie.ports.get("run")

        await until(there)


async def test_a_registration_returns_after_the_session_was_lost(
    tmp_path: Path, zookeeper_url: str
) -> None:
    lab = OverZooKeeper(tmp_path)
    lab.url, lab.clients = zookeeper_url, await open_store(zookeeper_url)
    await lab.clients.initialise()
    bookie = await lab.start()
    before = (await lab.clients.bookies())[BookieId(ME)]
    await expire(lab.zookeeper)
    await lab.until_registered()
    assert (await lab.clients.bookies())[ME] == before
    assert bookie.state.phase.serves
    assert await lab.stop() == 0
    await lab.end()
    await lab.clients.close()


async def test_a_bookie_whose_first_registration_is_refused_serves_and_tries_again(
    tmp_path: Path, zookeeper_url: str
) -> None:
    lab = OverZooKeeper(tmp_path)
    lab.url, lab.clients = zookeeper_url, await open_store(zookeeper_url)
    await lab.clients.initialise()
    assert isinstance(lab.clients, ZooKeeperStore)
    await let_register(lab.clients, False)
    bookie = lab.begin()
    await lab.until(lambda: "does not allow this write" in bookie.state.message)
    assert bookie.state.phase.serves
    await let_register(lab.clients, True)
    await lab.until_registered()
    assert await lab.stop() == 0
    await lab.end()
    await lab.clients.close()


async def test_an_outage_of_zookeeper_stops_neither_serving_nor_a_clean_end(
    tmp_path: Path, own_zookeeper: OwnZooKeeper
) -> None:
    lab = OverZooKeeper(tmp_path)
    lab.url, lab.clients = own_zookeeper.url, await open_store(own_zookeeper.url)
    await lab.clients.initialise()
    await lab.start()
    lab.pool = BookiePool(lab.clients)
    ledger = await lab.clients.new_ledger_id()
    assert await lab.add(ledger, 0) is Status.OK
    await asyncio.to_thread(own_zookeeper.stop)
    assert await lab.add(ledger, 1, 50) is Status.OK
    assert await lab.fence(ledger) is Status.OK
    assert await lab.stop() == 0
    await asyncio.to_thread(own_zookeeper.start)
    await lab.start()
    assert await lab.held(ledger, 0, 99) == list(range(51))
    await lab.end()
    await lab.clients.close()
