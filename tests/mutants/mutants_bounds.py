"""Planted bugs of the review's smaller items: what cannot be read, who does not read, who claims a
loss, who has a wrong key, and what an index is left with."""

from typing import Final

from mutant import Mutant, planted

CLEAR: Final = "bookie/src/bookie/protocol/clearing.py"
CLIENT: Final = "bookie/src/bookie/client/recovery.py"
DIRECTORY: Final = "bookie/src/bookie/storage/directory.py"
DISK_READS: Final = "bookie/src/bookie/server/disk_reads.py"
LISTING: Final = "bookie/src/bookie/metadata/naming.py"
MOVER: Final = "bookie/src/bookie/repair/mend/ledger_move.py"
RECOVERY: Final = "bookie/src/bookie/protocol/recovery.py"
SESSIONS: Final = "bookie/src/bookie/server/sessions.py"
DURABLE: Final = "bookie/src/bookie/server/durable.py"
STORAGE: Final = "bookie/src/bookie/storage/storage.py"
SQLITE: Final = "bookie/src/bookie/storage/sqlite.py"
MAINTENANCE: Final = "bookie/src/bookie/storage/maintenance.py"

REPLIES: Final = "tests/bookie/server/test_replies.py::"
OPERATIONS: Final = "tests/bookie/server/test_operations.py::"
INDEXES: Final = "tests/bookie/storage/test_index.py::"

MUTANTS: Final[tuple[Mutant, ...]] = (
    planted(
        "a ledger whose metadata cannot be read is skipped in silence",
        stands_for=("A7 unreadable passes for absent",),
        file=LISTING,
        old="        listing.take_unreadable(unreadable)\n",
        new="",
        tests=(
            "tests/bookie/boot/test_boot_disks.py::"
            "test_a7_one_ledger_that_nobody_can_read_refuses_no_boot",
        ),
    ),
    planted(
        "a mover takes a ledger whose metadata cannot be read for a deleted one",
        stands_for=("A7 unreadable passes for absent",),
        file=MOVER,
        old="            if (error := self._auditor.unreadable.get(ledger_id)) is not None:\n"
        '                waiting[ledger_id].block("MetadataUnreadable", str(error))\n'
        "            else:\n"
        '                waiting[ledger_id].state_before = "DELETED"\n',
        new='            waiting[ledger_id].state_before = "DELETED"\n',
        tests=(
            "tests/bookie/repair/jobs/test_drain_job.py::"
            "test_a7_metadata_that_cannot_be_read_any_more_is_not_taken_for_a_deletion",
        ),
    ),
    planted(
        "a client that does not take its replies is never cut off",
        stands_for=("A9 unbounded replies",),
        file=SESSIONS,
        old="            session.abort()\n        self._schedule_look()\n",
        new="            pass\n        self._schedule_look()\n",
        tests=(REPLIES + "test_a9_a_client_that_was_cut_off_holds_nothing_any_more",),
    ),
    planted(
        "a reply counts until it is read, not until it has left",
        stands_for=("A9 unbounded replies",),
        file=DISK_READS,
        old="        reader.owe(size)\n",
        new="        self._room.give_back(reader, size)\n",
        tests=(
            REPLIES
            + "test_a9_who_asks_and_does_not_read_is_held_to_its_bound_and_cut_off[run-None]",
        ),
    ),
    planted(
        "a person's loss record is taken whatever the ledger's state",
        stands_for=("A10 a claimed loss makes a denial",),
        file=CLEAR,
        old="    refusal = _refuse_state(metadata, lost, by_person=by_person)\n",
        new='    refusal = "" if by_person else _refuse_state(metadata, lost, by_person=False)\n',
        tests=(
            "tests/bookie/server/test_admin.py::"
            "test_a10_a_persons_word_does_not_turn_unknown_into_a_denial",
        ),
    ),
    planted(
        "a bookie records a loss of entries that it is not to hold",
        stands_for=("A10 a claimed loss makes a denial",),
        file=CLEAR,
        old="    if not foreign.is_empty:\n",
        new="    if False:\n",
        tests=(
            "tests/bookie/protocol/test_clearing.py::"
            "test_a10_a_bookie_records_no_loss_of_entries_it_is_not_to_hold",
        ),
    ),
    planted(
        "one member that learned a wrong key ends a recovery",
        stands_for=("B3 one wrong key blocks a recovery",),
        file=RECOVERY,
        old="            self._fences.on_lac(self._fence_ops.pop(op), status, lac)\n",
        new="""            self._fences.on_lac(self._fence_ops.pop(op), status, lac)
            if status is Status.UNAUTHORIZED:
                return self._abort(UnauthorizedError(self.ledger_id))
""",
        tests=(
            "tests/bookie/protocol/test_recovery.py::"
            "test_b3_one_member_that_learned_a_wrong_key_does_not_block_a_recovery",
        ),
    ),
    planted(
        "an OK without a reply counts as a fence",
        stands_for=("B2 no reply counts as fenced",),
        file=CLIENT,
        old="            status = Status.UNREACHABLE  # not",
        new="            status = Status.UNKNOWN  # not",
        tests=(
            "tests/bookie/client/test_client_recovery.py::"
            "test_b2_an_ok_without_a_reply_is_no_fence",
        ),
    ),
    planted(
        "an add that is stored after its ledger's deletion leaves rows for ever",
        stands_for=("B5 rows under a tombstone",),
        file=MAINTENANCE,
        old="                directory.drop_late(rows.rows, self.ledgers.is_deleted)\n",
        new="                pass\n",
        tests=(
            "tests/bookie/storage/test_marks.py::"
            "test_b5_an_add_that_was_ruled_before_the_deletion_and_stored_after_leaves_no_row",
        ),
    ),
    planted(
        "an index appends to a log that its disk may not have",
        stands_for=("B4 commits behind a hole",),
        file=DIRECTORY,
        old="Index.open(index_path, disk=disk, is_owner=True, may_create=not was_used)",
        new="Index.open(index_path, disk=disk, may_create=not was_used)",
        tests=(
            "tests/bookie/boot/test_boot.py::"
            "test_b4_a_boot_makes_durable_what_was_left_in_every_index",
        ),
    ),
    planted(
        "an index is folded from a log that its disk may not have",
        stands_for=("B4 commits behind a hole",),
        file=SQLITE,
        old="            _write_again(self.path.with_name(self.path.name + LOG_SUFFIX))\n",
        new="",
        tests=(INDEXES + "test_b4_the_log_is_on_the_disk_before_it_is_folded_into_the_file",),
    ),
    planted(
        "facts that wait for a journal that stalls are without bound",
        stands_for=("A9 unbounded replies",),
        file=DURABLE,
        old="return self._waiting < self._waiting_max",
        new="return True",
        tests=(
            OPERATIONS
            + "test_while_the_journal_stalls_facts_find_no_room_and_their_askers_are_resumed",
        ),
    ),
    planted(
        "answers to entries that recovery adds again are without bound",
        stands_for=("A9 unbounded replies",),
        file=STORAGE,
        old="(self._journal_acks if self._journals else self._log_acks[index]).is_full",
        new="False",
        tests=(
            OPERATIONS + "test_entries_that_recovery_adds_again_find_no_room_while_too_many_wait",
        ),
    ),
)
