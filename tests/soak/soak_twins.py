"""Two processes of one bookie: one started on a copy of the other's folders, or of its own past.

The first lives, sleeps, is cut off from the metadata store or is killed; the other one asks for
what a person has to approve, and gets it. One of them stays: which, is theirs to decide.
"""

import asyncio
import signal
import time
from typing import Final

from bookie.errors import BookieError
from bookie.ids import BookieId
from bookie.repair.look.cluster import Cluster
from bookie.wire.admin import bookie_admin_pb2 as pb
from fault_plan import Fault, Kind
from payload_rule import PayloadRule
from promises import Findings
from soak_bookies import SERVING, SoakBookie, SoakError
from soak_report import Tally
from soak_witness import Witness

POLL_S: Final = 0.3
GENERATION_WAIT_S: Final = 20.0
SETTLE_WAIT_S: Final = 150.0
"""More than a lease, a wait for a rival and a boot."""
ASKED_MAX: Final = 10
"""Approvals, until who is asked again and again stops the former."""
LEAVE_WAIT_S: Final = 60.0
STALE: Final = "DiskStale"


def must_be_older(fault: Fault, mode: str) -> bool:
    """The copy may be used only when the store has seen what is younger than it.

    A copy of the same generation passes for a crash (docs/safety.md): in memory mode a crash makes
    all of it doubtful, in the others it denies what came later. After a kill nothing comes later.
    """
    is_whole = fault.kind is Kind.COPY_AFTER_KILL and fault.is_late
    return mode != "memory" and not is_whole


