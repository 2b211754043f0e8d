"""Delayed calls: each is made once, at its time, or at the end, when nobody may wait any more."""

import asyncio
from collections.abc import Callable
from itertools import count

Call = Callable[[], None]


class DelayedCalls:
    """Made and used in the event loop's thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._numbers = count()
        """Keys of `_waiting`, none used twice."""
        self._waiting: dict[int, tuple[asyncio.TimerHandle, Call]] = {}
        """Calls whose time has not come; empty once `_is_over`."""
        self._is_over = False
        """`end` was called: every further call is made at once."""

    def call(self, delay_s: float, then: Call) -> None:
        """Make the call after this time; at once when there is nothing to wait for."""
        if delay_s <= 0 or self._is_over:
            then()
            return
        number = next(self._numbers)
        self._waiting[number] = self._loop.call_later(delay_s, self._due, number), then

    def end(self) -> None:
        """Make all calls that still wait; from now on none does."""
        self._is_over = True
        waiting, self._waiting = self._waiting, {}
        for timer, then in waiting.values():
            timer.cancel()
            then()

    def _due(self, number: int) -> None:
        _timer, then = self._waiting.pop(number)
        then()
