"""A connection to the native port that a story works by hand: frames in, answers out."""

import asyncio
from typing import Any, Final

from bookie.frames.build import build_run
from bookie.frames.entry import DigestType, EntryCodec, master_key
from bookie.ids import EntryId, LedgerId
from bookie.protocol.status import Status
from bookie.wire.identity import Identity
from bookie.wire.native import (
    ENVELOPE,
    FLAG_FENCE,
    Envelope,
    LacRequest,
    Op,
    ReadRequest,
    next_message,
)
from fleet_messages import answer_words

KEY: Final = master_key(b"secret")
"""Of the ledgers of `fleet_story`."""


class Line(asyncio.BufferedProtocol):
    """A native connection by hand: it sends whatever a story gives it, and keeps the answers."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.answers: list[str] = []
        """What nobody waited for."""
        self.ended = ""
        """How it was lost; empty while it is open."""
        self._buffer = bytearray(8 << 20)
        self._end = 0
        self._waiting: dict[int, asyncio.Future[str]] = {}
        self._asked = 0

    @classmethod
    async def to(cls, host: str, meant: Identity | None, *, port: int = 3182) -> "Line":
        """Connects, and greets the process that is meant."""
        loop = asyncio.get_running_loop()
        _transport, line = await loop.create_connection(cls, host, port)
        if meant is not None:
            await line.ask(Op.HELLO, meant.encode())
        return line

    def ask(self, op: int, body: bytes, *, flags: int = 0) -> "asyncio.Future[str]":
        """The answer in words; "ended" when the connection is lost before."""
        self._asked += 1
        found: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        if self.ended:
            found.set_result(self.ended)
            return found
        self._waiting[self._asked] = found
        self.transport.write(ENVELOPE.pack(len(body), op, flags, 0, self._asked) + body)
        return found

    def add(
        self, ledger_id: int, first: int, count: int = 1, *, key: bytes | None = None, **frame: Any
    ) -> "asyncio.Future[str]":
        """Adds a run (see `frame_of`)."""
        run = frame_of(LedgerId(ledger_id), first, count, **frame)
        return self.ask(Op.ADD_RUN, (KEY if key is None else key) + run)

    def read(
        self, ledger_id: int, first: int, last: int, *, size: int = 1 << 20, fence: bool = False
    ) -> "asyncio.Future[str]":
        request = ReadRequest(LedgerId(ledger_id), EntryId(first), EntryId(last), size, KEY)
        return self.ask(Op.READ, request.encode(), flags=FLAG_FENCE * fence)

    def of_lac(
        self, op: Op, ledger_id: int, lac: int = -1, timeout_ms: int = 50, *, fence: bool = False
    ) -> "asyncio.Future[str]":
        """READ_LAC, WRITE_LAC, WAIT_LAC or FORCE."""
        request = LacRequest(LedgerId(ledger_id), KEY, EntryId(lac), timeout_ms)
        return self.ask(op, request.encode(), flags=FLAG_FENCE * fence)

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        self.ended = f"ended: {error or 'closed by the bookie'}"
        for found in self._waiting.values():
            found.set_result(self.ended)
        self._waiting.clear()

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._buffer)[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        self._end += nbytes
        size, message = next_message(memoryview(bytes(self._buffer[: self._end])), 0, self._end)
        if message is None:
            return
        assert size == self._end, "the network brings whole messages"
        self._end = 0
        words = _words(message)
        waiting = self._waiting.pop(message.request_id, None)
        if waiting is None:
            self.answers.append(words)
        else:
            waiting.set_result(words)


def _words(found: Envelope) -> str:
    """A status with its answer, or with the words of a refusal."""
    status = Status(found.code)
    if status is Status.OK or (found.op is Op.READ_LAC and status is Status.UNKNOWN):
        return f"{status.name} {answer_words(found)}".rstrip()
    return f"{status.name} {bytes(found.body).decode()}".rstrip()


def frame_of(
    ledger_id: LedgerId,
    first: int,
    count: int = 1,
    *,
    lac: int = -1,
    flags: int = 0,
    size: int = 5,
    is_wrong: bool = False,
) -> bytes:
    """A run of entries as a writer would send it; `is_wrong`: no digest is that of its entry."""
    codec, entries = EntryCodec(ledger_id, DigestType.CRC32C, b""), []
    for number in range(first, first + count):
        length = size * (number + 1)
        entry = codec.encode(EntryId(number), b"x" * size, lac=EntryId(lac), length=length)
        entries.append(entry[:-1] + b"?" if is_wrong else entry)
    return bytes(build_run(ledger_id, EntryId(first), entries, lac=EntryId(lac), flags=flags))
