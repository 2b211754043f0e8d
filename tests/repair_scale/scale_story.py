"""The story: damage, a repair whose driver is killed, one without a bookie, one to the end, proof.

Each part returns what it saw; `claims` holds it against what must be. Nothing here waits for luck:
a part ends when a process has ended or said something.
"""

import asyncio
import random
import shutil
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bookie.errors import MetadataConflictError
from bookie.ids import BookieId, LedgerId
from bookie.protocol.assignment import assigned
from bookie.protocol.status import Status
from bookie.repair.jobs import audit_job
from bookie.repair.jobs.audit_job import AuditRequest
from bookie.repair.look.audit import Audit, Auditor, read_ledgers
from bookie.repair.look.cluster import Cluster
from bookie.repair.look.digests import DigestSettings
from bookie.repair.reports.result import counts_json
from bookie_processes import BookieProcess
from scale_jobs import Killer, RepairJob, killing, stop_all, until_ended, until_said
from scale_ledgers import AWAY, BOOKIES, SOUND, UNCLEAN, Kind, Made, closing, make, plans
from scale_waiting import POLL_S, cluster_in, until_gone, until_registered, until_serving
from scale_watch import IN_FLIGHT, MarkWatch, looking

SETTLE_WAIT_S: Final = 300.0
PASSES_MAX: Final = 4
WAIT_S: Final = (1.5, 4.0)
"""Between two kills of executors."""

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Size:
    """How much of it. `kills`: of executors, in each job. `is_whole`: with the killed driver and
    the bookie that is away at first.
    """

    ledgers: int
    kills: int
    seed: int
    is_whole: bool = True


