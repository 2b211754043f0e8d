"""Odd frames at the stock port: each answer byte by byte, or how the connection ends."""

import asyncio
import logging
import struct
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import pytest
from bookie.protocol.status import Status
from bookie.wire.stock import bookkeeper_protocol_pb2 as proto
from server_lab import KEY, ServerLab
from stock_changes import taken_logs
from stock_client import StockClient, V2Client, V3Client, lac_body
from syrupy.assertion import SnapshotAssertion
from transcripts import Words

NOBODYS: Final = 999
"""A ledger that nobody knows: a read of its last entry is denied at once."""
DENIED: Final = {
    2: bytes.fromhex("020200000000000100000000000003e7ffffffffffffffff"),
    10: bytes.fromhex("0a06080310011801109203a2061108920310e70718ffffffffffffffffff01"),
}
"""What a read of it gets, by the first byte."""
CUT: Final = 48
"""Longer answers are cut."""


def word2(operation: int, *, version: int = 2, flags: int = 0) -> bytes:
    return struct.pack(">I", version << 24 | operation << 16 | flags)


def odd_v2(v2: Any) -> Iterator[tuple[str, bytes]]:
    """Frames that a client of version 2 may make by mistake, or another version's."""
    ids, big = struct.pack(">qq", 7, 0), struct.pack(">qq", 2**63 - 1, 2**63 - 1)
    add, batch = v2.add(7, 0), struct.pack(">qqqiq", 7, 0, 5, 1, 999)
    for version in (0, 1, 3, 4, 255):
        yield f"add of version {version}", word2(1, version=version) + add[4:]
        yield f"read of version {version}", word2(2, version=version) + ids
        yield f"fence of version {version}", word2(2, version=version, flags=1) + ids + KEY
        yield f"batch of version {version}", word2(7, version=version) + batch
    yield "add of version 0 by its word", struct.pack(">I", 1) + add[4:]
    yield "read of version 0 by its word", struct.pack(">I", 2) + ids
    yield "read with all flags but the fence", word2(2, flags=0xFFFE) + ids
    yield "add with all flags", word2(1, flags=0xFFFF) + add[4:]
    for operation in (0, 4, 5, 6, 8, 255):
        yield f"operation {operation}", word2(operation) + ids
    for frame in (add[:1], add[:3], add[:4], add[:23], add[:39], add[:40], add[:55], add[:56]):
        yield f"add of {len(frame)} bytes", frame
    for name, frame in (("read", word2(2) + ids), ("fence", word2(2, flags=1) + ids + KEY),
                        ("batch", word2(7) + batch),
                        ("fencing batch", word2(7, flags=1) + batch + KEY)):  # fmt: skip
        yield f"{name} less one byte", frame[:-1]
        yield f"{name} and one byte", frame + b"x"
    for bad in ((-1, 0), (7, -1), (7, -2), (-1, -1), (-(2**63), 0), (7, -(2**63))):
        numbers = struct.pack(">qq", *bad)
        yield f"add of {bad}", add[:24] + numbers + add[40:]
        yield f"read of {bad}", word2(2) + numbers
        yield f"batch of {bad}", word2(7) + numbers + batch[16:]
    yield "add of the highest ids", add[:24] + big + add[40:]
    yield "read of the highest ids", word2(2) + big
    yield "batch of the highest ids", word2(7) + big + batch[16:]
    yield "auth of nothing", word2(3)
    yield "auth of garbage", word2(3) + b"\xff\xff"
    yield "auth with a name that is no text", word2(3) + b"\x0a\x02\xff\xfe\x12\x00"
    yield "auth of version 1", word2(3, version=1) + v2.auth()[4:]


def raw3(operation: int, *, version: int = 3, **parts: Any) -> bytes:
    header = proto.BKPacketHeader(version=version, operation=operation, txnId=77)  # type: ignore[arg-type]
    return proto.Request(header=header, **parts).SerializePartialToString()


