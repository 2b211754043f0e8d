"""What is written to disks, ZooKeeper and connections, of values with something in each field.

JSON whose readers pass over what they do not know is compared name by name, all else byte by byte:
an older reader gets it as it is.
"""

import json
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from bookie.boot.marker import Marker
from bookie.boot.stamps import STAMP_NAME, Stamp, read_stamp, write_stamp
from bookie.client.log_list import LedgerList
from bookie.frames.build import build_run
from bookie.frames.entry import DigestType, EntryCodec, master_key
from bookie.frames.frame import parse_run
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.metadata.boots import decode_boot, encode_boot
from bookie.metadata.codec import decode_ledger, encode_ledger
from bookie.metadata.cookie import decode_cookie, encode_cookie
from bookie.metadata.service_info import decode_info, encode_info
from bookie.metadata.store import (
    ADMIN_ENDPOINT,
    BOOT_EPOCH_PROPERTY,
    RACK_PROPERTY,
    RPC_ADVERTISED,
    RPC_ENDPOINT,
    RUN_ENDPOINT,
    BookieInfo,
    Cookie,
    Endpoint,
    StoredBoot,
)
from bookie.protocol.availability import EntrySet
from bookie.protocol.ledger import Fragment, LedgerMetadata, LedgerState
from bookie.protocol.status import Status
from bookie.repair.reports.finding_history import History, Key, Seen
from bookie.storage.disk import RealDisk
from bookie.storage.index import Batch, Index
from bookie.storage.journal_records import RecordKind, encode_record, record_at, seed_of
from bookie.storage.log_files import JOURNAL_FILES, LOG_FILES, FileHeader, decode_header
from bookie.storage.modes import DurabilityMode
from bookie.storage.records import Boundary, LedgerRecord
from bookie.storage.routing import route
from bookie.wire.identity import Identity
from bookie.wire.native import LacReply, LacRequest, Op, ReadReply, ReadRequest, envelope_header
from format_tables import Table, of_values

B0, B1 = BookieId("bookie-0"), BookieId("bookie-1")
L7: Final = LedgerId(7)
KEY: Final = master_key(b"secret")
NONCE: Final = 2**40 + 1


@dataclass(frozen=True, slots=True)
class Sample:
    """`read`: what becomes of the bytes; it must be `value`. `is_json`: names may be added."""

    name: str
    value: Any
    raw: bytes
    read: Callable[[bytes], Any]
    is_json: bool = False

    @property
    def table(self) -> Table:
        if self.is_json:
            return of_values(self.name, json.loads(self.raw))
        return {self.name: {"bytes": self.raw.hex()}}


INFO: Final = BookieInfo(
    B0,
    (
        Endpoint(RPC_ADVERTISED, "books.example.org", 31811, RPC_ENDPOINT),
        Endpoint(RPC_ENDPOINT, "fd00::7", 3181, RPC_ENDPOINT),
        Endpoint(RUN_ENDPOINT, "demo-bookie-0-0", 3182, RUN_ENDPOINT),
        Endpoint(ADMIN_ENDPOINT, "demo-bookie-0-0", 3183, "grpc"),
    ),
    {BOOT_EPOCH_PROPERTY: "7", RACK_PROPERTY: "/rack-a"},
)
COOKIE: Final = Cookie(B0, ("/data/journal",), ("/data/ledger-0", "/data/ledger-1"), "instance")
BOOT: Final = StoredBoot(7, "5f3a", 12, 6, "seen", lease_s=75.0)
METADATA: Final = LedgerMetadata(
    L7, 3, 2, 2,
    (Fragment(EntryId(0), (B0, B1, B0)), Fragment(EntryId(9), (B1, B0, B1))),
    DigestType.CRC32C, b"secret", LedgerState.CLOSED, EntryId(20), 300, 1_700_000_000_000, 5,
    {"application": b"x"},
)  # fmt: skip
STAMP: Final = Stamp("instance", B0, "ledger", 1, 2, 1, "d15c", 7, ("a", "b", "c"))
MARKER: Final = Marker(7, DurabilityMode.MEMORY, 12, 11, "lock", is_clean=True)
LOG: Final = LedgerList((LedgerId(3), L7), (LedgerId(1),))
FINDINGS: Final = History(
    {Key("no_copy", 7): Seen(1, 2), Key("silent_bookie", None, B0): Seen(3, 4)}
)
RECORD: Final = LedgerRecord(L7, KEY, True, True, 6, 5, EntryId(4), False, 2, b"l" * 20)
BOUNDARY: Final = Boundary(7, LedgerId(40), frozenset({LedgerId(50)}), frozenset({L7}))
FILE: Final = FileHeader(3, 2, 4096, NONCE, 17, 1)
HELLO: Final = Identity("instance", B0, 7)
READ: Final = ReadRequest(L7, EntryId(1), EntryId(9), 4096, KEY)
LAC: Final = LacRequest(L7, KEY, EntryId(4), 1000)
LAC_REPLY: Final = LacReply(EntryId(4), EntryId(9))
HELD: Final = EntrySet.from_ranges([(0, 4), (7, 7)])


def _frame() -> bytes:
    codec = EntryCodec(L7, DigestType.CRC32C, b"secret")
    entries = [
        codec.encode(EntryId(n), b"entry %d" % n, lac=EntryId(n - 1), length=7 * (n + 1))
        for n in range(3)
    ]
    return bytes(build_run(L7, EntryId(0), entries, lac=EntryId(1)))


