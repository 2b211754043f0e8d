"""An append stream without threads: what is refused, what wakes the flusher, what memory still has.

How it meets threads and faults is in `test_ledger_log` and `test_journal`.
"""

from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path

import pytest
from bookie.storage.disk import BLOCK_BYTES
from bookie.storage.log_files import HEADER_BYTES, LOG_FILES, LogSettings
from bookie.storage.positions import Begin
from bookie.storage.stream import WRITE_BYTES_MAX, AppendStream
from bookie.testing.inline import InlineDisk
from hypothesis import given
from hypothesis import strategies as st
from log_kit import DIRECTORY, SMALL, Notified

BESIDE = 100
MIB = 1024 * 1024
HALF = SMALL.ring_bytes // 2
LONG_FILES = LogSettings(SMALL.ring_bytes, 16 * SMALL.ring_bytes, reserve_bytes=0)
"""Files in which the ring wraps many times."""


class StreamKit:
    """A stream on a disk whose flusher takes its steps when a test says so."""

    def __init__(self, *, settings: LogSettings = SMALL, capacity_bytes: int = 1 << 30) -> None:
        self.disk = InlineDisk(capacity_bytes=capacity_bytes)
        self.disk.make_directory(DIRECTORY)
        self.notified = Notified()
        self.stream = AppendStream(
            DIRECTORY, disk=self.disk, kind=LOG_FILES, settings=settings, next_id=1,
            begin=lambda _id, ended: Begin(*(ended or (0, 0)), first_sequence=0, first_needed=0),
            notify=self.notified,
        )  # fmt: skip

    def append(self, length: int) -> tuple[int, int] | None:
        return self.stream.append_verbatim(b"x" * length)

    def appended(self, length: int) -> tuple[int, int]:
        """Waits for room as its owner does: whoever is refused is notified, or waits for ever."""
        while (place := self.append(length)) is None:
            before = self.notified.calls
            assert self.disk.run_flushers(), "refused, and the flusher has nothing to do"
            assert self.notified.calls > before, "refused, and nobody says that there is room"
        self.stream._check()
        return place


@pytest.fixture
def kit() -> Iterator[StreamKit]:
    made = StreamKit(settings=LONG_FILES)
    yield made
    made.stream.close()


@pytest.mark.parametrize(("free_bytes", "is_full"), [(-1, True), (0, False), (1, False)])
def test_a_stream_knows_from_the_start_whether_it_has_a_file(
    free_bytes: int, is_full: bool
) -> None:
    kit = StreamKit(capacity_bytes=SMALL.file_bytes + free_bytes)
    assert kit.stream.is_full is is_full
    kit.stream.close()


def test_the_longest_record_is_taken_behind_half_a_ring_that_was_not_written(
    kit: StreamKit,
) -> None:
    kit.appended(100)
    kit.stream.sync()
    assert kit.append(HALF - 50) and not kit.disk.run_flushers(), "less than half a ring waits"
    assert kit.append(HALF) is None, "its block has 100 bytes of what was written before"
    assert kit.appended(HALF)


@given(
    st.lists(
        st.one_of(
            st.integers(1, HALF),
            st.sampled_from([HALF - 4096, HALF - 1, HALF]),
            st.just("sync"),
        ),
        max_size=24,
    ),
    st.sampled_from([SMALL, LONG_FILES]),
)
def test_whoever_is_refused_gets_room_in_the_end(
    steps: list[int | str], settings: LogSettings
) -> None:
    kit = StreamKit(settings=settings)
    for step in steps:
        if step == "sync":
            kit.stream.sync()
        else:
            kit.appended(int(step))
    kit.stream.close()


def test_an_idle_flusher_has_nothing_to_do_and_each_wish_gives_it_work(kit: StreamKit) -> None:
    kit.appended(100)
    kit.disk.run_flushers()  # makes the second file
    assert not kit.disk.run_flushers()
    kit.stream.request_sync()
    assert kit.disk.run_flushers() and not kit.disk.run_flushers()
    kit.appended(HALF)
    assert kit.disk.run_flushers() and not kit.disk.run_flushers()


@given(st.lists(st.integers(1, HALF), min_size=1, max_size=20))
def test_memory_has_what_is_read_of_it_and_says_so(lengths: list[int]) -> None:
    kit = StreamKit(settings=LONG_FILES)
    places = [(kit.appended(length), length) for length in lengths]
    for (file_id, offset), length in places:
        found = kit.stream.read_ring(file_id=file_id, offset=offset, length=length)
        assert kit.stream.is_in_ring(file_id=file_id, offset=offset) is (found is not None)
    kit.stream.close()


