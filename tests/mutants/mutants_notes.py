"""Planted bugs of dirty notes: each way in which a note may lie, and who believes it where."""

from typing import Final

from mutant import Mutant, planted

ADMISSION: Final = "bookie/src/bookie/protocol/admission.py"
BOOT: Final = "bookie/src/bookie/boot/boot.py"
FACTS: Final = "bookie/src/bookie/storage/facts.py"
INDEX: Final = "bookie/src/bookie/storage/index.py"
LEDGERS: Final = "bookie/src/bookie/storage/ledger_table.py"
MAINTENANCE: Final = "bookie/src/bookie/storage/maintenance.py"
MARKING: Final = "bookie/src/bookie/boot/boundary_marks.py"
NOTES: Final = "bookie/src/bookie/storage/notes.py"
OPENING: Final = "bookie/src/bookie/storage/opening.py"
OPERATIONS: Final = "bookie/src/bookie/server/operations.py"
STORAGE: Final = "bookie/src/bookie/storage/storage.py"
VERDICTS: Final = "bookie/src/bookie/boot/verdicts.py"

KEPT: Final = "tests/bookie/storage/test_notes.py::"
BOOTED: Final = "tests/bookie/boot/test_boot_notes.py::"
ADDED: Final = "tests/bookie/server/test_operations.py::"
JUDGED: Final = "tests/bookie/protocol/test_admission.py::"

FIRST_ADD: Final = ADDED + "test_the_first_add_after_idle_waits_for_the_note_of_its_ledger"
TABLE: Final = BOOTED + "test_where_more_happened_than_a_stop_every_ledger_is_in_doubt"

