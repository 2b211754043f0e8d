"""Copies by bookie add up: held, missing or unknown is what is owed; corrupt ones are missing."""

from itertools import product

import pytest
from bookie.ids import BookieId
from bookie.protocol.availability import EntrySet
from bookie.repair.judge.expect import Share
from bookie.repair.judge.tally import Tally, summed, tally_of, whole

B0, B1 = BookieId("bookie-0"), BookieId("bookie-1")


def share(*, held: int, rotten: int, absent: int, unknown: int) -> Share:
    """So many copies of each kind, one kind after the other."""
    ends = [held, held + rotten, held + rotten + absent, held + rotten + absent + unknown]
    present, missing = EntrySet.from_ids(range(held)), EntrySet.from_ids(range(held, ends[2]))
    return Share(
        owed=EntrySet.from_ids(range(ends[3])), present=present, missing=missing,
        unknown=EntrySet.from_ids(range(ends[2], ends[3])), lacking=missing,
        corrupt=EntrySet.from_ids(range(held, ends[1])),
    )  # fmt: skip


@pytest.mark.parametrize(("held", "rotten", "absent", "unknown"), list(product((0, 2), repeat=4)))
def test_each_copy_counts_once_and_a_corrupt_one_as_missing_too(
    held: int, rotten: int, absent: int, unknown: int
) -> None:
    found = tally_of(share(held=held, rotten=rotten, absent=absent, unknown=unknown))
    assert found == Tally(held + rotten + absent + unknown, held, rotten + absent, unknown, rotten)
    assert found.owed == found.held + found.missing + found.unknown


def test_tallies_are_summed_bookie_by_bookie_and_kind_by_kind() -> None:
    parts = (
        {B0: Tally(5, 1, 3, 1, 2)},
        {B0: Tally(7, 7), B1: Tally(9, 2, 3, 4, 1)},
        whole({B1: 6}),
    )
    assert summed(parts) == {B0: Tally(12, 8, 3, 1, 2), B1: Tally(15, 8, 3, 4, 1)}
