"""Reads a ledger log in order and checks every frame: after a start, and to rebuild the index.

What the scan may find wrong, and what it means:
- the last file ends in bytes that are not a good frame: a torn tail, as an unclean stop leaves it;
  the scan stops there and reports it;
- anything else (a file missing in the middle, a bad header, frames that do not reach the end which
  the next file's header promises) is damage to synced bytes: the scan raises CorruptError, or
  passes it to `on_damage` and goes on with the next file.
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
"""How many bytes the scan reads at once; at least the longest frame."""

OnDamage = Callable[[CorruptError], None]


class Position(NamedTuple):
    """The place of one frame: bytes [offset, offset + length) of a file."""

    file_id: int
    offset: int
    length: int

    @property
    def end(self) -> int:
        return self.offset + self.length


@dataclass(frozen=True, slots=True)
class LogEnd:
    """Where the good frames of the last file end, and whether other bytes than zeros follow
    (`torn`).
    """

    file_id: int
    offset: int
    torn: bool


@dataclass(eq=False)
class LogScan:
    """Iterates over (position, frame) from `start` to the end of the given files.

    `end` is None until the iterator is exhausted. The frames are views of the memory they were read
    into: a caller that keeps them should copy.
    """

    directory: Path
    _: KW_ONLY
    disk: Disk
    file_ids: Sequence[int]
    """Ids of the files to read, rising."""
    start: tuple[int, int]
    """File id and offset of the first frame."""
    on_end: Callable[[LogEnd], None]
    """The scan calls it once, with the end of the good frames."""
    on_damage: OnDamage | None = None
    """The scan calls it for damage and goes on with the next file; None: it raises the error."""

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
                    # No scan can read this file: the next one begins behind it.
                    self._ended(LogEnd(file_id + 1, 0, torn=True))

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
        """Where this file ends according to the next file's header; None when that does not say it.

        Compaction may have deleted a file in between, but only before the last checkpoint: a scan
        that starts at a checkpoint demands every file. A bad header costs a scan that goes on
        behind damage only the next file, which reports it.
        """
        try:
            header = read_header(self.disk, self.directory, kind=LOG_FILES, file_id=following)
        except CorruptError:
            if self.on_damage is None:
                raise
            return None
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
    """Yield the good frames from `offset` on, not beyond `limit`; returns where they end."""
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
    """True when only zeros follow from `offset` to the end of the file."""
    zeros = bytes(_ZERO_BYTES)
    while chunk := file.pread(_ZERO_BYTES, offset):
        if chunk != zeros[: len(chunk)]:
            return False
        offset += len(chunk)
    return True
