"""One sink of the bare probes: bytes from a socket to a disk, nothing else. Started by `probes`.

    python -m benchmarks.sink DIRECTORY

Prints its port, then serves one connection after the other. Eight bytes say how many follow, eight
more how many of them make a message. Without messages (0) the bytes go to a preallocated file by
direct 1 MiB writes from a second thread, and one byte answers when all are written: what a bookie
could reach at best. With messages each is written to a file and then answered by one byte, in an
event loop: the quickest answer that a bookie could give to one add.
"""

import asyncio
import mmap
import os
import queue
import socket
import struct
import sys
import threading
from pathlib import Path
from typing import Final, cast

from bookie.storage.disk import DiskFile, RealDisk

from benchmarks.loops import loop_factory

BLOCK_BYTES: Final = 1024 * 1024
BLOCKS: Final = 8
ANNOUNCEMENT: Final = struct.Struct(">QQ")


class Sink:
    """Receives and writes; the blocks go round between the two threads."""

    def __init__(self, directory: Path) -> None:
        self._disk = RealDisk()
        self._path = directory / "sunk"
        self._direct = self._disk.supports_direct(directory)
        # Anonymous maps are aligned to pages, as direct writes need it.
        self._blocks = [memoryview(mmap.mmap(-1, BLOCK_BYTES)) for _ in range(BLOCKS)]

    def take(self, connection: socket.socket) -> None:
        """One connection to its end."""
        head = connection.recv(ANNOUNCEMENT.size, socket.MSG_WAITALL)
        if len(head) < ANNOUNCEMENT.size:
            return
        total, message = ANNOUNCEMENT.unpack(head)
        if message:
            self._answer_each(connection, total // message, message)
        else:
            self._take_stream(connection, total)

    def _answer_each(self, connection: socket.socket, count: int, message: int) -> None:
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            with asyncio.Runner(loop_factory=loop_factory("auto")[1]) as runner:
                runner.run(_answer(connection, file, count, self._blocks[0][:message]))
        finally:
            os.close(file)
            os.unlink(self._path)

    def _take_stream(self, connection: socket.socket, total: int) -> None:
        """Bytes to the disk; answers once all are written."""
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


class Answerer(asyncio.BufferedProtocol):
    """Writes each message to the file, then answers it with one byte."""

    def __init__(self, file: int, count: int, room: memoryview) -> None:
        """`count` messages will come, each as long as `room`."""
        self._file = file
        self._count = count
        self._room = room
        self._filled = 0
        """Bytes of the message under way."""
        self._answered = 0
        self.ended = asyncio.get_running_loop().create_future()
        """Resolved when all are answered, or the sender is gone."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._room[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._filled += nbytes
        if self._filled < len(self._room):
            return
        os.pwrite(self._file, self._room, self._answered * len(self._room))
        self._transport.write(b".")
        self._filled, self._answered = 0, self._answered + 1
        if self._answered == self._count:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set_result(None)


async def _answer(connection: socket.socket, file: int, count: int, room: memoryview) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setblocking(False)
    loop = asyncio.get_running_loop()
    _transport, answerer = await loop.connect_accepted_socket(
        lambda: Answerer(file, count, room), connection
    )
    await answerer.ended


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
