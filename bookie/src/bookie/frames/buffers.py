"""Memory for big frames, sent or received, used again when nobody looks at it any more.

A fresh MiB is 256 page faults and as many pages to clear: for 1 KiB entries as much work as their
digests. Whoever still holds a view of a frame (a run not answered by all, a socket that has not
taken it) keeps its buffer from being used again: a buffer that is looked at refuses to be resized,
and that is asked each time.
"""

from collections import deque
from typing import Final

KEPT_FRAME_BYTES_MIN: Final = 64 * 1024
"""Smaller frames are cheap to allocate each time."""
STEP_BYTES: Final = 256 * 1024
"""Buffers are multiples of it, so that frames of about one size fit each other's."""
LOOKED_AT_MAX: Final = 2
"""How many kept buffers a frame tries: runs are answered in about the order of their sending."""


class FrameBuffers:
    """Shared by writers or by channels, within one thread. Keeps at most `bytes_max`."""

    def __init__(self, *, bytes_max: int = 48 * 1024 * 1024) -> None:
        self._bytes_max = bytes_max
        self._kept: deque[bytearray] = deque()
        """In use or not, the one that was tried longest ago in front."""
        self._kept_bytes = 0
        """Of `_kept`; at most `_bytes_max`."""

    @property
    def kept_bytes(self) -> int:
        return self._kept_bytes

    def take(self, size: int) -> memoryview:
        """`size` bytes of any content, to be written by the caller."""
        if size < KEPT_FRAME_BYTES_MIN:
            return memoryview(bytearray(size))
        for _ in range(min(LOOKED_AT_MAX, len(self._kept))):
            buffer = self._kept.popleft()
            self._kept.append(buffer)
            if len(buffer) >= size and _is_unused(buffer):
                return memoryview(buffer)[:size]
        return self._fresh(size)

    def _fresh(self, size: int) -> memoryview:
        buffer = bytearray(-(-size // STEP_BYTES) * STEP_BYTES)
        if self._kept_bytes + len(buffer) <= self._bytes_max:
            self._kept.append(buffer)
            self._kept_bytes += len(buffer)
        return memoryview(buffer)[:size]


def _is_unused(buffer: bytearray) -> bool:
    try:
        buffer.append(0)
    except BufferError:
        return False
    buffer.pop()
    return True
