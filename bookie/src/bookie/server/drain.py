"""A bookie that is to leave: no normal adds, registered read-only, kept over restarts, and counted.

The repair package moves its ledgers (`repair.jobs.drain_job`); here is the state they are moved
under, and the bookie's own count of what still names it, by which the operator knows that it may
go.

The count is trusted only when it says so. It begins some time after the registration says
read-only, so that whoever chose this bookie from an older list has written it into the metadata.
Ledgers IN_RECOVERY count too, whomever they name: their recoverer may have written copies here
already, and puts this bookie into the metadata only when it closes (S37); and those whose metadata
nobody can read, which may name anybody. A writer's ensemble
change that comes later is harmless: nothing is acknowledged by a bookie that refuses adds.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Final

from bookie.boot.drain_marker import mark_draining, unmark_draining
from bookie.errors import BookieError, UndecidableError
from bookie.ids import BookieId, LedgerId
from bookie.metadata.naming import list_ledgers, named_ids
from bookie.metadata.store import MetadataStore
from bookie.server.announce import Announcer
from bookie.server.marks import Marks
from bookie.server.state import BookieState, ReadOnlyReason
from bookie.storage.disk import Disk

log = logging.getLogger(__name__)

SETTLE_S: Final = 2.0
"""From the read-only registration to the first count: longer than clients keep a list of bookies
between choosing from it and writing the metadata."""
COUNT_PAUSE_S: Final = 5.0
REST_FACTOR: Final = 4
"""After a count, rest so many times as long as it took: at most a fifth of the time is listing."""


@dataclass(frozen=True, slots=True)
class NamingCount:
    """Ledgers that name this bookie, or may come to, by a listing that began at `at_ms`."""

    ledgers: int
    at_ms: int


@dataclass(eq=False)
class Drain:
    """The drain of one serving bookie."""

    store: MetadataStore
    state: BookieState
    _: KW_ONLY
    marks: Marks
    announcer: Announcer
    disk: Disk
    directories: Sequence[Path]
    """Where its markers lie: all of the bookie's."""
    count: NamingCount | None = field(default=None, init=False)
    """None = not counted yet, or the last try failed: unknown, never zero."""

    def __post_init__(self) -> None:
        self._turn = asyncio.Lock()
        """One switch at a time."""
        self._due: float | None = None
        """When to count next, by the loop's clock; None while the registration is writable."""
        self._life = 0
        """Number of the drain, so that a count of an earlier one is not taken for this one's."""
        self._logged_unreadable: frozenset[LedgerId] = frozenset()
        """Ledgers of the last count whose metadata could not be read."""

    async def begin(self) -> None:
        """Durable when it returns. UndecidableError while the bookie may have forgotten entries."""
        async with self._turn:
            if self.state.is_draining:
                return
            self._refuse_marks()
            await asyncio.to_thread(mark_draining, self.disk, self.directories)
            self._switch(True)
        await self.announcer.announce()

    async def cancel(self) -> None:
        """Writable again, whatever the marks say; what was moved away meanwhile stays there."""
        async with self._turn:
            await asyncio.to_thread(unmark_draining, self.disk, self.directories)
            self._switch(False)
        await self.announcer.announce()

    def _switch(self, is_on: bool) -> None:
        self.state.switch_read_only(ReadOnlyReason.DRAIN, is_on)
        self._life += 1
        self._due = self.count = None
        log.info("drain %s", "begins" if is_on else "ended")
        self._check()

    def _check(self) -> None:
        """At the end of each switch and count: no count is there but of the drain of now."""
        assert self.count is None or (self._due is not None and self.state.is_draining)
        assert self.count is None or self.count.ledgers >= 0

    def _refuse_marks(self) -> None:
        limbo, unchecked = self.marks.limbo_count, self.marks.unchecked_count
        if limbo or unchecked:
            raise UndecidableError(
                f"bookie {self.state.bookie_id} is not drained now: {limbo} ledgers are in limbo "
                f"and {unchecked} unchecked on it, so that nobody knows yet what it must hold; "
                "drain it once a repair has cleared them"
            )

    async def count_when_due(self) -> None:
        """One linearizable listing when it is time; called again and again."""
        now = asyncio.get_running_loop().time()
        if not self.state.is_draining or not self.announcer.is_read_only:
            self._due = self.count = None
            return
        if self._due is None:
            self._due = now + SETTLE_S
        if now >= self._due:
            await self._count()

    async def _count(self) -> None:
        loop, life = asyncio.get_running_loop(), self._life
        began, at_ms = loop.time(), int(time.time() * 1000)
        found: NamingCount | None = None
        try:
            listing = await list_ledgers(self.store, BookieId(self.state.bookie_id))
            self._log_unreadable(frozenset(listing.unreadable))
            found = NamingCount(len({*listing.named, *listing.recovering}), at_ms)
        except BookieError as error:
            log.warning("cannot count the ledgers that name this bookie: %s", error)
        if life == self._life:
            self.count = found
            self._due = loop.time() + max(COUNT_PAUSE_S, REST_FACTOR * (loop.time() - began))
        self._check()

    def _log_unreadable(self, unreadable: frozenset[LedgerId]) -> None:
        """Once for the same ones: they are counted, since they may name this bookie."""
        if unreadable and unreadable != self._logged_unreadable:
            log.warning(
                "%d ledgers count as ledgers of this bookie, which leaves only when they do not: "
                "their metadata cannot be read (%s); mend it, or delete the ledgers",
                len(unreadable),
                named_ids(unreadable),
            )
        self._logged_unreadable = unreadable
