"""Bytes change on the disk of a real bookie: found by reading, replaced, good after a restart."""

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from bookie.client.bookkeeper_client import Client
from bookie.ids import BookieId
from bookie.repair.engine.opening import open_cluster
from bookie.repair.jobs.audit_job import AuditRequest, audit
from bookie.repair.jobs.job import open_engine
from bookie.repair.jobs.repair_job import RepairRequest
from bookie.repair.look.cluster import Cluster
from bookie.repair.look.digests import DigestSettings
from bookie.repair.runs import audit_cluster, repair_cluster
from bookie_processes import START_WAIT_S, BookieProcess, Bookies, started, until_there
from churn_lab import found_in
from repair_lab import AUDIT, SETTINGS

pytestmark = pytest.mark.process
NAMES = tuple(BookieId(f"bookie-{number}") for number in range(3))
VICTIM = NAMES[1]
FRAME_AT = 4096
ENTRIES = 40
TOLD = ("audit", "copies", "classes", "exit_code")
DEEP = DigestSettings()
REPAIR = RepairRequest(engine="inline", settings=replace(SETTINGS, digests=DEEP))


@pytest.fixture
async def cluster(zookeeper_url: str) -> AsyncIterator[Cluster]:
    async with open_cluster(zookeeper_url) as opened:
        await opened.store.initialise()
        yield opened


@pytest.fixture
async def bookies(cluster: Cluster, zookeeper_url: str, tmp_path: Path) -> AsyncIterator[Bookies]:
    async with started(cluster.store, NAMES, tmp_path, zookeeper_url) as found:
        yield found


async def restart(bookie: BookieProcess, cluster: Cluster, *, damage: bool) -> None:
    """A clean stop, and perhaps a changed byte in the first frame of each log."""
    await asyncio.to_thread(bookie.stop)
    async with asyncio.timeout(START_WAIT_S):
        while VICTIM in await cluster.store.bookies():  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    for path in bookie.folder.glob("ledger-*/log/*.log") if damage else ():
        with path.open("r+b") as log:
            log.seek(FRAME_AT + 200)
            byte = log.read(1)
            log.seek(FRAME_AT + 200)
            log.write(bytes([byte[0] ^ 0xFF]))
    bookie.start()
    await until_there(cluster.store, *NAMES)


async def write(cluster: Cluster) -> None:
    async with Client(cluster.store) as client:
        writer = await client.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=3)
        await writer.wait_acked(writer.append_many([b"x" * 100] * ENTRIES))
        await writer.close()


async def test_rot_on_a_disk_is_found_replaced_and_gone_after_a_restart(
    cluster: Cluster, bookies: Bookies, zookeeper_url: str
) -> None:
    await write(cluster)
    await restart(bookies[VICTIM], cluster, damage=True)
    assert (await audit_cluster(zookeeper_url, AuditRequest(), say=quiet))["exit_code"] == 0
    found = await audit_cluster(zookeeper_url, AuditRequest(digests=DEEP), say=quiet)
    assert found["audit"]["corrupt"] > 0 and list(found["findings"][0]["bookies"]) == [VICTIM]
    told = await repair_cluster(zookeeper_url, REPAIR, say=quiet)
    assert told["corrupt_replaced"] == told["corrupt_found"] == found["audit"]["corrupt"]
    await restart(bookies[VICTIM], cluster, damage=False)
    after = await audit_cluster(zookeeper_url, AuditRequest(digests=DEEP), say=quiet)
    assert (after["exit_code"], after["audit"]["ok"]) == (0, ENTRIES)


@pytest.mark.parametrize("is_away", [False, True])
async def test_spark_tells_of_real_bookies_what_the_process_itself_tells(
    cluster: Cluster, bookies: Bookies, zookeeper_url: str, spark: Any, is_away: bool
) -> None:
    for _ in range(20):
        await write(cluster)
    await restart(bookies[VICTIM], cluster, damage=True)
    if is_away:
        bookies[NAMES[0]].kill()
    engines = partial(open_engine, session=spark)
    inline, in_spark = [
        await audit(
            cluster, AuditRequest(engine=engine, settings=AUDIT, digests=DEEP), engines=engines
        )
        for engine in ("inline", "spark-local")
    ]
    assert [in_spark[name] for name in TOLD] == [inline[name] for name in TOLD]
    assert found_in(in_spark["findings"]) == found_in(inline["findings"])
    assert in_spark["audit"]["corrupt"] > 0 and bool(in_spark["audit"]["unknown"]) == is_away
    assert in_spark["bytes_read"] >= inline["bytes_read"] > 0


MANUAL = Path(__file__).parents[3] / "docs/audit.md"


async def test_the_session_in_the_manual_finds_the_rot(
    cluster: Cluster, bookies: Bookies, zookeeper_url: str, tmp_path: Path, spark: Any, capsys: Any
) -> None:
    await write(cluster)
    await restart(bookies[VICTIM], cluster, damage=True)
    _before, _, rest = MANUAL.read_text(encoding="utf-8").partition("```python\n")
    code = rest.partition("```")[0].replace("zk://127.0.0.1:2181/ledgers", zookeeper_url)
    code = code.replace("entries.parquet", str(tmp_path / "entries.parquet"))
    await asyncio.to_thread(exec, code, {})
    assert re.search(rf"\|\s+\d+\|\s*{VICTIM}\|\s+0\|\s+39\|", capsys.readouterr().out)


def quiet(_line: str) -> None:
    """Nobody watches."""