@dataclass
class Story:
    """One run, and what it saw."""

    size: Size
    folder: Path
    cluster: Cluster
    url: str
    saw: Document = field(default_factory=dict)
    made: list[Made] = field(default_factory=list)
    jobs: list[RepairJob] = field(default_factory=list)
    over: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.size.seed)
        self.bookies = {b: BookieProcess(b, self.folder / b, self.url) for b in BOOKIES}
        self.watch = MarkWatch(self.cluster, UNCLEAN, self._may_clear)
        self.saw |= {"kills": 0, "marks_cleared_early": self.watch.early}

    def _may_clear(self) -> bool:
        return any(job.has_audited for job in self.jobs if job.name not in self.over)

    # Damage
    async def damage(self) -> None:
        """Ledgers of every kind; then the unclean bookies forget, boot and mark."""
        for bookie in self.bookies.values():
            bookie.start()
        await until_registered(self.cluster, *BOOKIES)
        for bookie_id in UNCLEAN:
            shutil.copytree(self.bookies[bookie_id].folder, self._as_booted(bookie_id))
        self.made = await make(self.cluster, list(plans(self.size.ledgers, self.rng)))
        for bookie_id in SOUND:
            assert await self.cluster.control.flush(bookie_id) is Status.OK
        await self._crash(is_power_cut=True)
        for made in self.made:
            if made.plan.kind is Kind.REPLACED:
                await self._close_late(made)
        before = await self._audit()
        await self.watch.look()
        marked = set[int]().union(*self.watch.marked.values())
        # Of an open ledger nothing is due yet: its mark alone says what was forgotten.
        damaged = marked | {verdict.ledger_id for verdict in before.findings}
        self.saw["damaged"], self.saw["before"] = len(damaged), counts_json(before.counts)

    async def _crash(self, *, is_power_cut: bool = False) -> None:
        """SIGKILL, which leaves what the kernel has; a power cut only what was synced."""
        for bookie_id in UNCLEAN:
            self.bookies[bookie_id].kill()
            for disk in self.bookies[bookie_id].folder.glob("ledger-*") if is_power_cut else ():
                shutil.rmtree(disk)
                shutil.copytree(self._as_booted(bookie_id) / disk.name, disk)
        await self._restart(*UNCLEAN)

    def _as_booted(self, bookie_id: BookieId) -> Path:
        return self.folder / f"{bookie_id}-as-booted"

    async def _restart(self, *bookie_ids: BookieId) -> None:
        """Those processes have ended; their old registrations go with their sessions."""
        for bookie_id in bookie_ids:
            self.bookies[bookie_id].start()
        await until_serving(self.cluster, *bookie_ids)

    async def _close_late(self, made: Made) -> None:
        found = await self.cluster.store.read_ledger(made.ledger_id)
        with suppress(MetadataConflictError):
            await self.cluster.store.write_ledger(closing(made), version=found.version)

    # Repairs
    async def killed_driver(self) -> None:
        """A job whose driver dies in the middle of its work."""
        job = self._job("killed")
        killer = asyncio.create_task(self._killer(1).work(job))
        await until_said(job, " of ")
        await until_said(job, "ledgers, ")
        job.kill()
        await killer
        self.saw["killed_driver_said"] = job.said.splitlines()[-1]

    async def repair(
        self, name: str, *, engine: str = "spark-local", has_rival: bool = False
    ) -> Document:
        """A job to its end, with executors killed and marks watched.

        `has_rival`: another job does the same at the same time, in process.
        """
        rival = self._job(f"{name}-rival", "inline") if has_rival else None
        job = self._job(name, engine)
        killer = self._killer(self.size.kills if engine == "spark-local" else 0)
        async with looking(self.watch.look), killing(killer, job):
            code = await until_ended(job)
            if rival is not None:
                ended = await until_ended(rival)
                self.saw["rival"] = _told(rival.document()) | {"exit_code": ended}
        self.over |= {one.name for one in self.jobs}
        document = job.document()
        self.saw["kills"] += len(killer.killed)
        self.saw[name] = _told(document) | {"exit_code": code, "kills": len(killer.killed)}
        return document

    def _job(self, name: str, engine: str = "spark-local", *more: str) -> RepairJob:
        more = (*more, "--checkpoint", str(self.folder / "checkpoint"))
        self.jobs.append(RepairJob(self.url, self.folder, name, engine, more).start())
        return self.jobs[-1]

    def _killer(self, kills: int) -> Killer:
        return Killer(random.Random(self.rng.random()), kills, WAIT_S)

    async def later_passes(self) -> None:
        """S37: once its marks are gone a bookie looks again, and finds what came to name it since
        its boot. That is marked then, and is the business of a later pass.
        """
        async with asyncio.timeout(SETTLE_WAIT_S):
            for number in range(PASSES_MAX):
                while not any(self.watch.marked.values()):
                    if await self._is_checked():
                        self.saw["later_passes"] = number
                        return
                    await asyncio.sleep(POLL_S)
                    await self.watch.look()
                await self.repair(f"pass_{number}", engine="inline")

    async def _is_checked(self) -> bool:
        """No unclean bookie answers unknown for what it may have forgotten any more."""
        for bookie_id in UNCLEAN:
            late = [m.ledger_id for m in self.made if m.plan.hurt == bookie_id]
            held = await self.cluster.control.availability(bookie_id, late)
            if any(holding.unchecked for holding in held.values()):
                return False
        return True

    async def without_a_bookie(self) -> None:
        """S30: one member is away; what only it could decide stays in limbo."""
        self.bookies[AWAY].stop()
        await until_gone(self.cluster, AWAY)
        await self.repair("without_a_bookie")
        undecided = await self._undecided()
        marked = set().union(*self.watch.marked.values())
        self.saw["s30"] = {
            "undecided": len(undecided),
            "of_them_unmarked": len(undecided - marked),
        }
        await self._restart(AWAY)

    async def _undecided(self) -> set[LedgerId]:
        """Ledgers in limbo when this began whose end nobody knows yet."""
        limbo = [m.ledger_id for m in self.made if m.plan.kind is Kind.LIMBO]
        found = await read_ledgers(self.cluster.store, limbo, unreadable={}, in_flight=IN_FLIGHT)
        return {i for i, metadata in found.items() if not metadata.value.is_closed}

    # Proof
    async def prove(self) -> None:
        """What is there in the end; and again after the repaired bookies are killed once more."""
        after = await self._audit()
        deep = await audit_job.audit(self.cluster, AuditRequest(digests=DigestSettings()))
        planted = {copy for made in self.made if (copy := made.corrupt_copy)}
        self.saw["after"] = counts_json(after.counts)
        self.saw["marks_left"] = sum(map(len, self.watch.marked.values()))
        self.saw["marks"], self.saw["marks_cleared"] = self.watch.seen, self.watch.cleared
        self.saw["corrupt"] = {
            "planted": len(planted),
            "found": deep["audit"]["corrupt"],
            "not_planted": [str(copy) for copy in corrupt_copies(deep) - planted],
        }
        await self._crash()
        self.saw["s31_lost_by_a_second_crash"] = await self._lacking()

    async def heal(self) -> None:
        """The planted wrong copies: their bookies verify and reject them, and get right ones."""
        job = self._job("healed", "inline", "--every-ledger", "--verify-digests")
        await until_ended(job)
        told = job.document()
        deep = await audit_job.audit(self.cluster, AuditRequest(digests=DigestSettings()))
        self.saw["healed"] = {
            "replaced": told["corrupt_replaced"],
            "corrupt_left": deep["audit"]["corrupt"],
            "ok": deep["audit"]["ok"],
        }

    async def _lacking(self) -> int:
        """Copies that the unclean bookies owe and do not list, straight from their indexes."""
        ids = [made.ledger_id for made in self.made]
        ledgers = await read_ledgers(self.cluster.store, ids, unreadable={}, in_flight=IN_FLIGHT)
        lacking = 0
        for bookie_id in UNCLEAN:
            named = [i for i, found in ledgers.items() if found.value.names(bookie_id)]
            held = await self.cluster.control.availability(bookie_id, named)
            for ledger_id in named:
                metadata = ledgers[ledger_id].value
                owed = assigned(metadata, bookie_id, through=metadata.last_entry_id)
                lacking += len(owed - held[ledger_id].entries)
        return lacking

    async def _audit(self) -> Audit:
        auditor = Auditor(self.cluster.store, self.cluster.control)
        return await auditor.audit(self.cluster.store.ledger_ids())

    def stop(self) -> None:
        stop_all(self.jobs, self.bookies.values())


