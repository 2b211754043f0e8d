"""The bookie's own decision to clear a mark, to take a loss record and to take one back: pure
judgements (R27).

A caller's wish to clear is a request. The bookie reads the metadata itself, linearizably and after
the mark, and its own index; the mark goes only when nothing that must be here is missing.
"""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum

from bookie.ids import BookieId, EntryId
from bookie.protocol.assignment import assigned, lacking
from bookie.protocol.availability import EntrySet
from bookie.protocol.ledger import LedgerMetadata, LedgerState
from bookie.protocol.quorum import write_set
from bookie.protocol.recovery import ACCEPTED_LOSS_KEY


class ClearReason(Enum):
    """Words of the control plane's answer."""

    CLEARED = "Cleared"
    NOT_MARKED = "NotMarked"
    NOT_CLOSED = "NotClosed"
    ENTRIES_MISSING = "EntriesMissing"
    METADATA_UNAVAILABLE = "MetadataUnavailable"
    METADATA_UNREADABLE = "MetadataUnreadable"
    IO_ERROR = "IoError"


@dataclass(frozen=True, slots=True)
class ClearVerdict:
    """`missing`: entries that must be here, are not, and are in no loss record."""

    reason: ClearReason
    message: str = ""
    missing: int = 0

    @property
    def may_clear(self) -> bool:
        return self.reason is ClearReason.CLEARED


def judge_clear(
    metadata: LedgerMetadata | None,
    bookie_id: BookieId,
    *,
    held: EntrySet,
    lost: EntrySet,
    in_limbo: bool,
    was_recovering: bool = True,
) -> ClearVerdict:
    """Whether the mark may go; `metadata` None = the ledger was deleted.

    `was_recovering`: it may have been IN_RECOVERY already when this bookie looked at its boot.

    The caller makes `held` durable (a checkpoint) between this judgement and the clearing.
    """
    if metadata is None:
        return ClearVerdict(ClearReason.CLEARED, "the ledger was deleted")
    # Unchecked as well while IN_RECOVERY: the recoverer may have chosen this bookie as a
    # replacement, which acknowledged a write-back and forgot it, and its closing write alone will
    # name it for that entry (S37). Not so when it began after the boot: nothing was forgotten
    # since, and a recovery that waits for this bookie's word must not be what it waits for.
    is_recovering = metadata.state is LedgerState.IN_RECOVERY
    is_undecided = in_limbo or (was_recovering and is_recovering)
    if is_undecided and not metadata.is_closed:
        return ClearVerdict(
            ClearReason.NOT_CLOSED,
            f"ledger {metadata.ledger_id} is {metadata.state.value}: recover it first",
        )
    missing, lowest = lacking(metadata, bookie_id, held | lost, through=certain_end(metadata))
    if missing:
        first, last = lowest.ranges()[0]
        return ClearVerdict(
            ClearReason.ENTRIES_MISSING,
            f"ledger {metadata.ledger_id}: {missing} entries are missing, "
            f"the first are {first}..{last}: copy them first",
            missing=missing,
        )
    return ClearVerdict(ClearReason.CLEARED)


def must_hold(metadata: LedgerMetadata, bookie_id: BookieId) -> EntrySet:
    """What this bookie owes the ledger for certain.

    CLOSED: its share up to the end. OPEN: its share of the fragments before the last: their entries
    were acknowledged before the last fragment began. An open last fragment that names the
    bookie is either limbo's business or younger than the mark, so nothing of it was forgotten.
    """
    return assigned(metadata, bookie_id, through=certain_end(metadata))


def certain_end(metadata: LedgerMetadata) -> EntryId:
    """The last entry that is owed for certain."""
    if metadata.is_closed:
        return metadata.last_entry_id
    return EntryId(metadata.last_fragment.first_entry_id - 1)


def refuse_loss(
    metadata: LedgerMetadata,
    lost: EntrySet,
    *,
    own_id: BookieId,
    held: EntrySet,
    answered_by: AbstractSet[str],
    by_person: bool,
) -> str:
    """Why a loss record is not taken, empty when it is.

    Nobody may record as lost what is here, nothing at all, or what this bookie (`own_id`) owes the
    ledger no copy of. A person decides about the tail of a ledger that cannot be closed without it
    (S33), so while it is IN_RECOVERY, and of its last fragment: what is before was acknowledged
    for certain. Without a person the ledger must be CLOSED beyond the entry, and every member of
    each lost entry's write set must have answered definitely.
    """
    if lost.is_empty:
        return f"no entry of ledger {metadata.ledger_id} is named: say which are lost"
    present = lost & held
    if not present.is_empty:
        first, last = present.ranges()[0]
        return f"entries {first}..{last} of ledger {metadata.ledger_id} are here: not lost"
    refusal = _refuse_state(metadata, lost, by_person=by_person)
    if refusal:
        return refusal
    foreign = lost - assigned(metadata, own_id, through=lost.last)
    if not foreign.is_empty:
        first, last = foreign.ranges()[0]
        return (
            f"entries {first}..{last} of ledger {metadata.ledger_id} are not stored on {own_id}: "
            "record their loss on the bookies of their write sets"
        )
    if by_person:
        return ""
    silent = _holders(metadata, lost) - set(answered_by)
    if silent:
        return f"{', '.join(sorted(silent))} did not answer definitely: a copy may still be there"
    return ""


