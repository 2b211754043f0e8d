"""Asks one process of a bookie by its port, whoever else there is by then.

Clients find the process that is registered; what a former one still says can only be seen by who
kept a connection to it. A connection of this wire, greeted as a client's is.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Self

from bookie.errors import FrameError
from bookie.frames.build import build_run
from bookie.frames.digests import VerifiedRun
from bookie.frames.entry import DigestType, EntryCodec, master_key
from bookie.ids import NO_ENTRY, EntryId, LedgerId
from bookie.protocol.answers import MemberAnswers
from bookie.protocol.status import Status
from bookie.testing.native_messages import message_bytes, parse_envelope
from bookie.wire.identity import Identity
from bookie.wire.native import ENVELOPE_BYTES, Envelope, Op, ReadReply, ReadRequest, envelope_header

PASSWORD: Final = b""
"""The soak's ledgers have none."""
WAIT_S: Final = 10.0
READ_BYTES: Final = 1 << 20
NOBODYS: Final = LedgerId(1 << 40)
"""Of a ledger that there will never be: a bookie that is sure of itself denies it."""


def unacknowledged_run(ledger_id: LedgerId, first: int, payloads: Sequence[bytes]) -> bytes:
    """It claims no entry as acknowledged: one bookie alone is given it, and a recovery copies
    nothing of what is claimed."""
    codec = EntryCodec(ledger_id, DigestType.CRC32C, PASSWORD)
    length, entries = 0, []
    for entry_id, payload in enumerate(payloads, first):
        length += len(payload)
        entries.append(codec.encode(EntryId(entry_id), payload, lac=NO_ENTRY, length=length))
    return bytes(build_run(ledger_id, EntryId(first), entries, lac=NO_ENTRY))


class Probe:
    """One connection to one process; one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._requests = 0

    @classmethod
    async def open(cls, port: int, meant: Identity) -> Self | None:
        """None when nobody listens, or it is not the process meant."""
        try:
            async with asyncio.timeout(WAIT_S):
                probe = cls(*await asyncio.open_connection("127.0.0.1", port))
        except (OSError, TimeoutError):
            return None
        status, _body = await probe._ask(Op.HELLO, meant.encode())
        if status is Status.OK:
            return probe
        await probe.close()
        return None

    async def add(self, ledger_id: LedgerId, first: int, payloads: Sequence[bytes]) -> Status:
        """One run, as its writer would send it."""
        frame = unacknowledged_run(ledger_id, first, payloads)
        status, _body = await self._ask(Op.ADD_RUN, master_key(PASSWORD) + frame)
        return status

    async def read(self, ledger_id: LedgerId, entry_id: int) -> Status:
        """Its word about one entry."""
        at = EntryId(entry_id)
        request = ReadRequest(ledger_id, at, at, READ_BYTES, master_key(PASSWORD))
        status, body = await self._ask(Op.READ, request.encode())
        codec = EntryCodec(ledger_id, DigestType.CRC32C, PASSWORD)
        member = MemberAnswers(codec, VerifiedRun.payloads)
        reply = ReadReply.decode(body) if status is Status.OK else None
        member.take(status, reply, first=at, last=at)
        said = member.answer(at)
        return Status.UNKNOWN if said is None else said

    async def close(self) -> None:
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()

    async def _ask(self, op: Op, body: bytes) -> tuple[Status, memoryview]:
        """Status and body; no answer in time is UNREACHABLE, as it is to clients."""
        self._requests += 1
        self._writer.write(envelope_header(op, 0, self._requests, len(body)) + body)
        with suppress(OSError, TimeoutError, asyncio.IncompleteReadError, FrameError):
            async with asyncio.timeout(WAIT_S):
                while (reply := await self._next()).request_id != self._requests:
                    pass  # of a request that was given up
                return Status(reply.code), reply.body
        return Status.UNREACHABLE, memoryview(b"")

    async def _next(self) -> Envelope:
        head = await self._reader.readexactly(ENVELOPE_BYTES)
        return parse_envelope(
            head + await self._reader.readexactly(message_bytes(head) - ENVELOPE_BYTES)
        )
