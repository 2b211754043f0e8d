"""One drain from end to end: empties a bookie that is to leave, and says what stays on it.

refuse? -> list what names it -> move what is finished -> give writers time to move on by themselves
-> recover and close what is still written to it -> move that too -> list again -> audit -> result.

A busy writer moves on alone: its adds are answered READ_ONLY, which is a reason for an ensemble
change. An idle one cannot notice; its ledger is fenced and closed, as by any recovery, and its next
append fails with LedgerFencedError. A ledger that is IN_RECOVERY is recovered whomever it names:
its recoverer may be about to close it with this bookie in it. Every run begins from the metadata.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from bookie.protocol.errors import SettingsError
from bookie.protocol.ids import BookieId, LedgerId
from bookie.protocol.ledger import LedgerMetadata, LedgerState
from bookie.protocol.placement import NO_RACKS
from bookie.protocol.status import Status
from bookie.repair.audit import Audit, Auditor, read_ledgers
from bookie.repair.cluster import Cluster
from bookie.repair.control import Marks
from bookie.repair.engines import AUTO, INLINE, SPARK_KUBERNETES, SPARK_LOCAL, EngineChoice
from bookie.repair.ledgers import LEDGERS_IN_FLIGHT, RepairSettings, recovered
from bookie.repair.mover import DrainOutcome, LedgerMover
from bookie.repair.outcome import LedgerOutcome
from bookie.repair.placing import racks_of
from bookie.repair.report import (
    EXIT_REFUSED,
    EXIT_UNKNOWN,
    FINDINGS_MAX,
    Document,
    accepted_json,
    audit_json,
    counts_json,
    exit_code,
)
from bookie.repair.steps import Say, Started, all_bookies
from bookie.storage.listing import Listing, list_ledgers

ENGINES: Final = (INLINE, SPARK_LOCAL, SPARK_KUBERNETES, AUTO)
ROUNDS_MAX: Final = 3
"""Looks for ledgers that came to name the bookie while others were moved."""


@dataclass(frozen=True, slots=True)
class DrainSettings:
    """`grace_s`: how long writers may take to move on by themselves before their ledgers are
    recovered. Ledgers are moved `ledgers_per_batch` at a time; between batches it is asked again
    whether the drain may go on.
    """

    grace_s: float = 3.0
    ledgers_per_batch: int = 200
    repair: RepairSettings = field(default_factory=RepairSettings)


@dataclass(frozen=True, slots=True)
class DrainRequest:
    """Which bookie is to leave. `begin`: tell it so first; otherwise it was told already."""

    bookie_id: BookieId
    engine: str = AUTO
    begin: bool = False
    settings: DrainSettings = field(default_factory=DrainSettings)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why nothing, or nothing more, is done; `reason` as in the result's `blocked`."""

    reason: str
    message: str
    bookie_id: BookieId


def drain_engine(requested: str) -> EngineChoice:
    """Always this process; SettingsError for a name that no engine has."""
    if requested not in ENGINES:
        raise SettingsError(f"engine is {requested!r}, expected one of {', '.join(ENGINES)}")
    if requested == INLINE:
        return EngineChoice(INLINE, "asked for")
    asked = "" if requested == AUTO else f"; {requested} was asked for"
    return EngineChoice(INLINE, f"a drain always works in its own process{asked}")


async def drain(cluster: Cluster, request: DrainRequest, *, say: Say) -> Document:
    """Run one drain; the result object. It may be stopped anywhere and run again.

    Raises SettingsError for an unknown engine, UnavailableError without metadata store.
    """
    choice = drain_engine(request.engine)
    run = _Run(cluster, request, say)
    refusal = await run.begin() or await run.work()
    after = await run.audit()
    left = await list_ledgers(cluster.store, request.bookie_id)
    return run.result(choice, refusal=refusal, after=after, left=_naming(left))


def _naming(listing: Listing) -> set[LedgerId]:
    """Those that name the bookie, and those that may come to."""
    return {*listing.named, *listing.recovering}


