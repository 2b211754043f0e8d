"""The ring of aligned memory between `append` and the flusher, addressed by stream position.

Position p lies at p modulo the capacity, so aligned positions are aligned addresses, and the
flusher can pass views of the memory to a direct write without a copy. The stream decides which
bytes may be written and reused; this module only wraps positions round.
"""

import mmap
from typing import Final

from bookie.frames.entry import Buffer
from bookie.storage.disk import BLOCK_BYTES


class Ring:
    """`capacity` bytes of page-aligned memory, addressed by stream position."""

    __slots__ = ("_memory", "capacity")

    def __init__(self, capacity: int) -> None:
        assert capacity > 0 and capacity % BLOCK_BYTES == 0
        self.capacity: Final = capacity
        self._memory = memoryview(mmap.mmap(-1, capacity))
        """`capacity` bytes; position p of the stream lies at p modulo capacity."""

    def put(self, position: int, buffer: Buffer) -> None:
        """Copy the buffer to `position`, round the end of the memory if needed."""
        start = position % self.capacity
        end = start + len(buffer)
        if end <= self.capacity:
            self._memory[start:end] = buffer
            return
        assert len(buffer) <= self.capacity
        fits = self.capacity - start
        view = memoryview(buffer)
        self._memory[start:] = view[:fits]
        self._memory[: end - self.capacity] = view[fits:]

    def get(self, position: int, length: int) -> bytes:
        """Return a copy of the bytes there; the caller checks that they were not overwritten
        meanwhile.
        """
        return b"".join(self.views(position, length))

    def views(self, position: int, length: int) -> list[memoryview]:
        """Return the bytes there as one view, or as two if they wrap round."""
        assert length <= self.capacity
        start = position % self.capacity
        fits = min(length, self.capacity - start)
        if fits == length:
            return [self._memory[start : start + length]]
        return [self._memory[start:], self._memory[: length - fits]]