def _refuse_state(metadata: LedgerMetadata, lost: EntrySet, *, by_person: bool) -> str:
    """Why entries of a ledger in this state cannot be said to be lost, empty when they can."""
    ledger = f"ledger {metadata.ledger_id}"
    if not by_person:
        if metadata.is_closed and lost.last <= metadata.last_entry_id:
            return ""
        return (
            f"{ledger} is {metadata.state.value} and ends at {metadata.last_entry_id}: "
            f"entry {lost.last} is not known to be lost"
        )
    if metadata.is_closed:
        return (
            f"{ledger} is CLOSED at {metadata.last_entry_id}: what is missing within it is no "
            "person's decision; a repair records it once every member has answered"
        )
    if metadata.state is not LedgerState.IN_RECOVERY:
        return f"{ledger} is {metadata.state.value}: recover it first, it may lack nothing"
    start = metadata.last_fragment.first_entry_id
    first = lost.ranges()[0][0]
    if first < start:
        return (
            f"{ledger}: entry {first} is before the last fragment, which starts at {start}: it was "
            "acknowledged, so that no recovery asks whether it was; repair the ledger"
        )
    return ""


@dataclass(frozen=True, slots=True)
class Retraction:
    """Whether a loss record may be taken back, and what has to be durable together with that."""

    refusal: str = ""
    """Why it stays; empty when it may go."""
    into_limbo: bool = False
    """A mark may have been cleared on the word of the record: the ledger is marked again."""


def judge_retraction(
    metadata: LedgerMetadata | None,
    own_id: BookieId,
    retracted: EntrySet,
    *,
    held: EntrySet,
    in_limbo: bool,
    is_unchecked: bool = False,
) -> Retraction:
    """Whether this bookie may forget that these entries are lost; `metadata` None = deleted.

    `retracted`: of what its records name. A record is asked in one place, `judge_clear`: where the
    bookie owes an entry that is not here, the record let it deny the entry. So such a ledger goes
    into limbo, where absent is unknown, until its entries were copied or every member has searched
    again. Also one that is in limbo: a judgement under way may rest on the record, and a later mark
    outlives it. An OPEN ledger would lose its writer by that, so it is recovered first. The end of
    a CLOSED ledger never changes: what a person gave up beyond it stays on record.
    """
    if metadata is None:
        return Retraction()
    ledger = f"ledger {metadata.ledger_id}"
    if metadata.is_closed and ACCEPTED_LOSS_KEY in metadata.custom:
        end = metadata.last_entry_id
        beyond = [last for _first, last in retracted.ranges() if last > end]
        if beyond:
            return Retraction(
                f"{ledger} was closed at {end} since a person accepted the loss of what is beyond, "
                f"which cannot be undone: found entry {beyond[0]}, expected none after {end}"
            )
    # It may be closed, and cleared on the word of the record, before this is done.
    may_be_cleared = in_limbo and not metadata.is_closed
    if metadata.state is LedgerState.IN_RECOVERY and is_unchecked and not in_limbo:
        return Retraction(
            f"{ledger} is IN_RECOVERY, and its check since the boot has not ended: ask again when "
            "it is closed, the record hinders nobody until then"
        )
    owed = must_hold(metadata, own_id) & retracted - held
    if owed.is_empty and not may_be_cleared:
        return Retraction()
    if metadata.state is LedgerState.OPEN and not in_limbo:
        return Retraction(
            f"{ledger} is OPEN: recover it first, a mark that makes its entries unknown again "
            "would refuse its writer"
        )
    return Retraction(into_limbo=True)


def _holders(metadata: LedgerMetadata, entries: EntrySet) -> set[str]:
    """Every bookie of the write sets of these entries; E different write sets per fragment."""
    holders: set[str] = set()
    for first, last in entries.ranges():
        for entry_id in _one_period(metadata, first, last):
            ensemble = metadata.fragment_of(entry_id).ensemble
            holders.update(
                write_set(entry_id, ensemble=ensemble, write_quorum=metadata.write_quorum)
            )
    return holders


def _one_period(metadata: LedgerMetadata, first: int, last: int) -> list[EntryId]:
    """Entries of the range that show every write set in it: E from each fragment's start on."""
    starts = [first, *(f.first_entry_id for f in metadata.fragments if first < f.first_entry_id)]
    return [
        EntryId(entry_id)
        for start in starts
        for entry_id in range(start, min(start + metadata.ensemble_size, last + 1))
    ]
