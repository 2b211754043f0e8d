"""The effects that one recovery attempt returns to its shell, and its two ends. Values only; see
`recovery`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from bookie.errors import BookieError
from bookie.ids import BookieId, EntryId
from bookie.protocol.ledger import LedgerMetadata
from bookie.protocol.status import Status
from bookie.protocol.writeback import AddRun, Replace


@dataclass(frozen=True, slots=True)
class WriteMetadata:
    """Compare-and-set this metadata; answer with `on_metadata_written`, or re-read and answer with
    `on_metadata_conflict`.
    """

    metadata: LedgerMetadata
    version: int


@dataclass(frozen=True, slots=True)
class FenceLac:
    """Send a fencing LAC read; answer with `on_lac`."""

    op: int
    bookie_id: BookieId


@dataclass(frozen=True, slots=True)
class ReadEntries:
    """Send a range read, fencing if `fence`; answer with `on_read`."""

    op: int
    bookie_id: BookieId
    first: EntryId
    last: EntryId
    fence: bool


@dataclass(frozen=True, slots=True)
class Missing:
    """An entry at or below a proven LAC that no member returned: lost, or its holders are down."""

    entry_id: EntryId
    answers: Mapping[BookieId, Status]


@dataclass(frozen=True, slots=True)
class Recovered:
    """The ledger is CLOSED."""

    metadata: LedgerMetadata
    version: int
    """The version of `metadata` in the store."""
    adopted: bool
    """Another client closed it: the findings of this attempt do not count."""
    recovered: int = 0
    """How many entries were found and written back."""
    corrupt: tuple[tuple[BookieId, EntryId], ...] = ()
    """Corrupt copies that the attempt saw."""
    missing: tuple[Missing, ...] = ()
    """Acknowledged entries that no member could return; ids rise."""


@dataclass(frozen=True, slots=True)
class Abort:
    """The attempt closed nothing; `error` says why. `missing` and `corrupt` are as in Recovered."""

    error: BookieError
    corrupt: tuple[tuple[BookieId, EntryId], ...] = ()
    missing: tuple[Missing, ...] = ()


Effect = WriteMetadata | FenceLac | ReadEntries | AddRun | Replace | Recovered | Abort


@dataclass(frozen=True, slots=True)
class AcceptedLoss:
    """A person's decision to close before `first_entry_id` although its loss is only possible.

    It applies only if every member of the entry's write set answered, none has a copy, and exactly
    this entry is the one that cannot be decided. `record` goes into the ledger's metadata.
    """

    first_entry_id: EntryId
    record: bytes
