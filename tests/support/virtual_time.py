"""An event loop whose clock jumps to the next timer: half a minute of outage costs nothing."""

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

Parameters = ParamSpec("Parameters")

TIMERS_MAX = 100_000
"""Jumps of the clock in one test; more is a retry without end."""


class JumpingLoop(asyncio.SelectorEventLoop):
    """`time()` stands still while something is to do, then jumps. For tests without sockets."""

    def __init__(self) -> None:
        super().__init__(_JumpingSelector(self))
        self.now = 1000.0
        self.jumps = 0

    def time(self) -> float:
        return self.now

    def jump(self, seconds: float | None) -> None:
        self.jumps += 1
        assert seconds is not None, "everybody waits and no timer runs: a future without an answer"
        assert self.jumps < TIMERS_MAX, "a retry without end"
        self.now += seconds


class _JumpingSelector(selectors.DefaultSelector):
    def __init__(self, loop: JumpingLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None or timeout > 0:
            self._loop.jump(timeout)
        return super().select(0)


def in_virtual_time(
    test: Callable[Parameters, Coroutine[Any, Any, None]],
) -> Callable[Parameters, None]:
    """Runs an async test on a `JumpingLoop`: all its timers at once, in their order."""

    @functools.wraps(test)
    def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
        with asyncio.Runner(loop_factory=JumpingLoop) as runner:
            runner.run(test(*args, **kwargs))

    return run


def clock() -> float:
    """Seconds of the running loop."""
    return asyncio.get_running_loop().time()
