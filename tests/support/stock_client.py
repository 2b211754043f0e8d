"""A stock client in Python: request frames of both versions, and what the answers say.

Frames are made here from Apache's layout, not by the codec under test.
"""

import asyncio
import ssl
import struct
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple

import pytest
from bookie.frames.entry import DigestType, EntryCodec, master_key
from bookie.hosts import loopback
from bookie.ids import EntryId, LedgerId
from bookie.wire.stock import bookkeeper_protocol_pb2 as proto
from bookie.wire.stock.messages import Outcome
from server_lab import ServerLab

PASSWORD = b"secret"
KEY = master_key(PASSWORD)
NEVER = b"\xff" * 20
"""Nobody's key."""

ADD, READ, AUTH, BATCH_READ = 1, 2, 3, 7
FENCING, RECOVERY = 1, 2


def entry(ledger_id: int, entry_id: int, *, lac: int = -1, payload: bytes | None = None) -> bytes:
    """One entry as the ledger's writer makes it."""
    codec = EntryCodec(LedgerId(ledger_id), DigestType.CRC32C, PASSWORD)
    body = b"entry %d" % entry_id if payload is None else payload
    return codec.encode(
        EntryId(entry_id), body, lac=EntryId(lac), length=min(8 * (entry_id + 1), 2**63 - 1)
    )


MIB = 1 << 20


class Answer(NamedTuple):
    """What any answer says, as far as it says it."""

    outcome: Outcome
    entry_id: int = -1
    body: bytes = b""
    max_lac: int | None = None
    entries: tuple[bytes, ...] = ()
    message: Any = None
    ledger_id: int = -1


OUTCOMES_V2 = {outcome.v2: outcome for outcome in Outcome}
OUTCOMES_V3 = {outcome.v3: outcome for outcome in Outcome}


class StockClient:
    """One connection. `version` 2 or 3. Answers come in order of arrival."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.sent = 0

    @classmethod
    async def connect(cls, port: int, *, tls: ssl.SSLContext | None = None) -> Any:
        """`tls`: under it from the first byte on."""
        name = None if tls is None else "localhost"
        return cls(*await asyncio.open_connection(loopback(), port, ssl=tls, server_hostname=name))

    def send(self, *frames: bytes) -> None:
        """All of them in one write."""
        self.writer.write(b"".join(struct.pack(">i", len(frame)) + frame for frame in frames))

    async def ask(self, *frames: bytes) -> list[Answer]:
        """As many answers as frames."""
        self.send(*frames)
        return [await self.answer() for _ in frames]

    async def answer(self) -> Answer:
        (length,) = struct.unpack(">i", await self.reader.readexactly(4))
        return self.parse(await self.reader.readexactly(length))

    def parse(self, frame: bytes) -> Answer:
        raise NotImplementedError

    async def upgrade(self, context: ssl.SSLContext) -> None:
        """As Apache's client on either version: it asks on version 3, then the handshake."""
        frames = V3Client(self.reader, self.writer)
        [answer] = await frames.ask(frames.start_tls())
        assert answer.outcome is Outcome.OK, answer
        await self.writer.start_tls(context, server_hostname="localhost")

    async def until_closed(self) -> bytes:
        """What came until the bookie hung up."""
        return await self.reader.read()

    async def close(self) -> None:
        self.writer.close()
        await asyncio.gather(self.writer.wait_closed(), return_exceptions=True)


