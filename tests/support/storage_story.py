"""A story of one storage on a simulated disk: every call, every operation, all that is left.

Beside `fleet_story`, for what clients hardly ever reach: a sync that fails once, a disk that is
full for one file, a compaction between a recovery and a checkpoint. No other thread runs: the
flushers take their turns when somebody waits for them, or in the loop while the scene sleeps.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from bookie.errors import BookieError, StorageError
from bookie.frames.build import build_run
from bookie.frames.entry import DigestType, EntryCodec
from bookie.frames.frame import CONSECUTIVE, FLAG_RECOVERY, Pattern, RunFrame, parse_run
from bookie.ids import EntryId, LedgerId
from bookie.protocol.availability import EntrySet
from bookie.storage.modes import DurabilityMode
from bookie.storage.reading import StoredRead
from bookie.storage.records import LedgerRecord
from bookie.storage.settings import StorageSettings
from bookie.storage.space import SpaceMarks
from bookie.storage.storage import Storage
from bookie.testing.simulation.disk import MachineDisk
from bookie.testing.simulation.loop import SimLoop
from bookie.testing.simulation.network import Network, Weather
from bookie.testing.simulation.process import Process
from bookie.testing.simulation.surroundings import EPOCH_S, replaced
from fleet_disks import Where, disk_of, frame_shown
from fleet_parts import Steady
from fleet_record import Record
from fleet_state import ledgers_of
from fleet_story import logged
from fleet_words import shown

Result = TypeVar("Result")
ROOT: Final = Path("/s")
_BLOCK: Final = 4096


@dataclass(frozen=True, slots=True)
class Kept:
    """What a story of a storage begins with; sizes in blocks of 4096 bytes."""

    mode: str = "memory"
    ledger_dirs: int = 1
    file_blocks: int = 4
    ring_blocks: int = 4
    capacity_blocks: int = 1 << 20
    shows_disk: bool = True
    settings: dict[str, Any] = field(default_factory=dict)
    """More fields of `StorageSettings`."""


class _Disk(MachineDisk):
    """One that writes down what is done to it."""

    on_operation: Callable[[str], None] = staticmethod(lambda _what: None)  # type: ignore[assignment]

    def _before(self, operation: str, path: Path) -> None:
        self.on_operation(f"{operation} {path.relative_to(ROOT)}")
        super()._before(operation, path)


class Keeper:
    """See the module."""

    def __init__(self, kept: Kept, loop: SimLoop, record: Record) -> None:
        self.kept, self.loop, self.record = kept, loop, record
        self.disk: MachineDisk = _Disk(loop, capacity_bytes=kept.capacity_blocks * _BLOCK)
        self.settings = self._settings(kept)
        self.storage: Storage | None = None
        self._crashes_at = ""
        self._shows = kept.shows_disk
        self._follow()

    def _settings(self, kept: Kept) -> StorageSettings:
        ring, file = kept.ring_blocks * _BLOCK, kept.file_blocks * _BLOCK
        made = StorageSettings(
            ROOT / "journal", tuple(ROOT / f"ledger-{n}" for n in range(kept.ledger_dirs)),
            DurabilityMode(kept.mode), ring_bytes=ring, log_file_bytes=file, reserve_bytes=0,
            direct_io="off", journal_ring_bytes=ring, journal_file_bytes=file,
            space=SpaceMarks(files_min=1, fraction_min=0.0),
        )  # fmt: skip
        return replace(made, **kept.settings)

    def _follow(self) -> None:
        """The present disk's operations are written down."""
        assert isinstance(self.disk, _Disk)
        self.disk.on_operation = self._worked

    def _worked(self, what: str) -> None:
        if self._shows:
            self.record.note(f"    disk: {what}")

    @property
    def open(self) -> Storage:
        assert self.storage is not None
        return self.storage

    # What happens
    def note(self, text: str) -> None:
        self.record.note(f"-- {text}")

    def quiet(self) -> AbstractContextManager[None]:
        """Nothing of it is written down."""
        return self.record.quiet()

    def seen(self, what: str, work: Callable[[], Result]) -> Result | None:
        """Does it, and writes down what comes of it."""
        try:
            found = work()
        except BookieError as error:
            self.record.note(f"= {what}: {type(error).__name__}: {error}")
            return None
        self.record.note(f"= {what}: {_result(found)}")
        return found

    def begin(self, *, shows: bool = False) -> None:
        """Opens it. `shows`: with every operation on its disks."""
        shown_before, self._shows = self._shows, shows
        try:
            self._begin()
        finally:
            self._shows = shown_before

    def _begin(self) -> None:
        for directory in (self.settings.journal_dir, *self.settings.ledger_dirs):
            self.disk.make_directory(directory)
        opened = self.seen(
            "open",
            lambda: Storage.open(self.settings, disk=self.disk, call_soon=self.loop.call_soon),  # type: ignore[arg-type]
        )
        if opened is not None:
            self.storage = opened
            opened.on_room = lambda: self.record.note("  there is room")
            self.record.note(f"  report: {shown(opened.report)}")

    def add(
        self,
        ledger: int,
        first: int,
        count: int = 1,
        **more: Any,
    ) -> None:
        """A run (see `frame_of`)."""
        frame = frame_of(ledger, first, count, **more)
        what = f"add {frame_shown(frame)}"

        def done(error: StorageError | None) -> None:
            self.record.note(f"  answered: {what}: {'OK' if error is None else error}")

        self.seen(what, lambda: self.open.add_run(frame, done=done))

    def put(self, ledger: int, **fields: Any) -> None:
        record = LedgerRecord(LedgerId(ledger), **fields)

        def done(error: StorageError | None) -> None:
            self.record.note(f"  durable: {shown(record)}: {'OK' if error is None else error}")

        self.seen(f"put {shown(record)}", lambda: self.open.put_record(record, done=done))

    def read(self, ledger: int, first: int, last: int, *, bytes_max: int = 1 << 20) -> None:
        asked = {"first": EntryId(first), "last": EntryId(last), "bytes_max": bytes_max}
        self.seen(
            f"read {ledger} {first}..{last}",
            lambda: self.open.read(LedgerId(ledger), **asked),  # type: ignore[arg-type]
        )

    def checkpoint(self) -> None:
        self.seen("checkpoint", self.open.maintenance.checkpoint)

    def compact(self) -> None:
        """To its end."""
        for _ in range(20):
            done = self.seen("compact", self.open.maintenance.compact_some)
            if done is None:
                return

    def compact_one(self) -> None:
        """One piece of it."""
        self.seen("compact", self.open.maintenance.compact_some)

    def close(self) -> None:
        self.seen("close", self.open.close)
        self.storage = None

    def crash(self, image: Callable[[MachineDisk], MachineDisk] = MachineDisk.power_cut) -> None:
        """Power goes, or whatever `image` says; the storage of before is no more."""
        former, self.storage = self.storage, None
        self.disk = image(self.disk)
        self._follow()
        if former is not None:
            with self.quiet(), suppress(StorageError):
                former.close()  # ends its flushers: its disk is dead

    def crash_at(self, point: str) -> None:
        """Power goes when that place of the code is passed next."""
        self._crashes_at = point

    def passing(self, point: str) -> None:
        if self._shows:
            self.record.note(f"    passes: {point}")
        if point == self._crashes_at:
            self._crashes_at = ""
            self.record.note("    power goes")
            self.disk = self.disk.power_cut()
            self._follow()

    def say(self, where: Where = lambda _path: True) -> None:
        """All that it knows, and all that lies on its disks."""
        with self.quiet():
            lines = [*ledgers_of(self.storage)] if self.storage is not None else ["closed"]
        self.record.note_each(lines)
        found = disk_of(self.disk, ROOT, where=where)
        self.record.note_each(f"on disk {line}" for line in found)


