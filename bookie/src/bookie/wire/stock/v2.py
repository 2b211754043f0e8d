"""Version 2 of the stock wire: fields at fixed places, and answers that a client matches by ledger
and entry id.

A frame starts with a word of 32 bits: version (8), operation (8), flags (16); in version 0 the word
is just the operation. In an ADD, master key and entry follow; in a READ, ledger id, entry id and,
when it fences, the master key. An answer has the word without flags, a code (int32), ledger id,
entry id, and for a read the entry. Only master keys are copied. Source: bookkeeper-as-implemented
3.2; `BookieProtoEncoding` and `BookieProtocol` of 4.18.
"""

import struct
from collections.abc import Sequence
from typing import Final

from bookie.errors import FrameError
from bookie.frames.entry import ENTRY_BYTES_MAX, ENTRY_HEADER_BYTES, Buffer
from bookie.ids import NO_ENTRY, EntryId, LedgerId
from bookie.wire.stock.auth import NOTHING_ASKED, AuthReply, parse_auth
from bookie.wire.stock.framing import FRAME_BYTES_MAX, FRAME_LENGTH, FRAME_LENGTH_BYTES, frame_end
from bookie.wire.stock.messages import (
    MASTER_KEY_BYTES,
    Add,
    Auth,
    BatchRead,
    Outcome,
    Read,
    Refused,
    Request,
)
from bookie.wire.stock.wire import Wire

OP_ADD: Final = 1
OP_READ: Final = 2
OP_AUTH: Final = 3
OP_BATCH_READ: Final = 7

FLAG_FENCING: Final = 1
FLAG_RECOVERY_ADD: Final = 2

VERSION: Final = 2

BATCH_ANSWER_BYTES: Final = 36
"""Size of a batch answer without entries, as a client counts it for `answer_bytes_max`."""
BATCH_ENTRY_BYTES: Final = 4
"""Size of the length field in front of each entry of a batch answer."""

_WORD: Final = struct.Struct(">I")
_ADD: Final = struct.Struct(">I20sqq")
_ADD_FRAME: Final = struct.Struct(">iI20sqq")
_READ: Final = struct.Struct(">Iqq")
_BATCH_READ: Final = struct.Struct(">Iqqqiq")
_ANSWER: Final = struct.Struct(">iIiqq")
_ANSWER_LENGTH: Final = _ANSWER.size - FRAME_LENGTH_BYTES
_BATCH_ANSWER: Final = struct.Struct(">iIiqqq")

_ENTRY_AT: Final = 4 + MASTER_KEY_BYTES
_ADD_FRAME_ENTRY_AT: Final = FRAME_LENGTH_BYTES + _ENTRY_AT
_ADD_LENGTH_MIN: Final = _ENTRY_AT + ENTRY_HEADER_BYTES
_ADD_LENGTH_MAX: Final = _ENTRY_AT + ENTRY_BYTES_MAX
_ADD_TAG: Final = VERSION << 24 | OP_ADD << 16
_FLAGS: Final = 0xFFFF


