"""Connections that wait until there is room for their next request."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from bookie.server.disk_reads import Reader


class Asker(Reader, Protocol):
    """A connection that sends requests."""

    def resume(self) -> None:
        """Take the waiting message, as there may be room again."""


class WaitingAskers:
    """Connections whose next message found no room. Each stops reading meanwhile, so each is in it
    at most once.

    Create it in the event loop's thread. `before`: called first whenever there is room again.
    """

    def __init__(self, before: Callable[[], None]) -> None:
        self._before = before
        self._waiting: dict[Asker, None] = {}
        """The waiting connections in order of arrival; an ordered set."""
        self._loop = asyncio.get_running_loop()
        self._is_resuming = False
        """A call of `resume` is pending."""

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, asker: Asker) -> None:
        self._waiting[asker] = None

    def forget(self, asker: Asker) -> None:
        """Forget a connection that is gone."""
        self._waiting.pop(asker, None)

    def resume_soon(self) -> None:
        """Call `resume` in the next turn of the loop. Not at once: a resumed connection may cause a
        write, and the caller may be in the middle of one.
        """
        if not self._is_resuming:
            self._is_resuming = True
            self._loop.call_soon(self.resume)

    def resume(self) -> None:
        """Let all waiting connections try again, in order; a connection that finds no room waits
        again.
        """
        self._is_resuming = False
        self._before()
        waiting, self._waiting = self._waiting, {}
        for asker in waiting:
            asker.resume()
