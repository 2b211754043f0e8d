"""A2: a bookie boots elsewhere while its former process lives on, cut off from metadata alone.

Real bookies, over the native wire. Clients still reach the former one, which answers as long as
its lease lasts; what it acknowledges until then must outlive it.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from bookie.client.bookkeeper_client import Client
from bookie.client.pool import BookiePool
from bookie.frames.build import build_run
from bookie.frames.entry import DigestType, EntryCodec, master_key
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.metadata.memory import MemoryStore
from bookie.metadata.store import MetadataStore
from bookie.protocol.status import Status
from bookie.server.lifecycle import Bookie, ExitCode, Host
from bookie.server.part_settings import boot_settings
from bookie.server.settings import parse_settings
from bookie.testing.metadata import FaultyStore
from server_lab import SMALL
from town import ENSEMBLE, QUICK, LatePool, Town, new_ledger

B0, B1, B2 = ENSEMBLE


@dataclass(slots=True)
class Process:
    """One of B0's."""

    bookie: Bookie
    life: "asyncio.Task[ExitCode]"

    async def waits_or_serves(self) -> bool:
        state = self.bookie.state
        return state.message.startswith("waiting until") or state.phase.serves

    async def end(self) -> None:
        self.bookie.stop()
        await asyncio.wait([self.life])


def begin(home: Path, store: MetadataStore) -> Process:
    """B0 on these folders, with a lease of a few seconds."""
    tree = {
        "bookieId": B0,
        "metadata": "memory://ours",
        "ports": dict.fromkeys(("run", "stock", "admin", "http"), 0),
        "journal": {"directory": str(home / "journal")},
        "ledgers": [{"directory": str(home / "ledger")}],
        "durability": {"journalWriteData": False, "flushIntervalSeconds": 3600},
        "lease": {"seconds": 4.0, "confirmSeconds": 1.0},
    }
    settings = parse_settings(tree, source="the test")
    boot = boot_settings(settings)
    boot = replace(boot, storage=replace(boot.storage, **SMALL), rival_wait_s=0.2)

    async def open_metadata(_url: str) -> MetadataStore:
        return store

    bookie = Bookie(settings, host=Host(open_metadata=open_metadata), boot=boot)
    return Process(bookie, asyncio.create_task(bookie.run()))


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    while not await condition():  # noqa: ASYNC110  # another process
        await asyncio.sleep(0.01)


@dataclass(slots=True)
class Lab:
    """B1 and B2 serve; B0 does on node 1, and a client is connected to it."""

    town: Town
    store: MemoryStore
    home: Path
    cut_off: FaultyStore
    former: Process
    pool: BookiePool

    async def is_registered(self) -> bool:
        return B0 in await self.store.bookies()

    async def add(self, bookie_id: BookieId, ledger_id: LedgerId) -> Status:
        entry = EntryCodec(ledger_id, DigestType.CRC32C, b"").encode(
            EntryId(0), b"acked", lac=EntryId(-1), length=5
        )
        run = build_run(ledger_id, EntryId(0), [entry], lac=EntryId(-1))
        answer: asyncio.Future[Status] = asyncio.get_running_loop().create_future()
        self.pool.add_run(
            bookie_id, master_key=master_key(b""), frame=run, on_reply=answer.set_result
        )
        return await answer

    async def cut_off_former(self) -> None:
        """Its session ends, and it cannot know."""
        self.cut_off.is_out = True
        await self.cut_off.inner.unregister(B0)

    async def boot_elsewhere(self, disks: str) -> Process:
        """It has claimed the bookie when this returns."""
        elsewhere = self.home.with_name("node-2")
        if disks == "a copy":
            shutil.copytree(self.home, elsewhere)
        later = begin(elsewhere, self.town.store("ours"))
        await until(later.waits_or_serves)
        return later

    async def end_of_a_recovery_without_b1(self, ledger_id: LedgerId) -> int | None:
        """B1 has the entry, and is slow to say so."""
        pool = LatePool(self.store, late=B1, others={B0, B2})
        async with Client(self.store, pool) as client:
            await client.recover_ledger(ledger_id)
        await pool.close()
        return (await self.store.read_ledger(ledger_id)).value.last_entry_id


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Lab]:
    town = Town(tmp_path)
    for bookie_id in (B1, B2):
        await town.start("ours", bookie_id)
    home, cut_off, store = tmp_path / "node-1", FaultyStore(town.store("ours")), town.store("ours")
    pool = BookiePool(store, settings=QUICK)
    lab = Lab(town, store, home, cut_off, begin(home, cut_off), pool)
    await until(lab.is_registered)
    assert await lab.add(B0, LedgerId(1)) is Status.OK
    yield lab
    await pool.close()
    await lab.former.end()
    await town.end()


@pytest.mark.parametrize("disks", ["a copy", "all new"])
async def test_a2_what_a_former_process_acknowledges_to_its_end_is_not_truncated(
    lab: Lab, disks: str
) -> None:
    await lab.cut_off_former()
    later = await lab.boot_elsewhere(disks)
    ledger_id = await new_ledger(lab.store)
    assert [await lab.add(one, ledger_id) for one in (B0, B1)] == [Status.OK] * 2
    await until(lab.is_registered)
    assert await lab.end_of_a_recovery_without_b1(ledger_id) == 0
    await later.end()
