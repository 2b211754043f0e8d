"""A fleet of revision 6162029 that boots on today's code: the whole story, and what was seen of it.

Three lives: on the old folders, and a repair; after clean stops of two; after a kill of one. The
story only looks and keeps what it saw. What must have been seen is in `test_upgrade_in_place`.
"""

import asyncio
import json
import os
import tarfile
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from bookie.client.bookkeeper_client import Client
from bookie.client.log import ReplicatedLog
from bookie.client.log_chain import LogSettings
from bookie.frames.build import build_run
from bookie.frames.entry import DigestType, EntryCodec, master_key
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.metadata.embedded import EmbeddedSettings, EmbeddedZooKeeper
from bookie.metadata.store import ADMIN_ENDPOINT
from bookie.protocol.status import Status
from bookie.repair.engine.opening import open_cluster
from bookie.repair.jobs.audit_job import AuditRequest
from bookie.repair.jobs.repair_job import RepairRequest
from bookie.repair.look.cluster import Cluster
from bookie.repair.reports.progress_lines import say_nothing
from bookie.repair.reports.result import Document
from bookie.repair.runs import audit_cluster, repair_cluster
from bookie.wire.admin.client import Call, control_plane
from bookie.wire.admin.health import BootRecord, Health
from bookie_processes import BookieProcess
from repair_lab import SETTINGS

FIXTURES: Final = Path(__file__).parent / "fixtures"
NAMES: Final = tuple(BookieId(f"bookie-{number}") for number in range(4))
VICTIM, FORGETFUL = NAMES[1], NAMES[3]
"""As in `make.py`: killed last, and killed in its first life."""
WAIT_S: Final = 60.0
"""For other processes. Shorter than what a boot would wait that has to outlive a lease."""
RESTARTED: Final = (VICTIM, NAMES[2])
PASSWORD: Final = b"secret"
LOG: Final = "orders"
MODES: Final[dict[str, dict[str, Any]]] = {
    "memory": {"journalWriteData": False, "ack": "memory", "flushIntervalSeconds": 3600},
    "sync": {"journalWriteData": False, "ack": "sync", "flushIntervalSeconds": 3600},
    "journal": {"journalWriteData": True, "flushIntervalSeconds": 3600},
}
COLLECT: Final = {"collectIntervalSeconds": 0.2, "collectGraceSeconds": 0.4}
NEW_PAYLOADS: Final = [b"new %d" % number for number in range(20)]
REPAIR: Final = RepairRequest(engine="inline", settings=SETTINGS)

Held = dict[LedgerId, list[str]]
LogRead = list[tuple[int, int, str]]


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """What the clients of before were told, and how their fleet ended: `epochs` and `limbo` of
    each bookie before that."""

    mode: str
    killed: BookieId | None
    epochs: dict[BookieId, int]
    limbo: dict[BookieId, set[LedgerId]]
    ledgers: dict[LedgerId, dict[str, Any]]
    deleted: tuple[LedgerId, ...]
    log: LogRead

    @classmethod
    def read(cls, folder: Path) -> "Acknowledged":
        told = json.loads((folder / "acknowledged.json").read_text(encoding="utf-8"))
        return cls(
            told["mode"],
            told["killed"],
            told["epochs"],
            {name: set(ledger_ids) for name, ledger_ids in told["limbo"].items()},
            {LedgerId(int(i)): ledger for i, ledger in told["ledgers"].items()},
            (*told["deleted"], *told["collected"]),
            [tuple(entry) for entry in told["log"]],
        )

    @property
    def payloads(self) -> Held:
        return {ledger_id: told["payloads"] for ledger_id, told in self.ledgers.items()}

    def of_kind(self, kind: str) -> LedgerId:
        """The last of that kind."""
        return [ledger_id for ledger_id, told in self.ledgers.items() if told["kind"] == kind][-1]


@dataclass(frozen=True, slots=True)
class Life:
    """What the bookies said that were started for it, as soon as they served; `limbo` of all."""

    boots: dict[BookieId, BootRecord]
    limbo: dict[BookieId, set[LedgerId]]


@dataclass(frozen=True, kw_only=True)
class Seen:
    """The story.

    `undecided`: what the killed bookie may have forgotten entries of. `late`: what a writer of
    before is told that was fenced before. `read`, `log`: after the repair. `read_again`: in the
    third life, with the new ledger.
    """

    told: Acknowledged
    undecided: set[LedgerId]
    first: Life
    audit_before: Document
    lac: EntryId
    late: set[Status]
    repaired: Document
    limbo_left: set[LedgerId]
    audit_after: Document
    read: Held
    log: LogRead
    deleted_found: list[LedgerId]
    deleted_held: int
    second: Life
    new_ledger: LedgerId
    third: Life
    read_again: Held