class Twins:
    """What the plan says about copies."""

    def __init__(
        self, cluster: Cluster, *, rule: PayloadRule, tally: Tally, findings: Findings
    ) -> None:
        self._cluster = cluster
        self._rule = rule
        self._tally = tally
        self._findings = findings

    # A copy is put in the place of the folders
    async def put_back(self, bookie: SoakBookie, fault: Fault) -> None:
        """Killed, and started on what its folders were. In every mode it must notice."""
        twin = await self._copy(bookie)
        try:
            await asyncio.sleep(fault.hold_s)
            has_passed = await self._passed(twin, fault)
            bookie.kill()
            if has_passed:
                bookie.put_back(twin)
        finally:
            bookie.drop(twin)
        bookie.become(fault.mode)
        bookie.start()
        health = await bookie.serving(with_person=True)
        if has_passed and (not bookie.approvals or health.boot.reason != STALE):
            self._findings.add_wrong(
                f"{bookie.name} came back on an older copy of its folders after "
                f"{health.boot.reason} and {bookie.approvals} approvals, expected {STALE} and one"
            )

    async def _passed(self, twin: SoakBookie, fault: Fault) -> bool:
        """True when the store has seen what is younger than the copy. What was written after the
        last confirmation is what a rollback may take unnoticed."""
        end = time.monotonic() + GENERATION_WAIT_S
        while time.monotonic() < end:
            try:
                stored = await self._cluster.store.read_boot(BookieId(twin.name))
            except BookieError:
                stored = None
            if stored is not None and stored.value.generation > twin.generation:
                return True
            await asyncio.sleep(POLL_S)
        self._tally.asked[f"{fault.kind}: nothing newer was confirmed"] += 1
        return False

    async def _copy(self, bookie: SoakBookie, *, sleeps_on: bool = False) -> SoakBookie:
        try:
            return await asyncio.to_thread(bookie.copied)
        finally:
            if not sleeps_on:
                bookie.signal(signal.SIGCONT)

    # A second process
    async def beside(self, first: SoakBookie, others: list[str], fault: Fault) -> None:
        """Whoever of the two stays is `first` at the end, and serves."""
        first.is_expected = False
        witness = await Witness.open(self._cluster, first, others)
        twin: SoakBookie | None = None
        try:
            await self._write(witness)
            is_older = must_be_older(fault, first.mode)
            if is_older or not fault.is_late:
                twin = await self._copy(first)
                await self._write(witness)
                if is_older and not await self._passed(twin, fault):
                    return
            self._let_befall(first, fault.kind)
            if twin is None:
                twin = await self._copy(first, sleeps_on=fault.kind is Kind.COPY_ASLEEP)
            twin.become(fault.mode)
            twin.start()
            has_served = await self._while_it_lasts(first, twin, fault, witness)
            first.signal(signal.SIGCONT)
            first.line.signal(signal.SIGCONT)
            who = await self._settle(first, twin, witness, has_served=has_served)
            self._tally.asked[f"{fault.kind}: {who} stays"] += 1
        finally:
            first.signal(signal.SIGCONT)
            first.line.signal(signal.SIGCONT)
            if twin is not None:
                first.drop(twin)
            if witness is not None:
                await witness.close()

    async def _write(self, witness: Witness | None) -> None:
        if witness is not None:
            await witness.write(self._rule)

    def _let_befall(self, first: SoakBookie, kind: Kind) -> None:
        match kind:
            case Kind.COPY_AFTER_KILL:
                first.kill()
            case Kind.COPY_ASLEEP:
                first.signal(signal.SIGSTOP)
            case Kind.COPY_CUT_OFF:
                first.line.signal(signal.SIGSTOP)

    async def _while_it_lasts(
        self, first: SoakBookie, twin: SoakBookie, fault: Fault, witness: Witness | None
    ) -> bool:
        """Until the time is up, or the successor serves and both were asked: True then."""
        sleeps = fault.kind is Kind.COPY_ASLEEP
        end = time.monotonic() + fault.hold_s
        while time.monotonic() < end:
            if await self._serves(twin):
                await self._judge(first, twin, witness, sleeps=sleeps)
                return True
            if not sleeps and first.runs:
                await self._write(witness)
            await asyncio.sleep(POLL_S)
        return False

    async def _serves(self, twin: SoakBookie) -> bool:
        """After a person has said yes to what it may ask."""
        health = await twin.health()
        if health.phase == pb.AWAITING_APPROVAL:
            await twin.approve()
        return health.phase in SERVING

    async def _judge(
        self, first: SoakBookie, twin: SoakBookie, witness: Witness | None, *, sleeps: bool = False
    ) -> None:
        if witness is None:
            self._tally.asked["nobody to ask: the store was away"] += 1
            return
        await witness.judge_successor(twin, self._findings, self._tally)
        if not first.runs:
            return
        asking = asyncio.create_task(witness.judge_former(self._findings, self._tally))
        if sleeps:
            await asyncio.sleep(POLL_S)  # the first question lies there when it wakes up
            first.signal(signal.SIGCONT)
        await asking

    async def _settle(
        self, first: SoakBookie, twin: SoakBookie, witness: Witness | None, *, has_served: bool
    ) -> str:
        """Until one of them serves and the other one has given up: `first` or `second`.

        What the store has seen is part of the plan of a stale disk, and each confirmation of a
        living former moves it. Whoever approves more slowly than that stops the former, as
        docs/operating.md says.
        """
        asked, stays = 0, "second"
        end = time.monotonic() + SETTLE_WAIT_S
        while time.monotonic() < end:
            phase = (await twin.health()).phase
            if phase in SERVING:
                if not has_served:
                    await self._judge(first, twin, witness)
                await self._left(first)
                first.succeed(twin)
                return stays
            if phase == pb.AWAITING_APPROVAL:
                asked += 1
                if asked > ASKED_MAX and first.runs:
                    first.kill()
                    stays = "second, once a person stopped the first,"
                    end = time.monotonic() + SETTLE_WAIT_S
                await twin.approve()
            if phase == pb.REFUSED or not twin.runs:
                twin.kill()
                is_alive = first.runs
                if not is_alive:
                    first.start()
                await first.serving(with_person=True)
                return "first" if is_alive else "first, started again,"
            await asyncio.sleep(POLL_S)
        raise SoakError(
            f"two processes of {first.name} did not settle within {SETTLE_WAIT_S:.0f} s who stays: "
            f"{first.log}, {twin.log}"
        )

    async def _left(self, first: SoakBookie) -> None:
        """The former hears from the store that it is the bookie no longer, and ends."""
        end = time.monotonic() + LEAVE_WAIT_S
        while first.runs:
            if time.monotonic() > end:
                self._findings.add_wrong(
                    f"{first.name} still runs {LEAVE_WAIT_S:.0f} s after its successor serves: "
                    f"{first.log}"
                )
                return
            await asyncio.sleep(POLL_S)
