"""Whose requests they are, and who of them waits until there is room for the next one."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from bookie.server.disk_reads import Reader


class Asker(Reader, Protocol):
    """Whose requests they are: a connection."""

    def resume(self) -> None:
        """There is room again."""


class WaitingAskers:
    """Connections whose next message found no room. Each stops reading, so that one is there once.

    Made in the event loop's thread. `before`: what is done first whenever there is room again.
    """

    def __init__(self, before: Callable[[], None]) -> None:
        self._before = before
        self._waiting: dict[Asker, None] = {}
        """In the order in which they came; the values say nothing."""
        self._loop = asyncio.get_running_loop()
        self._is_resuming = False
        """`resume` will be called."""

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, asker: Asker) -> None:
        self._waiting[asker] = None

    def forget(self, asker: Asker) -> None:
        """The connection is gone."""
        self._waiting.pop(asker, None)

    def resume_soon(self) -> None:
        """Not now: whoever is resumed may write, and that may be what is just going on."""
        if not self._is_resuming:
            self._is_resuming = True
            self._loop.call_soon(self.resume)

    def resume(self) -> None:
        """There is room: everybody tries again, in order; who finds none waits again."""
        self._is_resuming = False
        self._before()
        waiting, self._waiting = self._waiting, {}
        for asker in waiting:
            asker.resume()
