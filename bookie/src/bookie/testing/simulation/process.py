"""A simulated process: its tasks, its wall clock, and its sudden end.

Everything that runs in the context of a process belongs to it. `kill` cancels its tasks; what they
still do on their way out meets disks that are dead, a store that is closed and a network that no
longer knows them, as nothing of a killed process reaches anybody.
"""

import asyncio
import contextvars
import random
from collections.abc import Callable, Coroutine
from typing import Any

from bookie.testing.simulation.loop import OWNER, SimLoop


class Process:
    """See the module. `blocking_s`: scale of what blocking work takes here."""

    def __init__(self, name: str, loop: SimLoop, rng: random.Random, *, work_s: float) -> None:
        self.name = name
        self.title = f"{name} since {loop.time():.6f}"
        self.loop = loop
        self.is_alive = True
        self.is_asleep = False
        self.work_s = work_s
        self._rng = rng
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._context = contextvars.Context()
        self._context.run(OWNER.set, self)

    def adopt(self, task: "asyncio.Task[Any]") -> None:
        """See loop.Owner."""
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    def blocking_s(self) -> float:
        """See loop.Owner."""
        return self.work_s * (0.5 + self._rng.random())

    def call(self, callback: Callable[..., object], *args: object) -> None:
        """Calls it soon in the context of this process, unless that is gone by then."""
        self.loop.call_soon(self._unless_dead, callback, *args, context=self._context)

    def _unless_dead(self, callback: Callable[..., object], *args: object) -> None:
        if self.is_alive:
            callback(*args)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """A task of this process; cancelled at once when the process is dead."""
        task = self.loop.create_task(work, context=self._context)
        if not self.is_alive:
            task.cancel()
        return task

    def sleep(self) -> None:
        """Stops in the midst of whatever it does (SIGSTOP, a paused machine); sockets stay open."""
        self.is_asleep = True
        self.loop.put_to_sleep(self)

    def wake(self) -> None:
        """Goes on where it stopped, and knows nothing of it."""
        self.is_asleep = False
        self.loop.wake(self)

    def kill(self) -> None:
        """No task goes on."""
        self.wake()
        self.is_alive = False
        self.loop.dead.add(self.title)
        for task in self._tasks:
            task.cancel()

    async def ended(self) -> None:
        """Waits until the last of its tasks has unwound."""
        while self._tasks:
            await asyncio.wait(list(self._tasks))
