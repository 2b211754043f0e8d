"""Background work of a storage: one flusher per stream, and early checkpoints.

The disk decides how it runs: a real disk in threads (`InThreads`), a simulated one as callbacks of
a seeded event loop (`bookie.testing.simulation`), where the same seed must give the same order. The
stream decides what there is to do; this module knows nothing about files.
"""

import threading
from collections.abc import Callable
from typing import Final, Protocol

ORPHAN_CHECK_S: Final = 1.0
"""How often an idle flusher checks whether the process is ending without having closed it."""


class BackgroundTask(Protocol):
    """Work that was started and for which the caller does not wait."""

    def is_alive(self) -> bool: ...

    def join(self) -> None: ...


class Flusher(Protocol):
    """Calls `step` whenever `has_work` is true, one call after the other, until one returns False.

    "Locked" in a method's docstring means: the caller holds the lock that the flusher was made
    with. The flusher calls `has_work` with that lock held, and `step` without it. Neither may
    raise.
    """

    def start(self) -> None: ...

    def wake(self) -> None:
        """Locked. Say that there may be work."""

    def tell(self) -> None:
        """Locked. Wake the callers of `wait_until`: their condition may hold now."""

    def wait_until(self, holds: Callable[[], bool]) -> None:
        """Locked. Block until the condition holds; the lock is released meanwhile."""

    def is_alive(self) -> bool:
        """False when the last `step` is over."""

    def join(self) -> None:
        """Block until the last `step` is over. The caller must not hold the lock."""


class ThreadFlusher:
    """A flusher in a thread of its own."""

    def __init__(
        self,
        name: str,
        *,
        lock: threading.Lock,
        has_work: Callable[[], bool],
        step: Callable[[], bool],
    ) -> None:
        self._has_work = has_work
        self._step = step
        self._work = threading.Condition(lock)
        self._progress = threading.Condition(lock)
        self._thread = threading.Thread(target=self._run, name=name)
        self.start = self._thread.start
        self.wake = self._work.notify
        self.tell = self._progress.notify_all
        self.is_alive = self._thread.is_alive
        self.join = self._thread.join

    def _run(self) -> None:
        while True:
            with self._work:
                while not self._has_work():
                    self._work.wait(ORPHAN_CHECK_S)
            if not self._step():
                return

    def wait_until(self, holds: Callable[[], bool]) -> None:
        """See Flusher."""
        while not holds():
            self._progress.wait()


class InThreads:
    """The background work of a real disk: it runs in threads of this process."""

    __slots__ = ()

    def flusher(
        self,
        name: str,
        *,
        lock: threading.Lock,
        has_work: Callable[[], bool],
        step: Callable[[], bool],
    ) -> Flusher:
        """See Disk."""
        return ThreadFlusher(name, lock=lock, has_work=has_work, step=step)

    def start_background(self, name: str, work: Callable[[], None]) -> BackgroundTask:
        """See Disk."""
        thread = threading.Thread(target=work, name=name)
        thread.start()
        return thread


def is_orphaned() -> bool:
    """True when the process is ending although nobody has closed the streams."""
    return not threading.main_thread().is_alive()
