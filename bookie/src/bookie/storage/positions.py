"""Positions and places in an append stream; `stream` uses them, and the journal writes them down.

A position counts bytes from the start of the stream; a place is a file and an offset in it.
"""

from dataclasses import dataclass
from typing import NamedTuple

from bookie.storage.log_files import FileHeader


class Place(NamedTuple):
    """Where a record will be; it is known before the record's bytes are made."""

    file_id: int
    offset: int
    nonce: int
    number: int
    """How many records this stream has taken before this one."""
    synced: int
    """How many of those are known to be durable."""


@dataclass(frozen=True, slots=True)
class Begin:
    """The fields of a new file's header, without its own id."""

    previous_id: int
    previous_end: int
    first_sequence: int
    first_needed: int


@dataclass(slots=True)
class StreamFile:
    """A file of the stream, as long as the ring may hold bytes of it."""

    header: FileHeader
    base: int
    """Stream position of the file's offset 0."""
    end: int | None = None
    """Stream position behind its last record; None while it is the last file."""

    def place(self, start: int, number: int, synced: int) -> Place:
        """The place of the record that begins at this position of the stream."""
        header = self.header
        return Place(header.file_id, start - self.base, header.nonce, number, synced)
