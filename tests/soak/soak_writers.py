"""Writers of one client process: each goes through one ledger after another and notes every ack.

Whatever ends a ledger early (a fence, a repair that closes it) leaves its last adds of unknown
outcome: they are never claimed.
"""

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from bookie.client.bookkeeper_client import Client
from bookie.client.writer import LedgerWriter
from bookie.errors import (
    LedgerClosedError,
    LedgerFencedError,
    NoSuchLedgerError,
    NotEnoughBookiesError,
)
from bookie.ids import EntryId, LedgerId
from payload_rule import PayloadRule
from promises import Promises
from soak_readers import NOT_NOW

TAKEN_OVER: Final = (LedgerFencedError, LedgerClosedError)
PAUSE_S: Final = 0.3
TICK_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Pace:
    """How one writer writes: batches of `batch` entries, `pause_s` between them, `window` of them
    unacknowledged at most, a new ledger after `roll` entries.
    """

    batch: int
    pause_s: float
    window: int
    roll: int


BUSY: Final = Pace(batch=40, pause_s=0.1, window=5, roll=4000)
QUIET: Final = Pace(batch=5, pause_s=4.0, window=1, roll=300)
"""Its ledgers lie open over many faults, mostly idle."""


class Writers:
    """All that writes in one client. `run` until `stop`."""

    def __init__(
        self,
        promises: Promises,
        rule: PayloadRule,
        *,
        rng: random.Random,
        paces: Sequence[Pace],
    ) -> None:
        self._promises = promises
        self._rule = rule
        self._rng = rng
        self._paces = paces
        self._stopping = asyncio.Event()
        self._writing: dict[int, LedgerWriter] = {}
        self._ticks = 0
        self._waits: dict[int, int] = {}
        self._longest = 0
        self.taken_over = 0
        """Ledgers that ended under their writer."""

    def stop(self) -> None:
        """What is open is closed, nothing new begins."""
        self._stopping.set()

    async def run(self, client: Client) -> None:
        ticking = asyncio.create_task(self._tick())
        try:
            async with asyncio.TaskGroup() as group:
                for number, pace in enumerate(self._paces):
                    group.create_task(self._write(number, client, pace))
        finally:
            ticking.cancel()

    def open_ledgers(self) -> list[LedgerId]:
        """Those being written that hold something."""
        return [writer.ledger_id for writer in self._writing.values() if writer.lac >= 0]

    def longest_pause_s(self) -> float:
        """The longest that a writer has waited for an acknowledgement, now included."""
        waits = [self._ticks - since for since in self._waits.values()]
        return max([self._longest, *waits]) * TICK_S

    async def _tick(self) -> None:
        """A clock that stands still while this process does: nobody was waited for then."""
        while True:
            await asyncio.sleep(TICK_S)
            self._ticks += 1

    async def _write(self, number: int, client: Client, pace: Pace) -> None:
        while not self._stopping.is_set():
            try:
                writer = await self._create(client)
            except NOT_NOW:
                await self._sleep(PAUSE_S)
                continue
            self._writing[number] = writer
            try:
                await self._fill(number, writer, pace)
            except TAKEN_OVER:
                self.taken_over += 1
                await self._close_for_good(client, writer.ledger_id)
            except NOT_NOW as error:
                self._promises.findings.add_failed(f"a writer gave up: {error}")
                writer.abandon()
            finally:
                del self._writing[number]
                self._note(number, writer)

    async def _create(self, client: Client) -> LedgerWriter:
        """Striped over five, or 3/3/2; with a bookie away only the latter can be had."""
        if self._rng.random() < 0.5:
            with suppress(NotEnoughBookiesError):
                return await client.create_ledger(ensemble_size=5, write_quorum=3, ack_quorum=2)
        return await client.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2)

    async def _fill(self, number: int, writer: LedgerWriter, pace: Pace) -> None:
        """One ledger from its first entry to its close."""
        following = 0
        while following < pace.roll and not self._stopping.is_set():
            await writer.room()
            ids = range(following, following + pace.batch)
            payloads = [self._rule.payload(writer.ledger_id, entry_id) for entry_id in ids]
            following = writer.append_many(payloads) + 1
            await self._acked(number, writer, following - 1 - pace.batch * (pace.window - 1))
            await self._sleep(pace.pause_s)
        await self._acked(number, writer, following - 1)
        end = await writer.close()
        self._note(number, writer)
        self._promises.note_end(writer.ledger_id, end)

    async def _acked(self, number: int, writer: LedgerWriter, entry_id: int) -> None:
        if entry_id < 0:
            return
        self._waits[number] = self._ticks
        await writer.wait_acked(EntryId(entry_id))
        self._note(number, writer)

    def _note(self, number: int, writer: LedgerWriter) -> None:
        """Takes down what is acknowledged by now."""
        self._promises.note_acked(writer.ledger_id, writer.lac)
        if (since := self._waits.pop(number, None)) is not None:
            self._longest = max(self._longest, self._ticks - since)

    async def _close_for_good(self, client: Client, ledger_id: LedgerId) -> None:
        """As its next owner would; what cannot be decided now is left to repair.

        It may be gone: a follower of this client saw its end before the writer did, read it and
        deleted it.
        """
        with suppress(*NOT_NOW):
            try:
                reader = await client.recover_ledger(ledger_id)
            except NoSuchLedgerError as error:
                self._promises.note_gone(ledger_id, str(error))
            else:
                self._promises.note_end(ledger_id, reader.last_entry_id)

    async def _sleep(self, seconds: float) -> None:
        """Cut short by a stop."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)
