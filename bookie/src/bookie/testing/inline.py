"""Work beside the caller, done by the caller: no thread, so one order of everything on a disk.

The flushers of an `InlineDisk` take their steps when somebody waits for them, and all of them in
`run_flushers`, in the order in which they were made. `InlineLoop` does the same for what asyncio
would give to threads. Not for code that is used from several threads.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from bookie.storage.background import BackgroundTask, Flusher
from bookie.testing.database import SimDatabase
from bookie.testing.disk import SimDisk


class InlineFlusher:
    """See bookie.storage.background.Flusher."""

    def __init__(
        self, *, lock: threading.Lock, has_work: Callable[[], bool], step: Callable[[], bool]
    ) -> None:
        self._lock = lock
        self._has_work = has_work
        self._step = step
        self._is_over = False

    def start(self) -> None:
        """Do nothing: no thread runs."""

    def wake(self) -> None:
        """`has_work` says it again when somebody asks."""

    def tell(self) -> None:
        """Do nothing: a waiting caller checks after every step."""

    def wait_until(self, holds: Callable[[], bool]) -> None:
        """See Flusher."""
        while not holds():
            assert self._has_work() and not self._is_over, "a thread would wait here for ever"
            self._lock.release()
            try:
                self._take_step()
            finally:
                self._lock.acquire()

    def is_alive(self) -> bool:
        """See Flusher."""
        return not self._is_over

    def join(self) -> None:
        """See Flusher."""
        while not self._is_over:
            self._take_step()

    def run(self) -> bool:
        """Steps until there is nothing to do; False when there was nothing."""
        has_run = False
        while not self._is_over and self._may_step():
            self._take_step()
            has_run = True
        return has_run

    def _may_step(self) -> bool:
        with self._lock:
            return self._has_work()

    def _take_step(self) -> None:
        self._is_over = not self._step()


class _Finished:
    """Work that is over when its caller hears of it."""

    def is_alive(self) -> bool:
        return False

    def join(self) -> None:
        """It has ended."""


class Inline:
    """Mixed into a disk, before it: see the module."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.flushers: list[InlineFlusher] = []
        """All that were made for this disk, in that order."""

    def flusher(
        self,
        name: str,
        *,
        lock: threading.Lock,
        has_work: Callable[[], bool],
        step: Callable[[], bool],
    ) -> Flusher:
        """See Disk."""
        made = InlineFlusher(lock=lock, has_work=has_work, step=step)
        self.flushers.append(made)
        return made

    def run_flushers(self) -> bool:
        """Lets each do what there is to do; False when no one had anything."""
        return any([flusher.run() for flusher in self.flushers])

    def start_background(self, name: str, work: Callable[[], None]) -> BackgroundTask:
        """See Disk."""
        work()
        return _Finished()


class InlineDisk(Inline, SimDisk):
    """A simulated disk without threads."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._databases: list[SimDatabase] = []

    def open_database(self, path: Path) -> SimDatabase:
        made = super().open_database(path)
        self._databases.append(made)
        return made

    def close_databases(self) -> None:
        """What the end of a process does, however it ends; nothing is written."""
        for database in self._databases:
            database.close()
        self._databases.clear()


class InlineLoop(asyncio.SelectorEventLoop):
    """What is meant for an executor runs at once, in the thread of the loop."""

    def run_in_executor(  # type: ignore[override]  # typeshed spells its arguments as a TypeVarTuple
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done
