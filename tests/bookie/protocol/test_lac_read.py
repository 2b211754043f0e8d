"""The LAC from the members of an ensemble: which answers count, and when they are enough."""

import pytest
from bookie.errors import UnauthorizedError, UndecidableError
from bookie.ids import EntryId
from bookie.protocol.lac_read import LacRead
from bookie.protocol.status import Status
from recovery_lab import ledger

OK, UNK = Status.OK, Status.UNKNOWN


def lac_read(*answers: tuple[Status, int], fence: bool = False) -> LacRead:
    core = LacRead(ledger(3, 3, 2), fence=fence)
    for position, (status, lac) in enumerate(answers):
        core.on_lac(position, status, EntryId(lac))
    return core


def test_the_lac_is_the_highest_of_enough_answers() -> None:
    core = lac_read((OK, 4), (OK, 7))
    assert core.is_covered and core.result() == 7


def test_a_limbo_answer_covers_nothing_for_a_lac() -> None:
    core = lac_read((OK, 4), (UNK, 9))
    assert not core.is_covered and core.result() == 4


def test_a_lac_nobody_can_tell_is_undecidable() -> None:
    with pytest.raises(UndecidableError, match="bookie-1: UNREACHABLE"):
        lac_read((UNK, -1), (Status.UNREACHABLE, -1), (UNK, -1)).result()


def test_b3_a_lac_is_refused_when_all_members_refuse_the_key() -> None:
    refused = (Status.UNAUTHORIZED, -1)
    assert lac_read((OK, 4), refused, refused).result() == 4
    with pytest.raises(UnauthorizedError):
        lac_read(refused, refused, refused).result()


def test_a_limbo_answer_covers_a_fence_and_its_lac_does_not_count() -> None:
    core = lac_read((OK, 4), (UNK, 9), fence=True)
    assert core.is_covered and core.lac == 4


def test_who_has_answered_is_named_in_the_order_of_the_ensemble() -> None:
    core = lac_read((OK, 4), (Status.UNREACHABLE, -1))
    assert core.text() == "bookie-0: OK, bookie-1: UNREACHABLE"