def _told(document: Document) -> Document:
    names = ("seconds", "ledgers", "entries_copied", "corrupt_copies", "audit_after", "executors")
    return {name: document[name] for name in names}


def corrupt_copies(deep: Document) -> set[tuple[Any, ...]]:
    return {
        (found["ledger_id"], bookie_id, entry_id)
        for found in deep["findings"]
        for bookie_id, lacks in found["bookies"].items()
        for first, last in lacks.get("corrupt", {"ranges": []})["ranges"]
        for entry_id in range(first, last + 1)
    }


@asynccontextmanager
async def story_in(folder: Path, size: Size) -> AsyncIterator[Story]:
    """A story with a ZooKeeper and bookies of its own; all ends with it."""
    async with cluster_in(folder) as (cluster, url):
        story = Story(size, folder, cluster, url)
        try:
            yield story
        finally:
            story.stop()


async def tell(folder: Path, size: Size) -> Document:
    """The whole story; what it saw."""
    began = time.monotonic()
    async with story_in(folder, size) as story:
        await story.damage()
        if size.is_whole:
            await story.killed_driver()
            await story.without_a_bookie()
        await story.repair("to_the_end", has_rival=size.is_whole)
        await story.later_passes()
        await story.prove()
        if size.is_whole:
            await story.heal()
        story.saw["seconds"] = round(time.monotonic() - began, 1)
        return story.saw


def claims(saw: Document, size: Size) -> dict[str, bool]:
    """Each thing that must be true of what was seen, by name."""
    after, corrupt = saw["after"], saw["corrupt"]
    held = {
        "every ledger was damaged": saw["damaged"] == size.ledgers,
        "executors were killed": saw["kills"] > 0,
        "zero missing": after["missing"] == 0,
        "zero unknown": after["unknown"] == 0,
        "nothing lost": after["lost"] == 0 and after["ok"] == after["entries"],
        "every ledger is there": after["ledgers"] == size.ledgers,
        "no mark is left": saw["marks_left"] == 0,
        "no mark went early": not saw["marks_cleared_early"],
        "every mark that went was held against its ledger": (saw["marks_cleared"] == saw["marks"]),
        "no corrupt copy was passed on": (
            not corrupt["not_planted"] and corrupt["found"] == corrupt["planted"]
        ),
        "S31: a second crash takes nothing back": saw["s31_lost_by_a_second_crash"] == 0,
    }
    if size.is_whole:
        s30 = saw["s30"]
        healed = saw["healed"]
        held["wrong copies were replaced in the end"] = (
            healed["replaced"] >= corrupt["planted"] and healed["corrupt_left"] == 0
        )
        held["S30: what could not be decided stayed in limbo"] = (
            s30["undecided"] > 0 and not s30["of_them_unmarked"]
        )
    return held


def failed(held: dict[str, bool]) -> Sequence[str]:
    return [claim for claim, is_true in held.items() if not is_true]