class _Run:
    """The steps of one drain, with what they share."""

    def __init__(self, cluster: Cluster, request: DrainRequest, say: Say) -> None:
        self._cluster = cluster
        self._leaving = request.bookie_id
        self._request = request
        self._settings = request.settings
        self._say = say
        self._started = Started.now()
        self._outcomes: dict[LedgerId, DrainOutcome] = {}
        self._candidates: list[BookieId] = []
        self._racks = NO_RACKS
        self._silent: list[Marks] = []

    # May it, may it still?
    async def begin(self) -> Refusal | None:
        """Tell the bookie, if that is asked for; one that is gone need not know."""
        if not self._request.begin:
            return None
        answer = await self._cluster.control.drain(self._leaving)
        if answer.accepted or self._leaving not in await self._cluster.store.bookies():
            return None
        return Refusal("NotDraining", answer.message, self._leaving)

    async def _look_round(self) -> Refusal | None:
        """Who may take over; a refusal when the drain must not go on."""
        control, store = self._cluster.control, self._cluster.store
        infos = await store.bookies()
        known = await all_bookies(self._cluster)
        marks = await asyncio.gather(*(control.list_marks(bookie_id) for bookie_id in known))
        for found in marks:
            if limbo := sum(mark.limbo for mark in found.marks):
                return Refusal(
                    "LimboPresent",
                    f"{limbo} ledgers are in limbo on {found.bookie_id}: what it holds is not "
                    "certain; drain again once a repair has cleared them",
                    found.bookie_id,
                )
        info = infos.get(self._leaving)
        # One that is gone, or does not answer but takes no new ledgers, is emptied all the same.
        is_draining = await control.is_draining(self._leaving)
        if is_draining is False or (is_draining is None and info and not info.read_only):
            return Refusal(
                "NotDraining",
                f"{self._leaving} is not draining, so new ledgers would keep coming: it was "
                "cancelled or never begun; begin it with `bookie drain`",
                self._leaving,
            )
        self._racks = racks_of(infos, {})
        self._silent = [found for found in marks if found.status is not Status.OK]
        silent = {found.bookie_id for found in self._silent}
        self._candidates = sorted(
            bookie_id
            for bookie_id, info in infos.items()
            if info.takes_runs and bookie_id not in silent and bookie_id != self._leaving
        )
        return None

    # Work
    async def work(self) -> Refusal | None:
        """Until nothing is left that this run could move."""
        for _round in range(ROUNDS_MAX):
            refusal = await self._look_round()
            if refusal is not None:
                return refusal
            found = await list_ledgers(self._cluster.store, self._leaving)
            todo = _naming(found) - self._outcomes.keys()
            if not todo:
                return None
            self._say(f"{len(todo)} ledgers name {self._leaving}, or may come to")
            written = {*found.undecided, *found.recovering} & todo
            refusal = await self._move(sorted(todo - written))
            if refusal is None and written:
                refusal = await self._move_written(sorted(written))
            if refusal is not None:
                return refusal
        return None

    async def _move(self, ledger_ids: Sequence[LedgerId]) -> Refusal | None:
        outcomes = [self._outcomes.setdefault(i, DrainOutcome(i)) for i in ledger_ids]
        ready = [outcome for outcome in outcomes if not outcome.reason]
        size = self._settings.ledgers_per_batch
        for start in range(0, len(ready), size):
            if start and (refusal := await self._look_round()) is not None:
                return refusal
            mover = LedgerMover(
                self._cluster, self._leaving, self._candidates, self._settings.repair, self._racks
            )
            await mover.move(ready[start : start + size])
            self._say(f"{min(start + size, len(ready))} of {len(ready)} ledgers looked after")
        return None

    async def _move_written(self, ledger_ids: Sequence[LedgerId]) -> Refusal | None:
        """Ledgers with a writer or a recoverer: it may end by itself, then they are ended."""
        await asyncio.sleep(self._settings.grace_s)
        ledgers = await read_ledgers(
            self._cluster.store,
            ledger_ids,
            in_flight=self._settings.repair.audit.metadata_in_flight,
        )
        slots = asyncio.Semaphore(LEDGERS_IN_FLIGHT)

        async def end(metadata: LedgerMetadata) -> None:
            async with slots:
                await self._end(metadata)

        await asyncio.gather(*(end(metadata.value) for metadata in ledgers.values()))
        return await self._move(ledger_ids)

    async def _end(self, metadata: LedgerMetadata) -> None:
        """Recover and close the ledger if it is still written to this bookie, or in recovery."""
        ensemble = metadata.last_fragment.ensemble
        if metadata.is_closed or (
            metadata.state is LedgerState.OPEN and self._leaving not in ensemble
        ):
            return
        outcome = self._outcomes.setdefault(metadata.ledger_id, DrainOutcome(metadata.ledger_id))
        outcome.state_before = metadata.state.value
        if self._leaving in ensemble and not set(self._candidates) - set(ensemble):
            # Its writer must not be cut off for nothing.
            said = f"no writable bookie outside {', '.join(ensemble)} can take over: start one more"
            outcome.block("NotEnoughBookies", said)
            return
        begun = LedgerOutcome(metadata.ledger_id, outcome.state_before)
        found = await recovered(self._cluster, begun)
        outcome.recovered = found.recovered
        outcome.entries_recovered = found.entries_recovered
        outcome.corrupt_copies += found.corrupt_copies
        if found.reason:
            outcome.block(found.reason, found.message)

    # Result
    async def audit(self) -> Audit:
        """What was moved, as anybody sees it now."""
        moved = [ledger_id for ledger_id, outcome in self._outcomes.items() if outcome.moved]
        auditor = Auditor(self._cluster.store, self._cluster.control, self._settings.repair.audit)
        return await auditor.audit(moved)

    def result(
        self, choice: EngineChoice, *, refusal: Refusal | None, after: Audit, left: set[LedgerId]
    ) -> Document:
        outcomes = list(self._outcomes.values())
        blocked = _blocked(outcomes, refusal, left - self._outcomes.keys())
        self._say(f"{len(left)} ledgers left on {self._leaving}")
        return {
            **self._started.json("drain"),
            "engine": choice.name,
            "engine_reason": choice.reason,
            "spark_app_id": None,
            "bookie_id": self._leaving,
            "refused": refusal.message if refusal is not None else "",
            "ledgers": {
                "considered": len(outcomes),
                "moved": sum(outcome.moved for outcome in outcomes),
                "recovered": sum(outcome.recovered for outcome in outcomes),
                "blocked": sum(bool(outcome.reason) for outcome in outcomes),
                "deleted": sum(outcome.state_before == "DELETED" for outcome in outcomes),
            },
            "ledgers_left": len(left),
            "entries_recovered": sum(outcome.entries_recovered for outcome in outcomes),
            "entries_copied": sum(outcome.entries_copied for outcome in outcomes),
            "bytes_copied": sum(outcome.bytes_copied for outcome in outcomes),
            "corrupt_copies": sum(outcome.corrupt_copies for outcome in outcomes),
            "audit_after": counts_json(after.counts),
            "blocked": blocked[:FINDINGS_MAX],
            "blocked_left_out": max(len(blocked) - FINDINGS_MAX, 0),
            "findings": audit_json(after)["findings"],
            "accepted_losses": accepted_json(after),
            "unreachable": sorted({found.bookie_id for found in self._silent} | after.unreachable),
            "exit_code": _exit_code(refusal, after, blocked=len(blocked), left=len(left)),
        }


def _blocked(
    outcomes: Sequence[DrainOutcome], refusal: Refusal | None, late: set[LedgerId]
) -> list[Document]:
    rows: list[Document] = []
    if refusal is not None:
        rows.append(
            {
                "bookie_id": refusal.bookie_id,
                "reason": refusal.reason,
                "message": refusal.message,
            }
        )
    rows += [
        {"ledger_id": outcome.ledger_id, "reason": outcome.reason, "message": outcome.message}
        for outcome in outcomes
        if outcome.reason
    ]
    if refusal is None:
        said = "it came to name the bookie after the last look: run the drain again"
        rows += [{"ledger_id": i, "reason": "CameLate", "message": said} for i in sorted(late)]
    return rows


def _exit_code(refusal: Refusal | None, after: Audit, *, blocked: int, left: int) -> int:
    if refusal is not None:
        return EXIT_REFUSED
    return exit_code(after.counts, blocked=blocked) or (EXIT_UNKNOWN if left else 0)
