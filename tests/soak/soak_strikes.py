"""Carries the plan out on real processes, and heals: start again, repair until no mark is left.

Whoever strikes a bookie holds its lock. A loss also holds the loss budget, until the victim says
that none of its ledgers is in doubt any more.
"""

import asyncio
import logging
import signal
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, Protocol

from bookie.errors import UnavailableError
from bookie.ids import BookieId
from bookie.protocol.status import Status
from bookie.repair.engine.choice import INLINE
from bookie.repair.jobs.repair_job import RepairRequest, repair
from bookie.repair.look.cluster import Cluster
from bookie.repair.reports.result import Document
from fault_plan import OF_COPIES, Fault, Kind
from loss_budget import LossBudget
from promises import Promises
from soak_bookies import SoakBookie, SoakError
from soak_clients import ClientProcess
from soak_foreign import Foreign
from soak_metadata import SoakMetadata
from soak_report import Tally
from soak_twins import Twins

LIMBO_WAIT_S: Final = 240.0
REPAIR_PAUSE_S: Final = 1.0
RESTART_PAUSE_S: Final = 1.0
BLOCKED_SHOWN: Final = 3
FIRST_EPOCH: Final = 1
COPIES_OF_WITNESS: Final = 2
"""Beside the one on the bookie itself."""
OF_ADDRESSES: Final = (Kind.ADDRESS_AFTER_KILL, Kind.ADDRESS_AFTER_STOP)

_log = logging.getLogger(__name__)


class Process(Protocol):
    """Anything that can be frozen."""

    def signal(self, number: signal.Signals) -> None: ...


