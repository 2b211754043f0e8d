"""The bare probes: what this machine gives to whoever only sends bytes to sinks that write them.

A stream, as fast as it goes, and a message at a time with its answer. No framing, no checksums, no
index, no quorums but the count of answers. `bench_append` takes turns with them.
"""

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


def ping(ports: Sequence[int], message: bytes, *, count: int, answers: int) -> float:
    """Median seconds of a message to every sink until so many of them answered; one at a time."""
    sockets = [socket.create_connection(("127.0.0.1", port)) for port in ports]
    for one in sockets:
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        one.sendall(ANNOUNCEMENT.pack(count * len(message), len(message)))
    times = [_ping(sockets, message, answers) for _ in range(count)]
    for one in sockets:
        one.close()
    return statistics.median(times)


def _ping(sockets: Sequence[socket.socket], message: bytes, answers: int) -> float:
    began = time.perf_counter()
    for one in sockets:
        one.sendall(message)
    for one in sockets[:answers]:
        assert one.recv(1) == b"."
    seconds = time.perf_counter() - began
    for one in sockets[answers:]:  # not timed, but the next message waits for all
        assert one.recv(1) == b"."
    return seconds
