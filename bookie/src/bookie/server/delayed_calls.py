"""Delayed calls: each is made once, at its time, or earlier when everything ends."""

import asyncio
from collections.abc import Callable
from itertools import count

Call = Callable[[], None]


class DelayedCalls:
    """The delayed calls. Create and use it in the event loop's thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._numbers = count()
        """Keys for `_waiting`; none is used twice."""
        self._waiting: dict[int, tuple[asyncio.TimerHandle, Call]] = {}
        """The calls whose time has not come; empty once `_is_over`."""
        self._is_over = False
        """True once `end` was called: every further call is made at once."""

    def call(self, delay_s: float, then: Call) -> None:
        """Make the call after this delay; at once when the delay is not positive."""
        if delay_s <= 0 or self._is_over:
            then()
            return
        number = next(self._numbers)
        self._waiting[number] = self._loop.call_later(delay_s, self._due, number), then

    def end(self) -> None:
        """Make all waiting calls now; every later call is made at once."""
        self._is_over = True
        waiting, self._waiting = self._waiting, {}
        for timer, then in waiting.values():
            timer.cancel()
            then()

    def _due(self, number: int) -> None:
        _timer, then = self._waiting.pop(number)
        then()
