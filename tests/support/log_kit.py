"""What tests of log and journal share: frames of a wanted size, small settings, waiting."""

import threading
from collections.abc import Callable
from pathlib import Path

from bookie.errors import StorageError
from bookie.frames.build import build_run
from bookie.frames.entry import ENTRY_HEADER
from bookie.ids import EntryId, LedgerId
from bookie.storage.disk import Disk
from bookie.storage.ledger_log import LedgerLog
from bookie.storage.log_files import LogSettings
from bookie.storage.log_scan import Position
from bookie.testing.disk import SimDisk

DIRECTORY = Path("/ledger-0")
SMALL = LogSettings(ring_bytes=64 * 1024, file_bytes=64 * 1024, reserve_bytes=0)
WAIT_S = 30.0


def frame(entry_id: int, *, size: int = 100, ledger_id: int = 7) -> bytes:
    """A run of one entry with `size` payload bytes that depend on its id."""
    payload = f"{entry_id:07d}.".encode() * (size // 8 + 1)
    entry = ENTRY_HEADER.pack(ledger_id, entry_id, entry_id - 1, size) + payload[:size]
    return build_run(LedgerId(ledger_id), EntryId(entry_id), [entry], lac=EntryId(entry_id - 1))


class Notified:
    """A `notify` that tests can wait on: no sleeping, an upper bound only for a hang."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.calls = 0

    def __call__(self) -> None:
        with self._changed:
            self.calls += 1
            self._changed.notify_all()

    def wait_for(self, predicate: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(predicate, WAIT_S), "never notified"

    def wait_for_more(self, seen: int) -> None:
        self.wait_for(lambda: self.calls > seen)


class LogKit:
    """A ledger log on a disk, with the ways tests use it."""

    def __init__(
        self, disk: Disk, *, settings: LogSettings = SMALL, directory: Path = DIRECTORY
    ) -> None:
        self.disk = disk
        self.notified = Notified()
        self.log = LedgerLog.open(directory, disk=disk, settings=settings, notify=self.notified)

    def append(self, content: bytes) -> Position:
        """Appends, waiting for room as long as it takes."""
        while True:
            seen = self.notified.calls
            position = self.log.append(content)
            if position is not None:
                return position
            self.notified.wait_for_more(seen)

    def scanned(self, start: tuple[int, int] = (0, 0)) -> list[bytes]:
        return [bytes(run.buffer) for _, run in self.log.scan(start)]

    def abandon(self) -> None:
        """Ends the flusher of a log whose disk has crashed."""
        try:
            self.log.close()
        except StorageError:
            return


def reopened(kit: LogKit, disk: SimDisk, *, settings: LogSettings = SMALL) -> LogKit:
    """The log after its machine or process stopped, on what is left of its disk."""
    kit.abandon()
    return LogKit(disk, settings=settings)