class V2(Wire):
    """Version 2 for one connection. It keeps nothing between frames."""

    def parse_all(self, view: memoryview) -> tuple[list[Request], int]:
        # The loop of the hot path: it parses a valid add of version 2 in as few steps as Python
        # can. All other frames, and all invalid ones, go through `parse`.
        requests: list[Request] = []
        at, size = 0, len(view)
        unpack, new, append = _ADD_FRAME.unpack_from, tuple.__new__, requests.append
        last_add = size - FRAME_LENGTH_BYTES - _ADD_LENGTH_MIN
        try:
            while True:
                if at <= last_add:
                    length, word, key, ledger, entry = unpack(view, at)
                    end = at + 4 + length
                    if (
                        word & ~_FLAGS == _ADD_TAG
                        and _ADD_LENGTH_MIN <= length <= _ADD_LENGTH_MAX
                        and end <= size
                        and ledger | entry >= 0
                    ):
                        body = view[at + _ADD_FRAME_ENTRY_AT : end]
                        recovery = word & FLAG_RECOVERY_ADD != 0
                        append(new(Add, (ledger, entry, key, body, recovery, False, _ADD_TAG)))
                        at = end
                        continue
                found = frame_end(view, at)
                if found is None:
                    return requests, at
                append(self.parse(view[at + FRAME_LENGTH_BYTES : found]))
                at = found
        except FrameError:
            if not requests:
                raise
            return requests, at

    def parse(self, frame: memoryview) -> Request:
        _expect(frame, _WORD.size, "frame")
        (word,) = _WORD.unpack_from(frame)
        version = word >> 24
        operation = word >> 16 & 0xFF if version else word & 0xFF
        parse = _PARSERS.get(operation)
        if parse is None:
            # Apache's bookie also closes the connection here: no client could read an answer.
            raise FrameError(f"version 2 has operations 1, 2, 3 and 7, found {operation}")
        flags, tag = (word & _FLAGS, word & ~_FLAGS) if version else (0, operation)
        return parse(frame, flags, tag)

    def answer_add(self, request: Add, outcome: Outcome) -> bytes:
        return _ANSWER.pack(
            _ANSWER_LENGTH, request.tag, outcome.v2, request.ledger_id, request.entry_id
        )

    def answer_adds(self, requests: Sequence[Add], outcome: Outcome) -> bytes:
        pack, code = _ANSWER.pack, outcome.v2
        return b"".join(
            [pack(_ANSWER_LENGTH, tag, code, ledger, entry)
             for ledger, entry, _key, _entry, _recovery, _deferred, tag in requests]
        )  # fmt: skip

    def answer_read(
        self,
        request: Read,
        outcome: Outcome,
        *,
        entry: Buffer | None = None,
        max_lac: EntryId | None = None,
    ) -> list[Buffer]:
        assert entry is None or outcome is Outcome.OK
        length = _ANSWER_LENGTH + (len(entry) if entry is not None else 0)
        ids = request.ledger_id, request.entry_id
        head = _ANSWER.pack(length, request.tag, outcome.v2, *ids)
        return [head] if entry is None else [head, entry]

    def answer_batch_read(
        self, request: BatchRead, outcome: Outcome, entries: Sequence[Buffer] = ()
    ) -> list[Buffer]:
        assert bool(entries) == (outcome is Outcome.OK)
        buffers: list[Buffer] = [b""]
        for entry in entries:
            buffers += (FRAME_LENGTH.pack(len(entry)), entry)
        length = _BATCH_ANSWER.size - FRAME_LENGTH_BYTES + sum(map(len, buffers))
        assert length <= FRAME_BYTES_MAX - FRAME_LENGTH_BYTES
        ids = request.ledger_id, request.first, request.request_id
        buffers[0] = _BATCH_ANSWER.pack(length, request.tag, outcome.v2, *ids)
        return buffers

    def answer_auth(self, request: Auth, reply: AuthReply = NOTHING_ASKED) -> bytes:
        # The answer has no code. A refusal brings an empty token, which the mechanism of a stock
        # client does not accept, so that the client fails its requests with UnauthorizedAccess. A
        # connection that ended without an answer would look to it like a bookie that is down.
        message = reply.message.SerializeToString()
        word = VERSION << 24 | OP_AUTH << 16  # Apache's bookie does not echo the version here
        return FRAME_LENGTH.pack(_WORD.size + len(message)) + _WORD.pack(word) + message


