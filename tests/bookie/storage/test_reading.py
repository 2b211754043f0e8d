"""What a read sends of the frames that it found."""

from bookie.frames.frame import CONSECUTIVE, Pattern, RunFrame, parse_run
from bookie.storage.reading import CUT_BYTES_MIN, cut
from hypothesis import given
from hypothesis import strategies as st
from storage_kit import run

COUNT = 600
BODY = bytes(CUT_BYTES_MIN // COUNT)
PATTERNS = (CONSECUTIVE, Pattern(1, 2), Pattern(2, 3), Pattern(3, 5))


def long_run(pattern: Pattern = CONSECUTIVE) -> RunFrame:
    return run(7, 10, COUNT, pattern=pattern, lac=5, recovery=True, fill=BODY)


def test_one_entry_of_a_long_run_is_sent_alone() -> None:
    sent = parse_run(cut(long_run(), first=400, last=400))
    assert (sent.first_entry_id, sent.count, sent.lac, sent.flags) == (400, 1, 5, 1)


def test_a_run_of_which_most_is_wanted_is_sent_verbatim() -> None:
    frame = long_run()
    assert cut(frame, first=0, last=500) == frame.buffer


def test_a_short_run_is_sent_verbatim() -> None:
    frame = run(7, 0, 9)
    assert cut(frame, first=4, last=4) == frame.buffer


@given(st.sampled_from(PATTERNS), st.integers(0, 1100), st.integers(0, 300))
def test_whatever_is_wanted_of_a_run_is_sent(pattern: Pattern, first: int, more: int) -> None:
    frame, last = long_run(pattern), first + more
    sent = parse_run(cut(frame, first=first, last=last))
    for entry_id in frame.entry_ids():
        if first <= entry_id <= last:
            assert sent.entry(entry_id) == frame.entry(entry_id)
    assert set(sent.entry_ids()) <= set(frame.entry_ids())
