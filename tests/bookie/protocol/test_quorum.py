"""Write sets and coverage against an oracle that tries every set of silent bookies."""

from itertools import combinations

import pytest
from bookie.ids import BookieId, EntryId
from bookie.protocol.quorum import covers, fence_covers, write_set, write_set_positions
from hypothesis import given
from hypothesis import strategies as st

ENSEMBLE = tuple(map(BookieId, ("b0", "b1", "b2", "b3")))
shapes = st.tuples(st.integers(1, 6), st.integers(1, 6), st.integers(1, 6)).map(
    lambda numbers: tuple(sorted(numbers, reverse=True))
)


def test_a_write_set_goes_round_the_ensemble() -> None:
    assert write_set(EntryId(3), ensemble=ENSEMBLE, write_quorum=3) == ("b3", "b0", "b1")
    assert write_set(EntryId(8), ensemble=ENSEMBLE, write_quorum=2) == ("b0", "b1")


@given(shape=shapes, entry_id=st.integers(0, 2**62))
def test_a_write_set_has_a_write_quorum_of_different_positions(
    shape: tuple[int, int, int], entry_id: int
) -> None:
    size, quorum, _acks = shape
    positions = write_set_positions(EntryId(entry_id), ensemble_size=size, write_quorum=quorum)
    assert len(set(positions)) == len(positions) == quorum
    assert positions == tuple((entry_id + step) % size for step in range(quorum))


@given(shape=shapes)
def test_every_position_stores_a_write_quorum_of_each_stripe(shape: tuple[int, int, int]) -> None:
    size, quorum, _acks = shape
    stored = [
        position
        for entry_id in range(size)
        for position in write_set_positions(
            EntryId(entry_id), ensemble_size=size, write_quorum=quorum
        )
    ]
    assert all(stored.count(position) == quorum for position in range(size))


@given(cohort=st.integers(1, 8), acks=st.integers(1, 8), answered=st.integers(0, 8))
def test_covers_when_the_silent_members_are_fewer_than_an_ack_quorum(
    cohort: int, acks: int, answered: int
) -> None:
    acks, answered = min(acks, cohort), min(answered, cohort)
    assert covers(answered, cohort=cohort, ack_quorum=acks) == (cohort - answered < acks)


def some_entry_can_still_be_acked(
    known: frozenset[int], *, size: int, quorum: int, acks: int
) -> bool:
    """The dumb way: look for an ack quorum, in any write set, that nobody has fenced."""
    return any(
        not known & set(quorum_of_acks)
        for entry_id in range(size)
        for quorum_of_acks in combinations(
            write_set_positions(EntryId(entry_id), ensemble_size=size, write_quorum=quorum), acks
        )
    )


@given(shape=shapes, known=st.frozensets(st.integers(0, 5)))
def test_a_fence_covers_exactly_when_no_entry_can_be_acked_any_more(
    shape: tuple[int, int, int], known: frozenset[int]
) -> None:
    size, quorum, acks = shape
    covered = fence_covers(known, ensemble_size=size, write_quorum=quorum, ack_quorum=acks)
    assert covered != some_entry_can_still_be_acked(known, size=size, quorum=quorum, acks=acks)


@pytest.mark.parametrize("known, covered", [({0, 1}, False), ({0, 2}, True), ({1, 3}, True)])
def test_s6_a_plain_count_over_a_striped_ensemble_is_not_enough(
    known: set[int], covered: bool
) -> None:
    assert fence_covers(known, ensemble_size=4, write_quorum=2, ack_quorum=2) is covered
