"""What tests of the storage share: small runs, a storage whose callbacks a test runs, images.

`StorageKit` stands for a bookie process on a simulated disk.
`after_kill` opens what SIGKILL leaves (the ring is in no file, so it is gone), `after_power_cut`
what was synced, `reopened` what an orderly stop left.
"""

import contextlib
import errno
import os
import queue
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bookie.errors import StorageError
from bookie.frames.build import build_run
from bookie.frames.entry import ENTRY_HEADER
from bookie.frames.frame import CONSECUTIVE, FLAG_RECOVERY, Pattern, RunFrame, parse_run
from bookie.ids import EntryId, LedgerId
from bookie.protocol.availability import EntrySet
from bookie.storage.acks import Taken
from bookie.storage.compaction import CompactReport
from bookie.storage.disk import Disk, DiskSpace, RealDisk
from bookie.storage.modes import DurabilityMode
from bookie.storage.records import LedgerRecord
from bookie.storage.settings import StorageSettings
from bookie.storage.space import SpaceMarks
from bookie.storage.storage import Storage
from bookie.testing.database import SimDatabase
from bookie.testing.disk import SimDisk, SimFile

WAIT_S = 30.0
KIB = 1024


def run(
    ledger_id: int,
    first: int,
    count: int = 1,
    *,
    lac: int = -1,
    pattern: Pattern = CONSECUTIVE,
    recovery: bool = False,
    fill: bytes = b"x" * 20,
) -> RunFrame:
    """A frame of `count` small entries from `first` on."""
    entries = [
        ENTRY_HEADER.pack(ledger_id, pattern.id_at(first, index), lac, 0) + fill
        for index in range(count)
    ]
    flags = FLAG_RECOVERY if recovery else 0
    frame = build_run(
        LedgerId(ledger_id), EntryId(first), entries, lac=EntryId(lac), pattern=pattern, flags=flags
    )
    return parse_run(frame)


def ids(*ranges: tuple[int, int]) -> EntrySet:
    return EntrySet.from_ranges(ranges)


def settings(
    root: Path, mode: DurabilityMode = DurabilityMode.MEMORY, *, disks: int = 2, **changes: Any
) -> StorageSettings:
    """Small files, so that images are quick to copy; no disk is too full."""
    sizes: dict[str, Any] = {
        "ring_bytes": 256 * KIB,
        "log_file_bytes": 64 * KIB,
        "journal_ring_bytes": 256 * KIB,
        "journal_file_bytes": 64 * KIB,
        "reserve_bytes": 0,
        "direct_io": "off",
        "space": SpaceMarks(files_min=1, fraction_min=0.0),
    }
    return StorageSettings(
        journal_dir=root / "journal",
        ledger_dirs=tuple(root / f"ledger-{index}" for index in range(disks)),
        mode=mode,
        **(sizes | changes),
    )


def rest(storage: Storage) -> None:
    """The flushers have begun all that was asked of them: no sync of before takes what is added
    from now on along."""
    for directory in storage.maintenance.directories:
        stream = directory.log.stream
        with stream._lock:
            stream._flusher.wait_until(lambda stream=stream: not stream._sync_wanted)


def take_back_notes(storage: Storage) -> None:
    """What a bookie does after a flush, with all noted ledgers."""
    while storage.take_back_notes():
        pass


class ScarceDisk(RealDisk):
    """A real disk that claims to have as few free bytes as a test wants."""

    def __init__(self) -> None:
        self.free_bytes = 1 << 30

    def space(self, path: Path) -> DiskSpace:
        return DiskSpace(self.free_bytes, 1 << 30)


