"""The other story: a bookie is gone with its disks, and its ledgers get new members while executors
and a driver are killed and another job does the same.

Each ledger that ceases to name it is held against the indexes of its members as soon as that is
seen, with the jobs still at work: a member may be named only when it holds all that is its.
"""

import asyncio
import random
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil
from bookie.ids import EntryId, LedgerId
from bookie.metadata.store import Versioned
from bookie.protocol.assignment import assigned
from bookie.protocol.ledger import LedgerMetadata
from bookie.protocol.status import Status
from bookie.repair.jobs import audit_job
from bookie.repair.jobs.audit_job import AuditRequest
from bookie.repair.look.audit import read_ledgers
from bookie.repair.look.cluster import Cluster
from bookie.repair.look.digests import DigestSettings
from bookie_processes import BookieProcess
from scale_jobs import Killer, RepairJob, killing, stop_all, until_ended, until_said
from scale_ledgers import BOOKIES, ENTRIES, Kind, Made, Plan, make
from scale_story import PASSES_MAX, Document, Size, corrupt_copies
from scale_waiting import cluster_in, until_gone, until_registered, until_serving
from scale_watch import IN_FLIGHT, looking

LOST: Final = BOOKIES[-1]
OTHERS: Final = BOOKIES[:-1]
SHARES: Final = {Kind.FORGOTTEN: 70, Kind.LIMBO: 10, Kind.RECOVERING: 10, Kind.CORRUPT: 10}
"""Of ledgers closed, open, in recovery, and with a wrong copy on a member that stays."""
MARKED: Final = 20
"""Every so many ledgers one is marked, as BookKeeper's auditor marks."""
WAIT_S: Final = (3.0, 8.0)
"""Between two kills of executors. Rounds end together, so the same few tasks are hit again and
again, and Spark gives up at the eighth failure of one.
"""
END_WAIT_S: Final = 60.0


def lost_plans(count: int, rng: random.Random) -> Iterator[Plan]:
    """Every one names the bookie that will be lost."""
    for kind in rng.choices(list(SHARES), weights=list(SHARES.values()), k=count):
        others = rng.sample(OTHERS, 2)
        ensemble = [LOST, *others]
        rng.shuffle(ensemble)
        hurt = others[0] if kind is Kind.CORRUPT else LOST
        yield Plan(kind, tuple(ensemble), hurt, EntryId(rng.randrange(ENTRIES)))


@dataclass
class MoveWatch:
    """`naming`: ledgers that name the lost bookie still. `early`: a member was named too soon."""

    cluster: Cluster
    naming: set[LedgerId] = field(default_factory=set)
    early: list[str] = field(default_factory=list)
    judged: int = 0

    async def look(self) -> None:
        found = await read_ledgers(
            self.cluster.store, sorted(self.naming), unreadable={}, in_flight=IN_FLIGHT
        )
        moved = {
            ledger_id: ledger
            for ledger_id, ledger in found.items()
            if ledger.value.is_closed and not ledger.value.names(LOST)
        }
        self.naming -= moved.keys()
        self.judged += len(moved)
        self.early += await lacking(self.cluster, moved)


async def lacking(
    cluster: Cluster, ledgers: Mapping[LedgerId, Versioned[LedgerMetadata]]
) -> list[str]:
    """Copies that members owe and do not list, straight from their indexes."""
    found: list[str] = []
    for bookie_id in OTHERS:
        named = [i for i, ledger in ledgers.items() if ledger.value.names(bookie_id)]
        held = await cluster.control.availability(bookie_id, named)
        for ledger_id in named:
            metadata = ledgers[ledger_id].value
            owed = assigned(metadata, bookie_id, through=metadata.last_entry_id)
            if less := owed - held[ledger_id].entries:
                found.append(f"{bookie_id} ledger {ledger_id}: {len(less)} not there")
    return found