def frame_of(
    ledger: int,
    first: int,
    count: int = 1,
    *,
    size: int = 100,
    recovery: bool = False,
    lac: int = -1,
    pattern: Pattern = CONSECUTIVE,
    fill: bytes = b"x",
) -> RunFrame:
    flags = FLAG_RECOVERY if recovery else 0
    codec = EntryCodec(LedgerId(ledger), DigestType.CRC32C, b"secret")
    entries = [
        codec.encode(
            EntryId(pattern.id_at(EntryId(first), n)), fill * size, lac=EntryId(lac), length=size
        )
        for n in range(count)
    ]
    built = build_run(
        LedgerId(ledger), EntryId(first), entries, lac=EntryId(lac), pattern=pattern, flags=flags
    )
    return parse_run(bytes(built))


def _result(found: object) -> str:
    if isinstance(found, StoredRead):
        runs = ", ".join(frame_shown(parse_run(run)) for run in found.runs)
        bad = f" unreadable {list(found.unreadable)}" if found.unreadable else ""
        return f"[{runs}] through {found.answered_through}{bad}"
    return "done" if found is None else shown(found)


def entries(*ranges: tuple[int, int]) -> EntrySet:
    return EntrySet.from_ranges(list(ranges))


def ids(*numbers: int) -> list[LedgerId]:
    return list(map(LedgerId, numbers))


def index(path: str) -> bool:
    """See `fleet_disks.Where`."""
    return path.endswith("sqlite")


Acts = Callable[[Keeper], Coroutine[Any, Any, None]]


def kept(acts: Acts, **means: Any) -> str:
    """Runs the acts on a new disk; all that was written down."""
    network = Network(Steady(), Weather(latency_s=0.001, tail=0.0))
    loop = SimLoop(network, Steady())
    record = Record(loop.time)
    keepers: list[Keeper] = []

    def passing(point: str) -> None:
        for one in keepers:
            one.passing(point)

    with replaced(loop.time, lambda: EPOCH_S + loop.time(), passing, 1), logged(record, 20):
        keeper = Keeper(Kept(**means), loop, record)
        keepers.append(keeper)
        process = Process("storage", loop, Steady(), work_s=0.001)
        try:
            loop.run_until_complete(process.spawn(acts(keeper)))
        finally:
            record.is_quiet = True
            keeper.crash(MachineDisk.kill)
            process.kill()
            loop.close()
    record.is_quiet = False
    return record.text


async def turns() -> None:
    """The flushers take their turns."""
    await asyncio.sleep(0.1)
