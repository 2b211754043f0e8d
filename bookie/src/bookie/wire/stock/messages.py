"""The requests of stock clients, whichever version of the wire they speak, and the codes of the
answers.

Requests are tuples, which are cheap to make, and do not depend on how their bytes looked. The `tag`
of each is for the wire that parsed it: it holds what the answer has to echo. Entries are views of
the buffer that was parsed, except where protobuf parsed them (in version 3): a server that reuses
its receive buffer has to copy them first.
"""

from enum import Enum
from typing import Final, NamedTuple

from bookie.ids import EntryId, LedgerId
from bookie.protocol.status import Status

MASTER_KEY_BYTES: Final = 20
LAC_BODY_BYTES_MAX: Final = 1024
"""Largest body of an explicit LAC; a real one has 16 bytes and a digest of at most 20."""


class Outcome(Enum):
    """Code of an answer: its number in version 3, and its number in version 2.

    A stock client takes only NO_LEDGER and NO_ENTRY for denials. UNKNOWN_LEDGER_STATE was added to
    BookKeeper later than the rest. Apache's number for it in version 2 is 107, which no released
    client knows (up to 4.18: `PerChannelBookieClient.getStatusCodeFromErrorCode` throws, and the
    connection with all that is under way on it is closed). So version 2 sends its code for an I/O
    error instead: that is no denial either, and it costs a client only another try of one read at
    another bookie, not a connection.
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
    # A client takes it for a failed read or write of this bookie: neither a denial nor a fault of
    # the ledger.
    Status.BAD_REQUEST: Outcome.BAD_REQUEST,
    Status.IO_ERROR: Outcome.IO,
    # The client waits before it comes again, and does not count the bookie as broken.
    Status.OVERLOADED: Outcome.TOO_MANY_REQUESTS,
    # The wire has no code for a bookie that boots or stops. A failure of the bookie makes a writer
    # take another bookie, and a reader ask for another copy. UNKNOWN_LEDGER_STATE would say
    # something about the ledger; TOO_MANY_REQUESTS would have the client wait for a bookie that is
    # leaving.
    Status.NOT_READY: Outcome.IO,
    # No bookie ever sends it; it is here so that every status has an outcome, which is no denial.
    Status.UNREACHABLE: Outcome.IO,
}


def outcome_of(status: Status) -> Outcome:
    """The code that a stock client is answered for a status of ours."""
    return _OUTCOMES[status]


class Add(NamedTuple):
    """Store one entry.

    `entry` is verbatim: 32 bytes of header, which name this ledger and entry id, then digest and
    payload. `is_recovery`: it is the write-back of a recovery, which a fence lets through.
    `is_deferred_sync`: the add may be answered before the entry is durable; a FORCE follows.
    """

    ledger_id: LedgerId
    entry_id: EntryId
    master_key: bytes
    entry: memoryview
    is_recovery: bool
    is_deferred_sync: bool
    tag: int


class Read(NamedTuple):
    """Read one entry. `entry_id` -1: the last entry that this bookie has.

    `is_fencing`: first fence the ledger durably, with `master_key` (20 bytes; None in other reads).
    `previous_lac` (None: no long poll): wait until the LAC exceeds it, `timeout_ms` at most (>= 0;
    None: do not wait). `is_piggyback`, in a long poll for -1 only: when the LAC has grown, answer
    with the LAC and, if this bookie has it, with entry `previous_lac` + 1.
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
    """Read consecutive entries from `first` on, as many as there are; version 2 only.

    `count_max`: most entries of the answer, without limit when 0 or less. `answer_bytes_max`:
    largest size of the whole answer, its frame included (`v2.BATCH_ANSWER_BYTES`,
    `BATCH_ENTRY_BYTES`). The first entry is sent whatever its size, and its outcome is that of the
    whole answer. A later entry that is not here ends the batch.
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
    """Read the explicit LAC and the last entry."""

    ledger_id: LedgerId
    tag: int


class WriteLac(NamedTuple):
    """Set the explicit LAC. `body`: ledger id, LAC and digest, which the bookie keeps and returns
    verbatim.
    """

    ledger_id: LedgerId
    lac: EntryId
    master_key: bytes
    body: bytes
    tag: int


class Force(NamedTuple):
    """Make the ledger durable: the answer is OK only when every entry that was acknowledged before
    is durable.
    """

    ledger_id: LedgerId
    tag: int


class ListEntries(NamedTuple):
    """Ask which entries of the ledger this bookie has."""

    ledger_id: LedgerId
    tag: int


class BookieInfo(NamedTuple):
    """Ask for the total and free size of the disks, in bytes."""

    wants_total: bool
    wants_free: bool
    tag: int


class Auth(NamedTuple):
    """What a client's authentication plugin sends; a client that has a plugin sends this first."""

    plugin_name: str
    payload: bytes
    tag: int


class StartTls(NamedTuple):
    tag: int


class Refused(NamedTuple):
    """A frame that is no usable request. Send `answer`, which is a whole frame, and go on with the
    connection.
    """

    outcome: Outcome
    why: str
    answer: bytes


Request = (
    Add | Read | BatchRead | ReadLac | WriteLac | Force | ListEntries | BookieInfo | Auth | StartTls
    | Refused
)  # fmt: skip
