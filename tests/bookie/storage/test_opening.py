"""What an open found."""

from pathlib import Path

import pytest
from bookie.errors import StorageError
from bookie.ids import LedgerId
from bookie.storage.modes import DurabilityMode
from bookie.storage.opening import OpenReport
from bookie.storage.records import LedgerRecord
from bookie.testing.inline import InlineDisk
from storage_kit import StorageKit, run


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
