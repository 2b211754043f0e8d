"""The lease of a serving bookie: its right to answer as the bookie, which it confirms every few
seconds.

Each confirmation writes the bookie's claim by compare-and-set. The write succeeds only while the
claim is still this process's own, so it notices another process that booted as the same bookie. The
lease counts from before the write began, by this machine's clock, which keeps running while the
machine sleeps. Another process that claims the bookie without proof that this one is gone waits
longer than a lease before it serves (`boot.takeover`), by its own clock: no two clocks are
compared.

A lease is longer than an ordinary outage of the metadata store. When it has run out, the bookie
takes no add and no fence and denies nothing, until the next confirmation (`protocol.admission`).

The same confirmation raises the generation if anything was written since the last one: first on the
disks, then in the claim. The next boot recognises older copies of the disks, and an older state of
the store, by it.
"""

import asyncio
import logging
from dataclasses import replace

from bookie.boot.boot import Booted
from bookie.boot.takeover import in_thread
from bookie.errors import DiskFullError
from bookie.points import passing
from bookie.server.state import BookieState

log = logging.getLogger(__name__)


class Lease:
    """The lease of one serving process; housekeeping calls `confirm` every few seconds."""

    def __init__(self, booted: Booted, state: BookieState, *, seconds: float) -> None:
        self._storage = booted.storage
        self._claim = booted.claim
        self._markers = booted.markers
        self._state = state
        self._seconds = seconds
        self._written = booted.storage.extent
        """The storage's `extent` when the generation was last raised."""
        self._turn = asyncio.Lock()
        """Held during a confirmation: one at a time."""

    def _check(self) -> None:
        """Assert at the end of each confirmation that the disks are not behind the store."""
        assert self._markers.current is not None
        assert self._markers.current.generation >= self._claim.stored.generation
        assert not self._markers.current.is_clean

    async def confirm(self) -> bool:
        """Confirm the claim and prolong the lease, unless a client names a newer epoch meanwhile.
        Always returns True. SupersededError when this process is no longer the bookie; after
        UnavailableError or StorageError the lease goes on until it runs out.
        """
        async with self._turn:
            began, heard = self._state.clock(), self._state.epoch_heard
            stored = self._claim.stored
            generation = await self._raise_generation(stored.generation)
            passing("lease: generation raised, store not written")
            await self._claim.write(replace(stored, generation=generation))
            # If a client named a newer epoch meanwhile, a rival's claim may have followed this
            # write; the next confirmation will show.
            if self._state.epoch_heard == heard:
                self._state.extend_lease(began + self._seconds)
            self._publish_rollback(self._claim.stored.rolled_back)
            self._check()
            return True

    async def _raise_generation(self, confirmed: int) -> int:
        """Raise the generation if anything was written; returns the one that is durable in all
        directories.
        """
        assert self._markers.current is not None
        written = self._storage.extent
        if written == self._written:
            return self._markers.current.generation
        try:
            # Run it to its end, also when the bookie stops: a clean stop writes the markers next.
            generation = await in_thread(
                lambda: self._markers.raise_generation(confirmed=confirmed)
            )
        except DiskFullError as error:
            # Some directories may have the new one; none has a lower one than is confirmed now.
            log.warning("the generation stays %d: %s", self._markers.current.generation, error)
            return self._markers.current.generation
        self._written = written
        return generation

    def _publish_rollback(self, found: str) -> None:
        if found and found != self._state.metadata_rolled_back:
            log.critical(
                "the metadata store was put back to an earlier state: %s; nothing is collected "
                "until a person has dealt with it: see docs/operating.md", found,
            )  # fmt: skip
        self._state.metadata_rolled_back = found