def test_what_the_ring_has_overwritten_is_not_in_memory_though_its_file_goes_on(
    kit: StreamKit,
) -> None:
    first, *_, last = [kit.appended(HALF) for _ in range(4)]
    assert first == (1, HEADER_BYTES) and last[0] == 1
    assert not kit.stream.is_in_ring(file_id=1, offset=first[1])
    assert kit.stream.is_in_ring(file_id=1, offset=last[1])
    assert not kit.stream.is_in_ring(file_id=2, offset=HEADER_BYTES), "of no file of this process"


class OvertakenRing:
    """A ring whose readers are slow: more is appended between their look and their copy."""

    def __init__(self, kit: StreamKit, lengths: list[int]) -> None:
        self.inner, self.capacity = kit.stream._ring, kit.stream._ring.capacity
        self.put, self.views = self.inner.put, self.inner.views
        self.kit, self.lengths = kit, lengths

    def get(self, position: int, length: int) -> bytes:
        lengths, self.lengths = self.lengths, []
        for one in lengths:
            self.kit.appended(one)
        return self.inner.get(position, length)


@given(st.integers(1, HALF), st.lists(st.integers(1, HALF), min_size=1, max_size=8))
def test_what_is_overwritten_while_it_is_read_is_not_taken_for_what_was_there(
    length: int, more: list[int]
) -> None:
    kit = StreamKit(settings=LONG_FILES)
    place = kit.stream.append_verbatim(b"a" * length)
    assert place is not None
    kit.stream._ring = OvertakenRing(kit, more)  # type: ignore[assignment]
    found = kit.stream.read_ring(file_id=place[0], offset=place[1], length=length)
    is_there = kit.stream.is_in_ring(file_id=place[0], offset=place[1])
    assert found == (b"a" * length if is_there else None)
    kit.stream.close()


@pytest.mark.parametrize(("mib", "writes"), [(1, 1), (3, 3), (4, 4)])
def test_what_is_written_at_once_is_bounded_so_that_room_comes_in_between(
    mib: int, writes: int
) -> None:
    kit = StreamKit(settings=LogSettings(8 * MIB, 16 * MIB, reserve_bytes=0))
    kit.appended(mib * WRITE_BYTES_MAX)
    written: list[Path] = []
    kit.disk.watch(lambda operation, path: written.extend([path] * (operation == "write")))
    kit.stream.sync()
    assert len(written) == 1 + writes, "a header, then so many pieces"
    kit.disk.watch(None)
    kit.stream.close()


@given(st.integers(0, 4 * 4096))
def test_promised_room_is_there_also_when_a_file_is_begun_beside(filled: int) -> None:
    kit = StreamKit(settings=LONG_FILES)
    kit.append(1)
    kit.disk.run_flushers()  # the next file is there
    for size in filter(None, (HALF, filled)):
        kit.append(size)
    longest = HALF - BESIDE
    length = bisect_left(
        range(1, longest + 1), True, key=lambda n: not kit.stream.has_room(n, beside=BESIDE)
    )
    if length:
        kit.stream.append(BESIDE, lambda _place: [b"t" * BESIDE], begins_file=True)
        assert kit.append(length) is not None
    kit.stream.close()


@given(
    st.sampled_from([4, 5, 7]),
    st.lists(st.integers(1, 2 * BLOCK_BYTES), max_size=4),
    st.integers(0, 2 * BLOCK_BYTES - BESIDE - 1),
)
def test_whoever_finds_no_room_beside_others_is_told_when_there_is(
    blocks: int, filled: list[int], less: int
) -> None:
    ring = blocks * BLOCK_BYTES
    kit = StreamKit(settings=LogSettings(ring, 16 * ring, reserve_bytes=0))
    for size in filled:
        kit.appended(size)
    while not kit.stream.has_room(ring // 2 - BESIDE - less, beside=BESIDE):
        before = kit.notified.calls
        assert kit.disk.run_flushers(), "refused, and the flusher has nothing to do"
        assert kit.notified.calls > before, "refused, and nobody says that there is room"
    kit.stream.close()


def test_a_file_is_begun_once_there_is_one(kit: StreamKit) -> None:
    def begun() -> bool:
        return kit.stream.append(9, lambda _place: [b"t" * 9], begins_file=True) is not None

    assert kit.appended(10)[0] == 1
    assert not begun() and kit.disk.run_flushers()
    assert begun() and kit.appended(10)[0] == 2
