"""Reusable memory for big frames, sent or received.

A fresh MiB costs 256 page faults, and the kernel clears as many pages: for 1 KiB entries that is as
much work as their digests. A buffer is reused only when no view of it is left. A run that a member
has not answered, or a socket that has not sent a frame, still holds such a view. `take` finds out
by resizing the buffer: Python refuses to resize a bytearray that has a view.
"""

from collections import deque
from typing import Final

KEPT_FRAME_BYTES_MIN: Final = 64 * 1024
"""Smaller frames get fresh memory each time, which is cheap."""
STEP_BYTES: Final = 256 * 1024
"""The size of a buffer is a multiple of this, so that frames of similar size can share buffers."""
LOOKED_AT_MAX: Final = 2
"""How many kept buffers `take` tries. Few suffice, as runs are answered roughly in the order in
which they were sent."""


class FrameBuffers:
    """A pool of buffers that several writers or channels of one thread share. It keeps at most
    `bytes_max`.
    """

    def __init__(self, *, bytes_max: int = 48 * 1024 * 1024) -> None:
        self._bytes_max = bytes_max
        self._kept: deque[bytearray] = deque()
        """The pooled buffers, in use or not; the one that was tried longest ago comes first."""
        self._kept_bytes = 0
        """Total size of `_kept`; at most `_bytes_max`."""

    @property
    def kept_bytes(self) -> int:
        return self._kept_bytes

    def take(self, size: int) -> memoryview:
        """Return `size` bytes of undefined content, for the caller to fill."""
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
