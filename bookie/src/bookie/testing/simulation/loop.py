"""The event loop of the simulation: a virtual clock, and nothing that waits for the real world.

Callbacks run in the order of their times; what randomness there is lies in the delays that the
simulated network, disks and metadata store draw from the seed. "Threads" are callbacks too:
blocking work runs whole, some time after it was asked for, and its result arrives later still.
Every task belongs to the process (`process.Process`) in whose context it was made.
"""

import asyncio
import contextvars
import random
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from heapq import heappop, heappush
from typing import Any, Final, Protocol

from bookie.testing.simulation.transport import Server, Transports

TURNS_MAX: Final = 5_000_000
"""Turns of one simulation, at most; more means an endless retry."""


class Stuck(AssertionError):
    """Nothing can happen any more although a task waits, or events never end."""


class Owner(Protocol):
    """What a task belongs to."""

    @property
    def title(self) -> str:
        """A title that is unique, even among processes of the same name."""

    @property
    def is_alive(self) -> bool: ...

    def adopt(self, task: "asyncio.Task[Any]") -> None: ...

    def blocking_s(self) -> float:
        """How long a piece of blocking work takes to begin, or to be reported as done."""


OWNER: contextvars.ContextVar[Owner | None] = contextvars.ContextVar("owner", default=None)


class SimLoop(asyncio.BaseEventLoop):
    """See the module. It has its own turns (`_run_once`): the clock moves, no selector waits."""

    _ready: deque[asyncio.Handle]

    def __init__(self, transports: Transports, rng: random.Random) -> None:
        super().__init__()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        """A heap: when, how many were set before it (of two at one time the older comes first)."""
        self._timers_set = 0
        self._transports = transports
        self._rng = rng
        self._now = 0.0
        self.turns = 0
        self.set_task_factory(_owned_task)
        self.set_exception_handler(self._broke)
        self._held: dict[Owner, list[asyncio.Handle]] = {}
        """Sleeping processes, with what each will do when it wakes."""
        self.dead: set[str] = set()
        """Titles of the processes that are gone; their tasks have them as names."""
        self.defects: list[str] = []
        """What fell through to the loop: nobody handles it, so it is a defect of ours."""

    # Time
    def time(self) -> float:
        return self._now

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self._timers_set += 1
        heappush(self._timers, (when, self._timers_set, timer))
        return timer

    def _run_once(self) -> None:
        """All that is ready; when nothing is, the clock moves to the next timers first."""
        ready = self._ready
        if not ready and not self._stopping:  # type: ignore[attr-defined]
            self._advance()
        for _ in range(len(ready)):
            handle = ready.popleft()
            if self._held and self._is_held(handle):
                continue
            if not handle.cancelled():
                handle._run()
        self.turns += 1
        if self.turns > TURNS_MAX:
            raise Stuck(f"no end after {TURNS_MAX} turns: a retry without end")

    def put_to_sleep(self, owner: Owner) -> None:
        """Stop this process until `wake`, as SIGSTOP does; its timers keep running."""
        self._held.setdefault(owner, [])

    def wake(self, owner: Owner) -> None:
        """What would have run meanwhile runs now, in its order; what came in before its timers, as
        in a loop that asks its sockets first.
        """
        held = self._held.pop(owner, [])
        self._ready.extend(one for one in held if not isinstance(one, asyncio.TimerHandle))
        self._ready.extend(one for one in held if isinstance(one, asyncio.TimerHandle))

    def _is_held(self, handle: asyncio.Handle) -> bool:
        owner = handle._context.get(OWNER)  # type: ignore[attr-defined]
        held = self._held.get(owner) if owner is not None else None
        if held is None:
            return False
        held.append(handle)
        return True

    def _advance(self) -> None:
        timers = self._timers
        while timers and timers[0][2].cancelled():
            heappop(timers)
        if not timers:
            raise Stuck("everybody waits and no timer runs: something was never answered")
        self._now = max(self._now, timers[0][0])
        while timers and timers[0][0] <= self._now:
            self._ready.append(heappop(timers)[2])

    def _write_to_self(self) -> None:
        """No other thread has to be woken for."""

    def _broke(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        task = context.get("task") or context.get("future")
        title = task.get_name() if isinstance(task, asyncio.Task) else ""
        if title not in self.dead:  # nobody is left to take the errors of a dead process
            self.defects.append(f"{context.get('message')}: {context.get('exception')!r}")

    # Threads
    def run_in_executor(  # type: ignore[override]
        self, _executor: object, work: Callable[..., Any], *args: Any
    ) -> "asyncio.Future[Any]":
        future = self.create_future()
        self.call_later(_blocking_s(), self._execute, future, work, args)
        return future

    def _execute(
        self, future: "asyncio.Future[Any]", work: Callable[..., Any], args: tuple[Any, ...]
    ) -> None:
        if future.cancelled():
            return  # as in a pool of threads: what has not begun is dropped
        result: Any = None
        error: Exception | None = None
        try:
            result = work(*args)
        except Exception as caught:
            error = caught
        self.call_later(_blocking_s(), _settle, future, result, error)

    # Network
    async def create_server(  # type: ignore[override]
        self, protocol_factory: Callable[[], Any], host: Any = None, port: Any = None, **_: Any
    ) -> Server:
        return self._transports.listen(protocol_factory, host, port)

    async def create_connection(
        self, protocol_factory: Callable[[], Any], host: Any = None, port: Any = None, **_: Any
    ) -> tuple[Any, Any]:
        return await self._transports.connect(protocol_factory, host, port)


def _settle(future: "asyncio.Future[Any]", result: Any, error: Exception | None) -> None:
    if future.cancelled():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)


def _blocking_s() -> float:
    owner = OWNER.get()
    return owner.blocking_s() if owner is not None else 0.0


def _owned_task(
    loop: asyncio.AbstractEventLoop,
    work: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
    **options: Any,
) -> "asyncio.Task[Any]":
    task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, **options)
    context = options.get("context")
    owner = context.get(OWNER) if context is not None else OWNER.get()
    if owner is not None:
        task.set_name(owner.title)
        owner.adopt(task)
    return task
