"""What a stock client asks, whichever version of the wire it speaks, and how it can be answered.

Requests are tuples, cheap to make, and say nothing of bytes. The `tag` of each is for the wire
that parsed it: whatever the answer has to echo. Views of entries are into the buffer that was
parsed (of v3, unless protobuf parsed them): a server that uses its receive buffer again copies them
before.
"""

from enum import Enum
from typing import Final, NamedTuple

from bookie.ids import EntryId, LedgerId
from bookie.protocol.status import Status

MASTER_KEY_BYTES: Final = 20
LAC_BODY_BYTES_MAX: Final = 1024
"""Largest body of an explicit LAC; a real one has 16 bytes and a digest of at most 20."""


class Outcome(Enum):
    """An answer's code: its number on version 3, and on version 2.

    A stock client takes NO_LEDGER and NO_ENTRY alone for denials. UNKNOWN_LEDGER_STATE is younger
    than the rest. Apache's number for it on version 2 is 107, which no released client knows (up to
    4.18: `PerChannelBookieClient.getStatusCodeFromErrorCode` throws, and the connection with all
    that is under way on it is closed). So version 2 says what it has for "no answer of mine", an
    I/O error: no denial either, and it costs one entry's read another bookie, not a connection.
    """

    OK = 0, 0
    NO_LEDGER = 402, 1
    NO_ENTRY = 403, 2
    BAD_REQUEST = 404, 100
    IO = 501, 101
    UNAUTHORIZED = 502, 102
    BAD_VERSION = 503, 103
    FENCED = 504, 104
    READ_ONLY = 505, 105
    TOO_MANY_REQUESTS = 506, 106
    UNKNOWN_LEDGER_STATE = 507, 101

    def __init__(self, v3: int, v2: int) -> None:
        self.v3 = v3
        self.v2 = v2


_OUTCOMES: Final = {
    Status.OK: Outcome.OK,
    Status.NO_SUCH_LEDGER: Outcome.NO_LEDGER,
    Status.NO_SUCH_ENTRY: Outcome.NO_ENTRY,
    # This bookie may have forgotten: that must never look like a denial (R7).
    Status.UNKNOWN: Outcome.UNKNOWN_LEDGER_STATE,
    # The writer learns that it has lost its ledger, and stops.
    Status.FENCED: Outcome.FENCED,
    # One of these ends a client's recovery, so nothing but a wrong master key is answered with it.
    Status.UNAUTHORIZED: Outcome.UNAUTHORIZED,
    # The writer takes another bookie; reads never have this status.
    Status.READ_ONLY: Outcome.READ_ONLY,
    # To a client a failed read or write of this bookie: neither a denial nor the ledger's fault.
    Status.BAD_REQUEST: Outcome.BAD_REQUEST,
    Status.IO_ERROR: Outcome.IO,
    # The client waits before it comes again, and does not count the bookie as broken.
    Status.OVERLOADED: Outcome.TOO_MANY_REQUESTS,
    # The wire has no word for a bookie that boots or stops. A failure of the bookie is what makes a
    # writer take another one and a reader ask another copy; UNKNOWN_LEDGER_STATE would speak of the
    # ledger, TOO_MANY_REQUESTS would have the client wait for a bookie that is leaving.
    Status.NOT_READY: Outcome.IO,
    # Never sent by a bookie; total all the same, and not a denial.
    Status.UNREACHABLE: Outcome.IO,
}


def outcome_of(status: Status) -> Outcome:
    """How a status of ours is answered to a stock client."""
    return _OUTCOMES[status]


class Add(NamedTuple):
    """Store one entry.

    `entry` verbatim: 32 bytes of header, which say this ledger and entry id, digest, payload.
    `is_recovery`: the write-back of a recovery, which a fence lets through. `is_deferred_sync`: may
    be answered before it is durable; a FORCE follows.
    """

    ledger_id: LedgerId
    entry_id: EntryId
    master_key: bytes
    entry: memoryview
    is_recovery: bool
    is_deferred_sync: bool
    tag: int


class Read(NamedTuple):
    """One entry; `entry_id` -1: the last one this bookie has.

    `is_fencing`: fence first, durably, under `master_key` (20 bytes; None otherwise).
    `previous_lac` (None: no long poll): wait until the LAC exceeds it, `timeout_ms` at most (>= 0;
    None: do not wait). `is_piggyback`, of a long poll for -1 only: when the LAC has grown, answer
    with it and with entry `previous_lac` + 1, if this bookie has that one; without, otherwise.
    """

    ledger_id: LedgerId
    entry_id: EntryId
    master_key: bytes | None
    is_fencing: bool
    previous_lac: EntryId | None
    timeout_ms: int | None
    is_piggyback: bool
    tag: int

    @property
    def is_long_poll(self) -> bool:
        return self.previous_lac is not None and not self.is_fencing


class BatchRead(NamedTuple):
    """Entries from `first` on, as many consecutive ones as there are; version 2 only.

    `count_max`: without bound when 0 or less. `answer_bytes_max`: of the whole answer, its frame
    included (`v2.BATCH_ANSWER_BYTES`, `BATCH_ENTRY_BYTES`). The first entry is sent whatever its
    size, and what is to be said of it is the answer; a later one that is not here ends the batch.
    """

    ledger_id: LedgerId
    first: EntryId
    count_max: int
    answer_bytes_max: int
    master_key: bytes | None
    is_fencing: bool
    request_id: int
    tag: int


class ReadLac(NamedTuple):
    """The explicit LAC and the last entry."""

    ledger_id: LedgerId
    tag: int


class WriteLac(NamedTuple):
    """Set the explicit LAC. `body`: ledger id, LAC, digest, kept and answered verbatim."""

    ledger_id: LedgerId
    lac: EntryId
    master_key: bytes
    body: bytes
    tag: int


class Force(NamedTuple):
    """Answered OK only when every entry acknowledged before is durable."""

    ledger_id: LedgerId
    tag: int


class ListEntries(NamedTuple):
    """Which entries of the ledger this bookie has."""

    ledger_id: LedgerId
    tag: int


class BookieInfo(NamedTuple):
    """Sizes of the disks, in bytes."""

    wants_total: bool
    wants_free: bool
    tag: int


class Auth(NamedTuple):
    """What a client's authentication plugin says; the first word of a client that has one."""

    plugin_name: str
    payload: bytes
    tag: int


class StartTls(NamedTuple):
    tag: int


class Refused(NamedTuple):
    """A frame that is no usable request: send `answer`, a whole frame, and go on."""

    outcome: Outcome
    why: str
    answer: bytes


Request = (
    Add | Read | BatchRead | ReadLac | WriteLac | Force | ListEntries | BookieInfo | Auth | StartTls
    | Refused
)  # fmt: skip
