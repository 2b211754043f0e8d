"""The lease of a serving bookie: its right to answer as the bookie, confirmed again and again.

Each turn writes the bookie's claim by compare-and-set: it happens only while the claim is still its
own, so that a process which booted as the same bookie is noticed by the very write that would have
prolonged this one's right. The lease runs from before the write was begun, by this machine's clock,
which goes on while it sleeps. Another process that claims the bookie without proof that this one is
gone waits for longer than a lease before it serves (`boot.takeover`), measured by its own clock:
no two clocks are compared.

A lease outlives an ordinary outage of the metadata store. When it has run out the bookie takes no
add and no fence, and denies nothing, until the next confirmation (`protocol.admission`).

In the same turn the generation rises if anything was written since the last one: on the disks
first, then in the claim. Older copies of the disks, and an older state of the store, are noticed by
it.
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
    """Of one serving process; `confirm` is called every few seconds."""

    def __init__(self, booted: Booted, state: BookieState, *, seconds: float) -> None:
        self._storage = booted.storage
        self._claim = booted.claim
        self._markers = booted.markers
        self._state = state
        self._seconds = seconds
        self._written = booted.storage.extent
        """How far the storage had come when the generation was raised last."""
        self._turn = asyncio.Lock()
        """One confirmation at a time."""

    def _check(self) -> None:
        """At the end of each confirmation: the disks are never behind the store."""
        assert self._markers.current is not None
        assert self._markers.current.generation >= self._claim.stored.generation
        assert not self._markers.current.is_clean

    async def confirm(self) -> bool:
        """Prolong the lease, unless somebody names a newer epoch meanwhile: always True.
        SupersededError: this process is the bookie no longer;
        UnavailableError and StorageError as they come: the lease runs on."""
        async with self._turn:
            began, heard = self._state.clock(), self._state.epoch_heard
            stored = self._claim.stored
            generation = await self._raise_generation(stored.generation)
            passing("lease: generation raised, store not written")
            await self._claim.write(replace(stored, generation=generation))
            # A claim that was named meanwhile may be younger than this write; the next one shows.
            if self._state.epoch_heard == heard:
                self._state.extend_lease(began + self._seconds)
            self._publish_rollback(self._claim.stored.rolled_back)
            self._check()
            return True

    async def _raise_generation(self, confirmed: int) -> int:
        """The generation that is durable in all directories."""
        assert self._markers.current is not None
        written = self._storage.extent
        if written == self._written:
            return self._markers.current.generation
        try:
            # To its end, also when the bookie stops: a clean stop writes markers next.
            generation = await in_thread(
                lambda: self._markers.raise_generation(confirmed=confirmed)
            )
        except DiskFullError as error:
            # Some directories may have it: none has less than what is confirmed now.
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
