"""Exactly one answer for each request, on every data port of every bookie in the tests' process.

Listens where connections take messages and where they queue answers. When a test ends no request
may be without an answer whose connection is open, and none may have two.
"""

import asyncio
import struct
from collections import Counter
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pytest
from bookie.frames.entry import Buffer
from bookie.server.connections import DataConnection, RunConnection
from bookie.server.stock import StockConnection
from bookie.wire.native import ENVELOPE, Op
from bookie.wire.stock import bookkeeper_protocol_pb2 as proto
from google.protobuf.message import DecodeError

SETTLE_S: Final = 5.0
"""What is under way when a test ends is answered by then."""
VERSION_2: Final = 2
AUTH_OF_VERSION_2: Final = 3
_TLS_RECORD: Final = b"\x16"

Key = tuple[Hashable, ...]


class AnswerTap:
    """Counts, by connection, requests less answers."""

    def __init__(self) -> None:
        self.owed: dict[DataConnection, Counter[Key]] = {}
        """Of what is asked under one key; below 0: an answer that nobody asked for."""
        self.waits: dict[DataConnection, Counter[Key]] = {}
        """Long polls: they may be unanswered, and are not to be answered twice."""
        self.gone: set[DataConnection] = set()
        """Nobody is left to be answered there."""
        self.garbled: set[DataConnection] = set()
        """Something came there that is no request: its answer has nothing to be known by."""

    def took(self, connection: DataConnection, keys: Iterator[tuple[Key, bool]]) -> None:
        with self._counting(connection):
            for key, may_wait in keys:
                self.owed.setdefault(connection, Counter())[key] += 1
                if may_wait:
                    self.waits.setdefault(connection, Counter())[key] += 1

    def said(self, connection: DataConnection, keys: Iterator[Key]) -> None:
        with self._counting(connection):
            self.owed.setdefault(connection, Counter()).subtract(keys)

    @contextmanager
    def _counting(self, connection: DataConnection) -> Iterator[None]:
        try:
            yield
        except (DecodeError, struct.error):
            self.garbled.add(connection)

    def lacking(self) -> list[Key]:
        """Requests without an answer."""
        return [
            key
            for connection, owed in self.owed.items()
            for key, count in owed.items()
            if connection not in self.gone and count > self.waits.get(connection, Counter())[key]
        ]

    def surplus(self) -> list[Key]:
        """Answers that are one too many."""
        return [
            key
            for connection, owed in self.owed.items()
            for key, count in owed.items()
            if count < 0 and connection not in self.garbled
        ]

    async def settle(self) -> None:
        """At a test's end, while its bookies still run."""
        loop = asyncio.get_running_loop()
        until = loop.time() + SETTLE_S
        while self.lacking() and loop.time() < until:  # noqa: ASYNC110  # nobody tells
            await asyncio.sleep(0.002)
        assert not self.lacking(), f"requests without an answer: {self.lacking()}"
        assert not self.surplus(), f"answered more than once: {self.surplus()}"


# ---- what requests and answers are called -------------------------------------------------------


def _native_request(message: memoryview) -> Iterator[tuple[Key, bool]]:
    _size, op, _code, _zero, request_id = ENVELOPE.unpack_from(message)
    yield (op, request_id), op == Op.WAIT_LAC


def _native_answer(buffers: Sequence[Buffer]) -> Iterator[Key]:
    _size, op, _code, _zero, request_id = ENVELOPE.unpack_from(buffers[0])
    yield op, request_id


def _frames(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        (size,) = struct.unpack_from(">i", data, at)
        yield data[at + 4 : at + 4 + size]
        at += 4 + size


def _stock_requests(data: bytes) -> Iterator[tuple[Key, bool]]:
    """Those of a login apart, which some mechanisms do not answer."""
    for frame in () if data.startswith(_TLS_RECORD) else _frames(data):
        if frame[0] == VERSION_2:  # version 2, which has no ids of requests
            if frame[1] != AUTH_OF_VERSION_2:
                yield ("v2", frame[1]), False
            continue
        request = proto.Request.FromString(frame)
        if request.header.operation != proto.AUTH:
            is_poll = request.readRequest.HasField("previousLAC")
            yield ("v3", request.header.operation, request.header.txnId), is_poll


def _stock_answers(buffers: Sequence[Buffer]) -> Iterator[Key]:
    for frame in _frames(b"".join(buffers)):
        if frame[0] == VERSION_2:
            if frame[1] != AUTH_OF_VERSION_2:
                yield "v2", frame[1]
            continue
        header = proto.Response.FromString(frame).header
        if header.operation != proto.AUTH:
            yield "v3", header.operation, header.txnId


# ---- where it listens ---------------------------------------------------------------------------


def _listen(
    tap: AnswerTap,
    patch: pytest.MonkeyPatch,
    kind: type[Any],
    asked: Callable[[Any], Iterator[tuple[Key, bool]]],
    answered: Callable[[Sequence[Buffer]], Iterator[Key]],
) -> None:
    take, send = kind._take_next, kind._send

    def take_next(connection: Any, view: memoryview) -> int:
        first = bytes(view)
        taken = int(take(connection, view))
        if taken:
            tap.took(connection, asked(first[:taken]))
        return taken

    def queue(connection: Any, buffers: Sequence[Buffer]) -> None:
        tap.said(connection, answered(buffers))
        send(connection, buffers)

    patch.setattr(kind, "_take_next", take_next)
    patch.setattr(kind, "_send", queue)


@pytest.fixture
async def answers(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AnswerTap]:
    """What bookies of this test are asked and answer; a lab has it settled before they stop."""
    tap, lost = AnswerTap(), DataConnection.connection_lost

    def connection_lost(connection: DataConnection, exc: Exception | None) -> None:
        tap.gone.add(connection)
        lost(connection, exc)

    _listen(tap, monkeypatch, RunConnection, _native_request, _native_answer)
    _listen(tap, monkeypatch, StockConnection, _stock_requests, _stock_answers)
    monkeypatch.setattr(DataConnection, "connection_lost", connection_lost)
    yield tap
    assert not tap.surplus(), f"answered more than once: {tap.surplus()}"
