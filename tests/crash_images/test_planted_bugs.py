"""The claims can fail: bugs planted in the product's code must each give an image that is wrong."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import bookie.boot.boot
import bookie.boot.drain_marker
import bookie.boot.marker
import bookie.boot.stamps
import bookie.boot.verdicts
import bookie.storage.index
import bookie.storage.storage
import crash_bookie
import pytest
from bookie.boot.boot import Boot
from bookie.boot.marker import BootMarkers
from bookie.boot.takeover import Takeover
from bookie.ids import LedgerId
from bookie.server.durable import DurableFacts
from bookie.storage.compaction import _Copying
from bookie.storage.directory import Capture, LedgerDirectory
from bookie.storage.disk import Disk
from bookie.storage.facts import DirectoryFacts
from bookie.storage.journal import Journal
from bookie.storage.ledger_log import LedgerLog
from bookie.storage.ledger_table import Ledgers
from bookie.storage.maintenance import Maintenance
from bookie.storage.modes import DurabilityMode
from bookie.storage.records import LedgerRecord
from bookie.storage.storage import Storage
from bookie.testing.inline import InlineLoop
from crash_catalogue import run_named
from crash_choices import KILLED
from crash_explore import Depth, Exploration, Place, place_named

Plant = Callable[[pytest.MonkeyPatch], None]

QUICK = Depth(images_max=8, seeds=0, boots=0, findings_max=20)


@pytest.fixture
def loop() -> Iterator[InlineLoop]:
    made = InlineLoop()
    yield made
    made.close()


def _write(disk: Disk, path: Path, content: bytes, *, sync: bool, sync_name: bool) -> None:
    fresh = path.with_name(path.name + ".new")
    if disk.exists(fresh):
        disk.unlink(fresh)
    file = disk.create(fresh)
    file.pwrite([content], 0)
    if sync:
        file.fdatasync()
    file.close()
    disk.rename(fresh, path)
    if sync_name:
        disk.sync_directory(path.parent)


def name_unsynced(disk: Disk, path: Path, content: bytes) -> None:
    _write(disk, path, content, sync=True, sync_name=False)


def bytes_unsynced(disk: Disk, path: Path, content: bytes) -> None:
    _write(disk, path, content, sync=False, sync_name=True)


def marker_without_directory_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bookie.boot.marker, "write_file", name_unsynced)


def marker_without_file_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bookie.boot.marker, "write_file", bytes_unsynced)


def stamp_without_file_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bookie.boot.stamps, "write_file", bytes_unsynced)


def drain_marker_without_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bookie.boot.drain_marker, "write_file", name_unsynced)


def marker_cleared_before_the_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(storage: Storage, markers: BootMarkers) -> None:
        markers.end_cleanly()
        storage.close()

    monkeypatch.setattr(crash_bookie, "finish_clean_stop", stop)


def marker_cleared_after_a_failed_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(storage: Storage, markers: BootMarkers) -> None:
        try:
            storage.close()
        finally:
            markers.end_cleanly()

    monkeypatch.setattr(crash_bookie, "finish_clean_stop", stop)


def fence_answered_before_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_once(self: DurableFacts, _ledger_id: int, then: Callable[[None], None]) -> None:
        then(None)

    monkeypatch.setattr(DurableFacts, "when_durable", at_once)


def unclean_boot_does_not_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bookie.boot.boot, "mark_existing", lambda *_: None)
    monkeypatch.setattr(bookie.boot.boot, "mark_noted", lambda _storage, _epoch, every: every)


def note_answered_before_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    right = DurableFacts.persist

    def persist(self: DurableFacts, record: LedgerRecord) -> None:
        known = self._storage.record(record.ledger_id)
        if known is not None and replace(known, noted=True) == record:
            self._storage.put_record(record, done=lambda _error: None)
        else:
            right(self, record)

    monkeypatch.setattr(DurableFacts, "persist", persist)


def note_is_not_in_the_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bookie.storage.storage, "NOTED", 0)


def permit_outlives_the_note(monkeypatch: pytest.MonkeyPatch) -> None:
    def take_back(self: Ledgers, ledger_id: LedgerId) -> None:
        self._records[ledger_id] = replace(self._records[ledger_id], noted=False)
        self.dirty.add(ledger_id)
        self._noted.discard(ledger_id)

    monkeypatch.setattr(Ledgers, "take_back_note", take_back)


def index_forgets_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bookie.storage.index, "_write_notes", lambda *_: None)


def notes_are_believed_whatever_the_disks_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Boot, "_trusts_notes", lambda *_, reason, **_more: bool(reason))


def replaced_disk_is_taken_silently(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bookie.boot.boot, "unclean_reason", lambda *_: "")


def mode_of_today_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    journal = DurabilityMode.JOURNAL
    monkeypatch.setattr(bookie.boot.verdicts, "_previous_mode", lambda _markers: journal)


def epoch_is_used_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    found = bookie.boot.inspection.Inspection
    monkeypatch.setattr(found, "next_epoch", property(lambda self: self.last_epoch or 1))


def journal_trimmed_before_the_index_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def checkpoint(self: Maintenance) -> None:
        self.journal.trim(self.journal.last_sequence())
        self._commit(covers_journal=True)

    monkeypatch.setattr(Maintenance, "_checkpoint", checkpoint)


def journal_acknowledged_before_its_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Journal, "synced_to", Journal.last_sequence)


def index_claims_what_came_after_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    right = LedgerDirectory.commit

    def commit(self: LedgerDirectory, capture: Capture, **rest: Any) -> None:
        self.log.stream.sync()
        end = self.log.end()
        right(self, replace(capture, indexed_to=(end.file_id, end.offset)), **rest)

    monkeypatch.setattr(LedgerDirectory, "commit", commit)


def index_points_to_copies_that_are_not_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    def move(self: _Copying) -> None:
        self._directory.index.move(self._moves)
        self._moves.clear()

    monkeypatch.setattr(_Copying, "_move", move)


def page_cache_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LedgerLog, "write_again", lambda *_: None)


def rebuild_leaves_no_suspicion(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DirectoryFacts, "with_suspicions", lambda self, _found: self)


def disk_stamped_before_the_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    mark, stamp, due = bookie.boot.boot.mark_existing, Takeover.begin_to_serve, []

    def mark_later(*arguments: Any) -> None:
        due.append(partial(mark, *arguments))

    async def stamp_first(self: Takeover, *arguments: Any, **words: Any) -> None:
        await stamp(self, *arguments, **words)
        while due:
            due.pop()()

    monkeypatch.setattr(bookie.boot.boot, "mark_existing", mark_later)
    monkeypatch.setattr(Takeover, "begin_to_serve", stamp_first)


@pytest.mark.parametrize(
    ("plant", "run", "claim"),
    [
        (marker_without_directory_sync, "unclean-boot", "durable marker"),
        (marker_without_file_sync, "clean-stop", "durable marker"),
        (stamp_without_file_sync, "clean-stop", "STAMP is no stamp"),
        (drain_marker_without_sync, "drain", "a drain stays"),
        (marker_cleared_before_the_flush, "clean-stop", "an unclean stop is noticed"),
        (marker_cleared_after_a_failed_flush, "stop-with-a-failed-sync", "unclean stop is noticed"),
        (fence_answered_before_durable, "fences-sync", "takes normal adds again"),
        (unclean_boot_does_not_mark, "adds", "existed at the unclean boot"),
        (note_answered_before_durable, "notes", "existed at the unclean boot"),
        (note_is_not_in_the_journal, "notes", "existed at the unclean boot"),
        (permit_outlives_the_note, "notes", "existed at the unclean boot"),
        (index_forgets_notes, "boots-that-doubt-noted-ledgers", "existed at the unclean boot"),
        (
            notes_are_believed_whatever_the_disks_are,
            "idle-ledgers-on-a-replaced-disk",
            "existed at the unclean boot",
        ),
        (replaced_disk_is_taken_silently, "ledger-disk-replaced", "unclean stop is noticed"),
        (mode_of_today_decides, "journal-after-memory", "existed at the unclean boot"),
        (disk_stamped_before_the_marks, "ledger-disk-replaced-journal", "at the unclean boot"),
        (epoch_is_used_twice, "unclean-boot", "new epoch"),
        (
            journal_trimmed_before_the_index_has_it,
            "journal-roll-and-trim-journal",
            "durable entries",
        ),
        (journal_acknowledged_before_its_sync, "adds-journal", "durable entries"),
        (index_claims_what_came_after_its_rows, "checkpoints-under-load-sync", "durable entries"),
        (index_points_to_copies_that_are_not_synced, "compaction", "durable entries"),
        (page_cache_is_believed, "restart-after-a-failed-sync-journal", "durable entries"),
        (rebuild_leaves_no_suspicion, "index-rebuild", "an unclean stop is noticed"),
    ],
)
def test_a_planted_bug_gives_a_wrong_image(
    plant: Plant, run: str, claim: str, loop: InlineLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    findings = Exploration(run_named(run), QUICK, loop=loop).all().findings
    assert findings, f"no image of {run} shows it"
    assert any(claim in finding.why for finding in findings), findings[0]


def test_a_finding_of_a_crashed_boot_names_the_image_that_shows_it_again(
    loop: InlineLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker_without_directory_sync(monkeypatch)
    exploration = Exploration(run_named("deletion"), QUICK, loop=loop)
    place = Place(3, "", first=Place(0, KILLED))
    first, again = exploration.repeat(place), exploration.repeat(place_named(str(place)))
    assert first == again and "durable marker" in first.why
    assert str(place) in str(exploration.tally.findings[0])
