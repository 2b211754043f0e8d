"""Rebuilding an index from its log: what comes back, what stays suspect, and being interrupted."""

import contextlib
import errno
import os
import shutil
import sqlite3
from pathlib import Path

import pytest
from bookie.errors import BadRequestError, CorruptError, StorageError
from bookie.ids import EntryId, LedgerId
from bookie.storage import rebuild
from bookie.storage.decisions import DecisionKind, PersonDecision
from bookie.storage.disk import RealDisk
from bookie.storage.index import Index
from bookie.storage.index_rows import RunRow
from bookie.storage.modes import DurabilityMode
from bookie.storage.rebuild import rebuild_index
from bookie.storage.records import Boundary, LedgerRecord
from storage_kit import StorageKit, ids, run

L7, L8 = LedgerId(7), LedgerId(8)
ENTRY = b"y" * 900
BOUNDARY = Boundary(3, LedgerId(20))


class InterruptedDisk(RealDisk):
    """A real disk on which every change of names fails from a given one on."""

    def __init__(self, after: int) -> None:
        self.left = after

    def _count(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise StorageError(os.strerror(errno.EIO))

    def rename(self, source: Path, target: Path) -> None:
        self._count()
        super().rename(source, target)

    def unlink(self, path: Path) -> None:
        self._count()
        super().unlink(path)

    def sync_directory(self, path: Path) -> None:
        self._count()
        super().sync_directory(path)


class NotingDisk(RealDisk):
    """A real disk that notes which names change in which order, and when they are durable."""

    def __init__(self) -> None:
        self.steps: list[str] = []

    def rename(self, source: Path, target: Path) -> None:
        self.steps.append(target.name)
        super().rename(source, target)

    def unlink(self, path: Path) -> None:
        self.steps.append(f"no {path.name}")
        super().unlink(path)

    def sync_directory(self, path: Path) -> None:
        self.steps.append("sync")
        super().sync_directory(path)


def lived(root: Path) -> StorageKit:
    """A bookie with one disk: two ledgers, one deleted, one in limbo."""
    kit = StorageKit(root / "bookie", disk=RealDisk(), disks=1)
    kit.add(*(run(7, first, 10, fill=ENTRY, lac=first) for first in range(0, 100, 10)))
    kit.add(run(8, 0, 5))
    kit.add(run(7, 95, 10))
    kit.put(LedgerRecord(L7, master_key=b"k" * 20))
    kit.storage.maintenance.mark(BOUNDARY, [L7], fences_lost=True)
    kit.storage.maintenance.delete_ledgers([L8])
    return kit


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """Its folders after it was stopped."""
    kit = lived(tmp_path)
    kit.storage.close()
    return kit.root


@pytest.fixture
def unfolded(tmp_path: Path) -> Path:
    """Its folders with all that the index has in the write-ahead log, as a kill leaves it."""
    kit = lived(tmp_path)
    path = kit.root / "ledger-0" / "index.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as reader:
        reader.execute(
            "SELECT * FROM runs"
        ).fetchone()  # who is not the last to close folds nothing
        kit.storage.close()
        left = shutil.copytree(kit.root, tmp_path / "unfolded")
    assert (left / "ledger-0" / "index.sqlite-wal").stat().st_size > 0
    return left


@pytest.fixture(params=["stopped", "unfolded"])
def either(request: pytest.FixtureRequest) -> Path:
    found: Path = request.getfixturevalue(request.param)
    return found


def reopened(root: Path) -> StorageKit:
    return StorageKit(root, disk=RealDisk(), disks=1)


def test_without_a_log_too_a_rebuild_that_has_not_ended_is_refused(tmp_path: Path) -> None:
    kit = StorageKit(tmp_path / "bookie", disk=RealDisk(), disks=1)
    kit.storage.maintenance.mark(BOUNDARY, [L7], fences_lost=True)
    kit.storage.close()
    index = kit.root / "ledger-0" / "index.sqlite"
    index.rename(index.with_name("index.sqlite.new"))  # the index lost, another one begun
    with pytest.raises(CorruptError, match="bookie index rebuild"):
        reopened(kit.root)


def ruin(root: Path) -> None:
    path = root / "ledger-0" / "index.sqlite"
    path.write_bytes(b"\xa5" * path.stat().st_size)


def test_rows_and_records_come_back_and_the_next_boot_is_told(either: Path) -> None:
    report = rebuild_index(either / "ledger-0", disk=RealDisk())
    assert (report.runs, report.ledgers, report.records_saved, report.damage) == (11, 1, 2, ())
    kit = reopened(either)
    storage = kit.storage
    assert kit.held(7) == kit.read(7, 0, 200)[0] == ids((0, 104)) and kit.held(8) == ids()
    assert (storage.lac(L7), storage.last_entry_id(L7)) == (90, 104)
    assert storage.limbo_ledgers() == [L7] and storage.boundary() == BOUNDARY
    assert storage.report.index_rebuilt
    kit.storage.maintenance.mark(BOUNDARY, [], fences_lost=True)
    storage.close()
    kit = reopened(either)
    assert not kit.storage.report.is_suspect
    kit.storage.close()


def test_all_that_a_readable_index_says_of_ledgers_is_in_the_new_one(tmp_path: Path) -> None:
    def said() -> tuple[object, ...]:
        path = kit.root / "ledger-0" / "index.sqlite"
        with contextlib.closing(Index.open(path, disk=RealDisk(), may_create=False)) as index:
            return index.records(), index.losses(), index.decisions()

    kit = lived(tmp_path)
    kit.put(LedgerRecord(LedgerId(9), explicit_lac=EntryId(5), lac_body=b"signed", noted=True))
    decided = PersonDecision(1, DecisionKind.LOSS, "ann", "they are given up")
    kit.storage.maintenance.record_loss(L7, ids((200, 204)), reason="ann", decision=decided)
    kit.storage.close()
    before = said()
    assert all(before)
    rebuild_index(kit.root / "ledger-0", disk=RealDisk())
    assert said() == before


def test_of_a_ruined_index_the_rows_come_back_and_the_report_says_what_did_not(
    stopped: Path,
) -> None:
    ruin(stopped)
    with pytest.raises(CorruptError, match="bookie index rebuild"):
        reopened(stopped)
    report = rebuild_index(stopped / "ledger-0", disk=RealDisk())
    assert report.records_saved is None and report.runs == 12
    kit = reopened(stopped)
    assert kit.held(7) == ids((0, 104)) and kit.storage.report.index_rebuilt
    kit.storage.close()


def test_an_index_that_was_emptied_is_not_taken_for_a_new_one(stopped: Path) -> None:
    (stopped / "ledger-0" / "index.sqlite").write_bytes(b"")
    with pytest.raises(CorruptError, match=r"it has no tables; .* `bookie index rebuild`"):
        reopened(stopped)
    report = rebuild_index(stopped / "ledger-0", disk=RealDisk())
    assert report.records_saved is None and report.runs == 12


def test_damage_in_the_log_is_named_and_the_files_behind_it_are_read(stopped: Path) -> None:
    log = stopped / "ledger-0/log/0000000001.log"
    content = bytearray(log.read_bytes())
    content[5000:5004] = b"\xff" * 4
    log.write_bytes(content)
    report = rebuild_index(stopped / "ledger-0", disk=RealDisk())
    assert len(report.damage) == 1 and "0000000001.log" in report.damage[0]
    kit = reopened(stopped)
    assert kit.held(7) and not ids((0, 9)) <= kit.held(7) and kit.storage.report.index_rebuilt
    kit.storage.close()


def test_a_damaged_header_costs_a_rebuild_no_other_file_and_no_boot(stopped: Path) -> None:
    log = max((stopped / "ledger-0/log").glob("*.log"))
    log.write_bytes(b"\xff" * 4096 + log.read_bytes()[4096:])
    report = rebuild_index(stopped / "ledger-0", disk=RealDisk())
    assert [log.name in damage for damage in report.damage] == [True] and report.runs > 1
    for _ in range(2):
        kit = reopened(stopped)
        assert ids((0, 9)) <= kit.held(7) == kit.read(7, 0, 200)[0] != ids((0, 104))
        assert kit.storage.report.index_rebuilt
        kit.add(run(7, 200))
        kit.storage.close()


def test_an_interrupted_rebuild_refuses_to_boot_until_it_is_repeated(either: Path) -> None:
    directory = either / "ledger-0"
    for step in range(100):
        try:
            rebuild_index(directory, disk=InterruptedDisk(step))
        except StorageError:
            boots_or_refuses(either)
            continue
        break
    assert 5 < step < 100
    kit = reopened(either)
    assert kit.held(7) == ids((0, 104)) and kit.storage.limbo_ledgers() == [L7]
    assert not list(directory.glob("*.old*")) and not list(directory.glob("*.new*"))
    kit.storage.close()


def boots_or_refuses(root: Path) -> None:
    """A boot in between finds the old index whole, the new one whole, or says it is missing."""
    try:
        kit = reopened(root)
    except CorruptError as error:
        assert "bookie index rebuild" in str(error)
        return
    assert kit.held(7) == ids((0, 104)) and kit.storage.limbo_ledgers() == [L7]
    kit.storage.close()


def test_a_power_cut_takes_no_log_away_from_its_index(unfolded: Path) -> None:
    directory, disk = unfolded / "ledger-0", NotingDisk()
    (directory / "index.sqlite.old").write_bytes(b"of the last rebuild")
    (directory / "index.sqlite.old-wal").write_bytes(b"of the last rebuild")
    rebuild_index(directory, disk=disk)
    name = "index.sqlite.old"
    began = [f"no {name}", f"no {name}-wal", "sync", name, "sync", f"{name}-wal", f"{name}-shm"]
    assert disk.steps[: len(began)] == began


def test_a_boot_removes_the_index_that_a_rebuild_has_replaced_and_left(either: Path) -> None:
    directory = either / "ledger-0"
    shutil.copy(directory / "index.sqlite", directory / "index.sqlite.old")
    (directory / "index.sqlite.old-wal").write_bytes(b"w")
    (directory / "index.sqlite.new-wal").write_bytes(b"w")
    kit = reopened(either)
    assert not list(directory.glob("*.old*")) and not list(directory.glob("*.new*"))
    assert kit.held(7) == ids((0, 104)) and kit.storage.limbo_ledgers() == [L7]
    kit.storage.close()


def recovered_beside(root: Path) -> StorageKit:
    """Ids 5 to 9 twice in the log: of the writer, and of recovery; all of them were good."""
    kit = StorageKit(root / "bookie", disks=1)
    kit.add(run(7, 0, 10))
    kit.storage.maintenance.checkpoint()
    kit.add(run(7, 5, 10, recovery=True))
    kit.storage.close()
    return kit


def rows_in(kit: StorageKit) -> list[RunRow]:
    index = Index.open(kit.root / "ledger-0" / "index.sqlite", disk=kit.disk)
    with contextlib.closing(index):
        return index.all_rows(L7)


def test_of_two_good_copies_a_rebuild_takes_the_one_that_the_index_had(tmp_path: Path) -> None:
    kit = recovered_beside(tmp_path)
    before = rows_in(kit)
    rebuild_index(kit.root / "ledger-0", disk=kit.disk)
    assert rows_in(kit) == before and [(row.first, row.last) for row in before] == [
        (0, 9),
        (10, 14),
    ]


@pytest.mark.parametrize("fails", ["open", "read"])
def test_a_copy_that_a_rebuild_cannot_read_again_gives_way_to_the_one_of_recovery(
    tmp_path: Path, fails: str
) -> None:
    kit = recovered_beside(tmp_path)
    opened: list[Path] = []

    def observe(operation: str, path: Path) -> None:
        if path.suffix == ".log":
            opened.extend([path] * (operation == "open"))
            if operation == fails and len(opened) > 1:  # the scan has opened it once
                raise OSError(errno.EIO, os.strerror(errno.EIO))

    kit.sim.watch(observe)
    rebuild_index(kit.root / "ledger-0", disk=kit.disk)
    kit.sim.watch(None)
    assert [(row.first, row.last) for row in rows_in(kit)] == [(0, 4), (5, 14)]


def test_a_rebuild_commits_as_it_goes(stopped: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebuild, "ROWS_PER_COMMIT", 4)
    seen: list[int] = []
    report = rebuild_index(stopped / "ledger-0", disk=RealDisk(), on_progress=seen.append)
    assert seen == [4, 8, 11] and report.runs == 11
    kit = reopened(stopped)
    assert kit.held(7) == kit.read(7, 0, 200)[0] == ids((0, 104))
    kit.storage.close()


def test_an_index_that_sqlite_did_not_fold_does_not_become_the_index(stopped: Path) -> None:
    directory = stopped / "ledger-0"
    with contextlib.ExitStack() as tools:

        def look(_runs: int) -> None:
            reader = contextlib.closing(sqlite3.connect(directory / "index.sqlite.new"))
            tools.enter_context(reader).execute("SELECT * FROM runs").close()

        with pytest.raises(StorageError, match="run the rebuild again"):
            rebuild_index(directory, disk=RealDisk(), on_progress=look)  # the last to close folds
    rebuild_index(directory, disk=RealDisk())
    kit = reopened(stopped)
    assert kit.held(7) == ids((0, 104)) and kit.storage.limbo_ledgers() == [L7]
    kit.storage.close()


def test_a_rebuild_tells_how_far_it_is(stopped: Path) -> None:
    seen: list[int] = []
    rebuild_index(stopped / "ledger-0", disk=RealDisk(), on_progress=seen.append)
    assert seen == [11]


def test_a_folder_that_is_no_ledger_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequestError, match="no ledger directory"):
        rebuild_index(tmp_path, disk=RealDisk())
    assert list(tmp_path.iterdir()) == []


def test_a_torn_log_is_still_torn_after_a_rebuild(stopped: Path) -> None:
    last = max((stopped / "ledger-0/log").glob("*.log"))
    with last.open("ab") as file:
        file.write(bytes(run(7, 200).buffer)[:60])
    assert rebuild_index(stopped / "ledger-0", disk=RealDisk()).torn
    kit = StorageKit(stopped, DurabilityMode.SYNC, disk=RealDisk(), disks=1)
    assert kit.storage.report.torn and kit.storage.report.index_rebuilt
    kit.storage.close()
