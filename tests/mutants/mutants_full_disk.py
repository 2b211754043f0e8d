"""Planted bugs of a full disk: what found no space is not done, and is made up for."""

from typing import Final

from mutant import Mutant, planted

COMPACTION: Final = "bookie/src/bookie/storage/compaction.py"
DIRECTORY: Final = "bookie/src/bookie/storage/directory.py"
MAINTENANCE: Final = "bookie/src/bookie/storage/maintenance.py"

COMPACTED: Final = "tests/bookie/storage/test_compaction.py::"
MARKS: Final = "tests/bookie/storage/test_marks.py::"
FULL: Final = ("maintenance beside a full disk",)

MUTANTS: Final[tuple[Mutant, ...]] = (
    planted(
        "a checkpoint counts as made before the index has it",
        stands_for=FULL,
        file=DIRECTORY,
        old="        if capture.rows.count or records or facts != self.facts:\n",
        new="        before, self.facts = self.facts, facts\n"
        "        if capture.rows.count or records or facts != before:\n",
        tests=(COMPACTED + "test_what_a_checkpoint_had_no_space_for_is_no_garbage",),
    ),
    planted(
        "facts count as written before the index has them",
        stands_for=FULL,
        file=DIRECTORY,
        old="        after = facts or self.facts\n",
        new="        after = self.facts = facts or self.facts\n",
        tests=(MARKS + "test_an_end_of_the_check_that_found_no_space_is_durable_once_it_is_told",),
    ),
    planted(
        "a loss counts before a disk has its record",
        stands_for=FULL,
        file=MAINTENANCE,
        old="            loss = Loss(ledger_id, reason, fresh)\n",
        new="            loss = Loss(ledger_id, reason, fresh)\n"
        "            self.ledgers.note_losses([loss])\n",
        tests=(MARKS + "test_a_loss_that_the_disk_had_no_space_for_is_on_no_record",),
    ),
    planted(
        "rows of a deleted ledger are forgotten before the index has deleted them",
        stands_for=FULL,
        file=DIRECTORY,
        old="        self.index.commit(\n"
        "            Batch(records=tombstones, forget=ledger_ids), is_readable=self.is_readable\n",
        new="        self._drop(dict.fromkeys(ledger_ids))\n"
        "        self.index.commit(\n"
        "            Batch(records=tombstones, forget=ledger_ids), is_readable=self.is_readable\n",
        tests=(
            "tests/bookie/server/test_collect.py::"
            "test_a_collection_that_finds_no_space_is_made_up_for_by_the_next",
        ),
    ),
    planted(
        "what the index could not delete is forgotten with a late add",
        stands_for=FULL,
        file=DIRECTORY,
        old="self._drop({ledger_id: self.index.end_of(ledger_id) for ledger_id in late})",
        new="self._drop(dict.fromkeys(late))",
        tests=(MARKS + "test_what_the_index_had_no_space_to_delete_is_seen_until_it_is_deleted",),
    ),
    planted(
        "a ledger is back in memory before a disk has that",
        stands_for=FULL,
        file=MAINTENANCE,
        old="            revived = [record for record in tried if record is not None]\n",
        new="            revived = [record for record in tried if record is not None]\n"
        "            for record in revived:\n"
        "                self.ledgers.merge(record)\n",
        tests=(MARKS + "test_a5_a_return_that_the_disk_had_no_space_for_is_none",),
    ),
    planted(
        "a deleted ledger's loss is forgotten before a disk has deleted it",
        stands_for=FULL,
        file=MAINTENANCE,
        old="[self.ledgers.bury(ledger_id) for ledger_id in ledger_ids]\n",
        new="[self.ledgers.bury(ledger_id) for ledger_id in ledger_ids]\n"
        "                self.ledgers.forget_losses(ledger_ids)\n",
        tests=(MARKS + "test_a_deletion_that_found_no_space_leaves_the_loss_to_the_next_one",),
    ),
    planted(
        "a compaction that found no space forgets its garbage",
        stands_for=FULL,
        file=COMPACTION,
        old="        directory.has_garbage = True  # what is left is for the next call\n",
        new="        pass\n",
        tests=(
            COMPACTED + "test_a_compaction_that_the_index_had_no_space_for_is_done_by_the_next",
        ),
    ),
)
