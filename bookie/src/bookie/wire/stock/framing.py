"""Frames of the stock wire: each is a big-endian int32 length and that many bytes."""

import struct
from typing import Final

from bookie.errors import FrameError
from bookie.frames.entry import Buffer

FRAME_LENGTH: Final = struct.Struct(">i")
FRAME_LENGTH_BYTES: Final = FRAME_LENGTH.size
FRAME_BYTES_MAX: Final = 5 * 1024 * 1024
"""Largest frame, its length field included: the default limit of BookKeeper's servers and
clients."""


def frame_end(view: Buffer, at: int) -> int | None:
    """Offset at which the frame that starts at `at` ends; None when part of it is still missing.

    FrameError as soon as the length field says that it is negative or too large, so that no more of
    it is received.
    """
    if len(view) - at < FRAME_LENGTH_BYTES:
        return None
    (length,) = FRAME_LENGTH.unpack_from(view, at)
    if not 0 <= length <= FRAME_BYTES_MAX - FRAME_LENGTH_BYTES:
        raise FrameError(
            f"a frame has 0 to {FRAME_BYTES_MAX - FRAME_LENGTH_BYTES} bytes, found {length}"
        )
    end = at + FRAME_LENGTH_BYTES + int(length)
    return end if end <= len(view) else None
