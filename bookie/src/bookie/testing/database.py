"""An SQLite database on a simulated disk: real SQL, and a file that a crash can take.

The file's content is the serialised database as of the last commit. A commit replaces it whole and
durable at once, or fails and changes nothing: what SQLite promises with full syncs, and what we do
not test again here. Faults and the capacity of the disk apply to it like to any other file.
"""

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from bookie.errors import StorageError
from bookie.storage.sqlite import all_or_nothing, mapped

PAGE_BYTES: Final = 512
"""SQLite's smallest: images are copied at every commit."""
READERS_MAX: Final = 4


class SimDatabase:
    """See bookie.storage.sqlite.Database. `commit` makes an image durable, or raises StorageError.

    Readers get the last committed image, each a connection of its own: a query under way does not
    see what is committed meanwhile.
    """

    def __init__(self, path: Path, *, image: bytes, commit: Callable[[bytes], None]) -> None:
        self.path = path
        self._commit = commit
        self._image = image
        self._writing = threading.Lock()
        self._lock = threading.Lock()
        self._readers: list[tuple[bytes, sqlite3.Connection]] = []
        self._closed = False
        self._writer = self._connect(image)

    def _connect(self, image: bytes) -> sqlite3.Connection:
        with mapped("open the index", self.path):
            made = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            made.execute(f"PRAGMA page_size={PAGE_BYTES}")
            if image:
                made.deserialize(image)
            return made

    @contextlib.contextmanager
    def transaction(self, action: str) -> Iterator[sqlite3.Connection]:
        """See Database."""
        with self._writing, mapped(action, self.path):
            self._refuse_closed()
            with all_or_nothing(self._writer):
                yield self._writer
            self._publish()

    def settle(self) -> None:
        """Nothing to do: a commit is on the simulated disk as a whole, or not at all."""

    def _publish(self) -> None:
        image = self._writer.serialize()
        try:
            self._commit(image)
        except StorageError:
            self._writer.close()
            self._writer = self._connect(self._image)  # as if rolled back
            raise
        with self._lock:
            self._image = image

    @contextlib.contextmanager
    def reading(self, action: str) -> Iterator[sqlite3.Connection]:
        """See Database."""
        with self._lock:
            self._refuse_closed()
            image = self._image
            self._drop_outdated(image)
            found = self._readers.pop()[1] if self._readers else None
        connection = found or self._connect(image)
        try:
            with mapped(action, self.path):
                yield connection
        finally:
            with self._lock:
                self._readers.append((image, connection))

    def _drop_outdated(self, image: bytes) -> None:
        keep = [one for one in self._readers if one[0] is image][:READERS_MAX]
        for one in self._readers:
            if one not in keep:
                one[1].close()
        self._readers = keep

    def _refuse_closed(self) -> None:
        if self._closed:
            raise StorageError(f"{self.path}: the index is closed")

    def close(self) -> None:
        """See Database."""
        with self._writing, self._lock:
            self._closed = True
            for _image, connection in self._readers:
                connection.close()
            self._readers.clear()
            self._writer.close()
