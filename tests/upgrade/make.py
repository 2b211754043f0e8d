"""Makes the fixtures of `test_upgrade_in_place`: real fleets of revision 6162029, stopped for good.

It runs with the code of that revision and says so when it does not. From a clone's root:

    git worktree add --detach ../old 6162029
    OLD=$PWD/../old PYTHONPATH=$OLD/operator/src:$OLD/bookie/src:$OLD/tests/support \
        python tests/upgrade/make.py

Each archive holds the folders of ZooKeeper and of four bookies, and `acknowledged.json`: what
clients were told is written. Where a bookie was killed, the others were stopped cleanly, so every
acknowledged entry lies on a disk.
"""

import asyncio
import json
import os
import random
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml
from bookie.client.bookkeeper_client import Client
from bookie.client.log import LogPosition, LogSettings, ReplicatedLog
from bookie.client.recovery import RecoverySettings, recover
from bookie.client.writer import LedgerWriter
from bookie.errors import BookieError, UnavailableError
from bookie.frames.entry import DigestType
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.metadata.embedded import EmbeddedSettings, EmbeddedZooKeeper
from bookie.protocol.ledger import LedgerState
from bookie.protocol.status import Status
from bookie.repair.engine.opening import open_cluster
from bookie.repair.look.cluster import Cluster
from bookie.testing.metadata import FaultyStore
from bookie_processes import BookieProcess, until_there

import bookie

REVISION: Final = "6162029"
FIXTURES: Final = Path(__file__).parent / "fixtures"
NAMES: Final = tuple(BookieId(f"bookie-{number}") for number in range(4))
VICTIM: Final = NAMES[1]
"""Killed at the end of an unclean variant."""
FORGETFUL: Final = NAMES[3]
"""Killed in its first life, and in limbo ever since if its mode forgets."""
MODES: Final[dict[str, dict[str, Any]]] = {
    "memory": {"journalWriteData": False, "ack": "memory", "flushIntervalSeconds": 3600},
    "sync": {"journalWriteData": False, "ack": "sync", "flushIntervalSeconds": 3600},
    "journal": {"journalWriteData": True, "flushIntervalSeconds": 3600},
}
VARIANTS: Final = ("clean-memory", "unclean-memory", "unclean-sync", "unclean-journal")
PASSWORD: Final = "secret"
LOG: Final = "orders"
WAIT_S: Final = 30.0
"""For other processes, which are polled: there is nothing to be told by."""
TRIMMED_FROM: Final = 1024 * 1024
LEFT_OUT: Final = ("log", "bookie.yaml", "runtime.json", "zookeeper.log", "zoo.cfg", "lock")
"""Files of the machine that made the fixture: settings and what programs said."""


@dataclass
class Acknowledged:
    """What clients were told. `ledgers`: by id; `log`: position and payload in the log's order.

    And how the bookies were left: the epoch that each had, and what was in limbo before the end.
    """

    mode: str
    killed: str | None
    ledgers: dict[int, dict[str, Any]] = field(default_factory=dict)
    deleted: list[int] = field(default_factory=list)
    collected: list[int] = field(default_factory=list)
    log: list[tuple[int, int, str]] = field(default_factory=list)
    epochs: dict[str, int] = field(default_factory=dict)
    limbo: dict[str, list[int]] = field(default_factory=dict)

    def took(self, ledger_id: LedgerId, kind: str, payloads: Iterable[bytes]) -> None:
        told = self.ledgers.setdefault(ledger_id, {"kind": kind, "payloads": []})
        told["payloads"] += [payload.decode() for payload in payloads]

    def to_json(self) -> str:
        return json.dumps({"revision": REVISION, **vars(self)}, indent=1, sort_keys=True)


