"""Real input: the files of a folder, cut into payloads whose origin is remembered."""

import os
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PAYLOAD_BYTES = 4096
"""Entries are up to this long; the last piece of a file is shorter."""
PRUNED = frozenset({"site-packages", "__pycache__"})
"""Not the standard library's sources."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One payload: `length` bytes of a file from `offset`."""

    file: int
    offset: int
    length: int


class Input:
    """The input folder as a list of files; pieces are re-read from disk when they are compared."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = sorted(_files(folder))
        if not self.files:
            raise SystemExit(f"no files to read in {folder}: set INPUT=path to a folder with files")

    @classmethod
    def default(cls) -> "Input":
        """The source files of the running Python's standard library."""
        return cls(Path(sysconfig.get_paths()["stdlib"]))

    def pieces(self) -> Iterator[tuple[Piece, bytes]]:
        """Every piece of every file, for ever: from the start again after the last file."""
        while True:
            for number, path in enumerate(self.files):
                yield from self._pieces_of(number, path)

    def _pieces_of(self, number: int, path: Path) -> Iterator[tuple[Piece, bytes]]:
        with path.open("rb") as file:
            offset = 0
            while payload := file.read(PAYLOAD_BYTES):
                yield Piece(number, offset, len(payload)), payload
                offset += len(payload)

    def bytes_of(self, piece: Piece) -> bytes:
        """The piece as it stands in the input, read again."""
        with self.files[piece.file].open("rb") as file:
            file.seek(piece.offset)
            return file.read(piece.length)


def _files(folder: Path) -> Iterator[Path]:
    for root, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in PRUNED]
        for name in names:
            path = Path(root, name)
            if path.is_file() and os.access(path, os.R_OK) and path.stat().st_size > 0:
                yield path
