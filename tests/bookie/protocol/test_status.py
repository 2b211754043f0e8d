"""R7: which words deny, which count as known, and the numbers that other releases know them by."""

import pytest
from bookie.protocol.status import Status

DENIALS = {Status.NO_SUCH_LEDGER, Status.NO_SUCH_ENTRY}


@pytest.mark.parametrize("status", Status)
def test_r7_two_words_deny_and_with_ok_they_are_all_that_is_known(status: Status) -> None:
    assert status.is_denial is (status in DENIALS)
    assert status.is_known is (status in DENIALS or status is Status.OK)


def test_numbers_are_never_given_anew() -> None:
    assert [(status.name, int(status)) for status in Status] == [
        ("OK", 0),
        ("NO_SUCH_LEDGER", 1),
        ("NO_SUCH_ENTRY", 2),
        ("UNKNOWN", 3),
        ("FENCED", 4),
        ("UNAUTHORIZED", 5),
        ("READ_ONLY", 6),
        ("BAD_REQUEST", 7),
        ("IO_ERROR", 8),
        ("OVERLOADED", 9),
        ("NOT_READY", 10),
        ("UNREACHABLE", 11),
    ]
