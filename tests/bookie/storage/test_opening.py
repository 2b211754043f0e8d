"""What an open found."""

from pathlib import Path

import pytest
from bookie.errors import StorageError
from bookie.ids import LedgerId
from bookie.storage.modes import DurabilityMode
from bookie.storage.opening import REASONS_LOGGED_MAX, OpenReport
from bookie.storage.records import LedgerRecord
from bookie.testing.inline import InlineDisk
from storage_kit import KIB, StorageKit, run


@pytest.mark.parametrize("finding", ["torn", "journal_lost", "index_rebuilt"])
def test_each_finding_alone_makes_an_open_suspect(finding: str) -> None:
    assert OpenReport(**{finding: True}).is_suspect and not OpenReport().is_suspect


MEMORY, SYNC, JOURNAL = DurabilityMode.MEMORY, DurabilityMode.SYNC, DurabilityMode.JOURNAL
FOUND = [
    (MEMORY, (), OpenReport(replayed_records=2)),
    (SYNC, (7,), OpenReport(replayed_records=2, rebuilt_runs=2)),
    (SYNC, (7, 8), OpenReport(replayed_records=2, rebuilt_runs=3)),
    (JOURNAL, (), OpenReport(replayed_records=2, replayed_runs=3)),
    (JOURNAL, (7,), OpenReport(replayed_records=2, replayed_runs=1, rebuilt_runs=2)),
    (JOURNAL, (7, 8), OpenReport(replayed_records=2, rebuilt_runs=3)),
]
"""The mode, the ledgers whose logs were synced before a kill, and what the open after it says."""


def ignored(_error: StorageError | None) -> None:
    """Nobody waits: a test syncs."""


@pytest.mark.parametrize(("mode", "synced", "report"), FOUND)
def test_an_open_counts_what_it_has_replayed_and_rebuilt(
    tmp_path: Path, mode: DurabilityMode, synced: tuple[int, ...], report: OpenReport
) -> None:
    kit = StorageKit(tmp_path / "bookie", mode, disk=InlineDisk())
    for ledger_id in map(LedgerId, (7, 8)):
        kit.storage.put_record(LedgerRecord(ledger_id, master_key=b"k" * 20), done=ignored)
    for frame in (run(7, 0, 5), run(7, 5, 5), run(8, 0)):
        kit.storage.add_run(frame, done=ignored)
    for ledger_id in map(LedgerId, synced):
        kit.storage._directory_of(ledger_id).log.stream.sync()
    kit.storage._journal.stream.sync()
    assert kit.after_kill().storage.report == report
    kit.end()


@pytest.mark.parametrize("lost", [1, REASONS_LOGGED_MAX + 2])
def test_of_all_that_a_journal_lacks_the_first_reasons_are_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, lost: int
) -> None:
    kit = StorageKit(tmp_path / "bookie", disk=InlineDisk(), journal_file_bytes=16 * KIB)
    for number in range(100 * (lost + 1)):
        record = LedgerRecord(LedgerId(number), master_key=b"k" * 200)
        kit.storage.put_record(record, done=ignored)
        kit.storage._journal.stream.sync()
        kit.drain()
    names = kit.sim.list_directory(kit.root / "journal" / "journal")
    for name in names[:lost]:
        kit.sim.unlink(kit.root / "journal" / "journal" / name)
    kit = kit.after_kill()
    logged = [
        one.getMessage() for one in caplog.records if "has lost durable records" in one.getMessage()
    ]
    assert len(logged) == min(lost, REASONS_LOGGED_MAX) and kit.storage.report.journal_lost
    assert [name in line for name, line in zip(names, logged, strict=False)] == [True] * len(logged)
    kit.end()
