"""Faults that wait for their moment: an answer that was just given, a place of the code, one of the
operations of a boot, of a stop or of a checkpoint.

Windows of milliseconds are not met by times drawn from seconds. These wait for the moment and leave
to chance which of its kind it is; what happens then is the network's and the loop's.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

from bookie.protocol.ids import BookieId
from bookie.testing.simulation.bookies import SimBookie
from bookie.testing.simulation.disk import MachineDisk
from bookie.testing.simulation.metadata import STORE
from bookie.testing.simulation.plan import Fault
from bookie.testing.simulation.scene import Answering, Pause, Scene

WAITS_S: Final = 4.0
"""A fault whose moment does not come is called off after so long."""
PLACES: Final = (
    ("recovery: metadata not written yet", "rival"),
    ("writer: metadata not written yet", "writer"),
    ("recovery: metadata written, result not known", "rival"),
    ("repair: audited, marks not cleared", "repair"),
    ("clear: copies synced, mark not cleared", ""),
    ("fence: durable, not answered", ""),
)
"""Where whoever passes may stop for a while, and who that is; empty: the bookie that is meant."""
ANSWERS: Final = ("fence", "add", "recovery add", "clear")
"""Kinds of answers (`wiretap`) after which power may go."""
CHECKPOINT_OPERATIONS: Final = 30
FAR_S: Final = (0.3, 0.5, 0.8, 1.2)
NEAR_S: Final = (0.03, 0.06, 0.1)


class Aimed:
    """See the module; `kinds` says which there are."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.kinds: Mapping[str, Callable[[Fault, SimBookie], Awaitable[None]]] = {
            "pause": self._pause,
            "cut-answer": self._cut_answer,
            "crash-boot": self._crash_boot,
            "stop-boot": self._stop_boot,
            "cut-stop": self._cut_stop,
            "cut-checkpoint": self._cut_checkpoint,
            "torn": self._torn,
        }

    async def _pause(self, fault: Fault, bookie: SimBookie) -> None:
        """Whoever passes the place that the size chooses stops there; `other` may pass before."""
        point, who = PLACES[int(fault.size * len(PLACES))]
        pause = Pause(point, who or bookie.name, fault.lasts_s, fault.other)
        self._scene.pauses.append(pause)
        await asyncio.sleep(WAITS_S)
        if pause in self._scene.pauses:
            self._scene.pauses.remove(pause)

    async def _cut_answer(self, fault: Fault, bookie: SimBookie) -> None:
        """Power goes when the bookie has just given an answer: it must stand for it all the same.

        The kind is the whole part of ten times the size.
        """
        what = ANSWERS[int(fault.size * 10) % len(ANSWERS)]
        cut = partial(self._power_goes, bookie, fault)
        self._scene.answers[bookie.name] = waits = Answering(what, cut, fault.other)
        await asyncio.sleep(WAITS_S)
        if self._scene.answers.get(bookie.name) is waits:
            del self._scene.answers[bookie.name]

    def _power_goes(self, bookie: SimBookie, fault: Fault) -> None:
        if not bookie.is_up:
            return
        self._scene.history.note(f"{bookie.name} crashes after its answer")
        bookie.is_wanted = False
        bookie.crash(_image(fault))
        asyncio.get_running_loop().call_later(fault.lasts_s, _start, bookie)

    # Boots and stops
    async def _crash_boot(self, fault: Fault, bookie: SimBookie) -> None:
        """It stops, and power goes at any of the operations of its next boot, all alike likely."""
        operations = 1 + int(fault.size * bookie.boot_operations)
        await self._stops(fault, bookie)
        bookie.arm(operations, _image(fault), restart_s=0.1)
        await self._boots(bookie)

    async def _stop_boot(self, fault: Fault, bookie: SimBookie) -> None:
        """It stops, and is told to stop again at any of the operations of its next boot."""
        operations = 1 + int(fault.size * bookie.boot_operations)
        await self._stops(fault, bookie)
        bookie.arm_stop(operations)
        await self._boots(bookie)

    async def _stops(self, fault: Fault, bookie: SimBookie) -> None:
        """With an even `other` power goes; with 3 it is killed, and loses one disk."""
        bookie.is_wanted = False
        bookie.crash(_image(fault) if fault.other % 2 == 0 else lambda disk: disk.kill())
        if fault.other == 3:
            bookie.wipe(fault.who % len(bookie.directories))
        await asyncio.sleep(fault.lasts_s)

    async def _boots(self, bookie: SimBookie) -> None:
        bookie.is_wanted = True
        bookie.start()
        await asyncio.sleep(WAITS_S)
        bookie.disarm()

    async def _cut_stop(self, fault: Fault, bookie: SimBookie) -> None:
        """Power goes at any of the operations of a clean stop."""
        bookie.arm(
            1 + int(fault.size * bookie.stop_operations), _image(fault), restart_s=fault.lasts_s
        )
        await bookie.stop()
        bookie.disarm()
        await asyncio.sleep(fault.lasts_s)
        bookie.is_wanted = True
        bookie.start()

    async def _cut_checkpoint(self, fault: Fault, bookie: SimBookie) -> None:
        """Power goes at any of the operations of a checkpoint, which begins now."""
        booted = bookie.bookie.control.booted if bookie.is_serving and bookie.bookie else None
        process = bookie.process
        if booted is None or process is None:
            return
        bookie.arm(
            1 + int(fault.size * CHECKPOINT_OPERATIONS), _image(fault), restart_s=fault.lasts_s
        )
        work = process.spawn(asyncio.to_thread(booted.storage.checkpoint))
        await asyncio.wait([work])
        if not work.cancelled():
            work.exception()  # a bookie whose disk fails says so itself
        bookie.disarm()

    # Ensembles
    async def _torn(self, fault: Fault, bookie: SimBookie) -> None:
        """Of what a writer sends, one member gets it soon and fails, another one a little later,
        all others late: each entry is on few of those that it is attributed to, or soon will be.
        """
        scene, rng = self._scene, random.Random(fault.size)
        names = [name for name in sorted(scene.writing) if name in scene.client_names()]
        if not names:
            return
        writer = names[fault.other % len(names)]
        metadata = scene.history.ledger(scene.writing[writer]).metadata
        if metadata is None:
            return
        failing = self._far_and_near(rng, writer, metadata.last_fragment.ensemble)
        if rng.random() < 0.6:
            scene.network.lags[writer, STORE] = rng.choice((0.05, 0.1, 0.2))
        await asyncio.sleep(0.15 + 0.3 * rng.random())
        for again in range(2):
            for name in failing:
                scene.network.reset(name)
            await asyncio.sleep(fault.lasts_s * (0.3 + again))
        for way in [way for way in scene.network.lags if writer in way]:
            del scene.network.lags[way]

    def _far_and_near(
        self, rng: random.Random, writer: str, ensemble: tuple[BookieId, ...]
    ) -> list[str]:
        """Those that are to fail; all ways to the others are long from now on."""
        members: list[str] = list(ensemble)
        rng.shuffle(members)
        failing = members[: rng.choice((1, 1, 2))]
        near = members[len(failing)] if len(members) > len(failing) else ""
        for bookie in self._scene.bookies:
            if bookie.name not in failing:
                late = rng.choice(NEAR_S if bookie.name == near else FAR_S)
                self._scene.network.lags[writer, bookie.name] = late * (0.8 + 0.4 * rng.random())
        return failing


def _image(fault: Fault) -> Callable[[MachineDisk], MachineDisk]:
    return lambda disk: disk.crash(int(fault.size * 1e6))


def _start(bookie: SimBookie) -> None:
    bookie.is_wanted = True
    bookie.start()
