"""Whether a bookie may clear a mark, take a loss record, or take one back: pure judgements (R27).

The bookie decides itself; a caller can only ask. It reads its own index and, linearizably and after
the mark was made, the ledger's metadata. It clears the mark only when it holds every entry that it
must hold.
"""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum

from bookie.ids import BookieId, EntryId
from bookie.protocol.assignment import assigned, lacking
from bookie.protocol.availability import EMPTY, EntrySet
from bookie.protocol.ledger import LedgerMetadata, LedgerState
from bookie.protocol.quorum import write_set
from bookie.protocol.recovery import ACCEPTED_LOSS_KEY


class ClearReason(Enum):
    """The outcome of a request to clear; the control plane answers with these words."""

    CLEARED = "Cleared"
    NOT_MARKED = "NotMarked"
    NOT_CLOSED = "NotClosed"
    ENTRIES_MISSING = "EntriesMissing"
    METADATA_UNAVAILABLE = "MetadataUnavailable"
    METADATA_UNREADABLE = "MetadataUnreadable"
    IO_ERROR = "IoError"


@dataclass(frozen=True, slots=True)
class ClearVerdict:
    """Whether a mark may go, and why not. `missing`: how many entries the bookie must hold, does
    not hold, and has no loss record for.
    """

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
    """Decide whether the mark may go; `metadata` None = the ledger was deleted.

    `was_recovering`: the ledger may already have been IN_RECOVERY when this bookie looked at it at
    its boot.

    Between this judgement and the clearing the caller must make `held` durable (by a checkpoint).
    """
    if metadata is None:
        return ClearVerdict(ClearReason.CLEARED, "the ledger was deleted")
    # Limbo ends with the close, or once the writer has replaced this bookie: while the ledger is
    # OPEN no recovery has begun, and one that begins later asks for nothing that this bookie may
    # have forgotten. It reads the last fragment, and acknowledgements that this bookie gave for
    # entries of it were taken back with the ensemble change (R20).
    #
    # An unchecked mark stays as well while the ledger is IN_RECOVERY: the recoverer may have chosen
    # this bookie as a replacement, and this bookie may have acknowledged a write-back and forgotten
    # it; only the closing write will name it for that entry (S37). This does not apply to a
    # recovery that began after the boot: this bookie has forgotten nothing since, and if the mark
    # waited for a recovery that itself waits for this bookie's answer, neither would end.
    is_recovering = metadata.state is LedgerState.IN_RECOVERY
    is_awaited = in_limbo and not is_left_to_writer(metadata, bookie_id)
    is_undecided = is_awaited or (was_recovering and is_recovering)
    if is_undecided and not metadata.is_closed:
        return ClearVerdict(
            ClearReason.NOT_CLOSED,
            f"ledger {metadata.ledger_id} is {metadata.state.value} and may still need this "
            "bookie: its writer replaces it, or recover the ledger",
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


def is_left_to_writer(metadata: LedgerMetadata, *marked: BookieId) -> bool:
    """True when the ledger is OPEN and its last fragment names none of the `marked` bookies: a live
    writer has replaced them, and the ledger needs no recovery.
    """
    is_named = not set(marked).isdisjoint(metadata.last_fragment.ensemble)
    return metadata.state is LedgerState.OPEN and not is_named


def must_hold(metadata: LedgerMetadata, bookie_id: BookieId) -> EntrySet:
    """The entries that this bookie certainly owes the ledger.

    Of a CLOSED ledger: its share up to the end. Of another: its share of the fragments before the
    last, whose entries were acknowledged before the last fragment began. If the open last fragment
    names the bookie, then either the ledger is in limbo, or the fragment is younger than the mark
    and the bookie has forgotten nothing of it.
    """
    return assigned(metadata, bookie_id, through=certain_end(metadata))


def certain_end(metadata: LedgerMetadata) -> EntryId:
    """The last entry that bookies certainly owe this ledger."""
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
    """Why this bookie refuses a loss record; empty when it takes the record.

    Refused are: a record of no entry; an entry that is here; an entry of which this bookie
    (`own_id`) owes no copy. A person may decide only about the tail of a ledger that cannot be
    closed otherwise (S33): the ledger is IN_RECOVERY and the entry is in its last fragment, since
    all earlier entries were certainly acknowledged. Without a person (`by_person`) the ledger must
    be CLOSED beyond the entry, and every member of each lost entry's write set must be in
    `answered_by`, the bookies that answered definitely.
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
    """Why nobody may record entries of a ledger in this state as lost; empty when one may."""
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


def found_losses(metadata: LedgerMetadata, lost: EntrySet, *, held: EntrySet) -> EntrySet:
    """Entries of a loss record that the bookie itself holds, within the end of a CLOSED ledger: the
    record is wrong about them. What a person gave up beyond the end stays: it cannot be undone.
    """
    if not metadata.is_closed or metadata.last_entry_id < 0:
        return EMPTY
    return lost & held & EntrySet.from_ranges([(0, metadata.last_entry_id)])


@dataclass(frozen=True, slots=True)
class Retraction:
    """Whether a bookie may take a loss record back, and what must become durable together with
    that.
    """

    refusal: str = ""
    """Why the record stays; empty when it may go."""
    into_limbo: bool = False
    """The record may have been the reason to clear a mark: put the ledger into limbo again."""


def judge_retraction(
    metadata: LedgerMetadata | None,
    own_id: BookieId,
    retracted: EntrySet,
    *,
    held: EntrySet,
    in_limbo: bool,
    is_unchecked: bool = False,
) -> Retraction:
    """Decide whether this bookie may take back that these entries are lost; `metadata` None =
    deleted.

    `retracted`: those entries of its records that are taken back. Only `judge_clear` uses loss
    records: if the bookie owed an entry that it did not hold, the record let it clear the mark, and
    then it denies the entry. So such a ledger goes into limbo, where an absent entry is unknown,
    until its entries are copied or every member has searched again. A ledger that is in limbo is
    marked again too: a judgement under way may rest on the record, and the new mark outlives that
    judgement. A mark would shut out the writer of an OPEN ledger, so somebody must recover it
    first. The end of a CLOSED ledger never changes, so the loss that a person accepted beyond it
    stays on record.
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
    # The ledger may be closed, and its mark cleared because of the record, before this is done.
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
    """Every bookie in the write sets of these entries. A fragment has at most E different write
    sets.
    """
    holders: set[str] = set()
    for first, last in entries.ranges():
        for entry_id in _one_period(metadata, first, last):
            ensemble = metadata.fragment_of(entry_id).ensemble
            holders.update(
                write_set(entry_id, ensemble=ensemble, write_quorum=metadata.write_quorum)
            )
    return holders


def _one_period(metadata: LedgerMetadata, first: int, last: int) -> list[EntryId]:
    """Entries that cover every write set in the range: E entries from each fragment's start on."""
    starts = [first, *(f.first_entry_id for f in metadata.fragments if first < f.first_entry_id)]
    return [
        EntryId(entry_id)
        for start in starts
        for entry_id in range(start, min(start + metadata.ensemble_size, last + 1))
    ]
