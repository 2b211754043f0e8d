"""One sink of the bare probe: bytes from a socket to a disk, nothing else. Started by `probe`.

    python -m benchmarks.sink DIRECTORY

Prints its port, then serves one connection after the other: 8 bytes that say how many follow, those
bytes, written to a preallocated file by direct 1 MiB writes from a second thread; then it answers
one byte. No framing, no checksum, no index: what a bookie could reach at best.
"""

import mmap
import os
import queue
import socket
import sys
import threading
from pathlib import Path
from typing import Final

from bookie.storage.disk import DiskFile, RealDisk

BLOCK_BYTES: Final = 1024 * 1024
BLOCKS: Final = 8
ANNOUNCEMENT_BYTES: Final = 8


class Sink:
    """Receives and writes; the blocks go round between the two threads."""

    def __init__(self, directory: Path) -> None:
        self._disk = RealDisk()
        self._path = directory / "sunk"
        self._direct = self._disk.supports_direct(directory)
        # Anonymous maps are aligned to pages, as direct writes need it.
        self._blocks = [memoryview(mmap.mmap(-1, BLOCK_BYTES)) for _ in range(BLOCKS)]

    def take(self, connection: socket.socket) -> None:
        """One connection to its end; answers once all bytes are written."""
        total = int.from_bytes(connection.recv(ANNOUNCEMENT_BYTES, socket.MSG_WAITALL), "big")
        whole = -(-total // BLOCK_BYTES) * BLOCK_BYTES
        file = self._disk.create(self._path, size=whole, direct=self._direct)
        free: queue.Queue[memoryview] = queue.Queue()
        full: queue.Queue[memoryview | None] = queue.Queue()
        for block in self._blocks:
            free.put(block)
        writer = threading.Thread(target=_write, args=(file, full, free))
        writer.start()
        while total > 0:
            block = free.get()
            total -= _fill(connection, block[: min(total, BLOCK_BYTES)])
            full.put(block)
        full.put(None)
        writer.join()
        connection.sendall(b".")
        file.close()
        os.unlink(self._path)


def _fill(connection: socket.socket, block: memoryview) -> int:
    filled = 0
    while filled < len(block):
        received = connection.recv_into(block[filled:])
        if received == 0:
            raise SystemExit("the sender went away")
        filled += received
    return filled


def _write(
    file: DiskFile, full: "queue.Queue[memoryview | None]", free: "queue.Queue[memoryview]"
) -> None:
    offset = 0
    while (block := full.get()) is not None:
        file.pwrite([block], offset)
        offset += BLOCK_BYTES
        free.put(block)


def main() -> None:
    sink = Sink(Path(sys.argv[1]))
    with socket.create_server(("127.0.0.1", 0)) as server:
        print(server.getsockname()[1], flush=True)
        while True:
            connection, _address = server.accept()
            with connection:
                sink.take(connection)


if __name__ == "__main__":
    main()
