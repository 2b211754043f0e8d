"""Takes ledgers off one bookie until none is left that this run could move: a drain's and a
re-replication's common part.

move what is finished -> give writers time to move on by themselves -> recover and close what is
still written to it, or in recovery -> move that too. Who may take over, and whether the work may go
on, is asked of a `Gate` before each round; a `MoveEngine` carries the ledgers of one.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from bookie.ids import BookieId, LedgerId
from bookie.metadata.naming import Listing, list_ledgers
from bookie.metadata.store import Unreadable
from bookie.protocol.ledger import LedgerMetadata, LedgerState
from bookie.protocol.placement import Racks
from bookie.repair.engine.engine import EmptyingSettings, MoveEngine
from bookie.repair.look.audit import read_ledgers
from bookie.repair.look.cluster import Cluster
from bookie.repair.mend.copy import CopySettings
from bookie.repair.mend.ledger_move import Handover, MoveOutcome
from bookie.repair.mend.ledger_repair import LEDGERS_IN_FLIGHT, RepairSettings, recovered
from bookie.repair.mend.outcome import LedgerOutcome
from bookie.repair.reports.ledger_progress import Follower
from bookie.repair.reports.printing import Say

ROUNDS_MAX: Final = 3
"""Looks for ledgers that came to name the bookie while others were moved."""


def emptying_at(bytes_per_second: int | None) -> EmptyingSettings:
    """Copying at most so many bytes a second from and to each bookie; None = no such bound."""
    copy = CopySettings(bytes_per_second=bytes_per_second)
    return EmptyingSettings(repair=RepairSettings(copy=copy))


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why nothing, or nothing more, is done; `reason` as in the result's `blocked`."""

    reason: str
    message: str
    bookie_id: BookieId


class Gate(Protocol):
    """Whether and with whom the work goes on. `racks`: of the candidates that it named last."""

    racks: Racks

    async def candidates(self) -> Sequence[BookieId] | Refusal:
        """Writable bookies that answer, or why no more is done."""

    async def reserve(self, outcomes: Sequence[MoveOutcome]) -> None:
        """Before ledgers are touched; those that it blocks are left alone."""

    async def release(self, outcomes: Sequence[MoveOutcome]) -> None:
        """They are touched no more for now."""


@dataclass(frozen=True, slots=True)
class Carriage:
    """What carries the ledgers of a run, and who is told of it."""

    engine: MoveEngine
    following: Follower
    say: Say


def naming(listing: Listing) -> set[LedgerId]:
    """Those that name the bookie, and those that may come to."""
    return {*listing.named, *listing.recovering}


class Emptying:
    """Takes ledgers off `leaving`. `outcomes`: every ledger it looked after, so far."""

    def __init__(
        self,
        cluster: Cluster,
        leaving: BookieId,
        gate: Gate,
        settings: EmptyingSettings,
        carriage: Carriage,
    ) -> None:
        self._cluster = cluster
        self._leaving = leaving
        self._gate = gate
        self._settings = settings
        self._engine, self._following = carriage.engine, carriage.following
        self._say = carriage.say
        self._candidates: Sequence[BookieId] = ()
        self.outcomes: dict[LedgerId, MoveOutcome] = {}

    async def all_that_name_it(self, found: Listing) -> Refusal | None:
        """Until nothing is left that this run could move. `found`: a first look, which was told to
        the follower.
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
                self._following.expect(len(todo))
            self._say(f"{len(todo)} ledgers name {self._leaving}, or may come to")
            written = {*found.undecided, *found.recovering} & todo
            if refusal := await self._empty(todo, written):
                return refusal
        return None

    async def these(self, ledger_ids: set[LedgerId]) -> Refusal | None:
        """Only these, as far as they name it."""
        found = await self._read(sorted(ledger_ids))
        listing = Listing()
        for metadata in found:
            listing.take(metadata, self._leaving)
        todo = naming(listing) - self.outcomes.keys()
        self._following.expect(len(todo))
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
        outcomes = [self.outcomes.setdefault(i, MoveOutcome(i)) for i in ledger_ids]
        ready = self._without_blocked(outcomes)
        size = self._engine.ledgers_at_once
        for start in range(0, len(ready), size):
            if start and (refusal := await self._ask()) is not None:
                return refusal
            await self._move_round(ready[start : start + size])
        return None

    async def _move_round(self, outcomes: Sequence[MoveOutcome]) -> None:
        await self._gate.reserve(outcomes)
        mine = self._without_blocked(outcomes)
        handover = Handover(self._leaving, self._candidates, self._gate.racks)
        try:
            await self._engine.move(mine, handover, self._following.count)
        finally:
            await self._gate.release(mine)

    def _without_blocked(self, outcomes: Sequence[MoveOutcome]) -> list[MoveOutcome]:
        if blocked := [outcome for outcome in outcomes if outcome.reason]:
            self._following.count(blocked)
        return [outcome for outcome in outcomes if not outcome.reason]

    async def _move_written(self, ledger_ids: Sequence[LedgerId]) -> Refusal | None:
        """Ledgers with a writer or a recoverer: it may end by itself, then they are ended."""
        await asyncio.sleep(self._settings.grace_s)
        slots = asyncio.Semaphore(LEDGERS_IN_FLIGHT)

        async def end(metadata: LedgerMetadata) -> None:
            async with slots:
                await self._end(metadata)

        await asyncio.gather(*map(end, await self._read(ledger_ids)))
        return await self._move(ledger_ids)

    async def _read(self, ledger_ids: Sequence[LedgerId]) -> list[LedgerMetadata]:
        """Of those that exist; what cannot be read is left as it is, and in the way."""
        unreadable: Unreadable = {}
        found = await read_ledgers(
            self._cluster.store,
            ledger_ids,
            unreadable=unreadable,
            in_flight=self._settings.repair.audit.metadata_in_flight,
        )
        for ledger_id, error in unreadable.items():
            outcome = self.outcomes.setdefault(ledger_id, MoveOutcome(ledger_id))
            outcome.block("MetadataUnreadable", str(error))
        return [metadata.value for metadata in found.values()]

    async def _end(self, metadata: LedgerMetadata) -> None:
        """Recover and close the ledger if it is still written to this bookie, or in recovery."""
        ensemble = metadata.last_fragment.ensemble
        if metadata.is_closed or (
            metadata.state is LedgerState.OPEN and self._leaving not in ensemble
        ):
            return
        outcome = self.outcomes.setdefault(metadata.ledger_id, MoveOutcome(metadata.ledger_id))
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
