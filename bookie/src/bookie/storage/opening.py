"""Opens a storage: it builds the state in memory from the disks, before the boot decides anything.

The order: read the indexes (records, boundaries, losses) -> scan the log tails behind the last
checkpoint -> store damage that was found durably, as suspicions -> replay the journal, in every
mode (entries of an earlier boot with the journal on, fences, keys, explicit LACs) -> make one
checkpoint, so that the next open starts there. Every step may be repeated after a crash in the
middle.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Final

from bookie.errors import CorruptError, FrameError
from bookie.frames.frame import RunFrame, parse_run
from bookie.ids import LedgerId
from bookie.storage.directory import LedgerDirectory
from bookie.storage.facts import Suspicion
from bookie.storage.journal import Journal
from bookie.storage.journal_records import NOTED, JournalRecord, RecordKind
from bookie.storage.ledger_table import Ledgers
from bookie.storage.records import LedgerRecord, union

log = logging.getLogger(__name__)

REASONS_LOGGED_MAX: Final = 10
"""How many reasons for a lost journal are logged: one that had many files may lack all of them."""


@dataclass(frozen=True, slots=True)
class OpenReport:
    """What an open did and found. The three findings are kept over restarts, until
    `Maintenance.settle`.
    """

    replayed_records: int = 0
    """Replayed journal records of ledgers (fences, keys, LACs)."""
    replayed_runs: int = 0
    """Runs in the journal that the logs lacked."""
    rebuilt_runs: int = 0
    """Runs found in the logs behind the last checkpoint."""
    torn: bool = False
    """A log ends in half a frame: that frame and all behind it are gone."""
    journal_lost: bool = False
    """Durable records are missing: the journal directory counts as an empty disk."""
    index_rebuilt: bool = False
    """An index was rebuilt from its log, so marks and fences may be gone: treat the stop as
    unclean."""
    notes_are_whole: bool = False
    """No note was lost that journal or indexes had. A version that keeps none may have replayed and
    trimmed the journal."""

    @property
    def is_suspect(self) -> bool:
        return self.torn or self.journal_lost or self.index_rebuilt


@dataclass(eq=False)
class Opening:
    """One open. Its parts are open files whose content is not yet in memory."""

    directories: Sequence[LedgerDirectory]
    """Every ledger directory, in the order of the settings."""
    _: KW_ONLY
    journal: Journal
    ledgers: Ledgers
    directory_of: Callable[[LedgerId], LedgerDirectory]
    """Returns the directory of a ledger."""
    commit: Callable[[], None]
    """Commits the rows in memory to the indexes, which covers no record of the journal for sure."""
    rows_max: int
    """With so many rows of a directory in memory the replay commits in between."""
    _records: int = field(default=0, init=False)
    """How many records of ledgers were replayed so far."""
    _runs: int = field(default=0, init=False)
    """How many replayed runs the logs lacked so far."""

    def run(self) -> OpenReport:
        """Do all steps but the final checkpoint."""
        self._load_indexes()
        deleted = self.ledgers.deleted()
        rebuilt = sum(directory.recover(deleted=deleted) for directory in self.directories)
        self._keep_suspicions()
        notes_are_whole = self._judge_notes()
        for record in self.journal.replay():
            self._replay(record)
        found = {s for directory in self.directories for s in directory.facts.suspicions}
        return OpenReport(
            replayed_records=self._records,
            replayed_runs=self._runs,
            rebuilt_runs=rebuilt,
            torn=Suspicion.TORN in found,
            journal_lost=Suspicion.JOURNAL_LOST in found,
            index_rebuilt=Suspicion.INDEX_REBUILT in found,
            notes_are_whole=notes_are_whole,
        )

    def _load_indexes(self) -> None:
        ledgers = self.ledgers
        for directory in self.directories:
            for record in directory.index.records().values():
                ledgers.merge(record)
            ledgers.note_losses(directory.index.losses())
            ledgers.note_decisions(directory.index.decisions())
        ledgers.dirty.clear()  # the indexes have these; the journal may add newer states
        ledgers.fence = union(directory.facts.fence for directory in self.directories)
        ledgers.unchecked = union(directory.facts.unchecked for directory in self.directories)

    def _keep_suspicions(self) -> None:
        for reason in self.journal.lost_reasons[:REASONS_LOGGED_MAX]:
            log.error("the journal has lost durable records: %s", reason)
        lost = {Suspicion.JOURNAL_LOST} if self.journal.lost else set()
        for directory in self.directories:
            torn = {Suspicion.TORN} if directory.log.torn else set()
            facts = directory.facts.with_suspicions(frozenset(lost | torn))
            if facts != directory.facts:
                directory.write(facts=facts)

    def _judge_notes(self) -> bool:
        """Whether every note is in an index or in the journal.

        If not, the index says so durably until a boot has dealt with it: the checkpoint at the end
        of this open covers the journal as it is now. An index may have notes of records that a
        crash took from the end of the journal; nothing is missing then.
        """
        trimmed_to = self.journal.first_kept - 1
        for directory in self.directories:
            noted_to = directory.facts.noted_to
            if noted_to is not None and noted_to < trimmed_to:
                log.warning(
                    "%s has the notes up to record %d of the journal, which a program that keeps "
                    "none trimmed to record %d: an unclean stop leaves every ledger in doubt",
                    directory.path, noted_to, trimmed_to,
                )  # fmt: skip
                directory.write(facts=replace(directory.facts, noted_to=None))
        return all(directory.facts.noted_to is not None for directory in self.directories)

    def _replay(self, record: JournalRecord) -> None:
        if record.kind is RecordKind.LEDGER:
            found = LedgerRecord.decode(record.payload)
            # Of a record that the index covers, the note may be taken back there since. No commit
            # in the middle of the replay moves `noted_to`.
            noted_to = self.directory_of(found.ledger_id).facts.noted_to
            is_newer = noted_to is None or record.sequence > noted_to
            noted = is_newer and bool(record.traits & NOTED)
            self.ledgers.merge(replace(found, noted=noted))
            self._records += 1
        else:
            assert record.kind is RecordKind.RUN, "the journal keeps its own records to itself"
            self._replay_run(record)

    def _replay_run(self, record: JournalRecord) -> None:
        try:
            frame = parse_run(record.payload)
        except FrameError as error:
            raise CorruptError(f"journal record {record.sequence} holds no run: {error}") from error
        directory = self.directory_of(frame.ledger_id)
        if self.ledgers.is_deleted(frame.ledger_id) or not directory.lacks(frame):
            return
        self._append(directory, frame)
        self._runs += 1
        if directory.rows_in_memory >= self.rows_max:
            self.commit()

    def _append(self, directory: LedgerDirectory, frame: RunFrame) -> None:
        while directory.add(frame) is None:
            directory.log.stream.sync()  # makes room
