"""A pool of files open for reading, so that not every read has to open its file."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Final

from bookie.storage.disk import DiskFile

READERS_MAX: Final = 64
"""How many idle files stay open, in addition to those in use."""


class ReaderPool:
    """Lends open files by id to any thread; it never closes a file that is in use."""

    def __init__(self, open_file: Callable[[int], DiskFile]) -> None:
        self._open_file = open_file
        self._lock = threading.Lock()
        self._idle: dict[int, DiskFile] = {}
        """The idle open files in order of their last use: the first one is closed first."""
        self._users: dict[int, int] = {}
        """By file id: how many callers use the file; only files in use are in it."""
        self._forgotten: set[int] = set()
        """Ids among these whose file is closed when it is given back."""
        self._closed = False
        """True once the pool is closed: files are closed when they are given back."""

    @contextlib.contextmanager
    def borrow(self, file_id: int) -> Iterator[DiskFile]:
        """Lend an open file to this caller alone."""
        with self._lock:
            file = self._idle.pop(file_id, None)
            self._users[file_id] = self._users.get(file_id, 0) + 1
        try:
            if file is None:
                file = self._open_file(file_id)
            yield file
        finally:
            self._give_back(file_id, file)

    def _give_back(self, file_id: int, file: DiskFile | None) -> None:
        """`file`: None when it could not be opened."""
        surplus: DiskFile | None = None
        with self._lock:
            is_kept = not (self._closed or file_id in self._forgotten or file_id in self._idle)
            self._count_out(file_id)
            if file is not None and not is_kept:
                surplus = file
            elif file is not None:
                self._idle[file_id] = file
                if len(self._idle) > READERS_MAX:
                    surplus = self._idle.pop(next(iter(self._idle)))
        if surplus is not None:
            surplus.close()

    def _count_out(self, file_id: int) -> None:
        """Locked. Count one user of the file less."""
        self._users[file_id] -= 1
        if not self._users[file_id]:
            del self._users[file_id]
            self._forgotten.discard(file_id)

    def forget(self, file_id: int) -> None:
        """Close the file: at once if it is idle, else when its last user gives it back.

        Call it for a deleted file: the file system keeps its bytes as long as it is open.
        """
        with self._lock:
            file = self._idle.pop(file_id, None)
            if file_id in self._users:
                self._forgotten.add(file_id)
        if file is not None:
            file.close()

    def close(self) -> None:
        """Close the idle files; those in use are closed when they are given back."""
        with self._lock:
            self._closed = True
            files = list(self._idle.values())
            self._idle.clear()
        for file in files:
            file.close()
