"""A storage while it runs: adds, reads, records, room, failures; the same in every mode."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from bookie.errors import CorruptError, FrameError, SettingsError, StorageError
from bookie.frames.frame import Pattern, RunFrame
from bookie.ids import NO_ENTRY, EntryId, LedgerId
from bookie.storage.acks import Taken
from bookie.storage.index_rows import RunRow, row_of
from bookie.storage.log_scan import Position
from bookie.storage.modes import DurabilityMode
from bookie.storage.reading import RangeRead
from bookie.storage.records import LedgerRecord
from bookie.storage.routing import route
from bookie.storage.storage import Storage
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from storage_kit import WAIT_S, StorageKit, ids, run, settings

L7 = LedgerId(7)
MODES = list(DurabilityMode)


@pytest.fixture(params=MODES, ids=lambda mode: mode.value)
def kit(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StorageKit]:
    opened = StorageKit(tmp_path / "bookie", request.param)
    yield opened
    opened.end()


def log_file(kit: StorageKit, ledger_id: int, file_id: int = 1) -> Path:
    directory = kit.root / f"ledger-{route(LedgerId(ledger_id), 2)}"
    return directory / "log" / f"{file_id:010d}.log"


# ---- adds and reads -----------------------------------------------------------------------------


def test_what_a_checkpoint_has_begun_with_is_read_as_before_it(kit: StorageKit) -> None:
    kit.add(run(7, 0, 5))
    for directory in kit.storage._directories:
        with directory._lock:
            directory.capture()
    kit.add(run(7, 5, 5))
    for _ in ("under way", "at its end"):
        assert kit.held(7) == kit.read(7, 0, 9)[0] == ids((0, 9))
        assert kit.read(7, 4, 5)[0] == ids((4, 5)) and kit.read(7, 7, 7)[0] == ids((7, 7))
        kit.storage.maintenance.checkpoint()


def test_what_a_checkpoint_has_begun_with_is_in_no_index_before_it_has_ended(
    kit: StorageKit,
) -> None:
    kit.add(run(7, 0, 5))
    own = kit.storage._directories[route(L7, 2)]
    with own._lock:
        own.capture()
        assert own.has_unsynced(L7)
    kit.storage.maintenance.checkpoint()
    assert not own.has_unsynced(L7)


def test_a_run_is_readable_when_it_was_taken_and_before_it_is_acknowledged(
    kit: StorageKit,
) -> None:
    answers = kit.start(run(7, 0, 5, lac=-1))
    assert kit.read(7, 0, 9) == (ids((0, 4)), ids(), 9)
    kit.pump(lambda: bool(answers))
    assert answers == [None]


@pytest.mark.parametrize("mode", [DurabilityMode.SYNC, DurabilityMode.JOURNAL])
def test_no_add_is_acknowledged_before_its_sync_has_ended(
    tmp_path: Path, mode: DurabilityMode
) -> None:
    kit = StorageKit(tmp_path / "bookie", mode)
    kit.add(run(7, 0))
    with kit.sim.held_syncs() as is_syncing:
        answers = kit.start(run(7, 1))
        assert is_syncing.wait(WAIT_S)
        kit.drain()
        assert not answers and kit.read(7, 0, 1)[0] == ids((0, 1))
    kit.pump(lambda: bool(answers))
    kit.end()


def test_frames_are_read_back_verbatim_from_memory_and_from_the_index(kit: StorageKit) -> None:
    frame = run(7, 0, 5)
    kit.add(frame)
    before = kit.storage.read(L7, first=EntryId(2), last=EntryId(2), bytes_max=1)
    kit.storage.maintenance.checkpoint()
    after = kit.storage.read(L7, first=EntryId(2), last=EntryId(2), bytes_max=1)
    assert before.runs == after.runs == (bytes(frame.buffer),)


def test_a_read_keeps_to_its_budget_and_says_how_far_it_got(kit: StorageKit) -> None:
    frames = [run(7, first, 10) for first in range(0, 100, 10)]
    kit.add(*frames)
    size = len(frames[0].buffer)
    assert kit.read(7, 5, 99, bytes_max=3 * size) == (ids((5, 29)), ids(), 29)
    assert kit.read(7, 5, 99, bytes_max=0) == (ids((5, 9)), ids(), 9)


def test_a_read_of_what_is_not_there_is_answered_through_its_end(kit: StorageKit) -> None:
    kit.add(run(7, 10, 5))
    assert kit.read(7, 0, 9) == (ids(), ids(), 9)
    assert kit.read(8, 0, 99) == (ids(), ids(), 99)


def test_an_entry_added_twice_is_acknowledged_and_held_once(kit: StorageKit) -> None:
    kit.add(run(7, 0, 5), run(7, 3, 5))
    kit.storage.maintenance.checkpoint()
    kit.add(run(7, 0, 9))
    assert kit.held(7) == ids((0, 8)) and kit.read(7, 0, 9)[0] == ids((0, 8))


@pytest.mark.parametrize("again", [run(7, 1, 3, recovery=True), run(7, 4, recovery=True)])
def test_what_recovery_adds_again_before_a_checkpoint_takes_room_once(
    kit: StorageKit, again: RunFrame
) -> None:
    kit.add(run(7, 0, 5), again)
    before = kit.storage.unflushed_bytes
    kit.add(again, again)
    assert kit.storage.unflushed_bytes == before
    assert kit.held(7) == ids((0, 4)) and kit.read(7, 0, 9)[0] == ids((0, 4))


@pytest.mark.parametrize(
    "new",
    [
        run(7, 3, 5, recovery=True),
        run(7, 5, recovery=True),
        run(8, 0, recovery=True),
        run(7, 4, 2, pattern=Pattern(1, 3), recovery=True),
    ],
)
def test_what_recovery_adds_and_was_not_there_is_stored(kit: StorageKit, new: RunFrame) -> None:
    kit.add(run(7, 0, 5))
    kit.add(new)
    kit.storage.maintenance.checkpoint()
    assert not ids(*((i, i) for i in new.entry_ids())) - kit.held(int(new.ledger_id))


def test_a_run_of_recovery_of_which_memory_keeps_its_first_entry_is_stored(kit: StorageKit) -> None:
    kit.add(run(7, 3, recovery=True), run(7, 3, 5, recovery=True))
    assert kit.held(7) == kit.read(7, 0, 9)[0] == ids((3, 7))


def test_a_stripe_holds_nothing_between_its_entries(kit: StorageKit) -> None:
    kit.add(run(7, 0, 6, pattern=Pattern(2, 3)))
    kit.add(run(7, 2, recovery=True))
    assert kit.read(7, 2, 2)[0] == ids((2, 2))


def test_recoverys_copies_after_a_checkpoint_are_for_the_next_one_to_judge(
    kit: StorageKit,
) -> None:
    kit.add(run(7, 0, 5))
    kit.storage.maintenance.checkpoint()
    kit.add(run(7, 0, 5, recovery=True))
    assert kit.storage.unflushed_bytes > 0


@pytest.mark.parametrize("mode", [DurabilityMode.SYNC, DurabilityMode.JOURNAL])
def test_a_copy_that_is_not_stored_is_acknowledged_when_the_first_one_is(
    tmp_path: Path, mode: DurabilityMode
) -> None:
    kit = StorageKit(tmp_path / "bookie", mode)
    kit.add(run(7, 0))
    with kit.sim.held_syncs() as is_syncing:
        first, again = kit.start(run(7, 1)), kit.start(run(7, 1, recovery=True))
        assert is_syncing.wait(WAIT_S)
        kit.drain()
        assert not first and not again
    kit.pump(lambda: bool(first and again))
    kit.end()


def test_striped_runs_are_held_and_read_as_their_pattern_says(kit: StorageKit) -> None:
    kit.add(run(7, 0, 6, pattern=Pattern(2, 3)), run(7, 9, 4, pattern=Pattern(2, 3)))
    expected = ids((0, 1), (3, 4), (6, 7), (9, 10), (12, 13))
    assert kit.held(7) == expected
    kit.storage.maintenance.checkpoint()
    assert kit.held(7) == expected and kit.read(7, 2, 9)[0] == ids((3, 4), (6, 7), (9, 9))


def test_lac_and_last_entry_are_the_highest_seen(kit: StorageKit) -> None:
    assert (kit.storage.lac(L7), kit.storage.last_entry_id(L7)) == (NO_ENTRY, NO_ENTRY)
    kit.add(run(7, 10, 5, lac=8), run(7, 2, 3, lac=1))
    assert (kit.storage.lac(L7), kit.storage.last_entry_id(L7)) == (8, 14)
    kit.put(LedgerRecord(L7, explicit_lac=EntryId(12)))
    assert kit.storage.lac(L7) == 12
    again = kit.reopened()
    assert (again.storage.lac(L7), again.storage.last_entry_id(L7)) == (12, 14)
    again.storage.close()


def test_ledgers_with_a_record_or_a_run_are_listed(kit: StorageKit) -> None:
    kit.add(run(7, 0), run(3, 0))
    kit.put(LedgerRecord(LedgerId(5)))
    assert kit.storage.ledger_ids() == [3, 5, 7]


def test_many_more_bytes_than_the_ring_holds_go_through(kit: StorageKit) -> None:
    kit.add(*(run(7, first, 10, fill=b"y" * 900) for first in range(0, 1500, 10)))
    assert kit.held(7) == ids((0, 1499))
    assert kit.read(7, 700, 701)[0] == ids((700, 701))


@pytest.mark.parametrize("mode", MODES)
def test_a_refused_run_leaves_nothing_behind(tmp_path: Path, mode: DurabilityMode) -> None:
    kit = StorageKit(tmp_path / "bookie", mode)
    with kit.sim.held_syncs():
        first = 0
        frame = run(7, first, fill=b"y" * 9000)
        while kit.storage.add_run(frame, done=lambda _error: None) is not Taken.NO_ROOM:
            first += 1
            frame = run(7, first, fill=b"y" * 9000)
        assert kit.storage.last_entry_id(L7) == first - 1 == kit.held(7).last
        assert kit.read(7, first, first) == (ids(), ids(), first)
    kit.add(run(7, first))
    kit.storage.close()


def test_a_run_that_never_fits_is_the_callers_mistake(kit: StorageKit) -> None:
    with pytest.raises(FrameError, match="ring_bytes"):
        kit.storage.add_run(run(7, 0, fill=b"y" * 80_000), done=lambda _error: None)
    assert kit.held(7) == ids()


def test_rows_in_memory_are_bounded_and_bring_a_checkpoint_forward(tmp_path: Path) -> None:
    kit = StorageKit(tmp_path / "bookie", checkpoint_rows=10, rows_max=20)
    kit.add(*(run(7, first) for first in range(100)))
    assert kit.held(7) == ids((0, 99))
    kit.storage.close()


def test_reads_meet_a_checkpoint_and_miss_nothing(tmp_path: Path) -> None:
    kit = StorageKit(tmp_path / "bookie")
    kit.add(*(run(7, first, 10) for first in range(0, 500, 10)))
    thread = threading.Thread(target=kit.storage.maintenance.checkpoint)
    thread.start()
    found = [kit.held(7) for _ in range(50)]
    thread.join()
    assert set(found) == {ids((0, 499))}
    kit.storage.close()


# ---- unreadable entries -------------------------------------------------------------------------


def test_a_damaged_frame_is_unreadable_and_neither_absent_nor_served(kit: StorageKit) -> None:
    frames = [run(7, 0, 5), run(7, 5, 5), run(7, 10, 5)]
    kit.add(*frames)
    kit = kit.reopened()
    damaged_at = 4096 + len(frames[0].buffer) + 100
    kit.sim.damage(log_file(kit, 7), damaged_at, b"\xff\xff")
    assert kit.read(7, 0, 14) == (ids((0, 4), (10, 14)), ids((5, 9)), 14)
    assert kit.held(7) == ids((0, 14))
    kit.storage.close()


def test_a_run_of_recovery_replaces_an_unreadable_copy(kit: StorageKit) -> None:
    kit.add(run(7, 0, 5))
    kit = kit.reopened()
    kit.sim.damage(log_file(kit, 7), 4096 + 60, b"\xff\xff")
    kit.add(run(7, 1, 3, recovery=True))
    assert kit.read(7, 0, 4) == (ids((1, 3)), ids((0, 0), (4, 4)), 4)
    assert kit.read(7, 2, 2) == (ids((2, 2)), ids(), 2), "one entry: the first good copy of two"
    assert kit.read(7, 0, 0) == (ids(), ids((0, 0)), 0)
    kit.storage.maintenance.checkpoint()
    assert kit.read(7, 0, 4) == (ids((1, 3)), ids((0, 0), (4, 4)), 4)
    kit = kit.reopened()
    assert kit.read(7, 0, 4) == (ids((1, 3)), ids((0, 0), (4, 4)), 4)
    kit.storage.close()


def test_a_log_file_that_is_gone_makes_its_entries_unreadable(tmp_path: Path) -> None:
    kit = StorageKit(tmp_path / "bookie")
    kit.add(*(run(7, first, 10, fill=b"y" * 900) for first in range(0, 100, 10)))
    kit = kit.reopened()
    kit.sim.unlink(log_file(kit, 7))
    read, unreadable, through = kit.read(7, 0, 99)
    assert unreadable and read | unreadable == ids((0, 99)) and through == 99
    kit.storage.close()


def test_an_index_that_cannot_be_read_is_no_empty_one(kit: StorageKit) -> None:
    kit.add(run(7, 0, 5))
    kit.storage.maintenance.checkpoint()
    directory = kit.storage._directory_of(L7)
    directory.index.close()
    with pytest.raises(StorageError):
        kit.held(7)
    with pytest.raises(StorageError):
        kit.read(7, 0, 4)


def test_an_index_that_vanished_beside_its_log_refuses_to_open(kit: StorageKit) -> None:
    kit.add(run(7, 0, 5))
    kit.storage.close()
    kit.sim.unlink(kit.root / f"ledger-{route(L7, 2)}" / "index.sqlite")
    with pytest.raises(CorruptError, match=r"index\.sqlite is missing.*bookie index rebuild"):
        kit.reopened()


# ---- one read against a dumb oracle -------------------------------------------------------------


@examples(deadline=None, max_examples=80)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 30),
            st.integers(1, 8),
            st.sampled_from([Pattern(), Pattern(1, 3), Pattern(2, 3)]),
            st.booleans(),
        ),
        max_size=8,
    ),
    st.integers(0, 30),
    st.integers(0, 30),
    st.integers(0, 3),
)
def test_a_read_serves_or_names_every_id_it_speaks_of_and_gets_on(
    parts: list[tuple[int, int, Pattern, bool]], first: int, more: int, budget: int
) -> None:
    rows, good = [], {}
    for number, (start, count, pattern, is_good) in enumerate(parts):
        row = row_of(run(7, start, count, pattern=pattern), Position(1, number, 10))
        rows.append(row)
        good[number] = is_good

    def fetch(row: RunRow) -> bytes | None:
        return row.offset.to_bytes(10, "big") if good[row.offset] else None

    last = first + more
    reading = RangeRead(first=first, last=last, bytes_max=10 * budget, fetch=fetch)
    found = reading.collect(rows)
    asked = range(first, found.answered_through + 1)
    served = {i for frame in found.runs for i in asked
              if i in rows[int.from_bytes(frame, "big")].entries()}  # fmt: skip
    unreadable = {i for i in asked if any(a <= i <= b for a, b in found.unreadable)}
    readable = {i for i in asked for row in rows if i in row.entries() and good[row.offset]}
    stored = {i for i in asked for row in rows if i in row.entries()}
    assert first <= found.answered_through <= last
    assert served == readable and unreadable == stored - readable
    assert len(found.runs) <= max(1, budget)


# ---- records ------------------------------------------------------------------------------------


def test_a_fence_counts_at_once_and_is_told_when_it_is_durable(kit: StorageKit) -> None:
    answers: list[StorageError | None] = []
    with kit.sim.held_syncs():
        kit.storage.put_record(LedgerRecord(L7, fenced=True), done=answers.append)
        record = kit.storage.record(L7)
        assert record is not None and record.fenced and not answers
    kit.pump(lambda: bool(answers))
    assert answers == [None]


def test_records_that_find_no_room_in_the_journal_wait_for_it_in_order(kit: StorageKit) -> None:
    answers: list[int] = []
    with kit.sim.held_syncs():
        for number in range(6000):
            record = LedgerRecord(LedgerId(number % 3000), master_key=b"k" * 20)
            kit.storage.put_record(record, done=lambda _error, n=number: answers.append(n))  # type: ignore[misc]
    kit.pump(lambda: len(answers) == 6000)
    assert all(answers.index(n) < answers.index(n + 3000) for n in range(0, 3000, 100))


def test_a_record_put_later_takes_nothing_back(kit: StorageKit) -> None:
    kit.put(LedgerRecord(L7, fenced=True, master_key=b"k" * 20))
    kit.put(LedgerRecord(L7, explicit_lac=EntryId(4)))
    expected = LedgerRecord(L7, fenced=True, master_key=b"k" * 20, explicit_lac=EntryId(4))
    assert kit.storage.record(L7) == expected


# ---- failures -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [DurabilityMode.SYNC, DurabilityMode.JOURNAL])
def test_a_failed_sync_answers_no_add_and_is_final(tmp_path: Path, mode: DurabilityMode) -> None:
    kit = StorageKit(tmp_path / "bookie", mode)
    kit.add(run(7, 0))
    files = "*.log*" if mode is DurabilityMode.SYNC else "*.jnl*"
    kit.sim.fail("sync", pattern=files)
    assert isinstance(kit.refused(run(7, 1)), StorageError)
    assert isinstance(kit.refused(run(7, 2)), StorageError)
    assert isinstance(kit.refused(run(7, 0, recovery=True)), StorageError)
    assert kit.storage.maintenance.failure is not None
    with pytest.raises(StorageError):
        kit.storage.close()


def test_a_failed_sync_of_the_journal_answers_no_fence(kit: StorageKit) -> None:
    kit.sim.fail("sync", pattern="*.jnl*")
    answers: list[StorageError | None] = []
    kit.storage.put_record(LedgerRecord(L7, fenced=True), done=answers.append)
    kit.pump(lambda: bool(answers))
    assert isinstance(answers[0], StorageError)
    with pytest.raises(StorageError):
        kit.storage.close()
    with pytest.raises(StorageError):
        kit.storage.maintenance.checkpoint()


def test_a_checkpoint_whose_log_fails_commits_nothing_and_close_raises(tmp_path: Path) -> None:
    kit = StorageKit(tmp_path / "bookie")
    kit.add(run(7, 0))
    kit.sim.fail("sync", pattern="*.log*")
    with pytest.raises(StorageError):
        kit.storage.maintenance.checkpoint()
    with pytest.raises(StorageError):
        kit.storage.close()
    again = kit.after_kill()
    assert again.held(7) <= ids((0, 0))
    again.storage.close()


def test_closing_twice_is_closing_once(kit: StorageKit) -> None:
    kit.storage.close()
    kit.storage.close()
    with pytest.raises(StorageError, match="closed"):
        kit.storage.maintenance.checkpoint()


def test_directories_on_a_real_disk_hold_what_they_were_given(tmp_path: Path) -> None:
    calls: list[object] = []
    wanted = settings(tmp_path, DurabilityMode.SYNC, direct_io="auto")
    storage = Storage.open(wanted, call_soon=calls.append)
    assert storage.add_run(run(7, 0, 5), done=calls.append) is Taken.PENDING
    storage.close()
    storage = Storage.open(wanted, call_soon=calls.append)
    assert storage.held(L7) == ids((0, 4)) and not storage.report.is_suspect
    storage.close()


@pytest.mark.parametrize(
    "changes",
    [{"disks": 0}, {"compact_below": 1.0}, {"checkpoint_rows": 0}, {"checkpoint_rows": 1 << 30}],
)
def test_settings_that_make_no_sense_are_refused(tmp_path: Path, changes: dict[str, int]) -> None:
    with pytest.raises(SettingsError):
        settings(tmp_path, **changes)  # type: ignore[arg-type]
