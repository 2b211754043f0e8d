"""Faults that belong to somebody: processes that sleep, rivals, ways that are bad one way only.

`faults` has what breaks by itself. These are what hides between two steps of a protocol: a writer
that stops between two adds, a recoverer that comes just then, an answer that is late on one way.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

from bookie.boot.marker import MARKER_NAME
from bookie.storage.disk import remove_file
from bookie.testing.simulation import owners, visitors
from bookie.testing.simulation.bookies import SimBookie
from bookie.testing.simulation.metadata import StoreWeather
from bookie.testing.simulation.plan import Fault
from bookie.testing.simulation.scene import Scene

MODES: Final = ("memory", "sync", "journal")
CONFIRMED_S: Final = 2.5
"""Within so long a bookie has reported to the store twice of what it wrote."""
LAG_MAX_S: Final = 1.5
"""How late messages on a lagging way may be."""


class Interventions:
    """See the module; `kinds` says which there are."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._taken: set[str] = set()
        self.kinds: Mapping[str, Callable[[Fault, SimBookie], Awaitable[None]]] = {
            "sleep-bookie": self._sleep_bookie,
            "sleep-client": self._sleep_client,
            "idle-client": self._idle_client,
            "recover-now": self._recover_now,
            "own-now": self._own_now,
            "delete-now": self._delete_now,
            "doubt-now": self._doubt_now,
            "audit-now": self._audit_now,
            "clear-now": self._clear_now,
            "drain": self._drain,
            "gone": self._gone,
            "namesake": self._namesake,
            "put-back": self._put_back,
            "marker-lost": self._marker_lost,
            "twin": self._twin,
            "other-mode": self._other_mode,
            "lag": self._lag,
            "leak": self._leak,
            "forge": self._forge,
            "late-writes": self._late_writes,
            "lost-values": self._lost_values,
            "slow-store": self._slow_store,
            "stale-reads": self._stale_reads,
        }

    # Processes
    async def _sleep_bookie(self, fault: Fault, bookie: SimBookie) -> None:
        bookie.sleep()
        await asyncio.sleep(fault.lasts_s)
        bookie.wake()

    async def _sleep_client(self, fault: Fault, bookie: SimBookie) -> None:
        """One sleeps: with size below a half a writer, above 0.9 a rival, else anybody."""
        names = self._scene.client_names()
        meant = ("writer", "owner") if fault.size < 0.5 else ("rival",) if fault.size > 0.9 else ""
        names = [name for name in names if name.startswith(meant)] or names
        process = self._scene.process_of(names[fault.other % len(names)])
        process.sleep()
        await self._rest(process.name, fault)
        process.wake()

    async def _idle_client(self, fault: Fault, bookie: SimBookie) -> None:
        """A writer has nothing to write for a while: it hears who goes and comes meanwhile."""
        names = [n for n in self._scene.client_names() if n.startswith(("writer", "owner"))]
        if names:
            await self._rest(names[fault.other % len(names)], fault)

    async def _rest(self, name: str, fault: Fault) -> None:
        self._scene.history.note(f"{name} rests")
        self._scene.resting.add(name)
        await asyncio.sleep(fault.lasts_s)
        self._scene.resting.discard(name)

    async def _recover_now(self, fault: Fault, bookie: SimBookie) -> None:
        self._scene.visit("rival", visitors.recover_newest)

    async def _own_now(self, fault: Fault, bookie: SimBookie) -> None:
        self._scene.visit("usurper", owners.usurp_log)

    async def _delete_now(self, fault: Fault, bookie: SimBookie) -> None:
        self._scene.visit("remover", visitors.delete_newest)

    async def _doubt_now(self, fault: Fault, bookie: SimBookie) -> None:
        self._scene.visit("doubter", visitors.doubt_copies)

    async def _audit_now(self, fault: Fault, bookie: SimBookie) -> None:
        self._scene.visit("auditor", visitors.audit_now)

    async def _clear_now(self, fault: Fault, bookie: SimBookie) -> None:
        self._scene.visit("clearer", visitors.clear_marks)

    async def _drain(self, fault: Fault, bookie: SimBookie) -> None:
        """It is to leave: its ledgers are moved, until somebody thinks better of it."""
        self._scene.visit("drainer", partial(visitors.drain_bookie, bookie_id=bookie.name))
        await asyncio.sleep(fault.lasts_s)
        self._scene.visit("keeper", partial(visitors.keep_bookie, bookie_id=bookie.name))

    async def _gone(self, fault: Fault, bookie: SimBookie) -> None:
        """It is gone with all its disks; its ledgers get others; later it returns, empty."""
        bookie.is_wanted = False
        bookie.crash(lambda disk: disk.kill())
        for place in range(len(bookie.directories)):
            bookie.wipe(place)
        await asyncio.sleep(fault.lasts_s * 0.3)
        self._scene.visit("replicator", partial(visitors.replace_bookie, bookie_id=bookie.name))
        await asyncio.sleep(fault.lasts_s * 0.7)
        bookie.is_wanted = True
        bookie.start()

    # Who answers, and from which disks
    def _takes(self, bookie: SimBookie) -> bool:
        """One such story for each bookie: their ends would cross."""
        is_first = bookie.name not in self._taken
        self._taken.add(bookie.name)
        bookie.is_doomed = bookie.is_doomed or is_first
        return is_first

    async def _namesake(self, fault: Fault, bookie: SimBookie) -> None:
        """It is stopped; one of another cluster has its name and address until it is back."""
        if not self._takes(bookie):
            return
        bookie.is_wanted = False
        await bookie.stop()
        other = self._scene.namesake(bookie.name)
        other.start()
        try:
            await asyncio.sleep(fault.lasts_s)
        finally:
            other.is_wanted = bookie.is_doomed = False
            other.crash(lambda disk: disk.kill())
        bookie.is_wanted = True
        bookie.start()

    async def _put_back(self, fault: Fault, bookie: SimBookie) -> None:
        """It stops, and its disks are put back to what they were a while ago.

        Not while the store has heard of nothing that it wrote since: such a copy passes for a
        crash, as the safety page says.
        """
        if not bookie.is_serving or not self._takes(bookie):
            return
        kept, before = bookie.disk.snapshot({}), bookie.extent
        generation = bookie.generation
        await asyncio.sleep(max(0.0, fault.lasts_s - CONFIRMED_S))
        had_written = bookie.is_serving and bookie.extent != before
        next_turn = bookie.leased_from_now
        await asyncio.sleep(min(fault.lasts_s, CONFIRMED_S))
        is_confirmed = bookie.is_serving and bookie.confirmed_until >= next_turn
        expected = had_written and is_confirmed
        bookie.is_doomed = False
        is_unheard = self._scene.stored_generation(bookie) <= generation
        if bookie.extent != before and is_unheard and not expected:
            self._scene.history.note(f"{bookie.name} wrote what the store has not heard of")
            return
        bookie.is_wanted = False
        bookie.crash(lambda _disk: kept.kill())
        await asyncio.sleep(0.1)
        bookie.is_wanted = True
        bookie.start()
        await self._look_after_older(bookie, expected=expected)

    async def _look_after_older(self, bookie: SimBookie, *, expected: bool) -> None:
        """Disks that lack what was written and confirmed since are noticed, and a person asked."""
        life = bookie.lives
        for _ in range(30):
            await asyncio.sleep(0.1)
            if expected and bookie.is_serving and bookie.lives == life and not bookie.was_approved:
                self._scene.history.violate(
                    f"{bookie.name} serves from disks that were put back, and has asked nobody"
                )
                return

    async def _marker_lost(self, fault: Fault, bookie: SimBookie) -> None:
        """It crashes, and what it is known by is gone from its disks: a hand, or a file system's
        check."""
        bookie.is_wanted = False
        bookie.crash(lambda disk: disk.kill())
        for directory in bookie.directories:
            remove_file(bookie.disk, directory / MARKER_NAME)
        await asyncio.sleep(fault.lasts_s)
        bookie.is_wanted = True
        bookie.start()

    async def _twin(self, fault: Fault, bookie: SimBookie) -> None:
        """It is begun elsewhere, on a clone of its disks, while it still runs.

        That one stays if it came to serve. (A clone that nobody served from is a volume put back.)
        """
        if not bookie.is_serving or not self._takes(bookie):
            return
        twin = self._scene.twin(bookie.name, bookie.disk.snapshot({}).kill())
        twin.mode = bookie.mode
        bookie.is_wanted = False  # whichever leaves is not begun again
        twin.start()
        try:
            await asyncio.sleep(fault.lasts_s)
        finally:
            stays, twin.is_wanted, bookie.is_doomed = twin.is_serving, False, False
            said = "serves" if stays else twin.refusal or "does not serve"
            self._scene.history.note(f"the second process of {bookie.name}: {said}")
            self._check_rolled_back(twin, bookie)
            twin.crash(lambda disk: disk.kill())
            bookie.crash(lambda disk: twin.disk if stays else disk.kill())
        bookie.is_wanted = True
        bookie.start()

    def _check_rolled_back(self, *processes: SimBookie) -> None:
        """What another process of the bookie has written is not an older state of the store."""
        for process in processes:
            if process.says_rolled_back and "put-store-back" not in self._scene.counts:
                self._scene.history.violate(
                    f"{process.name} says that the metadata store was put back, and it was not"
                )

    async def _other_mode(self, fault: Fault, bookie: SimBookie) -> None:
        """A crash, and other settings for the life after it."""
        bookie.is_wanted = False
        bookie.crash(lambda disk: disk.crash(int(fault.size * 1e6)))
        others = [mode for mode in MODES if mode != bookie.mode]
        bookie.change_mode(others[fault.other % len(others)])
        await asyncio.sleep(fault.lasts_s)
        bookie.is_wanted = True
        bookie.start()

    # Ways between two
    def _way(self, fault: Fault, bookie: SimBookie) -> tuple[str, str]:
        """From a client to the bookie, or back: as the hundredths of the size are odd or even."""
        names = self._scene.client_names()
        client = names[fault.other % len(names)]
        return (client, bookie.name) if round(fault.size * 100) % 2 else (bookie.name, client)

    async def _lag(self, fault: Fault, bookie: SimBookie) -> None:
        way = self._way(fault, bookie)
        self._scene.network.lags[way] = LAG_MAX_S * fault.size
        await asyncio.sleep(fault.lasts_s)
        self._scene.network.lags.pop(way, None)

    async def _leak(self, fault: Fault, bookie: SimBookie) -> None:
        way = self._way(fault, bookie)
        self._scene.network.leaks[way] = 0.2 + 0.6 * fault.size
        await asyncio.sleep(fault.lasts_s)
        self._scene.network.leaks.pop(way, None)

    async def _forge(self, fault: Fault, bookie: SimBookie) -> None:
        self._scene.network.forging[bookie.name] = 0.2 + 0.5 * fault.size
        self._scene.distrust(bookie.name)
        await asyncio.sleep(fault.lasts_s)
        self._scene.network.forging.pop(bookie.name, None)

    # The metadata store
    async def _lost_values(self, fault: Fault, bookie: SimBookie) -> None:
        self._scene.store.lost_values = fault.size
        await asyncio.sleep(fault.lasts_s)
        self._scene.store.lost_values = 0.0

    async def _slow_store(self, fault: Fault, bookie: SimBookie) -> None:
        """All its answers are late, by up to the size in seconds."""
        self._scene.store.latency_s = fault.size
        await asyncio.sleep(fault.lasts_s)
        self._scene.store.latency_s = StoreWeather().latency_s

    async def _late_writes(self, fault: Fault, bookie: SimBookie) -> None:
        self._scene.store.late_writes = fault.size * 0.5
        await asyncio.sleep(fault.lasts_s)
        self._scene.store.late_writes = 0.0

    async def _stale_reads(self, fault: Fault, bookie: SimBookie) -> None:
        self._scene.store.stale_since = asyncio.get_running_loop().time()
        await asyncio.sleep(fault.lasts_s)
        self._scene.store.stale_since = None
