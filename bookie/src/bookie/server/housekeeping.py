"""The background duties of a serving bookie: checkpoints, registration, lease, collection, space,
marks.

Each duty has its own loop with its own interval. After an error of the metadata store the duty
tries again in its next turn. A disk error ends the bookie, and so does another process that has
booted as the same bookie.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import KW_ONLY, dataclass
from typing import Final

from bookie.boot.claim import SupersededError
from bookie.errors import BookieError, DiskFullError, StorageError
from bookie.server.announce import Announcer
from bookie.server.collect import Collector
from bookie.server.drain import Drain
from bookie.server.lease import Lease
from bookie.server.marks import Marks
from bookie.server.pacing import Pacing
from bookie.server.settings import BookieSettings
from bookie.server.state import BookieState, ReadOnlyReason
from bookie.storage.maintenance import Maintenance
from bookie.storage.space import shortage

log = logging.getLogger(__name__)

SPACE_INTERVAL_S: Final = 1.0
ANNOUNCE_INTERVAL_S: Final = 1.0
LEASE_INTERVAL_S: Final = 1.0
"""Seconds between two checks of the lease while no requests arrive."""
DRAIN_INTERVAL_S: Final = 1.0
FINISH_INTERVAL_S: Final = 10.0
"""Seconds between two checks whether the unchecked boundary may be lifted. Until it is lifted this
bookie denies nothing of ledgers that come to name it, so no other bookie should be disturbed
before."""

Duty = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Ends:
    """The two ways to end the bookie: a disk has failed, or another process has taken
    its identity.
    """

    fail: Callable[[StorageError], None]
    leave: Callable[[str], None]


@dataclass(eq=False)
class Housekeeping:
    """The background duties of one bookie."""

    settings: BookieSettings
    maintenance: Maintenance
    _: KW_ONLY
    marks: Marks
    state: BookieState
    announcer: Announcer
    drain: Drain
    collector: Collector
    pacing: Pacing
    lease: Lease

    def __post_init__(self) -> None:
        self._heard = asyncio.Event()
        """Set when a client names a later epoch of this bookie: then the lease must be confirmed
        now."""
        self.state.on_newer_epoch = self._heard.set
        self._leave: Callable[[str], None] = lambda _reason: None
        """See Ends; set by `running`."""

    @contextlib.asynccontextmanager
    async def running(self, ends: Ends) -> AsyncIterator[None]:
        """Run all duties inside this context."""
        self._leave = ends.leave
        options = self.settings.storage
        duties: list[tuple[float, Duty]] = [
            (self.settings.durability.flush_interval_seconds, self._checkpoint),
            (SPACE_INTERVAL_S, self._watch_space),
            (self.settings.lease.confirm_seconds, self._confirm),
            (0.0, self._confirm_when_heard),
            (LEASE_INTERVAL_S, self._watch_lease),
            (options.collect_interval_seconds, self._collect),
            (options.compaction_interval_seconds, self._compact),
            (FINISH_INTERVAL_S, self._finish_unchecked),
            (ANNOUNCE_INTERVAL_S, self.announcer.announce),
            (DRAIN_INTERVAL_S, self.drain.count_when_due),
        ]
        tasks = [asyncio.create_task(repeat(duty, pause, ends.fail)) for pause, duty in duties]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _checkpoint(self) -> None:
        await asyncio.to_thread(self.maintenance.checkpoint)
        are_left = True
        while are_left:
            are_left = self.marks.storage.take_back_notes()
            await asyncio.sleep(0)  # other events come between two pieces

    async def _watch_space(self) -> None:
        is_full = self.maintenance.is_full
        if is_full == (ReadOnlyReason.DISK_FULL in self.state.read_only_reasons):
            return
        words = shortage(await asyncio.to_thread(self.maintenance.usage))
        self.state.switch_read_only(
            ReadOnlyReason.DISK_FULL, is_full, f"{ReadOnlyReason.DISK_FULL.value}: {words}"
        )
        log.warning("phase is %s now: %s", self.state.phase.name, words)
        await self.announcer.announce()

    async def _confirm(self) -> None:
        """Confirm the lease; leave when another process has booted as this bookie, since then our
        disks are out of date.
        """
        try:
            await self.lease.confirm()
        except SupersededError as error:
            self._leave(str(error))

    async def _confirm_when_heard(self) -> None:
        await self._heard.wait()
        self._heard.clear()
        await self._confirm()

    async def _watch_lease(self) -> None:
        self.state.look_at_lease()

    async def _collect(self) -> None:
        await self.collector.run_pass()

    async def _compact(self) -> None:
        # The pause is not a sleeping thread: a stop ends it at once, and it holds no lock.
        while True:
            done = await asyncio.to_thread(self.maintenance.compact_some)
            if done is None:
                return
            await asyncio.sleep(self.pacing.compaction_delay_s(done.bytes_copied))

    async def _finish_unchecked(self) -> None:
        if await self.marks.finish_unchecked():
            log.info("every ledger is checked: what is absent is denied again")


async def repeat(duty: Duty, pause_s: float, fail: Callable[[StorageError], None]) -> None:
    """Do the duty after each pause, until a disk fails."""
    while True:
        await asyncio.sleep(pause_s)
        try:
            await duty()
        except DiskFullError as error:
            log.error("%s", error)
        except StorageError as error:
            fail(error)
            return
        except BookieError as error:
            log.warning("%s: %s", duty.__qualname__, error)
        except Exception:
            # A defect of ours must neither end the duty nor go unnoticed.
            log.exception("%s", duty.__qualname__)