class OldFleet:
    """Four bookies in one mode, and a client that writes a bit of everything."""

    def __init__(self, folder: Path, url: str, mode: str, told: Acknowledged) -> None:
        self._url = url
        self._told = told
        self._processes = {name: BookieProcess(name, folder / name, url) for name in NAMES}
        for process in self._processes.values():
            _change(process, durability=MODES[mode])

    # Lives
    async def start(self, cluster: Cluster, *, collect_s: float) -> None:
        for process in self._processes.values():
            _change(process, storage={"collectIntervalSeconds": collect_s})
            process.start()
        await until_there(cluster.store, *NAMES)

    async def _kill_and_start(self, name: BookieId, cluster: Cluster) -> None:
        self._processes[name].kill()
        await until_there(cluster.store, *(each for each in NAMES if each != name))
        self._processes[name].start()
        await until_there(cluster.store, *NAMES)

    async def note_the_end(self, cluster: Cluster) -> None:
        for name in NAMES:
            marks = await cluster.control.list_marks(name)
            assert marks.status is Status.OK, marks.message
            self._told.limbo[name] = [mark.ledger_id for mark in marks.marks if mark.limbo]
            epoch = await cluster.store.read_boot_epoch(name)
            self._told.epochs[name] = epoch.value if epoch is not None else 0

    async def stop(self) -> None:
        for process in self._processes.values():
            if process.is_running:
                assert await asyncio.to_thread(process.stop) == 0, process.words

    # What is written
    async def write_what_is_collected(self, cluster: Cluster) -> None:
        """A ledger that is deleted and whose entries are collected: tombstones are left."""
        async with Client(cluster.store) as client:
            writer = await self._written(client, "collected", 10, ensemble=4)
            await writer.close()
            await client.delete_ledger(writer.ledger_id)
        self._told.collected.append(writer.ledger_id)
        del self._told.ledgers[writer.ledger_id]
        async with asyncio.timeout(WAIT_S):
            for name in NAMES:
                while await _holds(cluster, name, writer.ledger_id):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)

    async def write_what_is_forgotten(self, cluster: Cluster) -> None:
        """An open ledger of which one bookie has forgotten all that was not durable there."""
        async with Client(cluster.store) as client:
            (await self._written(client, "forgotten", 20, ensemble=4)).abandon()
        for name in NAMES:
            if name != FORGETFUL:
                assert await cluster.control.flush(name) is Status.OK
        await self._kill_and_start(FORGETFUL, cluster)

    async def write(self, cluster: Cluster, killed: BookieId | None) -> None:
        """Everything else. Half of it is flushed; then a bookie is killed, or is not."""
        client = Client(cluster.store, rng=random.Random(6162029))
        deleted = await self._written(client, "deleted", 10, ensemble=4)
        await deleted.close()
        await (await self._written(client, "closed", 60, ensemble=4)).close()
        log = await self._log_begun(client, cluster)
        for name in NAMES:
            assert await cluster.control.flush(name) is Status.OK
        await (await self._written(client, "unflushed", 40, ensemble=4)).close()
        hmac = await self._written(client, "hmac", 20, ensemble=4, digest_type=DigestType.HMAC)
        await hmac.close()
        (await self._written(client, "open", 30, ensemble=4)).abandon()
        await self._told_lac(client)
        await self._half_recovered(client, cluster)
        changed = await self._of_the_victim(client)
        if killed is not None:
            self._processes[killed].kill()
        await self._append(changed, "changed", 30)
        await changed.close()
        await self._append_to_log(log, 15)
        await client.delete_ledger(deleted.ledger_id)
        del self._told.ledgers[deleted.ledger_id]
        self._told.deleted.append(deleted.ledger_id)
        await client.close()

    async def _written(
        self, client: Client, kind: str, entries: int, *, ensemble: int, **how: Any
    ) -> LedgerWriter:
        writer = await client.create_ledger(
            ensemble_size=ensemble,
            write_quorum=3,
            ack_quorum=2,
            password=PASSWORD.encode(),
            **how,
        )
        await self._append(writer, kind, entries)
        return writer

    async def _append(self, writer: LedgerWriter, kind: str, entries: int) -> None:
        first = writer.lac + 1
        payloads = [f"{kind} {number}".encode() for number in range(first, first + entries)]
        await writer.wait_acked(writer.append_many(payloads))
        self._told.took(writer.ledger_id, kind, payloads)

    async def _of_the_victim(self, client: Client) -> LedgerWriter:
        """A ledger that one bookie can be replaced in, with the one that is going to be killed."""
        while True:
            writer = await self._written(client, "changed", 30, ensemble=3)
            if VICTIM in writer.metadata.last_fragment.ensemble:
                return writer
            await writer.close()

    async def _told_lac(self, client: Client) -> None:
        """An open ledger whose bookies were told the LAC by a writer that had nothing to add."""
        writer = await self._written(client, "lac", 5, ensemble=4)
        reader = await client.open_ledger(writer.ledger_id, password=PASSWORD.encode())
        async with asyncio.timeout(WAIT_S):
            while await reader.read_lac() < writer.lac:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        writer.abandon()

    async def _half_recovered(self, client: Client, cluster: Cluster) -> None:
        """A recovery that dies when it is about to close: fenced and IN_RECOVERY."""
        writer = await self._written(client, "recovering", 20, ensemble=4)
        writer.abandon()
        store = FaultyStore(cluster.store)

        async def dies(name: str) -> None:
            metadata = (await cluster.store.read_ledger(writer.ledger_id)).value
            if name == "write_ledger" and metadata.state is LedgerState.IN_RECOVERY:
                raise UnavailableError("the recovery dies")

        store.before = dies
        try:
            await recover(
                store, cluster.peers, writer.ledger_id, password=PASSWORD.encode(),
                settings=RecoverySettings(attempts=1),
            )  # fmt: skip
        except BookieError:
            metadata = (await cluster.store.read_ledger(writer.ledger_id)).value
            assert metadata.state is LedgerState.IN_RECOVERY
        else:
            raise AssertionError("the recovery was to die")

    # The log of ledgers
    async def _log_begun(self, client: Client, cluster: Cluster) -> ReplicatedLog:
        """One that was rolled and truncated."""
        log = await ReplicatedLog.open(
            LOG, ledgers=client, store=cluster.store, settings=LogSettings(3, 3, 2)
        )
        await log.append_many([b"truncated"] * 5)
        await log.roll()
        await self._append_to_log(log, 10)
        await log.truncate(LogPosition(log.ledger_id, EntryId(0)))
        await log.roll()
        return log

    async def _append_to_log(self, log: ReplicatedLog, entries: int) -> None:
        for number in range(len(self._told.log), len(self._told.log) + entries):
            payload = f"order {number}"
            position = await log.append(payload.encode())
            self._told.log.append((position.ledger_id, position.entry_id, payload))


