"""Beginnings that stories of boots and disks share: one bookie, a few ledgers, an end."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

from bookie.testing.simulation.disk import MachineDisk
from fleet_story import Fleet

Scenes = Callable[[Fleet], Coroutine[Any, Any, None]]
ONE: Final = "bookie-0"
JOURNAL: Final = Path(f"/{ONE}/journal")
FIRST: Final = Path(f"/{ONE}/ledger-0")
SECOND: Final = Path(f"/{ONE}/ledger-1")
ALL: Final = (JOURNAL, FIRST, SECOND)
SHORT_LEASE: Final = {"lease": {"seconds": 12, "confirmSeconds": 4}}
"""Who does not know whether the former process is gone waits for so long."""


def cut(disk: MachineDisk) -> MachineDisk:
    """Power goes: only what was synced is there."""
    return disk.power_cut()


def facts(path: str) -> bool:
    """Markers, stamps, and indexes."""
    return path.endswith(("DIRTY", "STAMP", "index.sqlite"))


async def written(fleet: Fleet, *counts: int) -> None:
    """A ledger with so many entries for each, on one bookie, without a word."""
    with fleet.quiet():
        client = fleet.client()
        for count in counts:
            await fleet.write(count, client=client, ensemble_size=1, write_quorum=1, ack_quorum=1)
        await client.close()


async def down(fleet: Fleet, how: str) -> None:
    """Two ledgers, one on each directory; then a clean stop, or a kill."""
    await fleet.begin()
    await written(fleet, 2, 1)
    with fleet.quiet():
        if how == "stopped":
            await fleet.stop(*fleet.bookies)
        else:
            fleet.crash(*fleet.bookies)
            await asyncio.sleep(5.0)  # its registration has ended
