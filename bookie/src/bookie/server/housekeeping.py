"""What a serving bookie does by itself: checkpoints, collection, compaction, space, last marks.

One loop per duty, each bounded by its interval. An error of the metadata store is retried at the
next turn; an error of a disk ends the bookie.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

from bookie.metadata.store import MetadataStore
from bookie.protocol.errors import BookieError, DiskFullError, StorageError
from bookie.server.collect import collect_deleted
from bookie.server.marks import Marks
from bookie.server.settings import BookieSettings
from bookie.server.state import BookieState
from bookie.storage.engine import Storage

log = logging.getLogger(__name__)

SPACE_INTERVAL_S = 1.0
FINISH_INTERVAL_S = 120.0
"""Before the unchecked boundary is lifted: longer than a recovery takes (R28)."""

Duty = Callable[[], Awaitable[None]]


class Housekeeping:
    """The background duties of one bookie."""

    def __init__(
        self,
        settings: BookieSettings,
        storage: Storage,
        store: MetadataStore,
        *,
        marks: Marks,
        state: BookieState,
    ) -> None:
        self._settings = settings
        self._storage = storage
        self._store = store
        self._marks = marks
        self._state = state
        self._register: Duty | None = None

    @contextlib.asynccontextmanager
    async def running(
        self, fail: Callable[[StorageError], None], register: Duty
    ) -> AsyncIterator[None]:
        """All duties run inside this context; a disk's error is handed to `fail`."""
        self._register = register
        options = self._settings.storage
        duties: list[tuple[float, Duty]] = [
            (self._settings.durability.flush_interval_seconds, self._checkpoint),
            (SPACE_INTERVAL_S, self._watch_space),
            (options.collect_interval_seconds, self._collect),
            (options.compaction_interval_seconds, self._compact),
            (FINISH_INTERVAL_S, self._finish_unchecked),
        ]
        tasks = [asyncio.create_task(self._repeat(pause, duty, fail)) for pause, duty in duties]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _repeat(
        self, pause_s: float, duty: Duty, fail: Callable[[StorageError], None]
    ) -> None:
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
                log.warning("%s: %s", duty.__name__.strip("_"), error)

    async def _checkpoint(self) -> None:
        await asyncio.to_thread(self._storage.checkpoint)

    async def _watch_space(self) -> None:
        reasons = self._state.read_only_reasons
        if self._storage.is_full == ("disk-full" in reasons):
            return
        reasons.symmetric_difference_update({"disk-full"})
        self._state.settle_phase()
        log.warning("phase is %s now: free space changed", self._state.phase.name)
        assert self._register is not None
        await self._register()

    async def _collect(self) -> None:
        await collect_deleted(self._store, self._storage)

    async def _compact(self) -> None:
        await asyncio.to_thread(self._storage.compact)

    async def _finish_unchecked(self) -> None:
        if await self._marks.finish_unchecked():
            log.info("every ledger is checked: what is absent is denied again")