async def make(variant: str, folder: Path) -> None:
    """Write the fleet of a variant into this folder."""
    how, _, mode = variant.partition("-")
    killed = VICTIM if how == "unclean" else None
    told = Acknowledged(mode, killed)
    settings = EmbeddedSettings(fsync=False, preallocate_kb=64)
    with EmbeddedZooKeeper.start(folder / "zookeeper", settings=settings) as zookeeper:
        async with open_cluster(zookeeper.url) as cluster:
            await cluster.store.initialise()
            fleet = OldFleet(folder, zookeeper.url, mode, told)
            await fleet.start(cluster, collect_s=0.3)
            await fleet.write_what_is_collected(cluster)
            await fleet.write_what_is_forgotten(cluster)
            await fleet.stop()
        async with open_cluster(zookeeper.url) as cluster:
            await fleet.start(cluster, collect_s=3600)
            await fleet.note_the_end(cluster)
            await fleet.write(cluster, killed)
            await fleet.stop()
    # Started once more it leaves a snapshot beside its log.
    EmbeddedZooKeeper.start(folder / "zookeeper", settings=settings).stop()
    (folder / "acknowledged.json").write_text(told.to_json(), encoding="utf-8")


def pack(folder: Path, archive: Path) -> None:
    """The folder's files. What was preallocated is left out; its sizes are in `sizes.json`."""
    sizes = {}
    for path in folder.rglob("*"):
        if path.is_file() and path.stat().st_size > TRIMMED_FROM:
            sizes[str(path.relative_to(folder))] = path.stat().st_size
            os.truncate(path, len(path.read_bytes().rstrip(b"\0")))
    (folder / "sizes.json").write_text(json.dumps(sizes), encoding="utf-8")
    archive.parent.mkdir(exist_ok=True)
    with tarfile.open(archive, "w:xz", preset=9) as packed:
        for path in sorted(folder.iterdir()):
            packed.add(path, path.name, filter=_kept)


def _kept(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if Path(member.name).name in LEFT_OUT and not member.isdir():
        return None
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


def _change(process: BookieProcess, **sections: dict[str, Any]) -> None:
    settings = yaml.safe_load(process.config.read_text(encoding="utf-8"))
    for name, values in sections.items():
        settings[name] = values if name == "durability" else settings[name] | values
    process.config.write_text(yaml.safe_dump(settings), encoding="utf-8")


async def _holds(cluster: Cluster, bookie_id: BookieId, ledger_id: LedgerId) -> int:
    holdings = await cluster.control.availability(bookie_id, [ledger_id])
    return len(holdings[ledger_id].entries)


def _check_revision() -> None:
    code = Path(bookie.__file__).parent
    asked = ["git", "-C", str(code), "rev-parse", "HEAD"]
    found = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    if not found.startswith(REVISION):
        sys.exit(f"{code} is of revision {found.strip()}, expected {REVISION}: see the module")


if __name__ == "__main__":
    _check_revision()
    for variant in sys.argv[1:] or VARIANTS:
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary, variant)
            folder.mkdir()
            asyncio.run(make(variant, folder))
            pack(folder, FIXTURES / f"{variant}.tar.xz")
        print(variant, (FIXTURES / f"{variant}.tar.xz").stat().st_size, "bytes")
