"""The checksum of a frame under another header, from the one that it had: its entries are not read.

A checksum that was right stays right; one that was wrong, or is by now since a byte has changed,
stays wrong, where a new one would have made it right.
"""

from crc32c import crc32c

from bookie.frames.crc_combine import shifted
from bookie.frames.entry import Buffer


def resealed(checksum: int, old: Buffer, new: Buffer, *, behind: int) -> int:
    """The checksum of `new` and so many bytes, given that of `old` and the same bytes."""
    assert len(old) == len(new)
    return checksum ^ shifted(crc32c(old) ^ crc32c(new), behind)
