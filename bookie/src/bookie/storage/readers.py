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
        self._closed = False
        """No descriptor is opened any more."""

    @contextlib.contextmanager
    def borrow(self, file_id: int) -> Iterator[DiskFile]:
        """The file, open, for this caller alone."""
        with self._lock:
            file = self._idle.pop(file_id, None)
        if file is None:
            file = self._open_file(file_id)
        try:
            yield file
        finally:
            self._give_back(file_id, file)

    def _give_back(self, file_id: int, file: DiskFile) -> None:
        surplus: DiskFile | None = None
        with self._lock:
            if self._closed or file_id in self._idle:
                surplus = file
            else:
                self._idle[file_id] = file
                if len(self._idle) > READERS_MAX:
                    surplus = self._idle.pop(next(iter(self._idle)))
        if surplus is not None:
            surplus.close()

    def forget(self, file_id: int) -> None:
        """Closes the file if it is open and idle."""
        with self._lock:
            file = self._idle.pop(file_id, None)
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
