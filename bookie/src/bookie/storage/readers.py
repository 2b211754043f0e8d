"""A pool of files open for reading: reads come from any thread and must not open one each."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Final

from bookie.storage.disk import DiskFile

READERS_MAX: Final = 64
"""Idle files kept open; files in use may come on top of it."""


class ReaderPool:
    """Hands out open files by id; a file in use is never closed under its reader."""

    def __init__(self, open_file: Callable[[int], DiskFile]) -> None:
        self._open_file = open_file
        self._lock = threading.Lock()
        self._idle: dict[int, DiskFile] = {}
        """In order of last use: the first is the one to close."""
        self._users: dict[int, int] = {}
        """How many have a file in use, by its id; no id with none."""
        self._forgotten: set[int] = set()
        """Of these, those that no file is kept of any more once it is given back."""
        self._closed = False
        """No descriptor is opened any more."""

    @contextlib.contextmanager
    def borrow(self, file_id: int) -> Iterator[DiskFile]:
        """The file, open, for this caller alone."""
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
        """Locked. One fewer has it in use."""
        self._users[file_id] -= 1
        if not self._users[file_id]:
            del self._users[file_id]
            self._forgotten.discard(file_id)

    def forget(self, file_id: int) -> None:
        """Closes the file: at once if it is idle, and when the last who has it gives it back.

        For one that was unlinked: as long as it is open the file system keeps its bytes.
        """
        with self._lock:
            file = self._idle.pop(file_id, None)
            if file_id in self._users:
                self._forgotten.add(file_id)
        if file is not None:
            file.close()

    def close(self) -> None:
        """Closes what is idle; what is in use is closed when it is given back."""
        with self._lock:
            self._closed = True
            files = list(self._idle.values())
            self._idle.clear()
        for file in files:
            file.close()
