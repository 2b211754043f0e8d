"""The judge of Pulsar's runs sees what it must see."""

import pytest
from pulsar_judge import Seen, Written, findings, last_of_each

NOTES = "begin 0\nack k0 0 10\nack k1 0 20\nack k0 1 500\nack k1 1 510\nend 4\n"
WHOLE = "0 k0 0\n0 k0 1\n1 k1 0\n1 k1 1\nend\n"


def found(notes: str, seen: str) -> str:
    return "; ".join(findings(Written.of(notes), Seen.of(seen)))


def test_what_was_acknowledged_and_read_in_order_is_no_finding() -> None:
    assert found(NOTES, WHOLE) == ""


def test_a_message_that_is_read_again_is_a_repeat_and_no_finding() -> None:
    seen = WHOLE.replace("0 k0 1\n", "0 k0 1\n0 k0 0\n0 k0 1\n")
    assert found(NOTES, seen) == "" and Seen.of(seen).repeats == 2


def test_an_acknowledged_message_that_nobody_read_is_lost() -> None:
    assert found(NOTES, WHOLE.replace("1 k1 1\n", "")) == "k1 lost: 1, such as 1"


def test_two_messages_of_a_key_in_the_wrong_order_are_found() -> None:
    seen = WHOLE.replace("0 k0 0\n0 k0 1\n", "0 k0 1\n0 k0 0\n")
    assert found(NOTES, seen) == "k0 out of order: 1, such as 0 after 1"


def test_a_foreign_message_is_found() -> None:
    assert found(NOTES, f"0 foreign b'other words'\n{WHOLE}").startswith("foreign: 1")


def test_a_message_that_was_never_sent_is_found() -> None:
    assert found(NOTES, f"1 k1 2\n{WHOLE}").count("never sent") == 1


def test_a_key_in_two_partitions_is_found() -> None:
    assert "k1 is in partitions ['0', '1']" in found(NOTES, WHOLE.replace("1 k1 1", "0 k1 1"))


def test_sides_that_did_not_come_to_their_end_are_found() -> None:
    words = found(NOTES.replace("end 4\n", ""), WHOLE.replace("end\n", ""))
    assert words == "the reader did not come to its end; the producer did not come to its end"


def test_a_run_that_promised_nothing_proves_nothing() -> None:
    assert found("begin 0\nend 0\n", "end\n") == "nothing was acknowledged"


def test_a_message_that_failed_is_found() -> None:
    assert found(f"failed k0 7 Timeout\n{NOTES}", WHOLE) == "failed: 1, such as k0 7 Timeout"


def test_a_message_of_an_aborted_transaction_that_is_read_is_found() -> None:
    notes = NOTES.replace("ack k1 1 510\n", "aborted k1 1\n")
    assert found(notes, WHOLE) == "k1 aborted: 1, such as 1"
    assert found(notes, WHOLE.replace("1 k1 1\n", "")) == ""


def test_the_longest_gap_is_the_longest_time_without_an_acknowledgement() -> None:
    assert Written.of(NOTES).longest_gap_s == 0.48


@pytest.mark.parametrize(
    ("since", "until", "gap"), [(0.0, 0.018, 0.01), (0.2, 0.3, 0.48), (0.3, 1.0, 0.01), (1, 2, 0)]
)
def test_a_stall_belongs_to_the_time_of_its_middle(since: float, until: float, gap: float) -> None:
    assert Written.of(NOTES).gap_s(since, until) == gap


def test_compaction_leaves_the_last_of_each_key() -> None:
    assert last_of_each(Written.of(NOTES)) == {"k0": 1, "k1": 1}
