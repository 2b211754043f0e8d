"""A job as the operator runs it, against real bookies: one is killed, its entries come back."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from bookie.cli.main import main
from bookie.frames.build import build_run
from bookie.frames.entry import DigestType, EntryCodec, master_key
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.metadata.opening import open_store
from bookie.metadata.store import MetadataStore
from bookie.protocol.ledger import Fragment, LedgerMetadata
from bookie.protocol.status import Status
from bookie.repair.engine.opening import open_cluster
from bookie.repair.jobs.audit_job import AuditRequest
from bookie.repair.look.cluster import Cluster
from bookie.repair.runs import audit_cluster
from bookie_processes import START_WAIT_S, BookieProcess
from click.testing import CliRunner
from job_commands import run_job

PASSWORD = b"secret"
NAMES = ("bookie-0", "bookie-1", "bookie-2")


class Fleet:
    """Three real bookies and a cluster opened by this test."""

    def __init__(self, url: str, bookies: list[BookieProcess], cluster: Cluster) -> None:
        self.url, self.bookies, self.cluster = url, bookies, cluster

    @property
    def store(self) -> MetadataStore:
        return self.cluster.store

    async def registered(self, *names: str) -> None:
        async def there() -> bool:
            return set(names) <= set(await self.store.bookies())

        await until(there, lambda: "\n".join(b.words for b in self.bookies))

    async def gone(self, name: str) -> None:
        async def away() -> bool:
            return BookieId(name) not in await self.store.bookies()

        await until(away, lambda: f"{name} stays registered")

    async def ledger(self, entries: int) -> LedgerMetadata:
        """An open ledger with entries acknowledged by all three, nothing of it flushed."""
        ensemble = tuple(map(BookieId, NAMES))
        metadata = LedgerMetadata(
            await self.store.new_ledger_id(), 3, 3, 2,
            (Fragment(EntryId(0), ensemble),), password=PASSWORD,
        )  # fmt: skip
        await self.store.create_ledger(metadata)
        codec = EntryCodec(metadata.ledger_id, DigestType.CRC32C, PASSWORD)
        bodies = [
            codec.encode(EntryId(i), b"entry %d" % i, lac=EntryId(i - 1), length=i)
            for i in range(entries)
        ]
        frame = build_run(metadata.ledger_id, EntryId(0), bodies, lac=EntryId(entries - 2))
        answers = await asyncio.gather(*(self._add(name, frame) for name in ensemble))
        assert set(answers) == {Status.OK}
        return metadata

    async def _add(self, bookie_id: BookieId, frame: bytes) -> Status:
        answer: asyncio.Future[Status] = asyncio.get_running_loop().create_future()
        self.cluster.peers.add_run(
            bookie_id, master_key=master_key(PASSWORD), frame=frame, on_reply=answer.set_result
        )
        return await answer

    async def held(self, name: str, ledger_id: LedgerId) -> int:
        holdings = await self.cluster.control.availability(BookieId(name), [ledger_id])
        return len(holdings[ledger_id].entries)


async def until(true: Callable[[], Coroutine[Any, Any, bool]], words: Callable[[], str]) -> None:
    """Wait for another process, bounded; there is nothing to be told by."""
    async with asyncio.timeout(START_WAIT_S):
        while not await true():
            assert await asyncio.sleep(0.05, True), words()


@pytest.fixture
async def fleet(zookeeper_url: str, tmp_path: Path) -> AsyncIterator[Fleet]:
    store = await open_store(zookeeper_url)
    await store.initialise()
    await store.close()
    bookies = [BookieProcess(name, tmp_path / name, zookeeper_url) for name in NAMES]
    for bookie in bookies:
        bookie.start()
    async with open_cluster(zookeeper_url) as cluster:
        fleet = Fleet(zookeeper_url, bookies, cluster)
        try:
            await fleet.registered(*NAMES)
            yield fleet
        finally:
            for bookie in bookies:
                bookie.stop()


def silent(_line: str) -> None:
    """Nobody watches."""


@pytest.mark.process
async def test_a_killed_bookie_is_repaired_to_a_clean_audit(fleet: Fleet, tmp_path: Path) -> None:
    ledgers = [await fleet.ledger(entries) for entries in (200, 30)]
    fleet.bookies[1].kill()
    await fleet.gone(NAMES[1])
    fleet.bookies[1].start()
    await fleet.registered(NAMES[1])
    assert [await fleet.held(NAMES[1], ledger.ledger_id) for ledger in ledgers] == [0, 0]
    before = await audit_cluster(fleet.url, AuditRequest(), say=silent)
    assert before["exit_code"] == 4
    assert (before["audit"]["missing"], before["audit"]["unknown"]) == (0, 228)

    result = tmp_path / "result.json"
    code, repaired = await run_job(
        "repair", "--metadata", fleet.url, "--bookie", NAMES[1], "--engine", "inline",
        "--result", str(result),
    )  # fmt: skip
    assert code == 0 and repaired["ledgers"]["cleared"] == repaired["ledgers"]["recovered"] == 2
    assert repaired["entries_copied"] > 0 and repaired["audit_after"]["ok"] == 230
    assert [await fleet.held(NAMES[1], ledger.ledger_id) for ledger in ledgers] == [200, 30]
    assert json.loads(result.read_text()) == repaired
    assert result.with_suffix(".html").read_text().startswith("<!doctype html>")
    assert (await audit_cluster(fleet.url, AuditRequest(), say=silent))["exit_code"] == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("repair", "--engine", "spark-kubernetes", "--metadata", "memory://x"), "spark-local"),
        (("audit", "--engine", "sparkle", "--metadata", "memory://x"), "inline"),
        (("audit", "--metadata", "nowhere"), "expected zk://"),
        (("repair",), "--metadata"),
    ],
    ids=["kubernetes", "engine", "url", "missing"],
)
def test_wrong_usage_ends_with_2_and_says_what_is_expected(
    arguments: tuple[str, ...], words: str
) -> None:
    ended = CliRunner().invoke(main, list(arguments))
    assert ended.exit_code == 2 and words in ended.stderr


def test_an_audit_does_not_begin_if_nothing_can_write_its_tables(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delitem(sys.modules, "bookie.repair.reports.parquet", raising=False)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    words = ["audit", "--metadata", "nowhere", "--parquet", str(tmp_path)]
    told = CliRunner().invoke(main, words)
    assert told.exit_code == 2 and "--parquet needs pyarrow" in told.stderr
