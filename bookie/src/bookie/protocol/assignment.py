"""Which entries a bookie should hold: round-robin striping over all fragments, as intervals.

Pure arithmetic on ledger metadata; the bookie's own clearing and the audit both use it. Every
client may write metadata and so name any end; therefore the limits below bound the work.
"""

from typing import Final

import numpy as np

from bookie.ids import BookieId, EntryId
from bookie.protocol.availability import EMPTY, EntrySet, Ids
from bookie.protocol.ledger import Fragment, LedgerMetadata

ENTRIES_MAX: Final = 1 << 40
"""Entries of a ledger for which shares are computed: a writer of a million entries a second needs
twelve days for so many."""
STRIPES_MAX: Final = 1 << 24
"""Stripes of a ledger with Qw < E: each stripe is one interval on each bookie."""


def entries_max(metadata: LedgerMetadata) -> int:
    """How many entries a ledger with these quorums may have while shares can still be computed."""
    is_striped = metadata.write_quorum < metadata.ensemble_size
    return min(ENTRIES_MAX, STRIPES_MAX * metadata.ensemble_size) if is_striped else ENTRIES_MAX


def refuse_length(metadata: LedgerMetadata) -> str:
    """Why the ledger is too long to compute what its bookies owe it; empty when it is not."""
    highest = max(metadata.last_entry_id, metadata.last_fragment.first_entry_id)
    if highest < entries_max(metadata):
        return ""
    return (
        f"ledger {metadata.ledger_id} with quorums {metadata.ensemble_size}/"
        f"{metadata.write_quorum} names entry {highest}, expected less than {entries_max(metadata)}"
    )


def assigned(metadata: LedgerMetadata, bookie_id: BookieId, *, through: EntryId) -> EntrySet:
    """The entries <= `through` that belong on this bookie, over all fragments.

    Of a CLOSED ledger no bookie owes an entry beyond its end, whatever `through` says.
    """
    end = min(through, metadata.last_entry_id) if metadata.is_closed else through
    owed = EMPTY
    for fragment, last in fragment_ends(metadata, through=EntryId(end)):
        if bookie_id in fragment.ensemble:
            owed |= held_by_position(
                fragment.ensemble.index(bookie_id),
                first=fragment.first_entry_id,
                last=last,
                ensemble_size=metadata.ensemble_size,
                write_quorum=metadata.write_quorum,
            )
    return owed


def lacking(
    metadata: LedgerMetadata, bookie_id: BookieId, have: EntrySet, *, through: EntryId
) -> tuple[int, EntrySet]:
    """How many of the entries <= `through` that belong on this bookie are not in `have`, and the
    first few of them. The work grows with the intervals of `have`, not with the number of stripes.
    """
    count, first = 0, EMPTY
    size, quorum = metadata.ensemble_size, metadata.write_quorum
    for fragment, last in fragment_ends(metadata, through=through):
        if bookie_id not in fragment.ensemble:
            continue
        start, position = fragment.first_entry_id, fragment.ensemble.index(bookie_id)
        gaps = EntrySet.from_ranges([(start, last)]) - have.clip(start, last)
        offset = (position - quorum + 1) % size
        owed = _counted(gaps.ends + 1 - offset, size, quorum)
        owed -= _counted(gaps.starts - offset, size, quorum)
        count += int(owed.sum())
        if first.is_empty and owed.any():
            at = int(np.flatnonzero(owed)[0])
            low, high = gaps.ranges()[at]
            first = held_by_position(
                position,
                first=low,
                last=high if quorum == size else EntryId(min(high, low + 2 * size)),
                ensemble_size=size,
                write_quorum=quorum,
            )
    return count, first


def _counted(ids: Ids, size: int, quorum: int) -> Ids:
    """For each of `ids`: how many smaller ids are among the first `quorum` of a stretch of `size`
    ids.
    """
    return ids // size * quorum + np.minimum(ids % size, quorum)


def fragment_ends(metadata: LedgerMetadata, *, through: EntryId) -> list[tuple[Fragment, EntryId]]:
    """Each fragment that holds entries <= `through`, with its last such entry."""
    nexts = [fragment.first_entry_id for fragment in metadata.fragments[1:]]
    lasts = [min(EntryId(first - 1), through) for first in nexts] + [through]
    return [
        (fragment, last)
        for fragment, last in zip(metadata.fragments, lasts, strict=True)
        if fragment.first_entry_id <= last
    ]


def held_by_position(
    position: int, *, first: EntryId, last: EntryId, ensemble_size: int, write_quorum: int
) -> EntrySet:
    """The entries of `first`..`last` whose write set holds this ensemble position."""
    assert 0 <= position < ensemble_size
    assert first <= last
    if write_quorum == ensemble_size:
        return EntrySet.from_ranges([(first, last)])
    # Position p holds e iff e mod E is one of p-Qw+1..p: a sequence of Qw ids in every E.
    head = first - (first - (position - write_quorum + 1)) % ensemble_size
    starts = np.arange(head, last + 1, ensemble_size, dtype=np.int64)
    ends = np.minimum(starts + (write_quorum - 1), last)
    starts = np.maximum(starts, first)
    real = starts <= ends
    return EntrySet(starts[real], ends[real])  # Qw < E: two sequences never touch