class TrackedDisk(SimDisk):
    """A simulated disk that knows which of its files are open."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._handed_out: list[SimFile] = []
        self._databases: list[SimDatabase] = []

    def create(self, path: Path, *, size: int = 0, direct: bool = False) -> SimFile:
        self._handed_out.append(file := super().create(path, size=size, direct=direct))
        return file

    def open(self, path: Path, *, writable: bool = False) -> SimFile:
        self._handed_out.append(file := super().open(path, writable=writable))
        return file

    def open_database(self, path: Path) -> SimDatabase:
        self._databases.append(database := super().open_database(path))
        return database

    @property
    def open_names(self) -> list[str]:
        """Of the files and databases that are open, as they were called when they were opened."""
        databases = [one.path.name for one in self._databases if not one._closed]
        return databases + [file.path.name for file in self._handed_out if file._is_open]


class StorageKit:
    """A storage and its event loop: callbacks run when the test pumps."""

    def __init__(
        self,
        root: Path,
        mode: DurabilityMode = DurabilityMode.MEMORY,
        *,
        disk: Disk | None = None,
        family: "list[StorageKit] | None" = None,
        **changes: Any,
    ) -> None:
        self.root = root
        self._family = family if family is not None else []
        self._family.append(self)
        self.mode = mode
        self.changes = changes
        self.disk: Disk = disk or SimDisk()
        self._calls: queue.Queue[Callable[[], None]] = queue.Queue()
        wanted = settings(root, mode, **changes)
        self.storage = Storage.open(wanted, disk=self.disk, call_soon=self._calls.put)
        rest(self.storage)

    @property
    def sim(self) -> SimDisk:
        assert isinstance(self.disk, SimDisk)
        return self.disk

    # ---- what a server does ---------------------------------------------------------------------

    def pump(self, until: Callable[[], bool]) -> None:
        """Runs callbacks until the condition holds; a hang ends in queue.Empty."""
        while not until():
            self._calls.get(timeout=WAIT_S)()
        self.storage._check()

    def next_call(self) -> Callable[[], None]:
        """Waits for the next callback from the disks, which is not run."""
        return self._calls.get(timeout=WAIT_S)

    def drain(self) -> None:
        """Runs the callbacks that are there and waits for none."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._calls.get_nowait()()
        self.storage._check()

    def start(self, frame: RunFrame) -> list[StorageError | None]:
        """Adds a run, waiting for room; the list has one element once it is answered."""
        answers: list[StorageError | None] = []
        room = [True]
        self.storage.on_room = lambda: room.append(True)
        while (taken := self.storage.add_run(frame, done=answers.append)) is Taken.NO_ROOM:
            room.clear()
            self.pump(lambda: bool(room))
        if taken is Taken.DONE:
            answers.append(None)
        return answers

    def add(self, *frames: RunFrame) -> None:
        """Adds runs and waits until all are acknowledged."""
        pending = [self.start(frame) for frame in frames]
        self.pump(lambda: all(pending))
        assert [answers for answers in pending if answers != [None]] == []

    def refused(self, frame: RunFrame) -> StorageError:
        """Adds a run that must be answered with an error."""
        answers = self.start(frame)
        self.pump(lambda: bool(answers))
        assert answers[0] is not None
        return answers[0]

    def put(self, record: LedgerRecord) -> None:
        """Puts a record and waits until it is durable."""
        answers: list[StorageError | None] = []
        self.storage.put_record(record, done=answers.append)
        self.pump(lambda: bool(answers))
        assert answers == [None]

    def read(
        self, ledger_id: int, first: int, last: int, *, bytes_max: int = 1 << 20
    ) -> tuple[EntrySet, EntrySet, int]:
        """Ids that were read within the range, ids that are unreadable, answered through."""
        found = self.storage.read(
            LedgerId(ledger_id), first=EntryId(first), last=EntryId(last), bytes_max=bytes_max
        )
        frames = [parse_run(frame) for frame in found.runs]
        read = EntrySet.from_runs((f.first_entry_id, f.count, f.pattern) for f in frames)
        unreadable = EntrySet.from_ranges(found.unreadable)
        return read.clip(first, found.answered_through), unreadable, found.answered_through

    def compact(self) -> CompactReport:
        """All pieces at once."""
        return sum(iter(self.storage.maintenance.compact_some, None), CompactReport())

    def held(self, ledger_id: int) -> EntrySet:
        return self.storage.held(LedgerId(ledger_id))

    # ---- how a process ends ---------------------------------------------------------------------

    def reopened(self, **changes: Any) -> "StorageKit":
        """Closes in order and opens again."""
        self.storage.close()
        return self._successor(self.disk, changes)

    def after_kill(self, **changes: Any) -> "StorageKit":
        """After SIGKILL: what was written is there, what was only in memory is not."""
        return self._after(lambda disk: disk.kill(), changes)

    def after_power_cut(self, **changes: Any) -> "StorageKit":
        """After a power cut: what was synced is there, nothing else."""
        return self._after(lambda disk: disk.power_cut(), changes)

    def after_crash(self, seed: int, **changes: Any) -> "StorageKit":
        """After a power cut that happened to keep some of what was not synced."""
        return self._after(lambda disk: disk.crash(seed), changes)

    def _after(self, end: Callable[[SimDisk], SimDisk], changes: dict[str, Any]) -> "StorageKit":
        left = end(self.sim)
        with contextlib.suppress(StorageError):
            self.storage.close()
        return self._successor(left, changes)

    def _successor(self, disk: Disk, changes: dict[str, Any]) -> "StorageKit":
        mode = changes.pop("mode", self.mode)
        wanted = self.changes | changes
        return StorageKit(self.root, mode, disk=disk, family=self._family, **wanted)

    def end(self) -> None:
        """Ends the threads of this storage and of all that came before and after it."""
        for kit in self._family:
            with contextlib.suppress(StorageError, AttributeError):
                kit.storage.close()


def interrupted(kit: StorageKit, work: Callable[[], object], *, after_operations: int) -> bool:
    """Runs `work`; from that operation of the disk on everything fails. True when it ended."""
    left = [after_operations]

    def observe(_operation: str, _path: Path) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    kit.sim.watch(observe)
    try:
        work()
    except StorageError:
        return False
    finally:
        kit.sim.watch(None)
    return True


def wait_until(condition: Callable[[], bool]) -> None:
    """Waits for another thread to get there; a hang ends in an assertion."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline
