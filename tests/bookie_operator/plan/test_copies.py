"""What the last audit and the last scrub say of copies: whose may be the last, of which ledgers."""

import pytest
from bookie_operator.model.audit_status import AuditStatus, Holders, LastCopies, ScrubStatus
from bookie_operator.plan.copies import Copies, copies_of
from operator_scenes import cluster

ONE = Holders(known=("bookie-1",), entries=9, ledgers=1, first_ledgers=(7,))
HELD = LastCopies(entries=9, groups=1, held_by=(ONE,))


@pytest.mark.parametrize(("found", "replaced"), [(0, 0), (2, 2), (2, 1), (2, 0)])
@pytest.mark.parametrize("named", [HELD, None])
def test_a_scrub_is_asked_only_where_it_left_corrupt_copies(
    found: int, replaced: int, named: LastCopies | None
) -> None:
    scrub = ScrubStatus(corrupt_found=found, corrupt_replaced=replaced, last_copies=named)
    made = copies_of(cluster().spec, AuditStatus(), scrub)
    is_asked = found > replaced
    assert made.last == ((ONE,) if named and is_asked else ())
    assert bool(made.nobody_knows) is (named is None and is_asked)


@pytest.mark.parametrize(
    ("ledgers", "first", "words"),
    [
        (1, (7,), "7"),
        (2, (7,), "7, ..."),
        (5, range(5), "0, 1, 2, 3, 4"),
        (6, range(6), "0, 1, 2, 3, 4, ..."),
        (9, range(5), "0, 1, 2, 3, 4, ..."),
    ],
)
def test_ledgers_that_are_not_named_are_hinted_at(
    ledgers: int, first: tuple[int, ...], words: str
) -> None:
    held = ONE.model_copy(update={"ledgers": ledgers, "first_ledgers": tuple(first)})
    told = Copies(2, "", "", last=(held,)).taken_with("bookie-1", ())  # type: ignore[arg-type]
    assert told == f"bookie-1 may hold the last known copies of 9 entries (ledgers {words})"
