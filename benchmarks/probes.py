"""The bare probes: what this machine gives to whoever only sends bytes to sinks that write them.

A stream, as fast as it goes, and a message at a time with its answer. No framing, no checksums, no
index, no quorums but the count of answers. `bench_append` takes turns with them. The messages go
through an event loop at both ends, as ours do: sockets that block are answered in half the time on
one machine and in the same on another, by what their schedulers make of a wake-up.
"""

import asyncio
import selectors
import socket
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.processes import Process
from benchmarks.sink import ANNOUNCEMENT


class Sinks:
    """The receivers, one process each."""

    def __init__(self, folder: Path, *, count: int) -> None:
        self._processes: list[Process] = []
        self.ports: list[int] = []
        for number in range(count):
            own = folder / f"sink-{number}"
            own.mkdir()
            process = Process(["-m", "benchmarks.sink", str(own)], log=folder / "sinks.log")
            self._processes.append(process)
            self.ports.append(int(process.first_line()))

    def stop(self) -> None:
        for process in self._processes:
            process.stop()


def stream(ports: Sequence[int], block: bytes, *, total: int) -> float:
    """Seconds to send `total` bytes in blocks to every sink at once, until all have written."""
    sockets = [socket.create_connection(("127.0.0.1", port)) for port in ports]
    began = time.perf_counter()
    for one in sockets:
        one.sendall(ANNOUNCEMENT.pack(total, 0))
    _send_all(sockets, memoryview(block), total)
    for one in sockets:
        one.setblocking(True)
        assert one.recv(1) == b"."
    seconds = time.perf_counter() - began
    for one in sockets:
        one.close()
    return seconds


def _send_all(sockets: Sequence[socket.socket], block: memoryview, total: int) -> None:
    sent = dict.fromkeys(sockets, 0)
    with selectors.DefaultSelector() as selector:
        for one in sockets:
            one.setblocking(False)
            selector.register(one, selectors.EVENT_WRITE, one)
        while selector.get_map():
            for key, _events in selector.select():
                sink: socket.socket = key.data
                start = sent[sink] % len(block)
                sent[sink] += sink.send(block[start : start + total - sent[sink]])
                if sent[sink] == total:
                    selector.unregister(sink)


async def ping(ports: Sequence[int], message: bytes, *, count: int, answers: int) -> float:
    """Median seconds of a message to every sink until so many of them answered; one at a time."""
    loop = asyncio.get_running_loop()
    replies = _Replies(answers)
    ends = [await loop.create_connection(lambda: replies, "127.0.0.1", port) for port in ports]
    transports = [transport for transport, _protocol in ends]
    for one in transports:
        one.write(ANNOUNCEMENT.pack(count * len(message), len(message)))
    times = [await _ping(transports, message, replies) for _ in range(count)]
    for one in transports:
        one.close()
    return statistics.median(times)


async def _ping(
    transports: Sequence[asyncio.Transport], message: bytes, replies: "_Replies"
) -> float:
    enough, everything = replies.expect(len(transports))
    began = time.perf_counter()
    for one in transports:
        one.write(message)
    await enough
    seconds = time.perf_counter() - began
    await everything  # not timed, but the next message waits for all
    return seconds


class _Replies(asyncio.Protocol):
    """The answers of all sinks to one message: one byte each, whoever is first."""

    def __init__(self, answers: int) -> None:
        self._answers = answers
        """So many are enough."""
        self._missing = 0
        """Sinks that have not answered yet."""
        self._wanted: dict[int, asyncio.Future[None]] = {}
        """By how many are still missing: what waits for it."""

    def expect(self, sinks: int) -> tuple[asyncio.Future[None], asyncio.Future[None]]:
        """Before a message to all of them: resolved when enough have answered, and when all."""
        new = asyncio.get_running_loop().create_future
        self._missing, self._wanted = sinks, {}
        enough = self._wanted.setdefault(sinks - self._answers, new())
        return enough, self._wanted.setdefault(0, new())

    def data_received(self, data: bytes) -> None:
        for _ in data:
            self._missing -= 1
            if (reached := self._wanted.pop(self._missing, None)) is not None:
                reached.set_result(None)
