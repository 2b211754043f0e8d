"""The driver's half of drains and re-replications on Spark: round by round, in one session.

Spark is started with the first ledgers, so that a run that is refused has not waited for it, and
ends with the run. Locks and refusals stay with the steps, which ask for a round at a time.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

from bookie.errors import NotEnoughBookiesError
from bookie.ids import LedgerId
from bookie.protocol.ledger import LedgerMetadata
from bookie.repair.engine.engine import EngineRun, MoveEngine
from bookie.repair.engine.move_engines import MoveWork, SparkMoves
from bookie.repair.look.audit import read_ledgers
from bookie.repair.mend.ledger_move import Handover, MoveOutcome, Told, planned
from bookie.repair.mend.move_plan import are_made
from bookie.repair.mend.outcome import Done, LedgerOutcome, LedgerTask
from bookie.repair.spark.job import SparkJobs
from bookie.repair.spark.spark_moves import Round, RoundRun


def moves_of(jobs: SparkJobs) -> SparkMoves:
    """Rounds of these jobs, in a session of their own unless they have one."""

    @asynccontextmanager
    async def opened(engine: str, work: MoveWork) -> AsyncIterator[MoveEngine]:
        settled = replace(jobs, settings=work.settings.repair)
        async with AsyncExitStack() as stack:
            yield SparkRounds(settled, engine, work, stack)

    return opened


class SparkRounds:
    """A `MoveEngine` in the tasks of Spark."""

    def __init__(self, jobs: SparkJobs, engine: str, work: MoveWork, stack: AsyncExitStack) -> None:
        self.ledgers_at_once = work.settings.ledgers_per_round
        self.spark_app_id: str | None = None
        self.executors: frozenset[str] = frozenset()
        self._jobs, self._engine, self._work = jobs, engine, work
        self._stack = stack

    async def move(self, outcomes: Sequence[MoveOutcome], handover: Handover, told: Told) -> None:
        """See `MoveEngine`."""
        if not outcomes:
            return
        jobs = await self._begun()
        before = await self._read([outcome.ledger_id for outcome in outcomes])
        asked = Round(outcomes, handover, self._work.same, self._work.settings.repair)
        ran = await jobs.move(self._engine, asked, self._work.say, told)
        self._note(ran)
        for outcome in outcomes:
            outcome.take(ran.outcomes[outcome.ledger_id])
        again = [o for o in outcomes if o.ledger_id in ran.tried_again and not o.moved]
        await self._count_first_tries(again, before, handover)

    async def mend(self, tasks: Sequence[LedgerTask], done: Done) -> Sequence[LedgerOutcome]:
        """See `MoveEngine`."""
        if not tasks:
            return ()
        jobs, work = await self._begun(), self._work
        ran = await jobs.repair(self._engine, tasks, work.same, work.say, done)
        self._note(ran)
        return ran.outcomes

    async def _begun(self) -> SparkJobs:
        if self._jobs.session is None:
            kept = self._jobs.kept(self._engine, self._work.say)
            self._jobs = await self._stack.enter_async_context(kept)
        return self._jobs

    def _note(self, ran: RoundRun | EngineRun) -> None:
        self.spark_app_id = ran.spark_app_id
        self.executors |= set(ran.executors)

    async def _count_first_tries(
        self,
        outcomes: Sequence[MoveOutcome],
        before: Mapping[LedgerId, LedgerMetadata],
        handover: Handover,
    ) -> None:
        """A ledger that now names whom this round had chosen was moved by a try that was cut off
        before it could say so.
        """
        after = await self._read([outcome.ledger_id for outcome in outcomes])
        for outcome in outcomes:
            was, now = before.get(outcome.ledger_id), after.get(outcome.ledger_id)
            if was is not None and now is not None:
                outcome.moved = was_moved(was, now, handover)

    async def _read(self, ledger_ids: Sequence[LedgerId]) -> dict[LedgerId, LedgerMetadata]:
        in_flight = self._work.settings.repair.audit.metadata_in_flight
        store = self._work.cluster.store
        found = await read_ledgers(store, ledger_ids, unreadable={}, in_flight=in_flight)
        return {ledger_id: metadata.value for ledger_id, metadata in found.items()}


def was_moved(before: LedgerMetadata, after: LedgerMetadata, handover: Handover) -> bool:
    """True when all that this handover had planned of the ledger has happened."""
    try:
        moves = planned(before, handover)
    except NotEnoughBookiesError:
        return False
    return bool(moves) and are_made(after, moves)
