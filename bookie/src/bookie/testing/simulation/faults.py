"""Carries out the faults of a plan on a running simulation.

Faults that make bookies forget keep the loss budget when the plan says so: with f = Qa - 1 bookies
that have forgotten and are not repaired yet, another one's turn is let pass. That is the promise's
own condition; plans that break it are judged by what must hold even then.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Final

from bookie.points import POINTS
from bookie.testing.simulation.aimed import Aimed
from bookie.testing.simulation.bookies import SimBookie
from bookie.testing.simulation.disk import CAPACITY_BYTES, MachineDisk
from bookie.testing.simulation.interventions import Interventions
from bookie.testing.simulation.metadata import SESSION_S
from bookie.testing.simulation.plan import CRASHES, FORGETTING, LASTING, Fault
from bookie.testing.simulation.scene import Scene
from bookie.testing.simulation.store_interventions import StoreInterventions

CUTTING: Final = frozenset({"late-writes", "lost-replies", "store-outage", "store-partition"})
"""After these a boot may come to an end half-way."""
OPERATIONS_MAX: Final = 400
"""A crash comes within so many operations of its bookie."""
ARMED_S: Final = 5.0
"""A crash that waits for its place is called off after so long."""


class Faults:
    """The plan at work; `run` ends with the last fault begun."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._counted_at: dict[str, float] = {}
        """When a fault last counted against the budget; it begins later in that instant."""
        self._kinds: Mapping[str, Callable[[Fault, SimBookie], Awaitable[None]]] = {
            "power-cut": self._power_cut,
            "kill": self._kill,
            "crash-operation": self._crash_operation,
            "crash-point": self._crash_point,
            "replace-disk": self._replace_disk,
            "disk-error": self._disk_error,
            "disk-full": self._disk_full,
            "bit-flip": self._bit_flip,
            "lying-sync": self._lying_sync,
            "clean-restart": self._clean_restart,
            "isolate": self._isolate,
            "partition": self._partition,
            "slow": self._slow,
            "reset": self._reset,
            "store-outage": self._store_outage,
            "store-partition": self._store_partition,
            "session-loss": self._session_loss,
            "clock-jump": self._clock_jump,
            "kill-repair": self._kill_repair,
            "kill-client": self._kill_client,
            "loss": self._loss,
            "doubling": self._doubling,
            "lost-replies": self._lost_replies,
            "stale-listing": self._stale_listing,
            **Interventions(scene).kinds,
            **StoreInterventions(scene).kinds,
            **Aimed(scene).kinds,
        }

    async def run(self, begin: Callable[[Awaitable[None]], None]) -> None:
        """Each fault in its time; `begin` lets one go on by itself."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        for fault in self._scene.plan.faults:
            await asyncio.sleep(max(0.0, started + fault.at_s - loop.time()))
            bookie = self._scene.meant(fault)
            if bookie is not None and self._may(fault, bookie):
                self._scene.counts[fault.kind] = self._scene.counts.get(fault.kind, 0) + 1
                self._scene.history.note(f"fault {fault.kind} {bookie.name}")
                begin(self._kinds[fault.kind](fault, bookie))
            else:
                self._scene.passed_over += 1

    # The loss budget
    def _may(self, fault: Fault, bookie: SimBookie) -> bool:
        lasts = fault.kind in LASTING
        if fault.kind not in FORGETTING and not lasts:
            return True
        if fault.kind in CRASHES and not bookie.forgets_in_a_crash:
            return True  # what it acknowledged is on its disks
        forgetful = self._scene.forgetful
        doubtful = [b.name for b in self._scene.bookies if self._is_in_doubt(b)]
        fits = len({*forgetful, *doubtful, bookie.name}) <= self._scene.budget
        if self._scene.plan.keeps_budget and not fits:
            return False
        forgetful[bookie.name] = lasts or forgetful.get(bookie.name, False)
        self._counted_at[bookie.name] = asyncio.get_running_loop().time()
        return True

    def _is_in_doubt(self, bookie: SimBookie) -> bool:
        """It has marks, or may have soon: a boot that the store cuts off is an unclean stop."""
        is_booting = bookie.is_up and not bookie.is_serving and bookie.lives > 1
        is_cut_off = is_booting and bool(CUTTING & self._scene.counts.keys())
        return bookie.ended_in_doubt or bool(bookie.marks) or is_cut_off

    async def watch_budget(self) -> None:
        """Takes bookies off the list once they are repaired; for ever."""
        while True:
            await asyncio.sleep(0.25)
            for bookie in self._scene.bookies:
                bookie.ended_in_doubt = bookie.ended_in_doubt and not bookie.is_whole
                if self._scene.forgetful.get(bookie.name) is False and self._is_whole(bookie):
                    del self._scene.forgetful[bookie.name]
            self._scene.look_at_marks()
            self._scene.collection.look()

    def _is_whole(self, bookie: SimBookie) -> bool:
        is_doomed = bookie.disk.broken or bookie.disk.lies or bookie.is_armed or bookie.is_doomed
        is_due = self._counted_at.get(bookie.name) == asyncio.get_running_loop().time()
        return not (is_doomed or is_due) and bookie.is_whole

    # Bookies and disks
    async def _power_cut(self, fault: Fault, bookie: SimBookie) -> None:
        await self._crash(fault, bookie, lambda disk: disk.crash(int(fault.size * 1e6)))

    async def _kill(self, fault: Fault, bookie: SimBookie) -> None:
        await self._crash(fault, bookie, lambda disk: disk.kill())

    async def _crash(
        self, fault: Fault, bookie: SimBookie, image: Callable[[MachineDisk], MachineDisk]
    ) -> None:
        bookie.is_wanted = False
        bookie.crash(image)
        await asyncio.sleep(fault.lasts_s)
        bookie.is_wanted = True
        bookie.start()

    async def _crash_point(self, fault: Fault, bookie: SimBookie) -> None:
        """Power goes at a named place of the code; first a stop or a crash brings it to work."""
        point = POINTS[int(fault.size * len(POINTS))]
        self._scene.armed_points[point] = fault.who
        image = lambda disk: disk.crash(int(fault.size * 1e6))  # noqa: E731
        bookie.arm_point(point, image, restart_s=fault.lasts_s)
        if point.startswith("stop"):
            bookie.is_wanted = False
            await bookie.stop()
            bookie.is_wanted = True
            bookie.start()
        elif point.startswith(("boot", "clear")):
            await self._crash(fault, bookie, image)
        await asyncio.sleep(ARMED_S)
        bookie.disarm()
        self._scene.armed_points.pop(point, None)

    async def _crash_operation(self, fault: Fault, bookie: SimBookie) -> None:
        """Power goes at one of its next operations on disk or metadata store."""
        bookie.arm(
            1 + int(OPERATIONS_MAX * fault.size**3),
            lambda disk: disk.crash(int(fault.size * 1e6)),
            restart_s=fault.lasts_s,
        )
        await asyncio.sleep(ARMED_S)
        bookie.disarm()

    async def _replace_disk(self, fault: Fault, bookie: SimBookie) -> None:
        bookie.is_wanted = False
        bookie.crash(lambda disk: disk.kill())
        places = range(len(bookie.directories))
        chosen = places if fault.size < 0.3 else [fault.other % len(places)]
        for place in chosen:
            bookie.wipe(place)
        await asyncio.sleep(fault.lasts_s)
        bookie.is_wanted = True
        bookie.start()

    async def _disk_error(self, fault: Fault, bookie: SimBookie) -> None:
        directory = bookie.directories[fault.other % len(bookie.directories)].name
        operation = ("sync", "write", "read", "commit")[int(fault.size * 4)]
        bookie.disk.broken[directory] = operation
        await asyncio.sleep(fault.lasts_s)
        bookie.disk.broken.pop(directory, None)

    async def _disk_full(self, fault: Fault, bookie: SimBookie) -> None:
        space = bookie.disk.space(bookie.directories[0])
        used = space.total_bytes - space.free_bytes
        bookie.disk.capacity_bytes = used + int(fault.size * 100_000)
        await asyncio.sleep(fault.lasts_s)
        bookie.disk.capacity_bytes = CAPACITY_BYTES

    async def _bit_flip(self, fault: Fault, bookie: SimBookie) -> None:
        self._scene.distrust(bookie.name)
        bookie.rot(fault.size)

    async def _lying_sync(self, fault: Fault, bookie: SimBookie) -> None:
        bookie.disk.lies = True
        self._scene.distrust(bookie.name)
        if bookie.mode != "memory" or bookie.boot_settings.storage.note_idle_flushes:
            # It trusts its syncs, of entries or of notes: after them nothing is in doubt.
            self._scene.excuse(bookie.name)
        await asyncio.sleep(fault.lasts_s)
        await self._power_cut(fault, bookie)

    async def _clean_restart(self, fault: Fault, bookie: SimBookie) -> None:
        bookie.is_wanted = False
        await bookie.stop()
        await asyncio.sleep(fault.lasts_s)
        bookie.is_wanted = True
        bookie.start()

    # Network
    async def _isolate(self, fault: Fault, bookie: SimBookie) -> None:
        self._scene.network.isolate(bookie.name)
        await asyncio.sleep(fault.lasts_s)
        self._scene.network.rejoin(bookie.name)

    async def _partition(self, fault: Fault, bookie: SimBookie) -> None:
        others = [b.name for b in self._scene.bookies if b is not bookie]
        others += self._scene.client_names()
        other = others[fault.other % len(others)]
        self._scene.network.block(bookie.name, other)
        await asyncio.sleep(fault.lasts_s)
        self._scene.network.unblock(bookie.name, other)

    async def _slow(self, fault: Fault, bookie: SimBookie) -> None:
        self._scene.network.slowness[bookie.name] = 1 + fault.size * 1000
        await asyncio.sleep(fault.lasts_s)
        self._scene.network.slowness.pop(bookie.name, None)

    async def _reset(self, fault: Fault, bookie: SimBookie) -> None:
        self._scene.network.reset(bookie.name)

    async def _loss(self, fault: Fault, bookie: SimBookie) -> None:
        await self._network_weather(fault, loss=fault.size * 0.05)

    async def _doubling(self, fault: Fault, bookie: SimBookie) -> None:
        await self._network_weather(fault, doubling=fault.size * 0.2)

    async def _network_weather(self, fault: Fault, **change: float) -> None:
        network = self._scene.network
        network.weather = replace(network.weather, **change)
        await asyncio.sleep(fault.lasts_s)
        network.weather = replace(network.weather, **dict.fromkeys(change, 0.0))

    # Metadata store
    async def _store_outage(self, fault: Fault, bookie: SimBookie) -> None:
        self._scene.store.is_out = True
        await asyncio.sleep(fault.lasts_s)
        self._scene.store.is_out = False

    async def _store_partition(self, fault: Fault, bookie: SimBookie) -> None:
        store = bookie.store
        self._scene.network.block(bookie.name, "metadata")
        await asyncio.sleep(min(fault.lasts_s, SESSION_S))
        if fault.lasts_s > SESSION_S:
            if store is not None and store is bookie.store:
                store.expire()
            await asyncio.sleep(fault.lasts_s - SESSION_S)
        self._scene.network.unblock(bookie.name, "metadata")

    async def _session_loss(self, fault: Fault, bookie: SimBookie) -> None:
        if bookie.store is not None:
            bookie.store.expire()

    async def _lost_replies(self, fault: Fault, bookie: SimBookie) -> None:
        self._scene.store.lost_replies = fault.size * 0.5
        await asyncio.sleep(fault.lasts_s)
        self._scene.store.lost_replies = 0.0

    async def _stale_listing(self, fault: Fault, bookie: SimBookie) -> None:
        self._scene.store.stale_listing = fault.size
        await asyncio.sleep(fault.lasts_s)
        self._scene.store.stale_listing = 0.0

    # The rest
    async def _clock_jump(self, fault: Fault, bookie: SimBookie) -> None:
        self._scene.jump_clock((fault.size - 0.5) * 20_000)

    async def _kill_repair(self, fault: Fault, bookie: SimBookie) -> None:
        self._scene.restart_repair()

    async def _kill_client(self, fault: Fault, bookie: SimBookie) -> None:
        self._scene.history.note(f"killed {self._scene.restart_client(fault.other)}")