def _parse_add(frame: memoryview, flags: int, tag: int) -> Request:
    _expect(frame, _ADD.size, "add")
    _word, key, ledger, entry_id = _ADD.unpack_from(frame)
    entry = frame[_ENTRY_AT:]
    refused = _refusal(tag, ledger, entry_id, lowest_entry=0)
    if refused is None and not ENTRY_HEADER_BYTES <= len(entry) <= ENTRY_BYTES_MAX:
        why = f"an entry has {ENTRY_HEADER_BYTES} to {ENTRY_BYTES_MAX} bytes, found {len(entry)}"
        refused = _refused(Outcome.BAD_REQUEST, why, tag, ledger, entry_id)
    is_recovery = flags & FLAG_RECOVERY_ADD != 0
    return refused or Add(LedgerId(ledger), EntryId(entry_id), key, entry, is_recovery, False, tag)


def _parse_read(frame: memoryview, flags: int, tag: int) -> Request:
    _expect(frame, _READ.size, "read")
    _word, ledger, entry = _READ.unpack_from(frame)
    is_fencing = flags & FLAG_FENCING != 0
    refused = _refusal(tag, ledger, entry, lowest_entry=NO_ENTRY, is_fencing=is_fencing)
    if refused:
        return refused
    key = _fencing_key(frame, _READ.size) if is_fencing else None
    return Read(LedgerId(ledger), EntryId(entry), key, is_fencing, None, None, False, tag)


def _parse_batch_read(frame: memoryview, flags: int, tag: int) -> Request:
    _expect(frame, _BATCH_READ.size, "batch read")
    _word, ledger, first, request_id, count_max, bytes_max = _BATCH_READ.unpack_from(frame)
    is_fencing = flags & FLAG_FENCING != 0
    refused = _refusal(
        tag, ledger, first, lowest_entry=0, is_fencing=is_fencing, request_id=request_id
    )
    if refused:
        return refused
    key = _fencing_key(frame, _BATCH_READ.size) if is_fencing else None
    return BatchRead(
        LedgerId(ledger), EntryId(first), count_max, bytes_max, key, is_fencing, request_id, tag
    )


def _parse_auth(frame: memoryview, _flags: int, tag: int) -> Request:
    named = parse_auth(bytes(frame[_WORD.size :]))
    if named is None:
        raise FrameError("a version 2 auth holds a plugin's name and bytes, found others")
    return Auth(*named, tag)


_PARSERS: Final = {
    OP_ADD: _parse_add,
    OP_READ: _parse_read,
    OP_AUTH: _parse_auth,
    OP_BATCH_READ: _parse_batch_read,
}


def _fencing_key(frame: memoryview, at: int) -> bytes:
    _expect(frame, at + MASTER_KEY_BYTES, "fencing read")
    return bytes(frame[at : at + MASTER_KEY_BYTES])


def _refusal(
    tag: int,
    ledger: int,
    entry: int,
    *,
    lowest_entry: int,
    is_fencing: bool = False,
    request_id: int | None = None,
) -> Refused | None:
    """The refusal of a request that cannot be served; None when it can."""
    version = tag >> 24
    if version > VERSION:
        outcome, why = Outcome.BAD_VERSION, f"versions 0 to {VERSION} are spoken, found {version}"
    elif ledger < 0 or entry < lowest_entry:
        outcome, why = Outcome.BAD_REQUEST, f"no such ids: ledger {ledger}, entry {entry}"
    elif is_fencing and version < VERSION:
        outcome, why = Outcome.UNAUTHORIZED, f"version {version} cannot fence: it sends no key"
    else:
        return None
    return _refused(outcome, why, tag, ledger, entry, request_id)


def _refused(
    outcome: Outcome, why: str, tag: int, ledger: int, entry: int, request_id: int | None = None
) -> Refused:
    if request_id is None:
        answer = _ANSWER.pack(_ANSWER_LENGTH, tag, outcome.v2, ledger, entry)
    else:
        length = _BATCH_ANSWER.size - FRAME_LENGTH_BYTES
        answer = _BATCH_ANSWER.pack(length, tag, outcome.v2, ledger, entry, request_id)
    return Refused(outcome, why, answer)


def _expect(frame: memoryview, size: int, what: str) -> None:
    if len(frame) < size:
        raise FrameError(f"a version 2 {what} has {size} bytes or more, found {len(frame)}")
