"""Readers and rivals of one client process: they test the promises while writers make more.

Each look chooses a ledger, reads it as any client would and notes what it was given. A rival closes
ledgers under their writers. Old ledgers are read once more and deleted, so that disks stay bounded
and bookies have something to collect.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from bookie.client.bookkeeper_client import Client
from bookie.client.reader import LedgerReader
from bookie.errors import (
    BookieError,
    DataLossError,
    MetadataConflictError,
    NoSuchEntryError,
    NoSuchLedgerError,
    NotEnoughBookiesError,
    UnavailableError,
    UndecidableError,
)
from bookie.ids import EntryId, LedgerId
from promises import Promises

NOT_NOW: Final = (
    UnavailableError,
    NotEnoughBookiesError,
    UndecidableError,
    MetadataConflictError,
)
"""Honest answers while faults are under way: ask again later."""
PAUSE_S: Final = 0.6
RIVAL_PAUSE_S: Final = 20.0
RIVAL_LEDGERS: Final = 60
"""A rival takes one of so many newest ledgers, whoever writes it."""
TAIL_S: Final = 20.0
SPOT_ENTRIES: Final = 200
KEPT_LEDGERS: Final = 30
"""Of the closed ledgers of a client; older ones are deleted."""

Choose = Callable[[], LedgerId | None]
Look = Callable[[Client, LedgerId], Awaitable[None]]


class Readers:
    """All that reads in one client. `open_ledgers`: those being written that hold entries."""

    def __init__(
        self,
        promises: Promises,
        *,
        rng: random.Random,
        open_ledgers: Callable[[], list[LedgerId]],
    ) -> None:
        self._promises = promises
        self._rng = rng
        self._open_ledgers = open_ledgers
        self._in_use: list[LedgerId] = []
        self._foreign: set[int] = set()
        """Ledgers of others that we closed; they may be deleted by their owner at any time."""
        self._doomed: list[LedgerId] = []
        self._told: list[LedgerId] = []
        self.unanswered = 0
        """Questions to which nobody could give an answer then."""
        self.deleted = 0

    async def run(self, client: Client) -> None:
        """Until cancelled."""
        looks: list[tuple[Choose, Look, float]] = [
            (self._open, self._follow, PAUSE_S),
            (self._open, self._read_spot, PAUSE_S),
            (self._closed, self._read_whole, PAUSE_S),
            (self._anyones, self._take_over, RIVAL_PAUSE_S),
            (self._oldest, self._doom, PAUSE_S),
            (self._next_told, self._delete, PAUSE_S),
        ]
        async with asyncio.TaskGroup() as group:
            for choose, look, pause_s in looks:
                group.create_task(self._repeat(client, choose, look, pause_s=pause_s))

    def told(self) -> None:
        """All that was doomed when this is called is known to be so outside this process."""
        self._told += self._doomed
        self._doomed = []

    async def _repeat(self, client: Client, choose: Choose, look: Look, *, pause_s: float) -> None:
        while True:
            await asyncio.sleep(self._rng.uniform(0.0, pause_s))
            ledger_id = choose()
            if ledger_id is None:
                continue
            self._in_use.append(ledger_id)
            try:
                await look(client, ledger_id)
            except NOT_NOW:
                self.unanswered += 1
            except BookieError as error:
                self._promises.findings.add_failed(
                    f"ledger {ledger_id}: {look.__name__.strip('_')} met {error!r}"
                )
            finally:
                self._in_use.remove(ledger_id)

    # Choices
    def _open(self) -> LedgerId | None:
        """Not what a rival closed while its writer slept, and what we may have deleted since."""
        noted = self._promises.ledgers
        found = [i for i in self._open_ledgers() if i not in noted or not noted[i].doomed]
        return self._rng.choice(found) if found else None

    def _closed(self) -> LedgerId | None:
        found = self._kept()
        return self._rng.choice(found) if found else None

    def _oldest(self) -> LedgerId | None:
        found = self._kept()
        return found[0] if len(found) > KEPT_LEDGERS else None

    def _kept(self) -> list[LedgerId]:
        """Closed ledgers that nobody is about to delete, oldest first."""
        noted = self._promises.ledgers.items()
        closed = [LedgerId(i) for i, p in noted if p.end is not None and not p.doomed]
        return [ledger_id for ledger_id in closed if ledger_id not in self._foreign]

    def _anyones(self) -> LedgerId | None:
        """Ids are given out in order: one of the newest, of this client or another."""
        newest = max(self._promises.ledgers, default=-1)
        return LedgerId(self._rng.randint(max(newest - RIVAL_LEDGERS, 0), max(newest, 0)))

    def _next_told(self) -> LedgerId | None:
        free = [ledger_id for ledger_id in self._told if ledger_id not in self._in_use]
        return free[0] if free else None

    # Looks
    async def _follow(self, client: Client, ledger_id: LedgerId) -> None:
        """The tail of an open ledger: every entry once, in order, nothing left out."""
        reader = await client.open_ledger(ledger_id)
        with suppress(TimeoutError):
            async with asyncio.timeout(TAIL_S):
                await self._follow_to_the_end(reader)

    async def _follow_to_the_end(self, reader: LedgerReader) -> None:
        promises, ledger_id = self._promises, reader.ledger_id
        following = 0
        try:
            async for entry in reader.tail():
                if entry.entry_id != following:
                    promises.note_missing(ledger_id, following, f"a tail gave {entry.entry_id}")
                promises.note_read(ledger_id, entry.entry_id, entry.payload)
                following = entry.entry_id + 1
        except DataLossError as error:
            promises.note_missing(ledger_id, error.entry_id, f"a tail was told: {error}")
        else:
            promises.note_end(ledger_id, reader.last_entry_id)

    async def _read_spot(self, client: Client, ledger_id: LedgerId) -> None:
        """A few entries of an open ledger, as far as the bookies know them to be acknowledged."""
        reader = await client.open_ledger(ledger_id)
        lac = await reader.read_lac()
        first = self._rng.randint(0, max(lac, 0))
        await read_back(self._promises, reader, first=first, last=min(lac, first + SPOT_ENTRIES))

    async def _read_whole(self, client: Client, ledger_id: LedgerId) -> None:
        reader = await client.open_ledger(ledger_id)
        self._promises.note_end(ledger_id, reader.last_entry_id)
        await read_back(self._promises, reader, first=0, last=reader.last_entry_id)

    async def _take_over(self, client: Client, ledger_id: LedgerId) -> None:
        """As a rival of its writer, who may be frozen and come back to it."""
        with suppress(NoSuchLedgerError):  # an id that was never used, or is not any more
            reader = await client.recover_ledger(ledger_id)
            if ledger_id not in self._promises.ledgers:
                self._foreign.add(ledger_id)
            self._promises.note_end(ledger_id, reader.last_entry_id)

    async def _doom(self, client: Client, ledger_id: LedgerId) -> None:
        """Read one last time. It is deleted only when others know that it may be missed."""
        await self._read_whole(client, ledger_id)
        self._promises.note_doomed(ledger_id)
        self._doomed.append(ledger_id)

    async def _delete(self, client: Client, ledger_id: LedgerId) -> None:
        with suppress(NoSuchLedgerError):  # an earlier attempt whose answer was lost
            await client.delete_ledger(ledger_id)
        self._told.remove(ledger_id)
        self.deleted += 1


async def read_back(promises: Promises, reader: LedgerReader, *, first: int, last: int) -> None:
    """Reads and checks these entries; what is not there is noted, each entry by itself.

    Raises what `NOT_NOW` lists.
    """
    following = first
    try:
        async for entry in reader.stream(EntryId(first), EntryId(last)):
            promises.note_read(reader.ledger_id, entry.entry_id, entry.payload)
            following = entry.entry_id + 1
    except (DataLossError, NoSuchEntryError):
        for entry_id in range(following, last + 1):
            await _read_one(promises, reader, EntryId(entry_id))
    for bookie_id, bad in reader.corrupt:
        promises.findings.add_failed(
            f"ledger {reader.ledger_id} entry {bad}: {bookie_id} gave a corrupt copy"
        )


async def _read_one(promises: Promises, reader: LedgerReader, entry_id: EntryId) -> None:
    try:
        for entry in await reader.read(entry_id, entry_id):
            promises.note_read(reader.ledger_id, entry.entry_id, entry.payload)
    except (DataLossError, NoSuchEntryError) as error:
        promises.note_missing(reader.ledger_id, entry_id, str(error))
