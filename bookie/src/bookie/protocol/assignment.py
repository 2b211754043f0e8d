"""Which entries a bookie should hold: round-robin striping over all fragments, as intervals.

Pure arithmetic on ledger metadata; the bookie's own clear rule and the audit both ask here.
"""

import numpy as np

from bookie.ids import BookieId, EntryId
from bookie.protocol.availability import EMPTY, EntrySet
from bookie.protocol.ledger import Fragment, LedgerMetadata


def assigned(metadata: LedgerMetadata, bookie_id: BookieId, *, through: EntryId) -> EntrySet:
    """The entries <= `through` that belong on this bookie, over all fragments.

    A CLOSED ledger owes nothing beyond its end, whatever `through` says.
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
