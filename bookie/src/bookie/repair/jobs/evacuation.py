"""Takes ledgers off one bookie until none is left that this run could move: what a drain and a
re-replication have in common.

move what is finished -> give writers time to move on by themselves -> recover and close what is
still written to it, or in recovery -> move that too. Who may take over, and whether the work may go
on, is asked of a `Gate` before each round; the job's engine moves the ledgers of one.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from bookie.ids import BookieId, LedgerId
from bookie.metadata.naming import Listing, list_ledgers
from bookie.metadata.store import Unreadable
from bookie.protocol.ledger import LedgerMetadata, LedgerState
from bookie.protocol.placement import Racks
from bookie.repair.engine.engine import Engine
from bookie.repair.jobs.job import Job
from bookie.repair.look.audit import read_ledgers
from bookie.repair.mend.copy import CopySettings
from bookie.repair.mend.ledger_move import Handover
from bookie.repair.mend.ledger_repair import LEDGERS_IN_FLIGHT, RepairSettings, recover_ledger
from bookie.repair.mend.outcome import Outcome
from bookie.repair.reports.ledger_progress import LedgerProgress

ROUNDS_MAX: Final = 3
"""Looks for ledgers that came to name the bookie while others were moved."""
LEDGERS_PER_BATCH: Final = 200
LEDGERS_PER_ROUND: Final = 2_000
"""Ledgers in a round on Spark. One session holds their locks, and when ZooKeeper ends a session,
one record of at most 1 MiB names all its locks.
"""


@dataclass(frozen=True, slots=True)
class EvacuationSettings:
    """Bounds of an evacuation; the gate is asked between two batches or rounds."""

    grace_s: float = 3.0
    """How long writers may take to move on by themselves before their ledgers are recovered."""
    ledgers_per_batch: int = LEDGERS_PER_BATCH
    """Moved at once in process."""
    ledgers_per_round: int = LEDGERS_PER_ROUND
    """Moved at once in Spark."""
    repair: RepairSettings = field(default_factory=RepairSettings)

    @classmethod
    def at_rate(cls, bytes_per_second: int | None) -> "EvacuationSettings":
        """Copying at most so many bytes a second from and to each bookie; None = no such bound."""
        copy = CopySettings(bytes_per_second=bytes_per_second)
        return cls(repair=RepairSettings(copy=copy))

    def ledgers_at_once(self, engine: Engine) -> int:
        return self.ledgers_per_batch if engine.is_in_process else self.ledgers_per_round


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why nothing, or nothing more, is done; `reason` as in the result's `blocked`."""

    reason: str
    message: str
    bookie_id: BookieId


class Gate(Protocol):
    """Decides whether the work may continue, and which bookies may take over."""

    racks: Racks
    """Racks of the candidates that it named last."""

    async def candidates(self) -> Sequence[BookieId] | Refusal:
        """Writable bookies that answer, or why no more is done."""

    async def reserve(self, outcomes: Sequence[Outcome]) -> None:
        """Called before ledgers are changed; ledgers that it blocks are not changed."""

    async def release(self, outcomes: Sequence[Outcome]) -> None:
        """Called when these ledgers are not being changed any more."""


def naming(listing: Listing) -> set[LedgerId]:
    """Ledgers that name the bookie, and those in recovery that may name it later."""
    return {*listing.named, *listing.recovering}


