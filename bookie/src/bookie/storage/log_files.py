"""The numbered append-only files of the ledger log and the journal: names, settings, header block.

`0000000001.log`, `0000000002.log`, ...: each starts with a header block and is written once, from
its second block on; behind the last record are zeros (preallocated) or the end of the file. The
header says where the previous file ended, so that a reader knows for every file but the last
exactly which bytes must be there. A spare has its name plus `.new` until its header is durable: a
file with a final name always has a good header, otherwise it is damaged.
"""

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from crc32c import crc32c

from bookie.errors import CorruptError, SettingsError
from bookie.storage.disk import BLOCK_BYTES, Disk

HEADER_BYTES: Final = BLOCK_BYTES
NEW_SUFFIX: Final = ".new"
FILE_VERSION: Final = 1

_NAME_DIGITS: Final = 10
_HEADER: Final = struct.Struct(">8sIIQQQQQQ")
_CRC_START: Final = 16
_MIB: Final = 1024 * 1024

DirectIo = Literal["auto", "on", "off"]


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Settings of a log or a journal. Sizes are in bytes; those of ring and files are multiples of
    4096.
    """

    ring_bytes: int = 32 * _MIB
    file_bytes: int = 128 * _MIB
    direct_io: DirectIo = "auto"
    """auto: direct writes where the file system allows them; on: refuse to start elsewhere; off:
    write through the page cache."""
    reserve_bytes: int = 64 * _MIB
    """No further file is allocated if less than this would remain free on the file system:
    checkpoints, the index and the journal need it when the disk is full."""

    def __post_init__(self) -> None:
        for name in ("ring_bytes", "file_bytes"):
            value = getattr(self, name)
            if value < 4 * BLOCK_BYTES or value % BLOCK_BYTES:
                raise SettingsError(
                    f"{name} is {value}; expected a multiple of {BLOCK_BYTES}, "
                    f"at least {4 * BLOCK_BYTES}"
                )
        if self.direct_io not in ("auto", "on", "off"):
            raise SettingsError(f"direct_io is {self.direct_io!r}; expected auto, on or off")
        if self.reserve_bytes < 0:
            raise SettingsError(f"reserve_bytes is {self.reserve_bytes}; expected 0 or more")

    @property
    def append_bytes_max(self) -> int:
        """The longest single append: it must fit in half the ring and in one file."""
        return min(self.ring_bytes // 2, self.file_bytes - HEADER_BYTES)


@dataclass(frozen=True, slots=True)
class FileKind:
    """The magic number and the suffix of one kind of files."""

    magic: bytes
    suffix: str

    def name(self, file_id: int) -> str:
        return f"{file_id:0{_NAME_DIGITS}d}{self.suffix}"


LOG_FILES: Final = FileKind(b"BKOPLOG\x01", ".log")
JOURNAL_FILES: Final = FileKind(b"BKOPJNL\x01", ".jnl")


@dataclass(frozen=True, slots=True)
class FileHeader:
    """The content of the first block of a file."""

    file_id: int
    previous_id: int
    """The file before it; 0 when this is the first one ever."""
    previous_end: int
    """The offset at which the records of the previous file end: all bytes before it must be
    there."""
    nonce: int
    """A random number of this file, so that a record copied from elsewhere is not taken for one of
    this file."""
    first_sequence: int
    """Journal: number of the first record of this file; 0 in a log."""
    first_needed: int
    """Journal: lowest file that was still needed when this one was begun; 0 in a log."""

    def encode(self, kind: FileKind) -> bytes:
        """The header block, padded with zeros."""
        block = bytearray(HEADER_BYTES)
        _HEADER.pack_into(
            block, 0, kind.magic, FILE_VERSION, 0, self.file_id, self.previous_id,
            self.previous_end, self.nonce, self.first_sequence, self.first_needed,
        )  # fmt: skip
        crc = crc32c(memoryview(block)[_CRC_START:])
        block[12:16] = crc.to_bytes(4, "big")
        return bytes(block)


def decode_header(block: bytes, *, kind: FileKind, path: Path, file_id: int) -> FileHeader:
    """Parse the header in the first block of `path`; CorruptError says what is wrong."""
    if len(block) < HEADER_BYTES:
        raise CorruptError(f"{path}: header has {len(block)} bytes, expected {HEADER_BYTES}")
    magic, version, crc, found_id, previous_id, previous_end, nonce, sequence, needed = (
        _HEADER.unpack_from(block)
    )
    if magic != kind.magic or version != FILE_VERSION:
        raise CorruptError(
            f"{path}: header has magic {magic!r} version {version}, "
            f"expected {kind.magic!r} version {FILE_VERSION}"
        )
    if crc32c(memoryview(block)[_CRC_START:HEADER_BYTES]) != crc:
        raise CorruptError(f"{path}: the checksum of the header is wrong")
    if found_id != file_id:
        raise CorruptError(f"{path}: header is that of file {found_id}, expected {file_id}")
    return FileHeader(found_id, previous_id, previous_end, nonce, sequence, needed)


def read_header(disk: Disk, directory: Path, *, kind: FileKind, file_id: int) -> FileHeader:
    """Read the header of a file; StorageError when the disk fails, CorruptError when
    it is wrong.
    """
    path = directory / kind.name(file_id)
    file = disk.open(path)
    try:
        block = file.pread(HEADER_BYTES, 0)
    finally:
        file.close()
    return decode_header(block, kind=kind, path=path, file_id=file_id)


def list_files(disk: Disk, directory: Path, *, kind: FileKind) -> list[int]:
    """Ids of the files in a directory, ascending."""
    return sorted(
        int(stem)
        for name in disk.list_directory(directory)
        if name.endswith(kind.suffix) and (stem := name.removesuffix(kind.suffix)).isdigit()
    )


def remove_spares(disk: Disk, directory: Path, *, kind: FileKind) -> None:
    """Delete the spares that an earlier process allocated and never used."""
    for name in disk.list_directory(directory):
        if name.endswith(kind.suffix + NEW_SUFFIX):
            disk.unlink(directory / name)
