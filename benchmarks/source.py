"""Bare sources of bytes: what a reader, or a copier, could reach at best. Started by `Source`.

    python -m benchmarks.source FILE

Prints its port; each connection gets the whole file once, in 1 MiB reads and sends, and its end. No
framing, no checksums, no questions. `receive` takes it as one receiver, `relay` hands it on to a
sink (`probes`). `Source.forget` drops the file from the page cache.
"""

import os
import socket
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from benchmarks.processes import Process
from benchmarks.sink import ANNOUNCEMENT

BLOCK_BYTES: Final = 1024 * 1024


class Source:
    """One process that sends one file of these bytes, the block again and again."""

    def __init__(self, folder: Path, *, name: str, block: bytes, blocks: int) -> None:
        self._file = folder / name
        self.total = len(block) * blocks
        with self._file.open("wb") as out:
            for _ in range(blocks):
                out.write(block)
            os.fsync(out.fileno())
        arguments = ["-m", "benchmarks.source", str(self._file)]
        self._process = Process(arguments, log=folder / "sources.log")
        self._port = int(self._process.first_line())

    def stop(self) -> None:
        self._process.stop()

    def forget(self) -> None:
        """From the page cache: what is sent next comes from the disk."""
        forget([self._file])

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self._port))


def forget(files: Iterable[Path]) -> None:
    """Drop what the page cache holds of these files; what is not on the disk yet stays."""
    for file in files:
        descriptor = os.open(file, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def receive(source: Source) -> float:
    """Seconds until one receiver has got all bytes."""
    block = memoryview(bytearray(BLOCK_BYTES))
    began, total = time.perf_counter(), 0
    with source.connect() as connection:
        while received := connection.recv_into(block):
            total += received
    assert total == source.total
    return time.perf_counter() - began


def relay(source: Source, sink_port: int) -> float:
    """Seconds until a sink has written all bytes, which went through this process."""
    block = memoryview(bytearray(BLOCK_BYTES))
    began = time.perf_counter()
    with source.connect() as left, socket.create_connection(("127.0.0.1", sink_port)) as right:
        right.sendall(ANNOUNCEMENT.pack(source.total, 0))
        while received := left.recv_into(block):
            right.sendall(block[:received])
        assert right.recv(1) == b"."
    return time.perf_counter() - began


def main() -> None:
    block = memoryview(bytearray(BLOCK_BYTES))
    with socket.create_server(("127.0.0.1", 0)) as server:
        print(server.getsockname()[1], flush=True)
        while True:
            connection, _address = server.accept()
            with connection, open(sys.argv[1], "rb", buffering=0) as file:
                while length := file.readinto(block):
                    connection.sendall(block[:length])


if __name__ == "__main__":
    main()
