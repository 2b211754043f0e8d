"""A real bookie leaves under load: told, emptied by the job's command, stopped; nothing is lost."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from bookie.client.bookkeeper_client import Client
from bookie.client.log import ReplicatedLog
from bookie.client.log_chain import LogSettings
from bookie.client.log_reading import LogPosition
from bookie.ids import BookieId
from bookie.metadata.opening import open_store
from bookie.repair.engine.opening import open_cluster
from bookie.repair.look.cluster import Cluster
from bookie.wire.admin import bookie_admin_pb2 as pb
from bookie.wire.admin.bookie_admin_pb2_grpc import BookieAdminStub
from bookie_processes import START_WAIT_S, BookieProcess
from job_commands import beside_a_job, run_job

NAMES = tuple(BookieId(f"bookie-{number}") for number in range(4))
LEAVING = NAMES[1]
RUNS_MAX = 3
PAUSE_S = 0.005
"""Between two appends: without, the writer takes both cores from the job."""


class Fleet:
    """Four real bookies, and a cluster opened by this test."""

    def __init__(self, url: str, folder: Path, cluster: Cluster) -> None:
        self.url, self.cluster = url, cluster
        self.bookies = {name: BookieProcess(name, folder / name, url) for name in NAMES}

    async def are_registered(self, *names: BookieId) -> bool:
        return set(names) == set(await self.cluster.store.bookies())

    async def health(self, name: BookieId) -> pb.Health:
        port = self.bookies[name].ports()["admin"]
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = BookieAdminStub(channel)  # type: ignore[no-untyped-call]
            found: pb.Health = await stub.GetHealth(pb.GetHealthRequest(), timeout=5)
            return found

    async def counts_nothing(self) -> bool:
        found = await self.health(LEAVING)
        return found.draining and found.ledgers_counted and found.ledgers_naming_it == 0

    async def drain(self, engine: str) -> tuple[int, dict[str, Any]]:
        """The job, again when something came to name the bookie meanwhile, as the operator does."""
        words = ("drain", LEAVING, "--if-draining", "--metadata", self.url, "--engine", engine)
        for _run in range(RUNS_MAX):
            code, result = await run_job(*words)
            if code == 0:
                break
        return code, result


class Load:
    """One appender that never ends and remembers every acknowledged entry."""

    def __init__(self, log: ReplicatedLog) -> None:
        self._log = log
        self._over = False
        self.acked: dict[LogPosition, bytes] = {}

    async def run(self) -> None:
        while not self._over:
            payload = b"entry %d" % len(self.acked)
            self.acked[await self._log.append(payload)] = payload
            await asyncio.sleep(PAUSE_S)

    async def more(self, entries: int) -> None:
        """Until so many more were acknowledged."""
        wanted = len(self.acked) + entries
        await until(lambda: asyncio.sleep(0, len(self.acked) >= wanted))

    def end(self) -> None:
        self._over = True


async def until(true: Callable[[], Awaitable[bool]]) -> None:
    """Wait for other processes, bounded; there is nothing to be told by."""
    async with asyncio.timeout(START_WAIT_S):
        while not await true():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@pytest.fixture
async def fleet(zookeeper_url: str, tmp_path: Path) -> AsyncIterator[Fleet]:
    store = await open_store(zookeeper_url)
    await store.initialise()
    await store.close()
    async with open_cluster(zookeeper_url) as cluster:
        fleet = Fleet(zookeeper_url, tmp_path, cluster)
        try:
            for bookie in fleet.bookies.values():
                bookie.start()
            await until(lambda: fleet.are_registered(*NAMES))
            yield fleet
        finally:
            for bookie in fleet.bookies.values():
                bookie.stop()


async def read_back(client: Client, acked: dict[LogPosition, bytes]) -> dict[LogPosition, bytes]:
    found: dict[LogPosition, bytes] = {}
    for ledger_id in {position.ledger_id for position in acked}:
        reader = await client.open_ledger(ledger_id)
        async for entry in reader.stream(*_span(acked, ledger_id)):
            found[LogPosition(ledger_id, entry.entry_id)] = bytes(entry.payload)
    return found


def _span(acked: dict[LogPosition, bytes], ledger_id: int) -> tuple[Any, Any]:
    ids = [position.entry_id for position in acked if position.ledger_id == ledger_id]
    return min(ids), max(ids)


@beside_a_job
@pytest.mark.process
@pytest.mark.parametrize("engine", ["inline", "spark-local"])
async def test_a_bookie_leaves_under_load_and_every_acked_entry_reads_back(
    fleet: Fleet, engine: str
) -> None:
    store = fleet.cluster.store
    async with Client(store) as client:
        settings = LogSettings(roll_entries=60)
        log = await ReplicatedLog.open("orders", ledgers=client, store=store, settings=settings)
        load = Load(log)
        writing = asyncio.create_task(load.run())
        await load.more(600)
        assert (await fleet.cluster.control.drain(LEAVING)).accepted
        code, result = await fleet.drain(engine)
        assert (code, result["ledgers_left"]) == (0, 0) and result["ledgers"]["moved"] > 0
        await until(fleet.counts_nothing)
        assert fleet.bookies[LEAVING].stop() == 0
        await load.more(200)
        load.end()
        await writing
        await log.close()
        assert await read_back(client, load.acked) == load.acked
    assert len(load.acked) > 800
