"""Write sets and coverage: the arithmetic of quorums, with striping (R1, R2).

E, Qw, Qa: ensemble size, write quorum, ack quorum. Entry e lives on positions (e + i) mod E,
i = 0..Qw-1, of its fragment's ensemble.
"""

from collections.abc import Collection, Sequence

from bookie.ids import BookieId, EntryId


def write_set_positions(
    entry_id: EntryId, *, ensemble_size: int, write_quorum: int
) -> tuple[int, ...]:
    """The ensemble positions that store this entry, in order."""
    assert entry_id >= 0
    assert 0 < write_quorum <= ensemble_size
    start = entry_id % ensemble_size
    return tuple((start + step) % ensemble_size for step in range(write_quorum))


def write_set(
    entry_id: EntryId, *, ensemble: Sequence[BookieId], write_quorum: int
) -> tuple[BookieId, ...]:
    """The bookies that store this entry: `write_quorum` of them, striped by entry id."""
    positions = write_set_positions(
        entry_id, ensemble_size=len(ensemble), write_quorum=write_quorum
    )
    return tuple(ensemble[position] for position in positions)


def covers(answered: int, *, cohort: int, ack_quorum: int) -> bool:
    """True when no ack quorum can be formed from the silent members of the cohort (R1)."""
    assert 0 < ack_quorum <= cohort
    return answered >= cohort - ack_quorum + 1


def fence_covers(
    known: Collection[int], *, ensemble_size: int, write_quorum: int, ack_quorum: int
) -> bool:
    """True when each of the E write sets has fewer than Qa members outside `known` (R2).

    `known`: ensemble positions that answered with authority (fenced, or a denial that fences).
    Counting over the whole ensemble is wrong with striping: with E4/Qw2/Qa2 and positions 0 and 1
    known, {2, 3} can still acknowledge.
    """
    return all(
        sum(
            position not in known
            for position in write_set_positions(
                EntryId(start), ensemble_size=ensemble_size, write_quorum=write_quorum
            )
        )
        < ack_quorum
        for start in range(ensemble_size)
    )
