"""Messages of the native port, 3182: requests and run frames, each in an envelope. Our client, the
recovery and the repair speak this protocol.

Envelope, big-endian, 16 bytes: body bytes (uint32), op (uint8), flags or status (uint8), zero
(uint16), request id (uint64), then the body. A reply echoes op and request id. Requests on one
connection may be answered in any order. Every request names the ledger's master key (20 bytes), so
a bookie keeps no session state. There is one exception: the first message of a connection is HELLO,
which says which bookie the client means, and its reply says which one answers (`identity`).
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from bookie.errors import FrameError
from bookie.frames.entry import Buffer
from bookie.frames.frame import FRAME_BYTES_MAX, RunFrame, frame_bytes, parse_run
from bookie.frames.from_fields import from_fields
from bookie.ids import NO_ENTRY, EntryId, LedgerId
from bookie.protocol.status import Status

ENVELOPE: Final = struct.Struct(">IBBHQ")
ENVELOPE_BYTES: Final = ENVELOPE.size
MASTER_KEY_BYTES: Final = 20
MESSAGE_BYTES_MAX: Final = FRAME_BYTES_MAX + 4096
"""Largest body of a message, in either direction."""


class Op(IntEnum):
    """What a message asks for.

    Looking up an enum's member costs a dict access and more: code that compares one for every
    message or reply keeps it in a module global (`_OK: Final = Status.OK`), here and elsewhere.
    """

    ADD_RUN = 1
    """Body: master key, run frame. Reply body: empty."""
    READ = 2
    """Body: ReadRequest. Reply body: ReadReply."""
    READ_LAC = 3
    """Body: LacRequest. Reply body: LacReply. With FLAG_FENCE: the fencing LAC read."""
    WRITE_LAC = 4
    """Body: LacRequest with `lac` (explicit LAC, durable before answered). Reply body: empty."""
    WAIT_LAC = 5
    """Long poll. Body: LacRequest. The bookie answers when the LAC exceeds `lac`, or after
    `timeout_ms`."""
    FORCE = 6
    """Body: LacRequest. The answer is OK only when every acknowledged entry of the ledger is
    durable on this bookie."""
    HELLO = 7
    """Body: Identity of the bookie that the client means. The reply is OK, or BAD_REQUEST, after
    which the connection ends. Reply body: the bookie's own Identity, or why it refuses. Both sides
    judge by `identity.refusal`."""


_OPS: Final = {int(op): op for op in Op}

FLAG_FENCE: Final = 1
"""Flag of READ and READ_LAC: fence the ledger durably before answering."""


class Envelope(NamedTuple):
    """One message, a request or a reply. `code`: the flags of a request, or the
    Status of a reply.
    """

    op: Op
    code: int
    request_id: int
    body: memoryview


_envelope: Final = from_fields(Envelope)


def envelope_header(op: Op, code: int, request_id: int, body_bytes: int) -> bytes:
    """The 16 bytes before a body; send body buffers after it with a vectored write."""
    assert body_bytes <= MESSAGE_BYTES_MAX
    return ENVELOPE.pack(body_bytes, op, code, 0, request_id)


def next_message(view: memoryview, at: int, stop: int) -> tuple[int, Envelope | None]:
    """Whole length of the message that starts at `at`, and the message itself if all of it lies
    before `stop`.

    The length is 0 while the envelope is incomplete. FrameError when the message is too large or
    its op is unknown.
    """
    start = at + ENVELOPE_BYTES
    if start > stop:
        return 0, None
    body_bytes, op, code, _zero, request_id = ENVELOPE.unpack_from(view, at)
    if body_bytes > MESSAGE_BYTES_MAX:
        raise FrameError(f"a message of {body_bytes} bytes exceeds {MESSAGE_BYTES_MAX}")
    end = start + body_bytes
    if end > stop:
        return end - at, None
    known = _OPS.get(op)
    if known is None:
        raise FrameError(f"unknown operation {op}, expected {', '.join(map(str, _OPS))}")
    return end - at, _envelope((known, code, request_id, view[start:end]))


def parse_add(body: memoryview) -> tuple[bytes, RunFrame]:
    """Master key and run of an ADD_RUN body; the run has been checked."""
    if len(body) < MASTER_KEY_BYTES:
        raise FrameError(f"an add needs a {MASTER_KEY_BYTES}-byte master key, found {len(body)}")
    return bytes(body[:MASTER_KEY_BYTES]), parse_run(body[MASTER_KEY_BYTES:])


_READ: Final = struct.Struct(">20sqqqI")


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """Asks for the entries `first`..`last` (inclusive), in about `bytes_max` bytes of answer at
    most.
    """

    ledger_id: LedgerId
    first: EntryId
    last: EntryId
    bytes_max: int
    master_key: bytes

    def encode(self) -> bytes:
        return _READ.pack(self.master_key, self.ledger_id, self.first, self.last, self.bytes_max)

    @classmethod
    def decode(cls, body: Buffer) -> "ReadRequest":
        _expect(body, _READ.size, "read")
        key, ledger, first, last, bytes_max = _READ.unpack_from(body)
        _expect_ledger(ledger)
        if not 0 <= first <= last:
            raise FrameError(f"a read needs 0 <= first <= last, found {first}..{last}")
        return cls(LedgerId(ledger), EntryId(first), EntryId(last), bytes_max, key)


_REPLY: Final = struct.Struct(">qqqBxHI")
_RANGE: Final = struct.Struct(">qq")
UNKNOWN_RANGES_MAX: Final = 128
"""Most unknown ranges in one read reply: however many a damaged disk has, the reply must fit in a
message."""


@dataclass(frozen=True, slots=True)
class ReadReply:
    """What a bookie has of the range that a read asked for.

    `runs`: frames that hold at least one entry of the range, verbatim as logged (they may reach
    beyond the range; an id may come twice). `answered_through`: the last id that this reply is
    about; ask again from the one behind it. For an id up to it that no run holds, the answer is
    UNKNOWN (because of an I/O error) where `unknown` (rising inclusive pairs) has it, and otherwise
    `absent` (NO_SUCH_ENTRY, NO_SUCH_LEDGER or UNKNOWN). `lac`: highest LAC this bookie knows of;
    `last_entry_id`: highest id it holds. Both are -1 when there is none; in limbo they are only
    lower bounds.
    """

    lac: EntryId
    last_entry_id: EntryId
    answered_through: EntryId
    absent: Status
    unknown: tuple[tuple[int, int], ...]
    runs: tuple[Buffer, ...]

    def encode(self) -> list[Buffer]:
        """Buffers for a vectored send, in order.

        Beyond `UNKNOWN_RANGES_MAX` unknown ranges, the last ones are sent as one. What lies between
        them then counts as unknown, too, which no reader takes for a denial.
        """
        spans = self.unknown
        if len(spans) > UNKNOWN_RANGES_MAX:
            kept = UNKNOWN_RANGES_MAX - 1
            spans = (*spans[:kept], (spans[kept][0], spans[-1][1]))
        head = _REPLY.pack(
            self.lac, self.last_entry_id, self.answered_through, self.absent,
            len(spans), len(self.runs),
        )  # fmt: skip
        return [head, b"".join(_RANGE.pack(*span) for span in spans), *self.runs]

    @classmethod
    def decode(cls, body: memoryview) -> "ReadReply":
        """Split a reply body. The runs are not checked: call `parse_run` for each before use.

        FrameError unless the body has exactly what its head announces: ranges missing from
        `unknown` would be read as denials.
        """
        _expect(body, _REPLY.size, "read reply")
        lac, last, through, absent, unknown_count, run_count = _REPLY.unpack_from(body)
        if absent not in Status._value2member_map_:
            raise FrameError(f"a read reply says {absent} of absent entries, which is no status")
        at = _REPLY.size + unknown_count * _RANGE.size
        _expect(body, at, "read reply with its ranges")
        unknown = tuple(_RANGE.iter_unpack(body[_REPLY.size : at]))
        runs: list[Buffer] = []
        for _ in range(run_count):
            size = frame_bytes(body[at:])
            runs.append(body[at : at + size])
            at += size
        if at != len(body):
            raise FrameError(f"a read reply of {len(body)} bytes announces {at}")
        return cls(
            EntryId(lac), EntryId(last), EntryId(through), Status(absent), unknown, tuple(runs)
        )


_LAC: Final = struct.Struct(">20sqqI")


@dataclass(frozen=True, slots=True)
class LacRequest:
    """Names a ledger; `lac` and `timeout_ms` (1..60000 for WAIT_LAC) count for the
    ops that say so.
    """

    ledger_id: LedgerId
    master_key: bytes
    lac: EntryId = NO_ENTRY
    timeout_ms: int = 0

    def encode(self) -> bytes:
        return _LAC.pack(self.master_key, self.ledger_id, self.lac, self.timeout_ms)

    @classmethod
    def decode(cls, body: Buffer) -> "LacRequest":
        _expect(body, _LAC.size, "LAC request")
        key, ledger, lac, timeout_ms = _LAC.unpack_from(body)
        _expect_ledger(ledger)
        if lac < NO_ENTRY:
            raise FrameError(f"a LAC is {NO_ENTRY} or more, found {lac}")
        return cls(LedgerId(ledger), key, EntryId(lac), timeout_ms)


_LAC_REPLY: Final = struct.Struct(">qq")


@dataclass(frozen=True, slots=True)
class LacReply:
    """`lac`: highest LAC known (from entries or explicit); `last_entry_id`: highest id held."""

    lac: EntryId
    last_entry_id: EntryId

    def encode(self) -> bytes:
        return _LAC_REPLY.pack(self.lac, self.last_entry_id)

    @classmethod
    def decode(cls, body: Buffer) -> "LacReply":
        _expect(body, _LAC_REPLY.size, "LAC reply")
        return cls(*map(EntryId, _LAC_REPLY.unpack_from(body)))


def _expect(body: Buffer, size: int, what: str) -> None:
    if len(body) < size:
        raise FrameError(f"a {what} body has {size} bytes, found {len(body)}")


def _expect_ledger(ledger_id: int) -> None:
    if ledger_id < 0:
        raise FrameError(f"a ledger id is 0 or more, found {ledger_id}")


def total_bytes(buffers: Sequence[Buffer]) -> int:
    """Length of a body given as buffers."""
    return sum(map(len, buffers))
