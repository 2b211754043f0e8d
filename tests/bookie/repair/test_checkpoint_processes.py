"""A scrub's own command is killed half-way: the next one goes on, with no folder to go on from."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from bookie.client.bookkeeper_client import Client
from bookie.ids import BookieId
from bookie.repair.engine.opening import open_cluster
from bookie.repair.look.cluster import Cluster
from bookie_processes import Bookies, started

pytestmark = pytest.mark.process
NAMES = tuple(BookieId(f"bookie-{number}") for number in range(3))
NAME = "repair/checkpoint-deep"
LEDGERS, ENTRIES = 10, 100
RATE = 100 * 1024
"""About a ledger in a second."""


@pytest.fixture
async def cluster(zookeeper_url: str) -> AsyncIterator[Cluster]:
    async with open_cluster(zookeeper_url) as opened:
        await opened.store.initialise()
        yield opened


@pytest.fixture
async def _bookies(cluster: Cluster, zookeeper_url: str, tmp_path: Path) -> AsyncIterator[Bookies]:
    async with started(cluster.store, NAMES, tmp_path, zookeeper_url) as found:
        yield found


def scrub(url: str, *words: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "bookie", "repair", "--every-ledger", "--verify-digests"]
    more = ["--checkpoint", "metadata", "--engine", "inline", "--metadata", url, *words]
    return subprocess.Popen([*command, *more], stdout=subprocess.PIPE)


@pytest.mark.usefixtures("_bookies")
async def test_a_scrub_that_was_killed_goes_on_where_it_was(
    cluster: Cluster, zookeeper_url: str
) -> None:
    async with Client(cluster.store) as client:
        for _ in range(LEDGERS):
            writer = await client.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=3)
            await writer.wait_acked(writer.append_many([b"x" * 1024] * ENTRIES))
            await writer.close()
    killed = scrub(zookeeper_url, "--read-rate", str(RATE))
    async with asyncio.timeout(60):
        while await cluster.store.read_value(NAME) is None:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    killed.send_signal(signal.SIGKILL)
    await asyncio.to_thread(killed.communicate)
    told, _ = await asyncio.to_thread(scrub(zookeeper_url, "--output", "json").communicate)
    result = json.loads(told)
    done, left = (result["ledgers"][name] for name in ("done_before", "considered"))
    assert 0 < done < LEDGERS and done + left == LEDGERS
    assert (result["exit_code"], result["audit_after"]["ok"]) == (0, LEDGERS * ENTRIES)
    assert await cluster.store.read_value(NAME) is None