def odd_v3(v3: Any) -> Iterator[tuple[str, bytes]]:
    for number, name in sorted(
        (n, proto.OperationType.Name(n)) for n in proto.OperationType.values()
    ):
        yield f"{name} without its part", raw3(number)
        if number != proto.AUTH:
            for version in (1, 2):
                yield f"{name} of version {version}", raw3(number, version=version)
    key, body = KEY, v3.add(7, 0)[-43:]
    add = {"ledgerId": 7, "entryId": 0, "masterKey": key, "body": body}
    changes: list[dict[str, Any]] = [
        {"ledgerId": 8}, {"entryId": 1}, {"masterKey": key[1:]}, {"masterKey": key + b"x"},
        {"body": body[:31]}, {"body": b""}, {"writeFlags": 2}, {"writeFlags": 3}, {"flag": 1},
    ]  # fmt: skip
    for change in changes:
        shown = [len(value) if isinstance(value, bytes) else value for value in change.values()]
        made = proto.AddRequest(**add | change)
        yield f"add with {sorted(change)} {shown}", raw3(proto.ADD_ENTRY, addRequest=made)
    for ledger, number in ((-1, 0), (7, -1), (7, -2), (-(2**63), 0)):
        wrong = struct.pack(">qq", ledger, number) + body[16:]
        made = proto.AddRequest(ledgerId=ledger, entryId=number, masterKey=key, body=wrong)
        yield f"add of {ledger}:{number}", raw3(proto.ADD_ENTRY, addRequest=made)
        read = proto.ReadRequest(ledgerId=ledger, entryId=number)
        yield f"read of {ledger}:{number}", raw3(proto.READ_ENTRY, readRequest=read)
    fence, piggyback = proto.ReadRequest.FENCE_LEDGER, proto.ReadRequest.ENTRY_PIGGYBACK
    for words, more in (("fence without a key", {"flag": fence}),
                        ("fence with a short key", {"flag": fence, "masterKey": key[1:]}),
                        ("fence with a long key", {"flag": fence, "masterKey": key + b"x"}),
                        ("key without a fence", {"masterKey": key}),
                        ("piggyback of an entry", {"flag": piggyback, "previousLAC": 0}),
                        ("piggyback without a LAC", {"flag": piggyback}),
                        ("fence with a LAC", {"flag": fence, "masterKey": key, "previousLAC": 0}),
                        ("time without a LAC", {"timeOut": 5}),
                        ("negative time", {"previousLAC": 0, "timeOut": -5})):  # fmt: skip
        read = proto.ReadRequest(ledgerId=7, entryId=0, **more)
        yield words, raw3(proto.READ_ENTRY, readRequest=read)
    for words, change in (
        ("all", {}), ("a short key", {"masterKey": key[1:]}), ("15 bytes", {"body": body[:15]}),
        ("16 bytes", {"body": lac_body(7, 2)[:16]}), ("LAC -1", {"body": lac_body(7, -1)}),
        ("1024 bytes", {"body": lac_body(7, 3).ljust(1024)}), ("LAC -2", {"body": lac_body(7, -2)}),
        ("1025 bytes", {"body": lac_body(7, 4).ljust(1025)}),
        ("another ledger", {"body": lac_body(8, 5)}),
    ):  # fmt: skip
        lac = {"ledgerId": 7, "lac": 2, "masterKey": key, "body": lac_body(7, 2)} | change
        asked = proto.WriteLacRequest(**lac)
        yield f"LAC with {words}", raw3(proto.WRITE_LAC, writeLacRequest=asked)
    yield "LAC of -1", raw3(proto.READ_LAC, readLacRequest=proto.ReadLacRequest(ledgerId=-1))
    force, listed = proto.ForceLedgerRequest, proto.GetListOfEntriesOfLedgerRequest
    yield "force of -1", raw3(proto.FORCE_LEDGER, forceLedgerRequest=force(ledgerId=-1))
    operation = proto.GET_LIST_OF_ENTRIES_OF_LEDGER
    yield "list of -1", raw3(operation, getListOfEntriesOfLedgerRequest=listed(ledgerId=-1))
    yield "a message with an unknown field", v3.read(NOBODYS, -1) + b"\xfa\x7f\x01x"
    yield "a message with an unknown operation", b"\x0a\x06\x08\x03\x10\x63\x18\x4d"
    yield "half a message", v3.read(7, 0)[:-1]
    yield "no message", b"\x0a"
    yield "nothing", b""


async def heard_back(server: ServerLab, caplog: pytest.LogCaptureFixture, *frames: bytes) -> str:
    """What comes back on a new connection for these frames, and what is counted and logged."""
    before, heard = Counter(server.traffic.refused), list[str]()
    assert server.bookie is not None
    client = await StockClient.connect(server.bookie.ports["stock"])
    caplog.clear()
    client.send(*frames)
    try:
        for _ in frames:
            (size,) = struct.unpack(">i", await client.reader.readexactly(4))
            answer = await client.reader.readexactly(size)
            heard.append(answer.hex() if size <= CUT else f"{answer[:CUT].hex()}... {size} bytes")
            if answer == DENIED.get(answer[0]):
                heard[-1] = "it goes on"
    except (asyncio.IncompleteReadError, ConnectionError):
        heard.append("the end")
    await client.close()
    await server.until(lambda: server.traffic.connections == 0)
    counted = server.traffic.refused - before - Counter({Status.NO_SUCH_LEDGER: 1})
    heard += [f"{status.name} +{n}" for status, n in counted.items()]
    heard += [f"{level}: {said}" for level, said in taken_logs(caplog)]
    return "\n  ".join(heard)


@pytest.mark.parametrize("version", [2, 3])
async def test_odd_frames(
    server: ServerLab,
    version: int,
    caplog: pytest.LogCaptureFixture,
    snapshot: SnapshotAssertion,
) -> None:
    """Each on a connection of its own, in front of a read of a ledger that nobody knows."""
    caplog.set_level(logging.DEBUG, logger="bookie.server")
    client: Any = (V2Client if version == 2 else V3Client)(None, None)  # type: ignore[arg-type]
    good, lines = client.read(NOBODYS, -1), list[str]()
    for words, frame in odd_v2(client) if version == 2 else odd_v3(client):
        lines.append(f"{words}:\n  {await heard_back(server, caplog, frame, good)}")
    lines.append(f"{server.traffic.garbage} times garbage")
    assert snapshot(extension_class=Words) == "\n".join(lines) + "\n"
