"""From flusher threads to the event loop: "something moved", at most one such call under way."""

import logging
from collections.abc import Callable
from typing import Final

log = logging.getLogger(__name__)

CallSoon = Callable[[Callable[[], None]], None]
"""Runs a function soon in the event loop's thread; callable from any thread."""


class Progress:
    """Called by log and journal after each sync, when there is room again, and on failure."""

    def __init__(self, call_soon: CallSoon) -> None:
        self.call_soon: Final = call_soon
        self.on_progress: Callable[[], None] = lambda: None
        """Called in the event loop's thread, once for all notifications that came before."""
        self.on_notify: Callable[[], None] = lambda: None
        """Called at each notification, in the thread that notifies."""
        self._posted = False
        """`on_progress` will be called."""

    def notify(self) -> None:
        """Any thread. Nothing is lost when a call is under way: it looks at the state afresh."""
        self.on_notify()
        if self._posted:
            return
        self._posted = True
        try:
            self.call_soon(self._deliver)
        except RuntimeError as error:
            # The loop is closed: nobody is left who waits, and a flusher must not die of it.
            log.warning("progress of the disks is not delivered: %s", error)

    def _deliver(self) -> None:
        self._posted = False
        self.on_progress()