def _reply() -> ReadReply:
    unknown = ((5, 6),)
    return ReadReply(EntryId(1), EntryId(2), EntryId(9), Status.UNKNOWN, unknown, (_frame(),))


def _stamp() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        write_stamp(RealDisk(), Path(folder), STAMP)
        return Path(folder, STAMP_NAME).read_bytes()


def _read_stamp(raw: bytes) -> Stamp | None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, STAMP_NAME).write_bytes(raw)
        return read_stamp(RealDisk(), Path(folder))


def _record() -> bytes:
    place = seed_of(NONCE, 4096)
    parts = encode_record(RecordKind.LEDGER, [RECORD.encode()], sequence=17, synced=16, seed=place)
    return b"".join(map(bytes, parts))


def _read_record(raw: bytes) -> bytes:
    found = record_at(memoryview(raw), nonce=NONCE, offset=4096)
    assert found is not None and (found.kind, found.sequence) == (RecordKind.LEDGER, 17)
    return bytes(found.payload)


def _index_row() -> bytes:
    """The columns of a ledger's record as the index stores them, as JSON: bytes are hex digits."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "index.sqlite")
        index = Index.open(path, disk=RealDisk(), is_owner=True)
        index.commit(Batch(records=[RECORD]), is_readable=lambda _ledger_id, _row: True)
        index.close()
        with closing(sqlite3.connect(path)) as connection:
            [row] = connection.execute("SELECT * FROM records")
    return json.dumps([one.hex() if isinstance(one, bytes) else one for one in row]).encode()


def _read_index_row(raw: bytes) -> LedgerRecord:
    ledger, key, *numbers = json.loads(raw)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "index.sqlite")
        Index.open(path, disk=RealDisk(), is_owner=True).close()
        with closing(sqlite3.connect(path)) as connection, connection:
            row = (ledger, bytes.fromhex(key), *numbers)
            connection.execute(f"INSERT INTO records VALUES ({', '.join('?' * len(row))})", row)
        index = Index.open(path, disk=RealDisk())
        found = index.records()[LedgerId(ledger)]
        index.close()
    return replace(found, lac_body=RECORD.lac_body)  # which is in a table of its own


def _header(raw: bytes, kind: Any) -> FileHeader:
    return decode_header(raw, kind=kind, path=Path("f"), file_id=3)


def _read_frame(raw: bytes) -> list[bytes]:
    return [bytes(entry) for entry in parse_run(memoryview(raw)).entries()]


def samples() -> list[Sample]:
    """Of everything that outlives its writer, or that another version reads."""
    frame, reply = _frame(), _reply()
    reply_bytes = b"".join(map(bytes, reply.encode()))
    return [
        Sample("registration", INFO, encode_info(INFO),
               lambda raw: decode_info(raw, bookie_id=B0, read_only=False)),
        Sample("cookie", COOKIE, encode_cookie(COOKIE), decode_cookie),
        Sample("boot", BOOT, encode_boot(BOOT),
               lambda raw: decode_boot(raw, bookie_id=B0), is_json=True),
        Sample("ledger", METADATA, encode_ledger(METADATA),
               lambda raw: decode_ledger(raw, ledger_id=L7)),
        Sample("list of a log", LOG, LOG.encode(), LedgerList.decode, is_json=True),
        Sample("findings", FINDINGS, FINDINGS.encode(), History.decode),
        Sample("stamp", STAMP, _stamp(), _read_stamp),
        Sample("marker", MARKER, MARKER.encode(), Marker.decode, is_json=True),
        Sample("record of a ledger", RECORD, RECORD.encode(), LedgerRecord.decode),
        Sample("row of the index", RECORD, _index_row(), _read_index_row),
        Sample("fence boundary", BOUNDARY, BOUNDARY.encode(), Boundary.decode),
        Sample("record of the journal", RECORD.encode(), _record(), _read_record),
        Sample("header of a log", FILE, FILE.encode(LOG_FILES)[:96],
               lambda raw: _header(raw.ljust(4096, b"\0"), LOG_FILES)),
        Sample("header of a journal", FILE, FILE.encode(JOURNAL_FILES)[:96],
               lambda raw: _header(raw.ljust(4096, b"\0"), JOURNAL_FILES)),
        Sample("run", _read_frame(frame), frame, _read_frame),
        Sample("sets of entries", HELD, HELD.encode(), EntrySet.decode),
        Sample("hello", HELLO, HELLO.encode(), Identity.decode, is_json=True),
        Sample("envelope", None, envelope_header(Op.READ, 1, 2**33, 99), lambda _raw: None),
        Sample("read", READ, READ.encode(), ReadRequest.decode),
        Sample("reply to a read", reply_bytes, reply_bytes,
               lambda raw: b"".join(map(bytes, ReadReply.decode(memoryview(raw)).encode()))),
        Sample("question for a LAC", LAC, LAC.encode(), LacRequest.decode),
        Sample("reply with a LAC", LAC_REPLY, LAC_REPLY.encode(), LacReply.decode),
    ]  # fmt: skip


def written() -> Table:
    """All samples; which disk a ledger is on is a format as well."""
    table: Table = {}
    for sample in samples():
        table |= sample.table
    ids = (0, 1, 7, 2**31, 2**62)
    routes = [[route(LedgerId(one), count) for one in ids] for count in (1, 2, 3, 8)]
    return table | {"routing": {"value": routes}}
