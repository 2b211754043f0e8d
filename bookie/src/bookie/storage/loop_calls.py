"""Notifies the event loop from flusher threads that something moved; one pending call at most."""

import logging
from collections.abc import Callable
from typing import Final

log = logging.getLogger(__name__)

CallSoon = Callable[[Callable[[], None]], None]
"""Runs a function soon in the event loop's thread; callable from any thread."""


class Progress:
    """Log and journal call `notify` after each sync, when there is room again, and on failure."""

    def __init__(self, call_soon: CallSoon) -> None:
        self.call_soon: Final = call_soon
        self.on_progress: Callable[[], None] = lambda: None
        """Called in the event loop's thread, once for all notifications before it."""
        self.on_notify: Callable[[], None] = lambda: None
        """Called at each notification, in the notifying thread."""
        self._posted = False
        """A call of `on_progress` is pending."""

    def notify(self) -> None:
        """Notify; any thread may call it. While a call is pending this posts no other: that call
        will see the new state.
        """
        self.on_notify()
        if self._posted:
            return
        self._posted = True
        try:
            self.call_soon(self._deliver)
        except RuntimeError as error:
            # The loop is closed: nobody waits any more, and the flusher must not end by this error.
            log.warning("progress of the disks is not delivered: %s", error)

    def _deliver(self) -> None:
        self._posted = False
        self.on_progress()
