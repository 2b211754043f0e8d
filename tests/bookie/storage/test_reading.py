"""What a read sends of the frames that it found."""

from collections.abc import Callable
from pathlib import Path

import pytest
from bookie.frames.frame import CONSECUTIVE, Buffer, Pattern, RunFrame, parse_run
from bookie.storage.index_rows import RunRow, row_of
from bookie.storage.log_scan import Position
from bookie.storage.reading import CUT_BYTES_MIN, RangeRead, StoredRead, cut
from hypothesis import given
from hypothesis import strategies as st
from storage_kit import StorageKit, ids, run

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


EVEN = st.integers(0, 9).map(lambda one: 2 * one)


def row(first: int, count: int = 2, *, length: int = 10, offset: int = 0) -> RunRow:
    return RunRow(first, first + count - 1, count, 0, 0, 1, offset, length, 0)


def reading(rows: list[RunRow], *, bytes_max: int, bad: frozenset[int] = frozenset()) -> RangeRead:
    def fetch(row: RunRow) -> Buffer | None:
        return None if row.first in bad else row.first.to_bytes(row.length)

    return RangeRead(first=0, last=rows[-1].last, bytes_max=bytes_max, fetch=fetch)


@given(
    st.sets(st.integers(0, 9), min_size=2), st.integers(1, 60), st.frozensets(st.integers(0, 18))
)
def test_runs_one_after_the_other_are_read_as_interleaved_ones_are(
    at: set[int], bytes_max: int, bad: frozenset[int]
) -> None:
    rows = [row(2 * one) for one in sorted(at)]
    fast, slow = (reading(rows, bytes_max=bytes_max, bad=bad) for _ in range(2))
    through = slow._collect_mixed(rows)
    found = fast.collect(rows)
    unreadable = (slow._bad - slow._covered).clip(0, through)
    assert found == StoredRead(tuple(slow._runs), through, tuple(unreadable.ranges()))


def test_a_read_takes_what_fits_to_the_last_byte() -> None:
    rows = [row(0), row(2), row(4)]
    for bytes_max, through in ((19, 1), (20, 3), (29, 3), (30, 5)):
        assert reading(rows, bytes_max=bytes_max).collect(rows).answered_through == through


def test_of_interleaved_runs_the_lowest_come_first() -> None:
    rows = [row(0, 6), row(4, 4), row(2, 8)]
    found = reading(sorted(rows), bytes_max=99).collect(rows)
    assert [int.from_bytes(run) for run in found.runs] == [0, 2]


def test_nothing_is_called_unreadable_beyond_what_is_answered() -> None:
    rows = [row(0, 4), row(2, 12), row(4, 8), row(5, 8)]
    found = reading(rows, bytes_max=20, bad=frozenset({2})).collect(rows)
    assert (found.answered_through, found.unreadable) == (11, ())


def striped(first: int, *, period: int, count: int, offset: int) -> RunRow:
    """The ids `first`, `first + period`, ...; its frame is made of its offset."""
    return row_of(run(7, first, count, pattern=Pattern(1, period)), Position(1, offset, 10))


def read_in_order(rows: list[RunRow], *, first: int, bytes_max: int) -> tuple[list[int], int]:
    """Offsets of the frames that were sent, and the last id that was answered."""
    reading = RangeRead(
        first=first, last=20, bytes_max=bytes_max, fetch=lambda row: row.offset.to_bytes(10)
    )
    found = reading.collect(rows)
    return [int.from_bytes(frame) for frame in found.runs], found.answered_through


def test_a_read_from_the_middle_of_stripes_begins_with_what_is_lowest_there() -> None:
    rows = [striped(0, period=10, count=2, offset=1), striped(1, period=4, count=3, offset=2)]
    assert read_in_order(rows, first=3, bytes_max=99) == ([2, 1], 20)
    assert read_in_order(rows, first=3, bytes_max=10) == ([2], 9)


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(2, 9), st.integers(1, 5)), max_size=6),
    st.integers(0, 20), st.integers(0, 3),
)  # fmt: skip
def test_frames_come_in_the_order_of_their_lowest_id_of_the_range(
    stripes: list[tuple[int, int, int]], first: int, frames: int
) -> None:
    rows = [
        striped(start, period=period, count=count, offset=at)
        for at, (start, period, count) in enumerate(stripes)
    ]
    sent, through = read_in_order(rows, first=first, bytes_max=10 * frames)
    lowest = [rows[at].entries().clip(first, 20).first for at in sent]
    assert lowest == sorted(lowest) and through >= first


@pytest.mark.parametrize("look", ["held", "read one", "read many"])
@pytest.mark.parametrize("name", ["all_rows", "rows", "rows_to_read"])
def test_what_a_checkpoint_moves_while_it_is_looked_for_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, look: str
) -> None:
    """From memory to index, behind the back of who has asked the index already."""
    kit = StorageKit(tmp_path / "bookie", disks=1)
    kit.add(*(run(7, first, 10) for first in range(0, 50, 10)))
    index = kit.storage._directories[0].index
    asked: Callable[..., object] = getattr(index, name)

    def asked_before(*args: object, **kwargs: object) -> object:
        found = asked(*args, **kwargs)
        monkeypatch.setattr(index, name, asked)
        kit.storage.maintenance.checkpoint()
        return found

    monkeypatch.setattr(index, name, asked_before)
    ranges = {"held": (0, 49), "read one": (7, 7), "read many": (3, 44)}
    found = kit.held(7) if look == "held" else kit.read(7, *ranges[look])[0]
    assert found == ids(ranges[look])
    kit.end()
