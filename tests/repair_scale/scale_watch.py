"""Watches marks go, and holds each that went against the ledger as it is then.

It trusts neither the job nor the bookie's judgement: a mark may go only once the job in charge has
said its audit, after which nothing is copied any more, so what is looked at here is what was there
when the mark went. Then the ledger must be CLOSED, and the bookie must list all it owes.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

from bookie.ids import BookieId, LedgerId
from bookie.protocol.assignment import assigned
from bookie.repair.look.audit import read_ledgers
from bookie.repair.look.cluster import Cluster

POLL_S: Final = 0.5
IN_FLIGHT: Final = 64


@asynccontextmanager
async def looking(look: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """Looks again and again meanwhile, and once more at the end.

    No look is cut off: what it has noted as gone nobody would judge any more.
    """
    over = asyncio.Event()
    watching = asyncio.create_task(_look_until(over, look))
    try:
        yield
    finally:
        over.set()
        await watching


async def _look_until(over: asyncio.Event, look: Callable[[], Awaitable[None]]) -> None:
    while not over.is_set():
        await look()
        with suppress(TimeoutError):
            await asyncio.wait_for(over.wait(), POLL_S)
    await look()


@dataclass
class MarkWatch:
    """`early`: marks that went when they must not have; `cleared`: how many went as they may, of
    all that were `seen`; one that comes again after it went counts again.

    `may_clear`: asked when a mark is gone, whether marks may go by now.
    """

    cluster: Cluster
    bookies: tuple[BookieId, ...]
    may_clear: Callable[[], bool]
    marked: dict[BookieId, set[LedgerId]] = field(default_factory=dict)
    early: list[str] = field(default_factory=list)
    cleared: int = 0
    seen: int = 0

    async def look(self) -> None:
        """One look at all marks, and at what has lost one since the last."""
        for bookie_id in self.bookies:
            found = await self.cluster.control.list_marks(bookie_id)
            if found.status.name != "OK":
                continue
            now = {mark.ledger_id for mark in found.marks}
            before = self.marked.get(bookie_id, set())
            gone = before - now
            self.marked[bookie_id] = now
            self.seen += len(now - before)
            if gone:
                await self._judge(bookie_id, gone)

    async def _judge(self, bookie_id: BookieId, gone: Iterable[LedgerId]) -> None:
        if not self.may_clear():
            self.early += [f"{bookie_id} ledger {i}: before the audit" for i in sorted(gone)]
        found = await read_ledgers(self.cluster.store, gone, unreadable={}, in_flight=IN_FLIGHT)
        held = await self.cluster.control.availability(bookie_id, list(found))
        for ledger_id, versioned in found.items():
            metadata = versioned.value
            if not metadata.is_closed:
                self.early.append(f"{bookie_id} ledger {ledger_id}: {metadata.state.value}")
                continue
            owed = assigned(metadata, bookie_id, through=metadata.last_entry_id)
            if lacking := owed - held[ledger_id].entries:
                self.early.append(f"{bookie_id} ledger {ledger_id}: {len(lacking)} not there")
            else:
                self.cleared += 1
