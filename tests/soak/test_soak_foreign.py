"""A bookie of another cluster at the address of ours: the story itself, on real processes."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from bookie.metadata.opening import open_store
from promises import Findings
from soak_bookies import SoakBookie
from soak_foreign import ENTRIES, Foreign
from soak_report import Tally

pytestmark = pytest.mark.process
GIVEN = "foreign entries at the address"
SENT_AWAY = "sent away by a namesake"


@pytest.fixture
async def victim(zookeeper_url: str, tmp_path: Path) -> AsyncIterator[SoakBookie]:
    """Serving, in a cluster of its own."""
    store = await open_store(zookeeper_url)
    await store.initialise()
    await store.close()
    bookie = SoakBookie("b0", tmp_path / "b0", metadata_url=zookeeper_url, mode="memory")
    bookie.start()
    await bookie.serving()
    yield bookie
    bookie.end()


@pytest.fixture
async def foreign(zookeeper_url: str, tmp_path: Path) -> AsyncIterator[Foreign]:
    made = Foreign(tmp_path / "other", metadata_url=zookeeper_url, seed=1)
    await made.start()
    yield made
    made.end()


async def test_a_namesake_takes_the_address_and_gives_it_back(
    victim: SoakBookie, foreign: Foreign
) -> None:
    ports, tally, findings = victim.ports(), Tally(), Findings()
    for _ in range(2):
        await foreign.prepare(victim.name, [7])
        victim.kill()
        await foreign.take(victim.name, ports, hold_s=0.0, findings=findings, tally=tally)
        victim.start(ports)
        await victim.serving()
    assert (tally.asked, findings.words) == ({GIVEN: 2 * ENTRIES, SENT_AWAY: 0}, [])
