"""The judgement of many ledgers at once against the one of each by itself."""

from dataclasses import replace

import numpy as np
import pytest
from audit_cases import LEDGER_OF_THREE, answer_columns, ledger_columns
from bookie.ids import EntryId
from bookie.protocol.availability import EntrySet
from bookie.protocol.status import Status
from bookie.repair.judge.bulk import judge_bulk
from bookie.repair.judge.columns import Answer

WHOLE = EntrySet.from_ranges([(0, 9)]).encode()


def doubtful(*answers: Answer) -> bool:
    """One ledger of entries 0..9 on three bookies, whole on two, with these answers of the rest."""
    said = [Answer(Status.OK, WHOLE)] * (3 - len(answers)) + list(answers)
    columns = ledger_columns([LEDGER_OF_THREE])
    return bool(judge_bulk(columns, answer_columns(columns, [said])).is_doubtful[0])


def group(first: int, last: int, size: int, period: int) -> bytes:
    parts = np.array([(first, last, size, period)], ">i8,>i8,>i4,>i4")
    return parts.tobytes()


def blob(*groups: bytes, version: int = 0) -> bytes:
    head = np.array([version, len(groups)], ">i4").tobytes().ljust(64, b"\0")
    return head + b"".join(groups)


def test_a_whole_ledger_is_not_doubtful() -> None:
    assert not doubtful()


@pytest.mark.parametrize("cut", [1, 63, 65, 87, 89])
def test_a_blob_of_another_length_is_doubtful(cut: int) -> None:
    assert doubtful(Answer(Status.OK, WHOLE.ljust(cut, b"\0")[:cut]))


def test_an_empty_string_says_nothing() -> None:
    assert doubtful(Answer(Status.OK, b""))


@pytest.mark.parametrize("status", [Status.UNREACHABLE, Status.IO_ERROR, Status.UNKNOWN])
def test_a_bookie_that_did_not_search_is_doubtful_whatever_it_lists(status: Status) -> None:
    assert doubtful(Answer(status, WHOLE))


@pytest.mark.parametrize("status", [Status.UNREACHABLE, Status.IO_ERROR])
def test_a_mark_is_no_word_of_a_bookie_that_did_not_search(status: Status) -> None:
    assert doubtful(Answer(status, WHOLE, limbo=True))


def test_a_marked_bookie_that_holds_everything_is_fine_and_counted() -> None:
    columns = ledger_columns([LEDGER_OF_THREE])
    said = [Answer(Status.OK, WHOLE)] * 2 + [Answer(Status.UNKNOWN, WHOLE, limbo=True)]
    judged = judge_bulk(columns, answer_columns(columns, [said]))
    assert judged.is_marked[0] and not judged.is_doubtful[0]


def test_groups_that_overlap_do_not_hide_a_hole() -> None:
    assert doubtful(Answer(Status.OK, blob(group(0, 0, 6, 0), group(4, 4, 4, 0))))


def test_groups_out_of_order_are_doubtful_and_spoil_no_others() -> None:
    assert doubtful(Answer(Status.OK, blob(group(5, 5, 5, 0), group(0, 0, 5, 0))))


def test_unmerged_groups_of_another_encoder_are_counted() -> None:
    runs = [group(first, first, 2, 0) for first in range(0, 10, 2)]
    assert not doubtful(Answer(Status.OK, blob(*runs)))


def test_a_group_with_gaps_has_gaps() -> None:
    assert doubtful(Answer(Status.OK, blob(group(0, 8, 1, 2))))
    assert not doubtful(Answer(Status.OK, blob(group(0, 8, 2, 2))))


@pytest.mark.parametrize(
    "bad",
    [blob(version=1), blob(group(-1, 3, 1, 4)), blob(group(5, 1, 1, 2)), blob(group(0, 9, 0, 1)),
     blob(group(2**62, 2**63 - 1, 5, 0))],
)  # fmt: skip
def test_a_blob_that_is_none_is_doubtful(bad: bytes) -> None:
    assert doubtful(Answer(Status.OK, bad))


def test_ids_too_large_to_lie_side_by_side_are_doubtful_not_wrong() -> None:
    columns = ledger_columns([replace(LEDGER_OF_THREE, last_entry_id=EntryId(2**61))])
    judged = judge_bulk(columns, answer_columns(columns, [[Answer(Status.OK, WHOLE)] * 3]))
    assert judged.is_doubtful[0] and judged.through[0] == 2**61


def test_no_ledgers_are_no_doubt() -> None:
    columns = ledger_columns([])
    assert len(judge_bulk(columns, answer_columns(columns, [])).through) == 0