@dataclass
class LostStory:
    """One run, and what it saw."""

    size: Size
    folder: Path
    cluster: Cluster
    url: str
    saw: Document = field(default_factory=lambda: {"kills": 0, "passes": []})
    made: list[Made] = field(default_factory=list)
    jobs: list[RepairJob] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.size.seed)
        self.bookies = {b: BookieProcess(b, self.folder / b, self.url) for b in BOOKIES}
        self.watch = MoveWatch(self.cluster)

    async def lose(self) -> None:
        """Ledgers, flushed everywhere; then a bookie goes with its disks, and some are marked."""
        for bookie in self.bookies.values():
            bookie.start()
        await until_registered(self.cluster, *BOOKIES)
        self.made = await make(self.cluster, list(lost_plans(self.size.ledgers, self.rng)))
        for bookie_id in BOOKIES:
            assert await self.cluster.control.flush(bookie_id) is Status.OK
        self.bookies[LOST].kill()
        shutil.rmtree(self.bookies[LOST].folder)
        await until_gone(self.cluster, LOST)
        self.watch.naming = {made.ledger_id for made in self.made}
        marks = self.cluster.store.underreplication
        for made in self.made[::MARKED]:
            await marks.mark(made.ledger_id, [LOST], now_ms=1)

    async def killed_driver(self) -> None:
        """A job whose driver dies in the middle of its work, and its executors with it."""
        job = self._job("killed")
        killer = asyncio.create_task(self._killer(1).work(job))
        await until_said(job, " ledgers/s")
        processes = psutil.Process(job.process.pid).children(recursive=True)
        job.kill()
        await killer
        await asyncio.to_thread(psutil.wait_procs, processes, END_WAIT_S)
        await self.watch.look()
        self.saw["moved_by_the_killed_driver"] = self.watch.judged

    async def re_replicate(self, *, has_rival: bool) -> bool:
        """A job to its end, with executors killed and moves watched; True when nothing is left."""
        before, number = len(self.watch.naming), len(self.saw["passes"])
        jobs = [self._job(f"pass-{number}")]
        if has_rival:
            jobs.append(self._job(f"pass-{number}-rival", "inline"))
        killer = self._killer(self.size.kills)
        async with looking(self.watch.look), killing(killer, jobs[0]):
            codes = [await until_ended(job) for job in jobs]
        self.saw["kills"] += len(killer.killed)
        self.saw["passes"].append(
            {
                "named_before": before,
                "named_after": len(self.watch.naming),
                "kills": len(killer.killed),
                "jobs": [
                    _told(job.document()) | {"exit_code": code}
                    for job, code in zip(jobs, codes, strict=True)
                ],
            }
        )
        return codes[0] == 0

    def _job(self, name: str, engine: str = "spark-local") -> RepairJob:
        more = ("--yes", LOST)
        self.jobs.append(
            RepairJob(self.url, self.folder, name, engine, more, "rereplicate").start()
        )
        return self.jobs[-1]

    def _killer(self, kills: int) -> Killer:
        return Killer(random.Random(self.rng.random()), kills, WAIT_S)

    async def prove(self) -> None:
        """What is there in the end; and again after all that took over were killed at once."""
        deep = await audit_job.audit(self.cluster, AuditRequest(digests=DigestSettings()))
        planted = {copy for made in self.made if (copy := made.corrupt_copy)}
        found = corrupt_copies(deep)
        self.saw["after"] = deep["audit"]
        self.saw["corrupt"] = {"planted": len(planted), "others": sorted(map(str, found - planted))}
        marks = self.cluster.store.underreplication
        self.saw["marks_left"] = len([mark async for mark in marks.marks()])
        self.saw["named_too_soon"], self.saw["judged"] = self.watch.early, self.watch.judged
        for bookie_id in OTHERS:
            self.bookies[bookie_id].kill()
        for bookie_id in OTHERS:
            self.bookies[bookie_id].start()
        await until_serving(self.cluster, *OTHERS)
        ids = [made.ledger_id for made in self.made]
        ledgers = await read_ledgers(self.cluster.store, ids, unreadable={}, in_flight=IN_FLIGHT)
        self.saw["naming_it"] = sum(ledger.value.names(LOST) for ledger in ledgers.values())
        self.saw["lost_by_a_crash"] = await lacking(self.cluster, ledgers)

    def stop(self) -> None:
        stop_all(self.jobs, self.bookies.values())


def _told(document: Document) -> Document:
    names = ("engine", "seconds", "ledgers", "marks", "entries_copied", "executors", "progress")
    return {name: document[name] for name in names}


async def tell_lost(folder: Path, size: Size) -> Document:
    """The whole story; what it saw."""
    began = time.monotonic()
    async with cluster_in(folder) as (cluster, url):
        story = LostStory(size, folder, cluster, url)
        try:
            await story.lose()
            if size.is_whole:
                await story.killed_driver()
            for number in range(PASSES_MAX):
                if await story.re_replicate(has_rival=size.is_whole and not number):
                    break
            await story.prove()
            story.saw["seconds"] = round(time.monotonic() - began, 1)
            return story.saw
        finally:
            story.stop()


def lost_claims(saw: Document, size: Size) -> dict[str, bool]:
    """Each thing that must be true of what was seen, by name."""
    after, passes = saw["after"], saw["passes"]
    return {
        "executors were killed": saw["kills"] > 0,
        "the last job said that nothing is left": passes[-1]["jobs"][0]["exit_code"] == 0,
        "no ledger names the lost bookie": saw["naming_it"] == 0,
        "every ledger was watched as it moved": saw["judged"] == size.ledgers,
        "no member was named before it held its share": not saw["named_too_soon"],
        "every entry is there": after["entries"] == size.ledgers * ENTRIES,
        "zero missing but wrong copies": after["missing"] == after["corrupt"],
        "zero unknown": after["unknown"] == 0,
        "nothing lost": after["lost"] == 0 and after["no_copy"] == 0,
        "no corrupt copy was passed on": (
            not saw["corrupt"]["others"] and after["corrupt"] == saw["corrupt"]["planted"]
        ),
        "no mark is left": saw["marks_left"] == 0,
        "each move was counted once, tasks tried again included": all(map(_is_counted, passes)),
        "a crash takes nothing back": not saw["lost_by_a_crash"],
    }


def _is_counted(one: Document) -> bool:
    """Where a ledger is recovered first, that itself may have put another in its place."""
    moved, recovered = (
        sum(job["ledgers"][n] for job in one["jobs"]) for n in ("moved", "recovered")
    )
    return bool(0 <= one["named_before"] - one["named_after"] - moved <= recovered)