class Strikes:
    """All faults of one soak. `kill_client`: puts another one in the place of `clients[number]`."""

    def __init__(
        self,
        bookies: Sequence[SoakBookie],
        clients: Sequence[ClientProcess],
        *,
        metadata: SoakMetadata,
        cluster: Cluster,
        tally: Tally,
        promises: Promises,
        twins: Twins,
        foreign: Foreign,
        ack_quorum: int,
        kill_client: Callable[[int], Awaitable[None]],
    ) -> None:
        self._bookies = bookies
        self._clients = clients
        self._metadata = metadata
        self._cluster = cluster
        self._tally = tally
        self._promises = promises
        self._findings = promises.findings
        self._twins = twins
        self._foreign = foreign
        self._budget = LossBudget(ack_quorum=ack_quorum)
        self._kill_client = kill_client
        self._stopping = asyncio.Event()
        self._epochs: dict[str, int] = {}
        self.limbo = ""
        """Whose marks are being worked off, for people."""

    def stop(self) -> None:
        """What is under way is healed; nothing new begins."""
        self._stopping.set()

    async def carry_out(self, plan: Iterable[Fault]) -> None:
        """Fault after fault of one track, until stopped."""
        for fault in plan:
            await self._rest(fault.gap_s)
            if self._stopping.is_set():
                return
            match fault.kind:
                case Kind.METADATA_PAUSE:
                    self._count(fault)
                    await self._freeze(self._metadata, fault)
                case Kind.METADATA_KILL:
                    self._count(fault)
                    await self._metadata.kill(down_s=fault.hold_s)
                case Kind.CLIENT_KILL:
                    self._count(fault)
                    await self._kill_client(fault.victim)
                case Kind.CLIENT_FREEZE:
                    self._count(fault)
                    await self._freeze(self._clients[fault.victim], fault)
                case _:
                    victim = self._bookies[fault.victim]
                    async with victim.lock:
                        await self._strike(victim, fault)

    def _count(self, fault: Fault) -> None:
        _log.info("fault %d: %s", fault.number, fault)
        self._tally.faults[fault.kind] += 1

    async def _rest(self, seconds: float) -> None:
        """Cut short by a stop."""
        try:
            await asyncio.wait_for(self._stopping.wait(), seconds)
        except TimeoutError:
            return

    async def _strike(self, victim: SoakBookie, fault: Fault) -> None:
        if self._stopping.is_set():
            return
        self._count(fault)
        match fault.kind:
            case Kind.FREEZE | Kind.CUT_OFF:
                self._tally.asked[f"{fault.kind} beyond a lease"] += fault.hold_s > victim.lease_s
                await self._freeze(victim if fault.kind is Kind.FREEZE else victim.line, fault)
            case Kind.CLEAN_STOP | Kind.ADDRESS_AFTER_STOP:
                await self._stop_cleanly(victim, fault)
            case _:
                await self._lose(victim, fault)

    # Nuisances
    async def _freeze(self, victim: Process, fault: Fault) -> None:
        victim.signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(fault.hold_s)
        finally:
            victim.signal(signal.SIGCONT)

    async def _stop_cleanly(self, victim: SoakBookie, fault: Fault) -> None:
        ports = victim.ports()
        await self._prepare(victim, fault)
        code = await victim.stop()
        await self._while_down(victim, ports, fault)
        victim.become(fault.mode)
        victim.start()
        boot = (await victim.serving()).boot
        self._epochs[victim.name] = boot.boot_epoch
        if code != 0 or not boot.clean:
            self._findings.add_failed(
                f"{victim.name} was asked to stop: it ended with {code} and came back after "
                f"{boot.reason}, expected 0 and a clean stop: {victim.log}"
            )

    async def _prepare(self, victim: SoakBookie, fault: Fault) -> None:
        if fault.kind in OF_ADDRESSES:
            await self._foreign.prepare(victim.name, self._promises.ledgers)

    async def _while_down(self, victim: SoakBookie, ports: dict[str, int], fault: Fault) -> None:
        if fault.kind not in OF_ADDRESSES:
            await asyncio.sleep(fault.hold_s)
            return
        await self._foreign.take(
            victim.name, ports, hold_s=fault.hold_s, findings=self._findings, tally=self._tally
        )

    # Losses
    async def _lose(self, victim: SoakBookie, fault: Fault) -> None:
        for bookie in self._bookies:
            if bookie is not victim:
                await self._repair_late_marks(bookie)
        if not self._budget.take(victim.name):
            raise SoakError(f"{victim.name} must not forget: {self._budget.spent} still do")
        self.limbo = f"unknown on {victim.name}"
        if fault.kind is Kind.DISK_FULL:
            await self._fill(victim, fault)
        elif fault.kind is Kind.ROLLBACK:
            await self._twins.put_back(victim, fault)
        elif fault.kind in OF_COPIES:
            others = [bookie.name for bookie in self._bookies if bookie is not victim]
            await self._twins.beside(victim, others[:COPIES_OF_WITNESS], fault)
        else:
            ports = victim.ports()
            await self._prepare(victim, fault)
            victim.kill()
            victim.wipe(*_wiped(victim, fault))
            await self._while_down(victim, ports, fault)
            victim.become(fault.mode)
            victim.start()
            await self._again(victim, fault)
        await self._boot(victim)
        await self._clear(victim)
        self.limbo = ""

    async def _repair_late_marks(self, bookie: SoakBookie) -> None:
        """A bookie may find more to check long after its repair (S37): it must be whole before
        another one forgets. One that is silent now has forgotten nothing since its last word."""
        if await self._marks(bookie):
            self._budget.take(bookie.name)
            await self._clear(bookie)

    async def _marks(self, bookie: SoakBookie) -> int | None:
        """How many it holds; None when it does not say."""
        marks = await self._cluster.control.list_marks(BookieId(bookie.name))
        return len(marks.marks) if marks.status is Status.OK else None

    async def _again(self, victim: SoakBookie, fault: Fault) -> None:
        """Killed once more, somewhere between its start and the midst of its repair."""
        if fault.again_s is not None:
            await asyncio.sleep(fault.again_s)
            victim.kill()
            self._tally.struck_again += 1
            victim.start()

    async def _boot(self, victim: SoakBookie) -> None:
        begun = time.monotonic()
        boot = (await victim.serving()).boot
        if boot.boot_epoch > self._epochs.get(victim.name, FIRST_EPOCH):
            self._epochs[victim.name] = boot.boot_epoch
            self._tally.boot_s.append(time.monotonic() - begun)
            self._tally.unclean_boots += not boot.clean

    async def _fill(self, victim: SoakBookie, fault: Fault) -> None:
        """A bookie that a full disk ends is started again and again, as a platform would do it."""
        assert victim.small is not None, "the plan holds only what this machine can do"
        victim.is_expected = False
        victim.small.fill(free_bytes=fault.free_bytes)
        try:
            end = time.monotonic() + fault.hold_s
            if fault.again_s is not None:
                await asyncio.sleep(fault.again_s)
                victim.kill()
            while time.monotonic() < end:
                await asyncio.sleep(RESTART_PAUSE_S)
                if not victim.runs:
                    self._tally.full_ends += 1
                    victim.start()
        finally:
            victim.small.empty()
        if not victim.runs:
            victim.start()

    async def _clear(self, victim: SoakBookie) -> None:
        """Repairs until the bookie itself says that nothing is in doubt."""
        begun = time.monotonic()
        had_marks = False
        while True:
            known = await self._marks(victim)
            self.limbo = f"{'unknown' if known is None else known} on {victim.name}"
            if self._budget.give_back(victim.name, marks=known):
                break
            had_marks = had_marks or bool(known)
            self._tally.marks += known or 0
            document = await self._repair(victim)
            if time.monotonic() - begun > LIMBO_WAIT_S:
                raise SoakError(
                    f"{victim.name} still holds {known} marks {LIMBO_WAIT_S:.0f} s after it "
                    f"serves again; {_words(document)}: {victim.log}"
                )
        if had_marks:
            self._tally.clear_s.append(time.monotonic() - begun)

    async def _repair(self, victim: SoakBookie) -> Document | None:
        """One run of the real repair; None when the metadata store was away.

        Of others that hold marks as well: a recovery may need the word of one that is checked late.
        """
        others = [one.name for one in self._bookies if one is not victim and await self._marks(one)]
        bookies = tuple(map(BookieId, [victim.name, *others]))
        request = RepairRequest(bookies=bookies, engine=INLINE)
        try:
            document = await repair(self._cluster, request)
        except UnavailableError:
            await asyncio.sleep(REPAIR_PAUSE_S)
            return None
        self._tally.repairs += 1
        self._tally.entries_copied += document["entries_copied"]
        for loss in document["losses"]:
            self._findings.add_lost(1, f"a repair of {victim.name} recorded a loss: {loss}")
        if document["blocked"]:
            await asyncio.sleep(REPAIR_PAUSE_S)
        return document


def _wiped(victim: SoakBookie, fault: Fault) -> Sequence[Path]:
    match fault.kind:
        case Kind.WIPE_LEDGER:
            return [victim.ledgers[fault.disk]]
        case Kind.WIPE_JOURNAL:
            return [victim.journal]
        case Kind.WIPE_ALL:
            return [victim.journal, *victim.ledgers]
        case _:
            return []


def _words(document: Document | None) -> str:
    if document is None:
        return "the metadata store is away"
    shown = "; ".join(str(row) for row in document["blocked"][:BLOCKED_SHOWN])
    return f"{len(document['blocked'])} are blocked: {shown}"
