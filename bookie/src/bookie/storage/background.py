"""Background work of a storage: one flusher for each stream, now and then a checkpoint.

A disk says how: `InThreads` for real ones, as callbacks of a seeded event loop in the simulation
(`bookie.testing.simulation`), where the same seed must give the same order. The stream decides what
there is to do; nothing here knows of files.
"""

import threading
from collections.abc import Callable
from typing import Final, Protocol

ORPHAN_CHECK_S: Final = 1.0
"""How often an idle flusher looks whether the process is ending without having closed it."""


class BackgroundTask(Protocol):
    """Work that was started and is not waited for."""

    def is_alive(self) -> bool: ...

    def join(self) -> None: ...


class Flusher(Protocol):
    """Calls `step` whenever `has_work`, one call after the other, until one returns False.

    Methods said to be locked are called with the lock held that the flusher was made with.
    `has_work` is asked with it held, `step` is called without. Neither may raise.
    """

    def start(self) -> None: ...

    def wake(self) -> None:
        """Locked. There may be work."""

    def tell(self) -> None:
        """Locked. What somebody waits for may have come."""

    def wait_until(self, holds: Callable[[], bool]) -> None:
        """Locked. Blocks until the condition holds; the lock is given up meanwhile."""

    def is_alive(self) -> bool:
        """False when the last `step` is over."""

    def join(self) -> None:
        """Blocks until the last `step` is over. Without the lock."""


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
    """How a real disk works in the background: in threads of this process."""

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
    """The process is ending, and nobody has closed what flushers still hold."""
    return not threading.main_thread().is_alive()