def unpack(variant: str, folder: Path) -> Acknowledged:
    """The folders of before, as they lay there; preallocated files get their size back."""
    with tarfile.open(FIXTURES / f"{variant}.tar.xz") as packed:
        packed.extractall(folder, filter="data")
    for path, size in json.loads((folder / "sizes.json").read_text(encoding="utf-8")).items():
        os.truncate(folder / path, size)
    return Acknowledged.read(folder)


async def upgrade(variant: str, folder: Path) -> Seen:
    """The story of one variant, in an empty folder."""
    settings = EmbeddedSettings(fsync=False)
    processes = {name: BookieProcess(name, folder / name, "zk://h:1/ledgers") for name in NAMES}
    told = unpack(variant, folder)
    with EmbeddedZooKeeper.start(folder / "zookeeper", settings=settings) as zookeeper:
        for process in processes.values():
            _configure(process, zookeeper.url, told.mode)
        async with open_cluster(zookeeper.url) as cluster:
            fleet = Fleet(zookeeper.url, cluster, processes, told)
            try:
                return await fleet.story()
            finally:
                for process in processes.values():
                    if process.is_running:
                        process.kill()


class Fleet:
    """Four processes of today on the folders of before."""

    def __init__(
        self,
        url: str,
        cluster: Cluster,
        processes: dict[BookieId, BookieProcess],
        told: Acknowledged,
    ) -> None:
        self._url, self._cluster, self._processes, self._told = url, cluster, processes, told

    async def story(self) -> Seen:
        undecided = await self._undecided()
        first = await self._life()
        audit_before = await self._audit()
        lac, late = await self._lac(), await self._late()
        repaired = await repair_cluster(self._url, REPAIR, say=say_nothing)
        limbo_left = set().union(*(await self._limbo()).values())
        audit_after = await self._audit()
        read, log = await self._read(self._told.ledgers), await self._log()
        deleted_found, deleted_held = await self._deleted()
        again = [self._processes[name] for name in RESTARTED]
        assert set(await asyncio.gather(*(asyncio.to_thread(p.stop) for p in again))) == {0}
        second = await self._life()
        new_ledger = await self._write()
        await asyncio.to_thread(self._processes[VICTIM].kill)
        third = await self._life()
        read_again = await self._read([*self._told.ledgers, new_ledger])
        return Seen(
            told=self._told,
            undecided=undecided,
            first=first,
            audit_before=audit_before,
            lac=lac,
            late=late,
            repaired=repaired,
            limbo_left=limbo_left,
            audit_after=audit_after,
            read=read,
            log=log,
            deleted_found=deleted_found,
            deleted_held=deleted_held,
            second=second,
            new_ledger=new_ledger,
            third=third,
            read_again=read_again,
        )

    # Lives
    async def _life(self) -> Life:
        """Who does not run is started, and serves in the end; what it says of its boot."""
        started = [name for name in NAMES if not self._processes[name].is_running]
        for name in started:
            self._processes[name].start()
        healths = await asyncio.gather(*map(self._serving, started))
        boots = {
            name: health.boot
            for name, health in zip(started, healths, strict=True)
            if health.boot is not None
        }
        return Life(boots, await self._limbo())

    async def _serving(self, name: BookieId) -> Health:
        process = self._processes[name]

        async def registered() -> bool:
            info = (await self._cluster.store.bookies()).get(name)
            endpoint = info.endpoint(ADMIN_ENDPOINT) if info is not None else None
            at = process.ports()["admin"] if process.runtime.exists() else None
            return endpoint is not None and endpoint.port == at

        await until(registered, lambda: process.words)
        async with control_plane(f"127.0.0.1:{process.ports()['admin']}") as plane:
            return await plane.health(Call(None, WAIT_S))

    async def _limbo(self) -> dict[BookieId, set[LedgerId]]:
        # With a client of its own: one of the life before looks for bookies where they were.
        async with open_cluster(self._url) as cluster:
            marks = [await cluster.control.list_marks(name) for name in NAMES]
        assert {each.status for each in marks} == {Status.OK}
        return {each.bookie_id: {m.ledger_id for m in each.marks if m.limbo} for each in marks}

    # What is looked at
    async def _undecided(self) -> set[LedgerId]:
        """Not closed, and the last ensemble has the killed bookie: docs/protocol-rules.md, R25."""
        killed, store = self._told.killed, self._cluster.store
        ids = [ledger_id async for ledger_id in store.ledger_ids()]
        found = [each.value for each in (await store.read_ledgers(ids)).values()]
        named = [each for each in found if not each.is_closed and killed is not None]
        return {each.ledger_id for each in named if killed in each.last_fragment.ensemble}

    async def _audit(self) -> Document:
        found = await audit_cluster(
            self._url, AuditRequest(settings=SETTINGS.audit), say=say_nothing
        )
        return {"exit_code": found["exit_code"], **found["audit"]}

    async def _lac(self) -> EntryId:
        """Of the open ledger whose bookies were told it; nobody recovers anything for it."""
        async with Client(self._cluster.store) as client:
            reader = await client.open_ledger(self._told.of_kind("lac"), password=PASSWORD)
            return await reader.read_lac()

    async def _late(self) -> set[Status]:
        """The answers to adds that were fenced: by a recovery, and by the boot of who forgot."""
        recovering, forgotten = map(self._told.of_kind, ("recovering", "forgotten"))
        late = [self._add(name, recovering) for name in NAMES]
        late += [self._add(n, forgotten) for n in NAMES if forgotten in self._told.limbo[n]]
        return set(await asyncio.gather(*late))

    async def _add(self, bookie_id: BookieId, ledger_id: LedgerId) -> Status:
        """One more entry, as a writer adds it that knows of all the others."""
        entry_id = EntryId(len(self._told.payloads[ledger_id]))
        lac = EntryId(entry_id - 1)
        codec = EntryCodec(ledger_id, DigestType.CRC32C, PASSWORD)
        entry = codec.encode(entry_id, b"late", lac=lac, length=1000)
        answer: asyncio.Future[Status] = asyncio.get_running_loop().create_future()
        self._cluster.peers.add_run(
            bookie_id,
            master_key=master_key(PASSWORD),
            frame=bytes(build_run(ledger_id, entry_id, [entry], lac=lac)),
            on_reply=answer.set_result,
        )
        return await answer

    async def _read(self, ledger_ids: Iterable[LedgerId]) -> Held:
        """Whole ledgers, recovered first."""
        found: Held = {}
        async with Client(self._cluster.store) as client:
            for ledger_id in ledger_ids:
                reader = await client.recover_ledger(ledger_id, password=PASSWORD)
                entries = reader.stream(EntryId(0), reader.last_entry_id)
                found[ledger_id] = [entry.payload.decode() async for entry in entries]
        return found

    async def _log(self) -> LogRead:
        """The log as its next owner finds it."""
        async with Client(self._cluster.store) as client:
            log = await ReplicatedLog.open(
                LOG, ledgers=client, store=self._cluster.store, settings=LogSettings(3, 3, 2)
            )
            found: LogRead = [
                (entry.position.ledger_id, entry.position.entry_id, entry.payload.decode())
                async for entry in log.read_all()
            ]
            await log.close()
        return found

    async def _deleted(self) -> tuple[list[LedgerId], int]:
        """Which of the deleted ledgers can be opened, and how many of their entries are held once
        they should have been collected."""
        found = await self._cluster.store.read_ledgers(self._told.deleted)

        async def held() -> int:
            asked = [self._cluster.control.availability(n, self._told.deleted) for n in NAMES]
            answers = [each for reply in await asyncio.gather(*asked) for each in reply.values()]
            return sum(len(each.entries) for each in answers)

        async def collected() -> bool:
            return await held() == 0

        await until(collected, lambda: "entries of deleted ledgers are not collected")
        return list(found), await held()

    async def _write(self) -> LedgerId:
        """A ledger of today, of which nothing is flushed, and each copy is acknowledged."""
        async with Client(self._cluster.store) as client:
            writer = await client.create_ledger(
                ensemble_size=4, write_quorum=3, ack_quorum=3, password=PASSWORD
            )
            await writer.wait_acked(writer.append_many(NEW_PAYLOADS))
            writer.abandon()
        return writer.ledger_id


def _configure(process: BookieProcess, url: str, mode: str) -> None:
    settings = yaml.safe_load(process.config.read_text(encoding="utf-8"))
    settings["metadata"], settings["durability"] = url, MODES[mode]
    settings["storage"] |= COLLECT
    process.config.write_text(yaml.safe_dump(settings), encoding="utf-8")


async def until(true: Callable[[], Awaitable[bool]], words: Callable[[], str]) -> None:
    """Wait for another process, bounded; there is nothing to be told by."""
    try:
        async with asyncio.timeout(WAIT_S):
            while not await true():  # noqa: ASYNC110  # see above
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(words()) from None
