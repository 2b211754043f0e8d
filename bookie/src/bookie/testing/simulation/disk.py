"""The disks of one simulated bookie: `SimDisk` with flushers in the loop, and faults by directory.

The flusher's turns come some time after they were asked for, drawn from the seed, one whole turn at
a time; whoever must wait for it (a checkpoint, a close) makes it take its turns at once.
"""

import errno
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

from bookie.storage.background import BackgroundTask, Flusher
from bookie.testing.disk import SimDisk
from bookie.testing.simulation.loop import OWNER, SimLoop
from bookie.testing.volatile import Directory

CAPACITY_BYTES: Final = 64 * 1024 * 1024


class MachineDisk(SimDisk):
    """All directories of one bookie. `before_operation`: called before each, may crash it all."""

    def __init__(
        self, loop: SimLoop, *, capacity_bytes: int = CAPACITY_BYTES, direct: bool = False
    ) -> None:
        super().__init__(capacity_bytes=capacity_bytes, direct=direct)
        self._loop = loop
        self.broken: dict[str, str] = {}
        """Directory name -> the operation that fails there with EIO, for good."""
        self.slowness = 1.0
        """By what factor the turns of its flushers come later."""
        self.hiccups: dict[str, str] = {}
        """Directory name -> the operation of which the next one fails there, that one alone."""
        self.before_operation: Callable[[str], None] = lambda _what: None
        self.watch(self._before)

    def _successor(self, directories: dict[Path, Directory]) -> Self:
        made = type(self)(self._loop, capacity_bytes=self.capacity_bytes, direct=self._direct)
        made._directories = directories
        return made

    def _before(self, operation: str, path: Path) -> None:
        for name, failing in self.broken.items():
            if operation == failing and name in path.parts:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
        for name, failing in self.hiccups.items():
            if operation == failing and name in path.parts:
                del self.hiccups[name]
                raise OSError(errno.EIO, os.strerror(errno.EIO))
        self.before_operation(f"{operation} {path.name}")
        if self._dead:
            raise OSError(errno.EIO, "the simulated machine has crashed")

    def flusher(
        self,
        name: str,
        *,
        lock: threading.Lock,
        has_work: Callable[[], bool],
        step: Callable[[], bool],
    ) -> Flusher:
        return LoopFlusher(
            self._loop, lock=lock, has_work=has_work, step=step, slowness=lambda: self.slowness
        )

    def start_background(self, name: str, work: Callable[[], None]) -> BackgroundTask:
        return _BlockingWork(self._loop, work)


class LoopFlusher:
    """See bookie.storage.background.Flusher."""

    def __init__(
        self,
        loop: SimLoop,
        *,
        lock: threading.Lock,
        has_work: Callable[[], bool],
        step: Callable[[], bool],
        slowness: Callable[[], float] = lambda: 1.0,
    ) -> None:
        self._loop = loop
        self._slowness = slowness
        self._lock = lock
        self._has_work = has_work
        self._step = step
        self._is_due = False
        self._is_over = False

    def start(self) -> None:
        self.wake()

    def wake(self) -> None:
        if not self._is_due and not self._is_over:
            self._is_due = True
            owner = OWNER.get()
            late_s = owner.blocking_s() * self._slowness() if owner else 0.0
            self._loop.call_later(late_s, self._turn)

    def tell(self) -> None:
        """Nobody sleeps while the flusher works: see `wait_until`."""

    def is_alive(self) -> bool:
        return not self._is_over

    def _turn(self) -> None:
        self._is_due = False
        if self._take_turn():
            with self._lock:
                if self._has_work():
                    self.wake()

    def _take_turn(self) -> bool:
        """False when there was nothing to do."""
        with self._lock:
            if self._is_over or not self._has_work():
                return False
        self._is_over = not self._step()
        return not self._is_over

    def wait_until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            with _released(self._lock):
                went_on = self._take_turn()
            assert went_on or holds(), "waits for a flusher that has nothing to do"

    def join(self) -> None:
        while self._take_turn():
            pass
        assert self._is_over, "a flusher is joined that was not told to end"


@contextmanager
def _released(lock: threading.Lock) -> Iterator[None]:
    lock.release()
    try:
        yield
    finally:
        lock.acquire()


class _BlockingWork:
    """Blocking work that runs whole, some time after it was begun or when it is waited for."""

    def __init__(self, loop: SimLoop, work: Callable[[], None]) -> None:
        self._work: Callable[[], None] | None = work
        owner = OWNER.get()
        loop.call_later(owner.blocking_s() if owner else 0.0, self.join)

    def is_alive(self) -> bool:
        return self._work is not None

    def join(self) -> None:
        work, self._work = self._work, None
        if work is not None:
            work()
