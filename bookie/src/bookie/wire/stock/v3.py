"""Version 3 of the stock wire: protobuf messages, and answers that a client matches by its
transaction id.

Each answer repeats the header's operation and transaction id, and has two statuses: its own, and
one in the part for the operation; clients look at either. An entry that is read is not copied into
a message: only the bytes around it are built. Source: bookkeeper-as-implemented 3.2; the processors
of `org.apache.bookkeeper.proto` 4.18.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Final, cast

from google.protobuf.message import DecodeError

from bookie.errors import FrameError
from bookie.frames.entry import ENTRY_BYTES_MAX, ENTRY_HEADER_BYTES, Buffer
from bookie.ids import NO_ENTRY, EntryId, LedgerId
from bookie.protocol.availability import EntrySet
from bookie.wire.stock import bookkeeper_protocol_pb2 as proto
from bookie.wire.stock.auth import NOTHING_ASKED, AuthReply, plugin
from bookie.wire.stock.framing import FRAME_BYTES_MAX, FRAME_LENGTH, FRAME_LENGTH_BYTES
from bookie.wire.stock.messages import (
    LAC_BODY_BYTES_MAX,
    MASTER_KEY_BYTES,
    Add,
    Auth,
    BookieInfo,
    Force,
    ListEntries,
    Outcome,
    Read,
    ReadLac,
    Refused,
    Request,
    StartTls,
    WriteLac,
)
from bookie.wire.stock.v3_adds import plain_add
from bookie.wire.stock.wire import Wire

VERSION: Final = 3
DEFERRED_SYNC: Final = 1
"""Bit of an add's writeFlags that allows an answer before the entry is durable."""

_IDS: Final = struct.Struct(">qq")
_READ_RESPONSE: Final = b"\xa2\x06"  # field 100 of Response, length-delimited
_BODY: Final = b"\x22"  # field 4 of ReadResponse, length-delimited
_MAX_LAC: Final = b"\x28"  # field 5 of ReadResponse, varint
_UINT64: Final = 2**64 - 1
_BLOB_BYTES_MAX: Final = FRAME_BYTES_MAX - 1024  # of entries listed: what a frame leaves for them


class NotVersion3Error(FrameError):
    """Raised for a frame that is no message of version 3: it may be of version 2, or invalid."""


