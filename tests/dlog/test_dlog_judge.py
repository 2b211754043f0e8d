"""The judge of DistributedLog's runs sees what it must see."""

import pytest
from dlog_judge import Noted, Seen, fencing_findings, findings, gap_s, kinds

NOTES = (
    "begin 0\nopen 5 -999\nack log 1 10 1:0:0\nack log 2 500 1:1:0\nfailed log 3 Fenced x y\n"
    "end 4\n"
)
WHOLE = "1 1:0:0 20\n2 1:1:0 510\nend\n"
SECOND = "begin 600\nopen 700 3\nack log 1000 800 2:0:0\nend 1001\n"


def found(notes: str, seen: str, *, since: int = 0) -> str:
    return "; ".join(findings([Noted.of(notes, first=1)], Seen.of(seen), since=since))


def fenced(first: str, second: str) -> list[str]:
    return fencing_findings(Noted.of(first, first=1), Noted.of(second, first=1000))


def test_what_was_acknowledged_and_read_once_in_order_is_no_finding() -> None:
    assert found(NOTES, WHOLE) == ""


def test_a_record_that_failed_may_have_been_stored() -> None:
    assert found(NOTES, WHOLE.replace("end\n", "3 1:2:0 520\nend\n")) == ""


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        ("1 1:0:0 20\nend\n", "lost: 1, such as 2"),
        (WHOLE.replace("end\n", "2 1:2:0 530\nend\n"), "read again: 1, such as 2"),
        (WHOLE.replace("end\n", "4 1:2:0 530\nend\n"), "never tried: 1, such as 4"),
        (f"foreign 1:0:1\n{WHOLE}", "foreign: 1, such as 1:0:1"),
        (WHOLE.replace("1:1:0", "1:1:1"), "not where its writer was told: 1, such as 2"),
        (WHOLE.replace("end\n", ""), "the reader did not come to its end"),
        (f"reopen why\n{WHOLE[:-4]}", "the reader did not come to its end: why"),
    ],
)
def test_what_must_not_be_is_found(seen: str, words: str) -> None:
    assert words in found(NOTES, seen).split("; ")


def test_two_records_in_the_wrong_order_are_found() -> None:
    words = found(NOTES, "2 1:1:0 20\n1 1:0:0 30\nend\n")
    assert words == (
        "out of order: 1, such as 1 after 2; "
        "positions out of order: 1, such as (1, 0, 0) after (1, 1, 0)"
    )


def test_a_reader_that_starts_within_a_log_owes_what_follows_and_nothing_before() -> None:
    assert found(NOTES, "2 1:1:0 510\nend\n", since=2) == ""
    assert found(NOTES, WHOLE, since=2) == "before the start: 1, such as 1"


def test_a_run_that_promised_nothing_proves_nothing() -> None:
    assert found("begin 0\nend 1\n", "end\n") == "nothing was acknowledged"


def test_a_writer_that_is_killed_may_have_tried_whatever_follows() -> None:
    assert found(NOTES.replace("end 4\n", ""), WHOLE.replace("end\n", "9 1:3:0 9\nend\n")) == ""


def test_a_fenced_writer_gets_no_acknowledgement_and_an_error() -> None:
    assert fenced(NOTES, SECOND) == []


def test_an_acknowledgement_after_the_fence_is_found() -> None:
    late = NOTES.replace("ack log 2 500", "ack log 2 790")
    assert fenced(late, SECOND) == [
        "acknowledged to the first writer after it was fenced (ms): 1, such as 90"
    ]


def test_a_first_writer_that_never_fails_was_not_fenced() -> None:
    unharmed = NOTES.replace("failed log 3 Fenced x y\n", "")
    assert fenced(unharmed, SECOND) == ["no write of the first writer failed"]
    assert fenced(NOTES, "begin 600\n") == ["the second writer wrote nothing"]


def test_the_longest_gap_counts_from_the_begin_and_over_all_writers() -> None:
    writers = [Noted.of(NOTES, first=1), Noted.of(SECOND, first=1000)]
    assert gap_s(writers[:1]) == gap_s(writers, 0.2, 0.3) == 0.49
    assert gap_s(writers, 0.5, 1.0) == 0.3 and gap_s(writers, 0.8, 1.0) == 0.0


def test_failures_are_counted_by_their_kind() -> None:
    assert kinds([Noted.of(NOTES, first=1)]) == {"Fenced": 1}