class V2Client(StockClient):
    def add(
        self, ledger_id: int, entry_id: int, *, lac: int = -1, key: bytes = KEY,
        recovery: bool = False, payload: bytes | None = None,
    ) -> bytes:  # fmt: skip
        word = 2 << 24 | ADD << 16 | (RECOVERY if recovery else 0)
        return struct.pack(">I", word) + key + entry(ledger_id, entry_id, lac=lac, payload=payload)

    def read(
        self, ledger_id: int, entry_id: int, *, fence: bool = False, key: bytes = KEY
    ) -> bytes:
        word = 2 << 24 | READ << 16 | (FENCING if fence else 0)
        return struct.pack(">Iqq", word, ledger_id, entry_id) + (key if fence else b"")

    def batch(self, ledger_id: int, first: int, *, count: int = 0, size: int = 1 << 20) -> bytes:
        return struct.pack(">IqqqIq", 2 << 24 | BATCH_READ << 16, ledger_id, first, 77, count, size)

    def auth(self, token: bytes = b"?", *, plugin: str = "theirs") -> bytes:
        message = proto.AuthMessage(authPluginName=plugin, payload=token)
        return struct.pack(">I", 2 << 24 | AUTH << 16) + message.SerializeToString()

    def parse(self, frame: bytes) -> Answer:
        word, code = struct.unpack_from(">Ii", frame)
        if word >> 16 & 0xFF == AUTH:
            message = proto.AuthMessage.FromString(frame[4:])
            return Answer(Outcome.OK, message=message)
        ledger, entry_id = struct.unpack_from(">qq", frame, 8)
        outcome, body = OUTCOMES_V2[code], frame[24:]
        if word >> 16 & 0xFF == BATCH_READ:
            return Answer(outcome, entry_id, entries=tuple(_cut(body[8:])))
        return Answer(outcome, entry_id, body, ledger_id=ledger)


def _cut(body: bytes) -> Sequence[bytes]:
    entries = []
    while body:
        (size,) = struct.unpack_from(">i", body)
        entries.append(body[4 : 4 + size])
        body = body[4 + size :]
    return entries


class V3Client(StockClient):
    def _request(self, operation: int, **parts: Any) -> bytes:
        self.sent += 1
        header = proto.BKPacketHeader(version=3, operation=operation, txnId=self.sent)  # type: ignore[arg-type]
        return proto.Request(header=header, **parts).SerializeToString()

    def add(
        self, ledger_id: int, entry_id: int, *, lac: int = -1, key: bytes = KEY,
        recovery: bool = False, payload: bytes | None = None, deferred: bool = False,
    ) -> bytes:  # fmt: skip
        part = proto.AddRequest(
            ledgerId=ledger_id, entryId=entry_id, masterKey=key,
            body=entry(ledger_id, entry_id, lac=lac, payload=payload),
        )  # fmt: skip
        if recovery:
            part.flag = proto.AddRequest.RECOVERY_ADD
        if deferred:
            part.writeFlags = 1
        return self._request(proto.ADD_ENTRY, addRequest=part)

    def read(
        self, ledger_id: int, entry_id: int, *, fence: bool = False, key: bytes = KEY
    ) -> bytes:
        part = proto.ReadRequest(ledgerId=ledger_id, entryId=entry_id)
        if fence:
            part.flag, part.masterKey = proto.ReadRequest.FENCE_LEDGER, key
        return self._request(proto.READ_ENTRY, readRequest=part)

    def poll(
        self, ledger_id: int, *, previous: int, timeout_ms: int | None = 60_000,
        piggyback: bool = True, entry_id: int = -1,
    ) -> bytes:  # fmt: skip
        part = proto.ReadRequest(ledgerId=ledger_id, entryId=entry_id, previousLAC=previous)
        if timeout_ms is not None:
            part.timeOut = timeout_ms
        if piggyback:
            part.flag = proto.ReadRequest.ENTRY_PIGGYBACK
        return self._request(proto.READ_ENTRY, readRequest=part)

    def read_lac(self, ledger_id: int) -> bytes:
        return self._request(
            proto.READ_LAC, readLacRequest=proto.ReadLacRequest(ledgerId=ledger_id)
        )

    def write_lac(
        self, ledger_id: int, lac: int, *, key: bytes = KEY, signed: tuple[int, int] | None = None
    ) -> bytes:
        """`signed`: the ledger and the LAC in the body, where they differ from the fields."""
        body = lac_body(*(signed or (ledger_id, lac)))
        part = proto.WriteLacRequest(ledgerId=ledger_id, lac=lac, masterKey=key, body=body)
        return self._request(proto.WRITE_LAC, writeLacRequest=part)

    def force(self, ledger_id: int) -> bytes:
        part = proto.ForceLedgerRequest(ledgerId=ledger_id)
        return self._request(proto.FORCE_LEDGER, forceLedgerRequest=part)

    def list_entries(self, ledger_id: int) -> bytes:
        part = proto.GetListOfEntriesOfLedgerRequest(ledgerId=ledger_id)
        operation = proto.GET_LIST_OF_ENTRIES_OF_LEDGER
        return self._request(operation, getListOfEntriesOfLedgerRequest=part)

    def info(self) -> bytes:
        part = proto.GetBookieInfoRequest(requested=3)
        return self._request(proto.GET_BOOKIE_INFO, getBookieInfoRequest=part)

    def auth(self, token: bytes = b"?", *, plugin: str = "theirs") -> bytes:
        part = proto.AuthMessage(authPluginName=plugin, payload=token)
        return self._request(proto.AUTH, authRequest=part)

    def start_tls(self) -> bytes:
        return self._request(proto.START_TLS, startTLSRequest=proto.StartTLSRequest())

    def parse(self, frame: bytes) -> Answer:
        message = proto.Response.FromString(frame)
        outcome, read = OUTCOMES_V3[message.status], message.readResponse
        named = message.addResponse if message.HasField("addResponse") else read
        max_lac = read.maxLAC if read.HasField("maxLAC") else None
        said = message.authResponse if message.HasField("authResponse") else message
        return Answer(
            outcome, named.entryId, read.body, max_lac, message=said, ledger_id=named.ledgerId
        )


