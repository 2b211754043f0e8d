"""What one recovery attempt asks of its shell, and how it ends. Values only; see `recovery`."""

from collections.abc import Mapping
from dataclasses import dataclass

from bookie.errors import BookieError
from bookie.ids import BookieId, EntryId
from bookie.protocol.ledger import LedgerMetadata
from bookie.protocol.status import Status
from bookie.protocol.writeback import AddRun, Replace


@dataclass(frozen=True, slots=True)
class WriteMetadata:
    """Compare-and-set; answer with `on_metadata_written`, or re-read and `on_metadata_conflict`."""

    metadata: LedgerMetadata
    version: int


@dataclass(frozen=True, slots=True)
class FenceLac:
    """A fencing LAC read; answer with `on_lac`."""

    op: int
    bookie_id: BookieId


@dataclass(frozen=True, slots=True)
class ReadEntries:
    """A range read, fencing if `fence`; answer with `on_read`."""

    op: int
    bookie_id: BookieId
    first: EntryId
    last: EntryId
    fence: bool


@dataclass(frozen=True, slots=True)
class Missing:
    """An entry at or below a proven LAC that nobody could return: lost, or its holders are away."""

    entry_id: EntryId
    answers: Mapping[BookieId, Status]


@dataclass(frozen=True, slots=True)
class Recovered:
    """The ledger is CLOSED."""

    metadata: LedgerMetadata
    version: int
    """Of `metadata` in the store."""
    adopted: bool
    """Somebody else closed it: what this attempt has found is void."""
    recovered: int = 0
    """Entries written back."""
    corrupt: tuple[tuple[BookieId, EntryId], ...] = ()
    """Bad copies seen."""
    missing: tuple[Missing, ...] = ()
    """Entries that were acknowledged and could not be returned; ids rise."""


@dataclass(frozen=True, slots=True)
class Abort:
    """The attempt closed nothing; `missing` and `corrupt` as in Recovered."""

    error: BookieError
    corrupt: tuple[tuple[BookieId, EntryId], ...] = ()
    missing: tuple[Missing, ...] = ()


Effect = WriteMetadata | FenceLac | ReadEntries | AddRun | Replace | Recovered | Abort


@dataclass(frozen=True, slots=True)
class AcceptedLoss:
    """A person's decision to close before `first_entry_id` although its loss is only possible.

    Honoured only if every member of its write set answered, no copy appeared, and exactly that
    entry is the one that cannot be decided. `record` is kept in the ledger's metadata.
    """

    first_entry_id: EntryId
    record: bytes
