"""A real bookie dies with its disks: the job's command gives its ledgers new members."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from bookie.client.bookkeeper_client import Client
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.repair.engine.opening import open_cluster
from bookie.repair.jobs.audit_job import AuditRequest
from bookie.repair.look.cluster import Cluster
from bookie.repair.look.digests import DigestSettings
from bookie.repair.runs import audit_cluster
from bookie_processes import Bookies, started, until_there
from job_commands import beside_a_job, run_job

pytestmark = [pytest.mark.process, beside_a_job]
NAMES = tuple(BookieId(f"bookie-{number}") for number in range(4))
LOST = NAMES[1]
ENTRIES = 60


@pytest.fixture
async def cluster(zookeeper_url: str) -> AsyncIterator[Cluster]:
    async with open_cluster(zookeeper_url) as opened:
        await opened.store.initialise()
        yield opened


@pytest.fixture
async def bookies(cluster: Cluster, zookeeper_url: str, tmp_path: Path) -> AsyncIterator[Bookies]:
    async with started(cluster.store, NAMES, tmp_path, zookeeper_url) as found:
        yield found


def payload(ledger: int, entry_id: int) -> bytes:
    return b"ledger %d entry %d " % (ledger, entry_id) * 20


async def write(client: Client, number: int, *, is_open: bool) -> LedgerId:
    writer = await client.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=3)
    payloads = [payload(number, i) for i in range(ENTRIES)]
    await writer.wait_acked(writer.append_many(payloads))
    if is_open:
        writer.abandon()
    else:
        await writer.close()
    return writer.ledger_id


async def read(client: Client, ledger_id: LedgerId) -> list[bytes]:
    reader = await client.open_ledger(ledger_id)
    entries = await reader.read(EntryId(0), EntryId(ENTRIES - 1))
    return [bytes(entry.payload) for entry in entries]


async def rereplicate(url: str, *words: str) -> tuple[int, dict[str, Any]]:
    return await run_job("rereplicate", "--yes", "--metadata", url, *words)


@pytest.mark.parametrize("engine", ["inline", "spark-local"])
async def test_ledgers_of_a_bookie_that_died_with_its_disks_are_whole_on_the_others(
    cluster: Cluster, bookies: Bookies, zookeeper_url: str, engine: str
) -> None:
    async with Client(cluster.store) as client:
        ledgers = [await write(client, number, is_open=number > 5) for number in range(8)]
        bookies[LOST].kill()
        shutil.rmtree(bookies[LOST].folder)
        await until_there(cluster.store, *(name for name in NAMES if name != LOST))
        marks = cluster.store.underreplication
        await marks.mark(ledgers[0], [LOST], now_ms=1)
        code, result = await rereplicate(zookeeper_url, LOST, "--engine", engine)
        assert (code, result["ledgers_left"], result["blocked"]) == (0, 0, [])
        assert result["marks"] == {"found": 1, "cleared": 1}
        assert (result["engine"], bool(result["spark_app_id"])) == (engine, engine != "inline")
        assert await marks.read_mark(ledgers[0]) is None
        for number, ledger_id in enumerate(ledgers):
            assert not (await cluster.store.read_ledger(ledger_id)).value.names(LOST)
            # Open ones that never named it are still open: nobody had a reason to close them.
            await client.recover_ledger(ledger_id)
            assert await read(client, ledger_id) == [payload(number, i) for i in range(ENTRIES)]
    deep = await audit_cluster(
        zookeeper_url, AuditRequest(digests=DigestSettings()), say=lambda _line: None
    )
    assert (deep["exit_code"], deep["audit"]["ok"]) == (0, 8 * ENTRIES)