class V3(Wire):
    """Version 3 for one connection. It keeps one answer message, which it fills in again for each
    add.
    """

    def __init__(self) -> None:
        self._added = _response(proto.ADD_ENTRY, 0, Outcome.OK)
        self._added_header = self._added.header
        self._added_part = self._added.addResponse

    def parse(self, frame: memoryview) -> Request:
        """Parse one frame. NotVersion3Error, which is a FrameError, when it is no message of
        version 3.
        """
        add = plain_add(frame)
        if add is not None:
            return add
        message = _parsed(bytes(frame))
        header = message.header
        if header.version != VERSION:
            why = f"version {VERSION} is spoken in these messages, found {header.version}"
            return _refused(message, Outcome.BAD_VERSION, why)
        parse = _PARSERS.get(header.operation)
        if parse is None:
            return _refused(message, Outcome.BAD_REQUEST, f"no operation {header.operation} here")
        return parse(message, header.txnId)

    def answer_add(self, request: Add, outcome: Outcome) -> bytes:
        answer, part = self._added, self._added_part
        answer.status = part.status = _code(outcome)
        self._added_header.txnId = request.tag
        part.ledgerId = request.ledger_id
        part.entryId = request.entry_id
        message = answer.SerializeToString()
        return FRAME_LENGTH.pack(len(message)) + message

    def answer_adds(self, requests: Sequence[Add], outcome: Outcome) -> bytes:
        return b"".join([self.answer_add(request, outcome) for request in requests])

    def answer_read(
        self,
        request: Read,
        outcome: Outcome,
        *,
        entry: Buffer | None = None,
        max_lac: EntryId | None = None,
    ) -> list[Buffer]:
        assert entry is None or outcome is Outcome.OK
        tail = b"" if max_lac is None else _MAX_LAC + _varint(max_lac & _UINT64)
        if entry is None:
            part = _read_part(request.ledger_id, request.entry_id, outcome) + tail
            return [_read_head(request.tag, outcome, len(part)) + part]
        part = _read_part(request.ledger_id, _entry_answered(request), outcome)
        part += _BODY + _varint(len(entry))
        head = _read_head(request.tag, outcome, len(part) + len(entry) + len(tail)) + part
        return [head, entry, tail] if tail else [head, entry]

    def answer_auth(self, request: Auth, reply: AuthReply = NOTHING_ASKED) -> bytes:
        answer = _response(proto.AUTH, request.tag, reply.outcome)
        if reply.outcome is Outcome.OK:
            answer.authResponse.CopyFrom(reply.message)
        return _framed(answer)

    def answer_read_lac(
        self,
        request: ReadLac,
        outcome: Outcome,
        *,
        lac_body: Buffer | None = None,
        last_entry: Buffer | None = None,
    ) -> list[Buffer]:
        answer = _response(proto.READ_LAC, request.tag, outcome)
        part = answer.readLacResponse
        part.status, part.ledgerId = answer.status, request.ledger_id
        if lac_body is not None:
            part.lacBody = bytes(lac_body)
        if last_entry is not None:
            part.lastEntryBody = bytes(last_entry)
        return _framed_apart(answer)

    def answer_write_lac(self, request: WriteLac, outcome: Outcome) -> bytes:
        answer = _response(proto.WRITE_LAC, request.tag, outcome)
        part = answer.writeLacResponse
        part.status, part.ledgerId = answer.status, request.ledger_id
        return _framed(answer)

    def answer_force(self, request: Force, outcome: Outcome) -> bytes:
        answer = _response(proto.FORCE_LEDGER, request.tag, outcome)
        part = answer.forceLedgerResponse
        part.status, part.ledgerId = answer.status, request.ledger_id
        return _framed(answer)

    def answer_list_entries(
        self, request: ListEntries, outcome: Outcome, entries: EntrySet | None = None
    ) -> list[Buffer]:
        assert (entries is not None) == (outcome is Outcome.OK)
        blob = entries.encode() if entries is not None else None
        if blob is not None and len(blob) > _BLOB_BYTES_MAX:
            # It fits into no frame, and a part of it would deny the other entries.
            outcome, blob = Outcome.IO, None
        answer = _response(proto.GET_LIST_OF_ENTRIES_OF_LEDGER, request.tag, outcome)
        part = answer.getListOfEntriesOfLedgerResponse
        part.status, part.ledgerId = answer.status, request.ledger_id
        if blob is not None:
            part.availabilityOfEntriesOfLedger = blob
        return _framed_apart(answer)

    def answer_bookie_info(
        self, request: BookieInfo, outcome: Outcome, *, total_bytes: int = 0, free_bytes: int = 0
    ) -> bytes:
        answer = _response(proto.GET_BOOKIE_INFO, request.tag, outcome)
        part = answer.getBookieInfoResponse
        part.status = answer.status
        if request.wants_total and outcome is Outcome.OK:
            part.totalDiskCapacity = total_bytes
        if request.wants_free and outcome is Outcome.OK:
            part.freeDiskSpace = free_bytes
        return _framed(answer)

    def answer_start_tls(self, request: StartTls, outcome: Outcome) -> bytes:
        answer = _response(proto.START_TLS, request.tag, outcome)
        if outcome is Outcome.OK:
            answer.startTLSResponse.SetInParent()
        return _framed(answer)


def _parsed(blob: bytes) -> proto.Request:
    try:
        message = proto.Request.FromString(blob)
    except DecodeError as error:
        raise NotVersion3Error(f"{len(blob)} bytes are no version 3 message: {error}") from error
    # Unlike Java's, Python's parser lets required fields be missing.
    if not message.IsInitialized():
        raise NotVersion3Error(f"{len(blob)} bytes lack what a version 3 message must have")
    return message


def _parse_add(message: proto.Request, tag: int) -> Request:
    add = message.addRequest  # when there is none: no entry, which is refused
    ledger, entry_id, key, entry = add.ledgerId, add.entryId, add.masterKey, add.body
    why = _add_fault(ledger, entry_id, key, entry)
    if why:
        return _refused(message, Outcome.BAD_REQUEST, why)
    return Add(
        LedgerId(ledger),
        EntryId(entry_id),
        key,
        memoryview(entry),
        add.HasField("flag") and add.flag == proto.AddRequest.RECOVERY_ADD,
        add.writeFlags & DEFERRED_SYNC != 0,
        tag,
    )


