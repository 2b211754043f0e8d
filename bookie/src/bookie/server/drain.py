"""The drain of a bookie that is to leave: it takes no normal adds, is registered read-only, stays
so over restarts, and counts the ledgers that name it.

The repair package moves the ledgers away (`repair.jobs.drain_job`). This module keeps the state
under which they move, and the bookie's own count of ledgers that still name it; the operator
removes the bookie when the count is 0.

Counting begins some time after the registration says read-only, so that a client that chose this
bookie from an older list has written it into the metadata by then. Ledgers IN_RECOVERY count too,
whatever bookies they name: their recoverer may already have written copies here, and puts this
bookie into the metadata only with its closing write (S37). Ledgers with unreadable metadata count
as well, as they may name any bookie. A writer's later ensemble change does no harm: a bookie that
refuses adds acknowledges nothing.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Final

from bookie.boot.drain_marker import mark_draining, unmark_draining
from bookie.boot.takeover import to_its_end
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
"""Seconds from the read-only registration to the first count: longer than a client takes from
choosing a bookie to writing the metadata."""
COUNT_PAUSE_S: Final = 5.0
REST_FACTOR: Final = 4
"""After a count the bookie pauses this many times as long as the count took, so that listing takes
at most a fifth of the time."""


@dataclass(frozen=True, slots=True)
class NamingCount:
    """How many ledgers name this bookie, or may come to, by a listing that began at `at_ms`."""

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
    """All directories of the bookie; each gets a drain marker."""
    count: NamingCount | None = field(default=None, init=False)
    """None = not counted yet, or the last count failed: unknown, which does not mean zero."""

    def __post_init__(self) -> None:
        self._turn = asyncio.Lock()
        """Held while the drain is switched on or off: one switch at a time."""
        self._due: float | None = None
        """When to count next, by the loop's clock; None until the registration says read-only."""
        self._life = 0
        """Number of the drain, so that a count of an earlier drain is not taken for this one's."""
        self._logged_unreadable: frozenset[LedgerId] = frozenset()
        """Ledgers with unreadable metadata in the last count, which were logged."""

    async def begin(self) -> None:
        """Begin the drain, durably. UndecidableError while the bookie may have
        forgotten entries.
        """
        async with self._turn:
            if self.state.is_draining:
                return
            self._refuse_marks()
            await to_its_end(self._mark(mark_draining, True))
        await self.announcer.announce()

    async def cancel(self) -> None:
        """End the drain, whatever the limbo marks; ledgers that were moved away stay away."""
        async with self._turn:
            await to_its_end(self._mark(unmark_draining, False))
        await self.announcer.announce()

    async def _mark(self, write: Callable[[Disk, Sequence[Path]], None], is_on: bool) -> None:
        """Write or remove the markers, and say the same: also when the caller has given up."""
        await asyncio.to_thread(write, self.disk, self.directories)
        self._switch(is_on)

    def _switch(self, is_on: bool) -> None:
        self.state.switch_read_only(ReadOnlyReason.DRAIN, is_on)
        self._life += 1
        self._due = self.count = None
        log.info("drain %s", "begins" if is_on else "ended")
        self._check()

    def _check(self) -> None:
        """Assert the invariants at the end of each switch and count: a count always belongs to the
        present drain.
        """
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
        """Count by one linearizable listing if it is time; housekeeping calls this every second."""
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
        """Log ledgers with unreadable metadata, which count as they may name this bookie; the same
        set only once.
        """
        if unreadable and unreadable != self._logged_unreadable:
            log.warning(
                "%d ledgers count as ledgers of this bookie, which leaves only when they do not: "
                "their metadata cannot be read (%s); mend it, or delete the ledgers",
                len(unreadable),
                named_ids(unreadable),
            )
        self._logged_unreadable = unreadable
