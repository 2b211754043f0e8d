"""Ledger metadata and its legal transitions: values, never changed in place.

OPEN -> IN_RECOVERY -> CLOSED, or OPEN -> CLOSED by the writer; CLOSED is terminal (R18).
The store's version is the compare-and-set token; the codec is `metadata.codec`.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from bookie.errors import BadRequestError
from bookie.frames.entry import DigestType
from bookie.ids import NO_ENTRY, BookieId, EntryId, LedgerId


class LedgerState(Enum):
    OPEN = "OPEN"
    IN_RECOVERY = "IN_RECOVERY"
    CLOSED = "CLOSED"


@dataclass(frozen=True, slots=True)
class Fragment:
    """The entries from `first_entry_id` up to the next fragment, and the ensemble that has them."""

    first_entry_id: EntryId
    ensemble: tuple[BookieId, ...]


@dataclass(frozen=True, slots=True)
class LedgerMetadata:
    """What the metadata store says of one ledger."""

    ledger_id: LedgerId
    ensemble_size: int
    """E >= Qw >= Qa >= 1; the three never change."""
    write_quorum: int
    ack_quorum: int
    fragments: tuple[Fragment, ...]
    """At least one; starts rise from 0; each ensemble has E bookies."""
    digest_type: DigestType = DigestType.CRC32C
    password: bytes = field(default=b"", repr=False)
    """The store keeps it as it is; bookies see only the master key that is derived from it."""
    state: LedgerState = LedgerState.OPEN
    last_entry_id: EntryId = NO_ENTRY
    """The last entry, -1 = the ledger is empty; valid only when CLOSED."""
    length: int = 0
    """Payload bytes up to the end; valid only when CLOSED, and 0 when the recovery could not read
    the last entry."""
    ctime_ms: int = 0
    """When the ledger was created, in milliseconds of the client's clock; for people only."""
    creation_token: int = 0
    """Distinguishes our own retried create from a collision of ids (cToken)."""
    custom: Mapping[str, bytes] = field(default_factory=dict)
    """Values of the application, and ours under `bookie-operator.`; every change keeps them."""
    password_is_stored: bool = True
    """False for a ledger older than stored passwords (BookKeeper 4.1): neither its password nor its
    digest type is known. Then `password` is empty and `digest_type` a guess, both never stored."""

    def __post_init__(self) -> None:
        assert self.password_is_stored or not self.password
        if not self.ensemble_size >= self.write_quorum >= self.ack_quorum >= 1:
            raise BadRequestError(
                f"ledger {self.ledger_id}: quorums need ensemble >= write >= ack >= 1, "
                f"found {self.ensemble_size}/{self.write_quorum}/{self.ack_quorum}"
            )
        starts = [fragment.first_entry_id for fragment in self.fragments]
        if not starts or starts[0] != 0 or starts != sorted(set(starts)):
            raise BadRequestError(
                f"ledger {self.ledger_id}: fragments start at {starts}, expected 0 and rising"
            )
        if any(len(fragment.ensemble) != self.ensemble_size for fragment in self.fragments):
            raise BadRequestError(
                f"ledger {self.ledger_id}: an ensemble has not {self.ensemble_size} bookies"
            )

    @property
    def is_closed(self) -> bool:
        return self.state is LedgerState.CLOSED

    @property
    def last_fragment(self) -> Fragment:
        return self.fragments[-1]

    def fragment_of(self, entry_id: EntryId) -> Fragment:
        """The fragment that holds this entry id."""
        starts = [fragment.first_entry_id for fragment in self.fragments]
        return self.fragments[max(bisect_right(starts, entry_id) - 1, 0)]

    def names(self, bookie_id: BookieId) -> bool:
        """True when any fragment's ensemble holds this bookie."""
        return any(bookie_id in fragment.ensemble for fragment in self.fragments)

    def in_recovery(self) -> "LedgerMetadata":
        """The value a recoverer writes first (R11); legal from OPEN and IN_RECOVERY."""
        assert not self.is_closed
        return replace(self, state=LedgerState.IN_RECOVERY)

    def closed(
        self, last_entry_id: EntryId, *, length: int, fragments: Sequence[Fragment] | None = None
    ) -> "LedgerMetadata":
        """The closing value: end, length and, after a recovery, the new fragments, in one write
        (R14).
        """
        assert not self.is_closed
        assert last_entry_id >= NO_ENTRY
        return replace(
            self,
            state=LedgerState.CLOSED,
            last_entry_id=last_entry_id,
            length=length,
            fragments=tuple(fragments) if fragments is not None else self.fragments,
        )

    def with_fragments(self, fragments: Sequence[Fragment]) -> "LedgerMetadata":
        """This ledger with other fragments: after an ensemble change or a re-replication."""
        return replace(self, fragments=tuple(fragments))


def changed_ensemble(
    fragments: Sequence[Fragment],
    *,
    first_entry_id: EntryId,
    replacements: Mapping[int, BookieId],
) -> tuple[Fragment, ...]:
    """Fragments after replacing positions of the last ensemble from `first_entry_id` on.

    A fragment that starts at the same id is replaced, since it holds no acknowledged entry; a
    start below the last fragment is a defect of the caller (#2615).
    """
    last = fragments[-1]
    assert first_entry_id >= last.first_entry_id
    ensemble = tuple(
        replacements.get(position, bookie) for position, bookie in enumerate(last.ensemble)
    )
    kept = fragments[:-1] if last.first_entry_id == first_entry_id else fragments
    return (*kept, Fragment(first_entry_id, ensemble))