def _add_fault(ledger: int, entry_id: int, key: bytes, entry: bytes) -> str:
    """Why an add cannot be stored; empty when it can."""
    if len(key) != MASTER_KEY_BYTES:
        return f"a master key has {MASTER_KEY_BYTES} bytes, found {len(key)}"
    if not ENTRY_HEADER_BYTES <= len(entry) <= ENTRY_BYTES_MAX:
        return f"an entry has {ENTRY_HEADER_BYTES} to {ENTRY_BYTES_MAX} bytes, found {len(entry)}"
    found = _IDS.unpack_from(entry)
    if found != (ledger, entry_id):
        return f"the entry says it is {found[0]}:{found[1]}, its request {ledger}:{entry_id}"
    return "" if ledger | entry_id >= 0 else f"no such ids: ledger {ledger}, entry {entry_id}"


def _parse_read(message: proto.Request, tag: int) -> Request:
    read = message.readRequest
    # There is one flag or none. An absent flag reads as the first one, so `HasField` is needed.
    flag = read.flag if read.HasField("flag") else None
    is_fencing = flag == proto.ReadRequest.FENCE_LEDGER
    is_piggyback = flag == proto.ReadRequest.ENTRY_PIGGYBACK
    fault = _read_fault(message, is_fencing=is_fencing, is_piggyback=is_piggyback)
    if fault:
        return _refused(message, *fault)
    previous = EntryId(read.previousLAC) if read.HasField("previousLAC") else None
    return Read(
        LedgerId(read.ledgerId),
        EntryId(read.entryId),
        read.masterKey if is_fencing else None,
        is_fencing,
        previous,
        max(0, read.timeOut) if read.HasField("timeOut") else None,
        is_piggyback and previous is not None,
        tag,
    )


def _read_fault(
    message: proto.Request, *, is_fencing: bool, is_piggyback: bool
) -> tuple[Outcome, str] | None:
    """The code for a read that cannot be served, and why; None when it can be served."""
    if not message.HasField("readRequest"):
        return Outcome.BAD_REQUEST, "a read without its part"
    read = message.readRequest
    if read.ledgerId < 0 or read.entryId < NO_ENTRY:
        return Outcome.BAD_REQUEST, f"no such ids: ledger {read.ledgerId}, entry {read.entryId}"
    if is_fencing and len(read.masterKey) != MASTER_KEY_BYTES:
        # Apache's bookie answers so when there is no key: a client that does not know it must not
        # fence.
        return Outcome.UNAUTHORIZED, f"a fence needs a {MASTER_KEY_BYTES}-byte master key"
    if is_piggyback and read.HasField("previousLAC") and read.entryId != NO_ENTRY:
        return Outcome.BAD_REQUEST, f"a piggyback is for entry -1, found {read.entryId}"
    return None


def _parse_write_lac(message: proto.Request, tag: int) -> Request:
    write = message.writeLacRequest
    ledger, key, body = write.ledgerId, write.masterKey, write.body
    if len(key) != MASTER_KEY_BYTES or not _IDS.size <= len(body) <= LAC_BODY_BYTES_MAX:
        why = f"a LAC has a key of 20 bytes and a body of 16 or more, found {len(key)}, {len(body)}"
        return _refused(message, Outcome.BAD_REQUEST, why)
    # The LAC in the body counts, which the writer signed. A Java client reads its LAC twice, first
    # for the request's field and then for the body: after an add between both, the field has the
    # lower one.
    signed, lac = _IDS.unpack_from(body)
    if signed != ledger or ledger < 0 or lac < NO_ENTRY:
        why = f"the body says ledger {signed}, LAC {lac}, its request ledger {ledger}"
        return _refused(message, Outcome.BAD_REQUEST, why)
    return WriteLac(LedgerId(ledger), EntryId(lac), key, body, tag)


def _of_ledger(
    part: str, make: Callable[[LedgerId, int], Request]
) -> Callable[[proto.Request, int], Request]:
    """The parser of a request that only names a ledger."""

    def parse(message: proto.Request, tag: int) -> Request:
        ledger = getattr(message, part).ledgerId if message.HasField(part) else -1
        if ledger < 0:
            return _refused(message, Outcome.BAD_REQUEST, f"{part} names no ledger: {ledger}")
        return make(LedgerId(ledger), tag)

    return parse


def _parse_bookie_info(message: proto.Request, tag: int) -> Request:
    requested = message.getBookieInfoRequest.requested
    flags = proto.GetBookieInfoRequest
    return BookieInfo(
        requested & flags.TOTAL_DISK_CAPACITY != 0, requested & flags.FREE_DISK_SPACE != 0, tag
    )


def _parse_auth(message: proto.Request, tag: int) -> Request:
    named = plugin(message.authRequest)
    if named is None:
        return _refused(message, Outcome.BAD_REQUEST, "a plugin's name is UTF-8, found others")
    return Auth(*named, tag)