def lac_body(ledger_id: int, lac: int) -> bytes:
    """As a writer signs it; the digest is for its readers alone."""
    return struct.pack(">qq", ledger_id, lac) + b"digest"


class StockLab:
    """Clients of one version of the wire, beside a bookie."""

    def __init__(self, server: ServerLab, kind: type[StockClient]) -> None:
        self.server = server
        self.kind = kind
        self.clients: list[StockClient] = []
        self.frames: Any = kind(None, None)  # type: ignore[arg-type]
        """Makes frames; not connected."""

    async def client(self, kind: type[StockClient] | None = None) -> Any:
        """Connected; closed with the lab."""
        assert self.server.bookie is not None
        self.clients.append(await (kind or self.kind).connect(self.server.bookie.ports["stock"]))
        return self.clients[-1]

    async def ask(self, *frames: bytes) -> list[Answer]:
        """On a connection of its own; frames are the same on every one of a version."""
        client = await self.client()
        return list(await client.ask(*frames))

    def told(self, outcome: Outcome) -> Outcome:
        """What an answer of this version says: the older one has one number for two of them."""
        return OUTCOMES_V2[outcome.v2] if self.kind is V2Client else outcome

    async def close(self) -> None:
        for client in self.clients:
            await client.close()


async def _lab(server: ServerLab, kind: type[StockClient]) -> AsyncIterator[StockLab]:
    lab = StockLab(server, kind)
    yield lab
    await lab.close()


@pytest.fixture(params=[V2Client, V3Client], ids=["v2", "v3"])
async def stock(server: ServerLab, request: pytest.FixtureRequest) -> AsyncIterator[StockLab]:
    """Clients of either version."""
    async for lab in _lab(server, request.param):
        yield lab


@pytest.fixture
async def stock3(server: ServerLab) -> AsyncIterator[StockLab]:
    """Clients of version 3."""
    async for lab in _lab(server, V3Client):
        yield lab


async def handshake(
    client: StockClient, session: ssl.SSLObject, received: ssl.MemoryBIO, sent: ssl.MemoryBIO
) -> None:
    """Up to the client's last words, which are not sent."""
    while True:
        try:
            return session.do_handshake()
        except ssl.SSLWantReadError:
            client.writer.write(sent.read())
            received.write(await client.reader.read(MIB))
