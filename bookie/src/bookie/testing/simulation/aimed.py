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

from bookie.testing.simulation import visitors
from bookie.testing.simulation.bookies import SimBookie
from bookie.testing.simulation.disk import MachineDisk
from bookie.testing.simulation.metadata import STORE
from bookie.testing.simulation.plan import Fault
from bookie.testing.simulation.scene import AnswerStep, Pause, Scene

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
            "wipe-boot": self._wipe_boot,
            "cut-stop": self._cut_stop,
            "cut-checkpoint": self._cut_checkpoint,
            "disk-hiccup": self._disk_hiccup,
            "slow-disk": self._slow_disk,
            "bit-rot": self._bit_rot,
            "ask-now": self._ask_now,
            "torn": self._torn,
            "torn-end": self._torn_end,
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
        self._scene.answers[bookie.name] = waits = AnswerStep(what, cut, fault.other)
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
        """It stops, and gets SIGTERM again at any of the operations of its next boot."""
        operations = 1 + int(fault.size * bookie.boot_operations)
        await self._stops(fault, bookie)
        bookie.arm_stop(operations)
        await self._boots(bookie)

    async def _wipe_boot(self, fault: Fault, bookie: SimBookie) -> None:
        """The same as `_crash_boot`, and one of its disks is another one."""
        operations = 1 + int(fault.size * bookie.boot_operations)
        await self._stops(fault, bookie)
        bookie.wipe(fault.other % len(bookie.directories))
        bookie.arm(operations, _image(fault), restart_s=0.1)
        await self._boots(bookie)

    async def _stops(self, fault: Fault, bookie: SimBookie) -> None:
        """With an even `other` power goes, else it is killed."""
        bookie.is_wanted = False
        bookie.crash(_image(fault) if fault.other % 2 == 0 else lambda disk: disk.kill())
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
        work = process.spawn(asyncio.to_thread(booted.storage.maintenance.checkpoint))
        await asyncio.wait([work])
        if not work.cancelled():
            work.exception()  # a bookie whose disk fails says so itself
        bookie.disarm()

    async def _disk_hiccup(self, fault: Fault, bookie: SimBookie) -> None:
        """One operation of a ledger disk fails, and all after it go well."""
        ledgers = [directory.name for directory in bookie.directories[1:]]
        operation = ("write", "sync", "commit")[int(fault.size * 3)]
        bookie.disk.hiccups[ledgers[fault.other % len(ledgers)]] = operation
        await asyncio.sleep(fault.lasts_s)
        bookie.disk.hiccups.clear()

    async def _slow_disk(self, fault: Fault, bookie: SimBookie) -> None:
        """What is to be durable takes its time, by a factor of up to a hundred."""
        disk = bookie.disk
        disk.slowness = 1 + 100 * fault.size
        await asyncio.sleep(fault.lasts_s)
        disk.slowness = 1.0

    async def _bit_rot(self, fault: Fault, bookie: SimBookie) -> None:
        self._scene.distrust(bookie.name)
        bookie.rot_of_frames(fault.size)

    async def _ask_now(self, fault: Fault, bookie: SimBookie) -> None:
        self._scene.visit("inquirer", visitors.ask_everybody)

    # Ensembles
    async def _torn(self, fault: Fault, bookie: SimBookie) -> None:
        """Of what a writer sends, one member gets it soon and fails, another one a little later,
        all others late: each entry is on few of those that it is attributed to, or soon will be.
        """
        rng = random.Random(fault.size)
        writer = self._writer(fault)
        failing = self._far_and_near(rng, writer) if writer else []
        if rng.random() < 0.6:
            self._scene.network.lags[writer, STORE] = rng.choice((0.05, 0.1, 0.2))
        await asyncio.sleep(0.15 + 0.3 * rng.random())
        for again in range(2):
            for name in failing:
                self._scene.network.reset(name)
            await asyncio.sleep(fault.lasts_s * (0.3 + again))
        self._near_again(writer)

    async def _torn_end(self, fault: Fault, bookie: SimBookie) -> None:
        """The same, and the writer dies soon after members were replaced; its ledger is taken."""
        rng = random.Random(fault.size)
        writer = self._writer(fault)
        failing = self._far_and_near(rng, writer) if writer else []
        await asyncio.sleep(0.15 + 0.3 * rng.random())
        for name in failing:
            self._scene.network.reset(name)
        await asyncio.sleep(rng.choice((0.02, 0.1, 0.2)) * (0.5 + rng.random()))
        mortal = [name for name in self._scene.client_names() if name != "repair"]
        if writer in mortal:
            self._scene.resting.add(writer)  # rivals mean its ledger
            self._scene.visit("rival", visitors.recover_newest)
            self._scene.visit("rival", visitors.recover_newest)
            await asyncio.sleep(0)
            self._scene.resting.discard(writer)
            self._scene.restart_client(mortal.index(writer))
        await asyncio.sleep(fault.lasts_s)
        self._near_again(writer)

    def _writer(self, fault: Fault) -> str:
        """One that writes now; empty when nobody does."""
        names = [name for name in sorted(self._scene.writing) if name in self._scene.client_names()]
        return names[fault.other % len(names)] if names else ""

    def _near_again(self, writer: str) -> None:
        for way in [way for way in self._scene.network.lags if writer in way]:
            del self._scene.network.lags[way]

    def _far_and_near(self, rng: random.Random, writer: str) -> list[str]:
        """Those that are to fail; all ways to the others are long from now on."""
        metadata = self._scene.history.ledger(self._scene.writing[writer]).metadata
        if metadata is None:
            return []
        members: list[str] = list(metadata.last_fragment.ensemble)
        rng.shuffle(members)
        failing = members[: rng.choice((1, 1, 2))]
        near = members[len(failing)] if len(members) > len(failing) and rng.random() < 0.8 else ""
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