def _parse_start_tls(_message: proto.Request, tag: int) -> Request:
    return StartTls(tag)


_PARSERS: Final[dict[int, Callable[[proto.Request, int], Request]]] = {
    proto.ADD_ENTRY: _parse_add,
    proto.READ_ENTRY: _parse_read,
    proto.WRITE_LAC: _parse_write_lac,
    proto.READ_LAC: _of_ledger("readLacRequest", ReadLac),
    proto.FORCE_LEDGER: _of_ledger("forceLedgerRequest", Force),
    proto.GET_LIST_OF_ENTRIES_OF_LEDGER: _of_ledger("getListOfEntriesOfLedgerRequest", ListEntries),
    proto.GET_BOOKIE_INFO: _parse_bookie_info,
    proto.AUTH: _parse_auth,
    proto.START_TLS: _parse_start_tls,
}

_PARTS: Final[dict[int, tuple[str, str]]] = {
    proto.ADD_ENTRY: ("addRequest", "addResponse"),
    proto.READ_ENTRY: ("readRequest", "readResponse"),
    proto.WRITE_LAC: ("writeLacRequest", "writeLacResponse"),
    proto.READ_LAC: ("readLacRequest", "readLacResponse"),
    proto.FORCE_LEDGER: ("forceLedgerRequest", "forceLedgerResponse"),
    proto.GET_LIST_OF_ENTRIES_OF_LEDGER: (
        "getListOfEntriesOfLedgerRequest",
        "getListOfEntriesOfLedgerResponse",
    ),
    proto.GET_BOOKIE_INFO: ("getBookieInfoRequest", "getBookieInfoResponse"),
}
"""By operation: the names of the parts of request and answer that belong to it, for operations
whose part has a status."""


def _refused(message: proto.Request, outcome: Outcome, why: str) -> Refused:
    """A refusal as an answer with both statuses, and with the ids of the request's part, so that no
    client waits for another answer.
    """
    operation = message.header.operation
    answer = _response(operation, message.header.txnId, outcome)
    if operation in _PARTS:
        asked_name, part_name = _PARTS[operation]
        asked, part = getattr(message, asked_name), getattr(answer, part_name)
        part.status = answer.status
        for field in ("ledgerId", "entryId"):
            if field in part.DESCRIPTOR.fields_by_name:
                setattr(part, field, getattr(asked, field))
    return Refused(outcome, why, _framed(answer))


def _response(operation: proto.OperationType, tag: int, outcome: Outcome) -> proto.Response:
    answer = proto.Response(status=_code(outcome))
    header = answer.header
    header.version, header.operation, header.txnId = proto.VERSION_THREE, operation, tag
    return answer


def _code(outcome: Outcome) -> proto.StatusCode:
    return cast(proto.StatusCode, outcome.v3)


def _framed(answer: proto.Response) -> bytes:
    message = answer.SerializeToString()
    return FRAME_LENGTH.pack(len(message)) + message


def _framed_apart(answer: proto.Response) -> list[Buffer]:
    """A frame as two buffers, so that a large message is not copied behind its length."""
    message = answer.SerializeToString()
    assert len(message) <= FRAME_BYTES_MAX - FRAME_LENGTH_BYTES
    return [FRAME_LENGTH.pack(len(message)), message]


def _read_head(tag: int, outcome: Outcome, part_bytes: int) -> bytes:
    """The bytes of an answer to a read that come before the part for the operation."""
    message = _response(proto.READ_ENTRY, tag, outcome).SerializeToString()
    message += _READ_RESPONSE + _varint(part_bytes)
    return FRAME_LENGTH.pack(len(message) + part_bytes) + message


def _read_part(ledger_id: int, entry_id: int, outcome: Outcome) -> bytes:
    part = proto.ReadResponse(status=_code(outcome), ledgerId=ledger_id, entryId=entry_id)
    return part.SerializeToString()


def _entry_answered(request: Read) -> int:
    """The id of the entry that the answer contains: a piggyback read asked for -1."""
    if request.is_piggyback and request.previous_lac is not None:
        return request.previous_lac + 1
    return request.entry_id


def _varint(number: int) -> bytes:
    """`number`, which must be >= 0, as protobuf writes it: 7 bits per byte, the lowest first."""
    septets = bytearray()
    while number > 0x7F:
        septets.append(number & 0x7F | 0x80)
        number >>= 7
    septets.append(number)
    return bytes(septets)
