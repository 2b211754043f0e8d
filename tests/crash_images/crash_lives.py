"""Lives of a bookie drawn from a seed: requests, housekeeping, stops, crashes, in any order.

What `crash_runs` tells one protocol at a time comes together here. Whatever the bookie answers is
taken as it is; only what it promised is held against it.
"""

import contextlib
import errno
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from bookie.errors import BookieError
from bookie.ids import EntryId, LedgerId
from bookie.protocol.status import Status
from bookie.storage.modes import DurabilityMode
from crash_bookie import RecordedBookie

STEPS: Final = 40
BROKEN: Final = tuple(
    (operation, pattern, error)
    for operation, pattern in (
        ("sync", "*.jnl*"), ("sync", "*.log*"), ("write", "*.jnl*"), ("write", "*.log*"),
        ("rename", "*.new"), ("create", "*.new"), ("commit", "index.sqlite"), ("syncdir", "log"),
    )
    for error in (errno.EIO, errno.ENOSPC)
)  # fmt: skip
"""What may fail, on which files, how."""
LARGE_BYTES: Final = 3500
"""Four of them fill a file."""

Step = Callable[[], Awaitable[None]]


class Life:
    """One life; `live` is its story."""

    def __init__(self, seed: int, bookie: RecordedBookie) -> None:
        self._chance = random.Random(seed)
        self._bookie = bookie
        self._next: dict[LedgerId, int] = {}
        """Open ledgers, and the entry that their writer adds next."""
        self._closed: dict[LedgerId, int] = {}
        """Closed ledgers, and their last entry."""
        self._steps: dict[Step, int] = {
            self._add: 30, self._flush: 8, self._fence: 6, self._tell_lac: 3, self._begin: 6,
            self._end: 6, self._delete: 3, self._repair: 10, self._lose: 3, self._finish: 4,
            self._compact: 4, self._drain: 2, self._write_back: 3, self._restart: 4,
            self._kill: 5, self._cut_power: 7, self._replace_disk: 2, self._rebuild: 2,
            self._break_disk: 4,
        }  # fmt: skip

    async def live(self) -> None:
        await self._bookie.boot()
        await self._begin()
        self._bookie.begin_trace()
        for step in self._chance.choices([*self._steps], [*self._steps.values()], k=STEPS):
            await step()

    # ---- writers and recoverers -----------------------------------------------------------------

    async def _begin(self) -> None:
        self._next[await self._bookie.ledger()] = 0

    async def _add(self) -> None:
        if ledger_id := self._some(self._next):
            entry_id = self._next[ledger_id]
            # The same bytes should the writer try again.
            size = LARGE_BYTES if (ledger_id + entry_id) % 3 == 0 else 40
            if await self._bookie.add(ledger_id, entry_id, entry_bytes=size) is Status.OK:
                self._next[ledger_id] += 1

    async def _fence(self) -> None:
        if ledger_id := self._some(self._next):
            by = self._chance.choice([self._bookie.fence, self._bookie.fence_by_read])
            await by(ledger_id)

    async def _tell_lac(self) -> None:
        ledger_id = self._some(self._next)
        if ledger_id and self._next[ledger_id]:
            await self._bookie.write_lac(ledger_id, self._next[ledger_id] - 1)

    async def _end(self) -> None:
        if ledger_id := self._some(self._next):
            self._closed[ledger_id] = self._next.pop(ledger_id) - 1
            await self._bookie.close_ledger(ledger_id, self._closed[ledger_id])

    async def _delete(self) -> None:
        if ledger_id := self._some(self._closed):
            del self._closed[ledger_id]
            await self._bookie.delete_ledger(ledger_id)
            await self._bookie.collect()

    # ---- repair and housekeeping ----------------------------------------------------------------

    async def _repair(self) -> None:
        """Copies of some or all entries of a closed ledger, then the wish to clear its mark."""
        if ledger_id := self._some(self._closed):
            for entry_id, content in self._acked(ledger_id):
                if self._chance.random() < 0.9:
                    await self._bookie.copy(ledger_id, entry_id, content)
            await self._bookie.clear(ledger_id)

    def _acked(self, ledger_id: LedgerId) -> list[tuple[EntryId, bytes]]:
        return sorted(self._bookie.recorder.promises.acked.get(ledger_id, {}).items())

    async def _lose(self) -> None:
        ledger_id = self._some(self._closed)
        if ledger_id and self._closed[ledger_id] >= 0:
            entry_id = self._chance.randint(0, self._closed[ledger_id])
            await self._bookie.record_loss(ledger_id, entry_id, entry_id)

    async def _flush(self) -> None:
        await self._bookie.flush()

    async def _finish(self) -> None:
        await self._bookie.finish_unchecked()

    async def _compact(self) -> None:
        self._bookie.compact()

    async def _drain(self) -> None:
        try:
            await self._bookie.set_draining(True)
        except BookieError:
            return  # it has marks
        await self._bookie.set_draining(False)

    async def _write_back(self) -> None:
        self._bookie.disk.write_back()

    # ---- ends -----------------------------------------------------------------------------------

    async def _restart(self) -> None:
        await self._bookie.stop()
        await self._boot()

    async def _kill(self) -> None:
        self._bookie.kill()
        await self._boot()

    async def _cut_power(self) -> None:
        self._bookie.cut_power(seed=self._chance.randrange(1000))
        await self._boot()

    async def _replace_disk(self) -> None:
        await self._go_down()
        self._bookie.replace_volume(self._chance.randrange(1 + self._ledger_disks))
        await self._boot()

    async def _rebuild(self) -> None:
        await self._go_down()
        place = self._chance.randrange(self._ledger_disks)
        if self._chance.random() < 0.5:
            self._bookie.lose_index(place)
        self._bookie.rebuild_index(place)
        await self._boot()

    async def _break_disk(self) -> None:
        """One operation fails, soon, and what comes of it is not answered any more."""
        operation, pattern, error = self._chance.choice(BROKEN)
        self._bookie.disk.fail(operation, pattern=pattern, error=error)
        with contextlib.suppress(BookieError):
            await self._add()
            await self._bookie.flush()
        await self._kill()

    async def _go_down(self) -> None:
        if self._chance.random() < 0.5:
            await self._bookie.stop()
        else:
            self._bookie.kill()

    @property
    def _ledger_disks(self) -> int:
        return len(self._bookie.settings.storage.ledger_dirs)

    async def _boot(self) -> None:
        await self._bookie.boot(self._chance.choice([*DurabilityMode]))

    def _some(self, ledgers: dict[LedgerId, int]) -> LedgerId | None:
        return self._chance.choice(sorted(ledgers)) if ledgers else None


def story_of(seed: int) -> Callable[[RecordedBookie], Coroutine[Any, Any, None]]:
    """The story of one seed."""

    async def life(bookie: RecordedBookie) -> None:
        await Life(seed, bookie).live()

    life.__doc__ = f"A life drawn from seed {seed}."
    return life