class Evacuation:
    """Takes ledgers off `leaving`."""

    def __init__(
        self,
        job: Job,
        engine: Engine,
        progress: LedgerProgress,
        leaving: BookieId,
        gate: Gate,
        settings: EvacuationSettings,
    ) -> None:
        self._cluster, self._say = job.cluster, job.say
        self._engine, self._progress = engine, progress
        self._leaving = leaving
        self._gate = gate
        self._settings = settings
        self._candidates: Sequence[BookieId] = ()
        """Bookies that may take over, as the gate said before this round."""
        self.outcomes: dict[LedgerId, Outcome] = {}
        """The outcome of every ledger so far; none is ever removed."""

    async def all_that_name_it(self, found: Listing) -> Refusal | None:
        """Move until nothing is left that this run could move. `found`: a first look, whose ledgers
        the progress counts already.
        """
        for number in range(ROUNDS_MAX):
            if refusal := await self._ask():
                return refusal
            if number:
                found = await list_ledgers(self._cluster.store, self._leaving)
            todo = naming(found) - self.outcomes.keys()
            if not todo:
                return None
            if number:
                self._progress.expect(len(todo))
            self._say(f"{len(todo)} ledgers name {self._leaving}, or may come to")
            written = {*found.undecided, *found.recovering} & todo
            if refusal := await self._empty(todo, written):
                return refusal
        return None

    async def these(self, ledger_ids: set[LedgerId]) -> Refusal | None:
        """Move only these, as far as they name it."""
        found = await self._read(sorted(ledger_ids))
        listing = Listing()
        for metadata in found:
            listing.take(metadata, self._leaving)
        todo = naming(listing) - self.outcomes.keys()
        self._progress.expect(len(todo))
        written = {*listing.undecided, *listing.recovering} & todo
        return await self._ask() or await self._empty(todo, written)

    async def _empty(self, todo: set[LedgerId], written: set[LedgerId]) -> Refusal | None:
        refusal = await self._move(sorted(todo - written))
        if refusal is None and written:
            refusal = await self._move_written(sorted(written))
        return refusal

    async def _ask(self) -> Refusal | None:
        found = await self._gate.candidates()
        if isinstance(found, Refusal):
            return found
        self._candidates = found
        return None

    async def _move(self, ledger_ids: Sequence[LedgerId]) -> Refusal | None:
        outcomes = [self.outcomes.setdefault(i, Outcome(i)) for i in ledger_ids]
        ready = self._without_blocked(outcomes)
        size = self._settings.ledgers_at_once(self._engine)
        for start in range(0, len(ready), size):
            if start and (refusal := await self._ask()) is not None:
                return refusal
            await self._move_round(ready[start : start + size])
        return None

    async def _move_round(self, outcomes: Sequence[Outcome]) -> None:
        await self._gate.reserve(outcomes)
        mine = self._without_blocked(outcomes)
        handover = Handover(self._leaving, self._candidates, self._gate.racks)
        try:
            settings = self._settings.repair
            await self._engine.move(mine, handover, settings, self._progress.count)
        finally:
            await self._gate.release(mine)

    def _without_blocked(self, outcomes: Sequence[Outcome]) -> list[Outcome]:
        if blocked := [outcome for outcome in outcomes if outcome.reason]:
            self._progress.count(blocked)
        return [outcome for outcome in outcomes if not outcome.reason]

    async def _move_written(self, ledger_ids: Sequence[LedgerId]) -> Refusal | None:
        """Ledgers with a writer or a recoverer: it may end by itself, then they are ended."""
        await asyncio.sleep(self._settings.grace_s)
        slots = asyncio.Semaphore(LEDGERS_IN_FLIGHT)

        async def end(metadata: LedgerMetadata) -> None:
            async with slots:
                await self._end(metadata)

        size = self._settings.ledgers_at_once(self._engine)
        for start in range(0, len(ledger_ids), size):
            # A drain that was cancelled, or a bookie that is back, is no reason to cut writers off.
            if refusal := await self._ask():
                return refusal
            await asyncio.gather(*map(end, await self._read(ledger_ids[start : start + size])))
        return await self._ask() or await self._move(ledger_ids)

    async def _read(self, ledger_ids: Sequence[LedgerId]) -> list[LedgerMetadata]:
        """Metadata of the ledgers that exist; an unreadable ledger is not changed and is reported
        as blocked."""
        unreadable: Unreadable = {}
        found = await read_ledgers(
            self._cluster.store,
            ledger_ids,
            unreadable=unreadable,
            in_flight=self._settings.repair.audit.metadata_in_flight,
        )
        for ledger_id, error in unreadable.items():
            outcome = self.outcomes.setdefault(ledger_id, Outcome(ledger_id))
            outcome.block("MetadataUnreadable", str(error))
        return [metadata.value for metadata in found.values()]

    async def _end(self, metadata: LedgerMetadata) -> None:
        """Recover and close the ledger if it is still written to this bookie, or in recovery."""
        if not self._must_end(metadata):
            return
        ensemble = metadata.last_fragment.ensemble
        outcome = self.outcomes.setdefault(metadata.ledger_id, Outcome(metadata.ledger_id))
        outcome.state_before = metadata.state.value
        if self._leaving in ensemble and not set(self._candidates) - set(ensemble):
            # Its writer must not be cut off for nothing.
            said = f"no writable bookie outside {', '.join(ensemble)} can take over: start one more"
            outcome.block("NotEnoughBookies", said)
            return
        # It may have waited for its turn, and its writer has moved on meanwhile.
        await recover_ledger(self._cluster, outcome, only_if=self._must_end)

    def _must_end(self, metadata: LedgerMetadata) -> bool:
        if metadata.state is LedgerState.OPEN:
            return self._leaving in metadata.last_fragment.ensemble
        return metadata.state is LedgerState.IN_RECOVERY