MUTANTS: Final[tuple[Mutant, ...]] = (
    planted(
        "an unclean boot fences those noted ledgers that are not closed",
        stands_for=("fence non-closed only", "fence only open ledgers"),
        file=MARKING,
        old="Boundary(epoch, NO_LEDGER, doubtful, frozenset(listing.recovering))",
        new="Boundary(epoch, NO_LEDGER, frozenset(listing.undecided))",
        tests=(
            "tests/scenarios/test_boot_and_marks.py::"
            "test_s1_s24_a_ledger_closed_before_the_boot_refuses_its_old_writer",
            BOOTED + "test_a_closed_ledger_with_a_note_is_unchecked",
        ),
    ),
    planted(
        "an add is answered before its note is durable",
        stands_for=("note too late",),
        file=OPERATIONS,
        old="        if changed != record:\n            self._facts.persist(changed)",
        new="        if ruling.note and not ruling.learn_key:\n"
        "            self._storage.put_record(changed, done=lambda _error: None)\n"
        "        elif changed != record:\n            self._facts.persist(changed)",
        tests=(FIRST_ADD,),
    ),
    planted(
        "what recoveries write back needs no note",
        stands_for=("no note for write-backs",),
        file=ADMISSION,
        old="note=not facts.is_noted)",
        new="note=not (facts.is_noted or is_recovery))",
        tests=(
            JUDGED + "test_an_entry_that_a_crash_may_take_is_noted_whoever_writes_it",
            FIRST_ADD,
        ),
    ),
    planted(
        "the journal does not have notes",
        stands_for=("note lost with the journal",),
        file=STORAGE,
        old="traits = [record.encode()], NOTED * record.noted",
        new="traits = [record.encode()], NOTED * False",
        tests=(
            KEPT + "test_a_note_is_there_after_a_power_cut_before_and_after_a_checkpoint",
            BOOTED + "test_an_idle_ledger_is_left_alone_and_a_busy_one_is_in_limbo",
        ),
    ),
    planted(
        "the index does not have notes",
        stands_for=("note lost with the index",),
        file=INDEX,
        old="            _write_notes(connection, batch.records)\n",
        new="",
        tests=(KEPT + "test_notes_are_in_the_index_alone_once_the_journal_is_trimmed",),
    ),
    planted(
        "a note is believed to be in the index though it came after the checkpoint",
        stands_for=("note lost with the journal",),
        file=OPENING,
        old="is_newer = noted_to is None or record.sequence > noted_to",
        new="is_newer = noted_to is None",
        tests=(KEPT + "test_a_note_made_after_the_last_checkpoint_is_in_the_journal_alone",),
    ),
    planted(
        "the permit outlives the note",
        stands_for=("note goes without its permit",),
        file=LEDGERS,
        old="        self._put(replace(self.records[ledger_id], noted=False))\n",
        new="        self._records[ledger_id] = replace(self.records[ledger_id], noted=False)\n"
        "        self._noted.discard(ledger_id)\n",
        tests=(KEPT + "test_taking_a_note_back_takes_the_permit_too", FIRST_ADD),
    ),
    planted(
        "a note goes while entries are in memory",
        stands_for=("note goes while entries are in memory",),
        file=NOTES,
        old="if ledger_id in self._seen or self.has_unsynced(ledger_id):",
        new="if ledger_id in self._seen:",
        tests=(KEPT + "test_a_note_stays_while_an_entry_is_in_memory_whatever_was_flushed",),
    ),
    planted(
        "notes are believed though a disk was replaced",
        stands_for=("notes of other disks",),
        file=VERDICTS,
        old="        kind is Kind.NORMAL\n        and mode is DurabilityMode.MEMORY\n",
        new="        mode is DurabilityMode.MEMORY\n",
        also=(),
        tests=("tests/bookie/boot/test_verdicts.py::test_only_a_plain_unclean_stop_leaves_notes",),
    ),
    planted(
        "notes are believed whatever version kept the markers",
        stands_for=("notes of a version that kept none",),
        file=VERDICTS,
        old="            disk.marker.marker is not None and disk.marker.marker.keeps_notes\n",
        new="            disk.marker.marker is not None\n",
        tests=(TABLE,),
    ),
    planted(
        "notes are believed though an older version has trimmed the journal",
        stands_for=("notes of a version that kept none",),
        file=BOOT,
        old="            and storage.report.notes_are_whole\n",
        new="",
        tests=(
            BOOTED + "test_where_an_older_version_has_trimmed_the_journal_every_ledger_is_in_doubt",
        ),
    ),
    planted(
        "a boot forgets the unchecked marks of the one before",
        stands_for=("earlier marks beside notes",),
        file=MARKING,
        old="*storage.limbo_ledgers(), *covered})",
        new="*storage.limbo_ledgers()})",
        tests=(BOOTED + "test_an_unchecked_ledger_of_before_is_marked_again_without_a_note",),
    ),
    planted(
        "a boot forgets the limbo of the one before",
        stands_for=("earlier marks beside notes",),
        file=MARKING,
        old="*storage.limbo_ledgers(), *covered})",
        new="*covered})",
        tests=(BOOTED + "test_a_ledger_in_limbo_of_before_is_marked_again_without_a_note",),
    ),
    planted(
        "a commit in the middle of a replay says that the index has all notes",
        stands_for=("notes beside commits in between",),
        file=MAINTENANCE,
        old="        self._commit(covers_journal=False)\n",
        new="        self._commit(covers_journal=True)\n",
        tests=(KEPT + "test_a_commit_in_the_middle_of_a_replay_takes_no_later_note_away",),
    ),
    planted(
        "a checkpoint says that the index has notes that came after it began",
        stands_for=("notes beside commits in between",),
        file=MAINTENANCE,
        old="        sequence = captured.sequence if covers_journal else None\n",
        new="        sequence = self.journal.last_sequence() if covers_journal else None\n",
        tests=(
            KEPT
            + "test_a_note_that_comes_while_a_checkpoint_commits_is_not_counted_as_in_the_index",
        ),
    ),
    planted(
        "an index never has fewer notes than it said once",
        stands_for=("notes beside commits in between",),
        file=FACTS,
        old="            noted_to = sequence\n",
        new="            noted_to = max(noted_to, sequence)\n",
        tests=(KEPT + "test_a_note_is_found_though_its_number_was_another_records_before_a_crash",),
    ),
    planted(
        "a commit that failed takes notes along",
        stands_for=("note lost with the index",),
        file=LEDGERS,
        old="self.dirty.update(record.ledger_id for record in records)",
        new="self.dirty.update(one.ledger_id for one in records if not one.noted)",
        tests=(KEPT + "test_a_note_outlives_a_commit_that_failed",),
    ),
    planted(
        "notes of one directory are enough",
        stands_for=("notes of a version that kept none",),
        file=OPENING,
        old="return all(directory.facts.noted_to is not None for",
        new="return any(directory.facts.noted_to is not None for",
        tests=(KEPT + "test_notes_are_not_whole_where_one_directory_lacks_some",),
    ),
    planted(
        "notes of a copied folder are believed",
        stands_for=("notes of other disks",),
        file=BOOT,
        old="previous_mode=DurabilityMode.MEMORY, keeps_notes=False)",
        new="previous_mode=DurabilityMode.MEMORY)",
        tests=(TABLE,),
    ),
    planted(
        "a fix that was interrupted leaves markers that say notes are kept",
        stands_for=("notes of an interrupted fix",),
        file=BOOT,
        old="DurabilityMode.MEMORY, found.next_generation, found.generation\n",
        new="DurabilityMode.MEMORY, found.next_generation, found.generation,\n"
        "            keeps_notes=True,\n",
        tests=(
            BOOTED
            + "test_a_disk_that_comes_back_after_a_fix_that_was_interrupted_leaves_all_in_doubt",
        ),
    ),
    planted(
        "a boot lists only what is unchecked under the boundary that it raises",
        stands_for=("earlier marks beside notes",),
        file=MARKING,
        old="boundary is not None and boundary.covers(i))",
        new="storage.is_unchecked(i))",
        tests=(BOOTED + "test_what_is_checked_under_a_boundary_that_stays_is_listed_again",),
    ),
)
