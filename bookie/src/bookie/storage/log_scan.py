"""Reading a ledger log back in order, every frame checked: after a start, and to rebuild the index.

What may be wrong and what it means:
- the last file ends in bytes that are no good frame: a torn tail, as an unclean stop leaves it;
  the scan stops there and says so;
- anything else (a file missing in the middle, a bad header, frames that do not reach the end which
  the next file's header promises) is damage to bytes that were synced: CorruptError, or given to
  `on_damage` and gone on with the next file.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Final, NamedTuple

from bookie.errors import CorruptError, FrameError
from bookie.frames.frame import FRAME_BYTES_MAX, FRAME_HEADER_BYTES, RunFrame, parse_run
from bookie.storage.disk import Disk, DiskFile
from bookie.storage.log_files import HEADER_BYTES, LOG_FILES, decode_header, read_header

_ZERO_BYTES: Final = 1024 * 1024
SCAN_BYTES: Final = 2 * FRAME_BYTES_MAX
"""Read at once; must hold the longest frame."""

OnDamage = Callable[[CorruptError], None]


class Position(NamedTuple):
    """Where one frame lies, verbatim: bytes [offset, offset + length) of a file."""

    file_id: int
    offset: int
    length: int

    @property
    def end(self) -> int:
        return self.offset + self.length


@dataclass(frozen=True, slots=True)
class LogEnd:
    """Where the good frames of the last file end, and whether anything follows them there."""

    file_id: int
    offset: int
    torn: bool


@dataclass(eq=False)
class LogScan:
    """Iterates over (position, frame) from a start to the end of the files given.

    `end` is None until the iterator is exhausted. The frames keep the memory they were read into:
    a caller who stores them should copy.
    """

    directory: Path
    _: KW_ONLY
    disk: Disk
    file_ids: Sequence[int]
    """Of the files to read, rising."""
    start: tuple[int, int]
    """File id and offset of the first frame."""
    on_end: Callable[[LogEnd], None]
    """Called once, with where the good frames end."""
    on_damage: OnDamage | None = None
    """Called for bytes that are no frame, which are passed over then; None: they end the scan."""

    def __post_init__(self) -> None:
        self.end: LogEnd | None = None
        self._frames = self._scan()

    def __iter__(self) -> Iterator[tuple[Position, RunFrame]]:
        return self

    def __next__(self) -> tuple[Position, RunFrame]:
        return next(self._frames)

    @property
    def torn(self) -> bool:
        """True once the scan has found bytes after the last good frame."""
        return self.end is not None and self.end.torn

    def _scan(self) -> Iterator[tuple[Position, RunFrame]]:
        for index, file_id in enumerate(self.file_ids):
            following = self.file_ids[index + 1] if index + 1 < len(self.file_ids) else None
            try:
                yield from self._scan_file(file_id, following)
            except CorruptError as error:
                if self.on_damage is None:
                    raise
                self.on_damage(error)
                if following is None:
                    self._ended(LogEnd(file_id, HEADER_BYTES, torn=True))

    def _ended(self, end: LogEnd) -> None:
        self.end = end
        self.on_end(end)

    def _scan_file(
        self, file_id: int, following: int | None
    ) -> Iterator[tuple[Position, RunFrame]]:
        path = self.directory / LOG_FILES.name(file_id)
        file = self.disk.open(path)
        try:
            block = file.pread(HEADER_BYTES, 0)
            decode_header(block, kind=LOG_FILES, path=path, file_id=file_id)
            limit = None if following is None else self._promised_end(file_id, following)
            offset = self.start[1] if file_id == self.start[0] else HEADER_BYTES
            offset = max(offset, HEADER_BYTES)
            if offset > file.size():
                raise CorruptError(
                    f"{path}: {file.size()} bytes long, but synced frames up to {offset} "
                    "are expected; treat the directory as lost"
                )
            offset = yield from _frames(file, file_id=file_id, offset=offset, limit=limit)
            rest_is_zero = offset == limit or is_zero(file, offset)
            if following is None:
                self._ended(LogEnd(file_id, offset, torn=not rest_is_zero))
            elif offset != limit and (limit is not None or not rest_is_zero):
                raise CorruptError(
                    f"{path}: good frames end at {offset}, expected {limit or 'zeros'} after "
                    "them; synced frames are lost"
                )
        finally:
            file.close()

    def _promised_end(self, file_id: int, following: int) -> int | None:
        """Where the next file says this one ends; None when nothing can say it.

        A file in between may have been deleted by compaction, but only before the last checkpoint:
        a scan that starts at one insists on every file.
        """
        header = read_header(self.disk, self.directory, kind=LOG_FILES, file_id=following)
        if header.previous_id == file_id:
            return header.previous_end
        if self.start[0] > 0:
            raise CorruptError(
                f"{self.directory}: log file {header.previous_id} is missing between {file_id} "
                f"and {following}; synced frames are lost"
            )
        return None


def _frames(
    file: DiskFile, *, file_id: int, offset: int, limit: int | None
) -> Generator[tuple[Position, RunFrame], None, int]:
    """The good frames from `offset` on, not beyond `limit`; returns where they end."""
    while limit is None or offset < limit:
        length = SCAN_BYTES if limit is None else min(SCAN_BYTES, limit - offset)
        window = memoryview(file.pread(length, offset))
        used = 0
        while (frame := _frame_at(window[used:])) is not None:
            yield Position(file_id, offset + used, len(frame.buffer)), frame
            used += len(frame.buffer)
        if used == 0:
            break
        offset += used
    return offset


def _frame_at(window: memoryview) -> RunFrame | None:
    if len(window) < FRAME_HEADER_BYTES:
        return None
    try:
        return parse_run(window)
    except FrameError:
        return None


def is_zero(file: DiskFile, offset: int) -> bool:
    """True when nothing but zeros follows `offset` to the end of the file."""
    zeros = bytes(_ZERO_BYTES)
    while chunk := file.pread(_ZERO_BYTES, offset):
        if chunk != zeros[: len(chunk)]:
            return False
        offset += len(chunk)
    return True
