"""Planted bugs of writers that live on through an unclean stop: who cuts them off, and who lets an
add in that a fence of before should keep out."""

from typing import Final

from mutant import Mutant, Patch, planted
from mutants_boot import FENCES_LOST

ADMISSION: Final = "bookie/src/bookie/protocol/admission.py"
CLEAR: Final = "bookie/src/bookie/protocol/clearing.py"
EVACUATION: Final = "bookie/src/bookie/repair/jobs/evacuation.py"
EXPECT: Final = "bookie/src/bookie/repair/judge/expect.py"
LEDGERS: Final = "bookie/src/bookie/storage/ledger_table.py"
MARKING: Final = "bookie/src/bookie/boot/boundary_marks.py"
SERVER_MARKS: Final = "bookie/src/bookie/server/marks.py"
MAINTENANCE: Final = "bookie/src/bookie/storage/maintenance.py"
FACTS: Final = "bookie/src/bookie/server/ledger_facts.py"
OUTCOME: Final = "bookie/src/bookie/repair/mend/outcome.py"
PLACEMENT: Final = "bookie/src/bookie/client/placement.py"
RECORDS: Final = "bookie/src/bookie/storage/records.py"
REPAIR: Final = "bookie/src/bookie/repair/mend/ledger_repair.py"
STEPS: Final = "bookie/src/bookie/repair/jobs/repair_job.py"
FOUND: Final = "bookie/src/bookie/server/found_losses.py"
WRITER: Final = "bookie/src/bookie/client/writer.py"

CLEARING: Final = "tests/bookie/protocol/test_clearing.py::"
JUDGED: Final = "tests/bookie/protocol/test_admission.py::"
KEPT: Final = "tests/bookie/storage/test_marks.py::"
MARKS: Final = "tests/bookie/server/test_marks.py::"
SERVED: Final = "tests/scenarios/test_boot_served.py::"
PLACED: Final = "tests/bookie/client/test_placement.py::"
STEP: Final = "tests/bookie/repair/jobs/test_left_to_writers.py::"

TABLED: Final = "tests/bookie/storage/test_ledger_table.py::"
FENCED_MEANWHILE: Final = (
    "tests/scenarios/test_fences_meanwhile.py::"
    "test_s44_a_fence_that_is_told_while_maintenance_writes_the_ledger_is_durable"
)
BOOTED: Final = "tests/bookie/boot/test_boot_notes.py::"
PERMITS: Final = "tests/bookie/storage/test_permits.py::"

EACH_MARK: Final = (
    JUDGED + "test_r24_each_mark_of_an_unclean_boot_alone_keeps_adds_out_and_ends_nobody"
)
MOVED_ON: Final = STEP + "test_a_ledger_in_limbo_whose_writer_moved_on_stays_open_and_leaves_limbo"

MUTANTS: Final[tuple[Mutant, ...]] = (
    planted(
        "limbo goes although the writer would send its next entry here",
        stands_for=("limbo goes while the bookie is named",),
        file=CLEAR,
        old="    return metadata.state is LedgerState.OPEN and not is_named\n",
        new="    return metadata.state is LedgerState.OPEN\n",
        model="clears-while-named",
        tests=(
            CLEARING + "test_limbo_stays_while_the_last_fragment_of_a_ledger_that_is_not_closed_"
            "names_the_bookie",
        ),
    ),
    planted(
        "limbo goes while a recoverer may have chosen the bookie again",
        stands_for=("limbo cleared at IN_RECOVERY",),
        file=CLEAR,
        old="    return metadata.state is LedgerState.OPEN and not is_named\n",
        new="    return not metadata.is_closed and not is_named\n",
        model="clears-in-recovery",
        tests=(CLEARING + "test_limbo_stays_while_a_recoverer_may_have_chosen_the_bookie_again",),
    ),
    planted(
        "what a bookie owes of the fragments before the last is not asked for",
        stands_for=("limbo goes without earlier fragments",),
        file=CLEAR,
        old="    return EntryId(metadata.last_fragment.first_entry_id - 1)\n",
        new="    return EntryId(-1)\n",
        model="clears-without-copies",
        tests=(
            CLEARING
            + "test_limbo_ends_once_the_writer_has_replaced_the_bookie_which_has_all_before_that",
        ),
    ),
    planted(
        "a limbo mark ends the writer as a fence does",
        stands_for=("a writer that could go on is cut off",),
        file=RECORDS,
        old="        return replace(self, limbo=True, mark_epoch",
        new="        return replace(self, limbo=True, fenced=True, mark_epoch",
        tests=(KEPT + "test_a_mark_ends_no_writer_and_keeps_the_fence_of_a_client",),
    ),
    planted(
        "a ledger in doubt is fenced for its writer",
        stands_for=("a writer that could go on is cut off",),
        file=ADMISSION,
        old="    if facts.deleted or (facts.fenced and not is_recovery):\n",
        new="    ended = facts.fenced or facts.is_marked\n"
        "    if facts.deleted or (ended and not is_recovery):\n",
        tests=(EACH_MARK,),
    ),
    planted(
        "limbo keeps no adds out",
        stands_for=("no boot fence",),
        file=ADMISSION,
        old="        return self.limbo or self.unchecked\n",
        new="        return self.unchecked\n",
        tests=(EACH_MARK,),
    ),
    planted(
        "an unchecked ledger takes adds",
        stands_for=("no boot fence",),
        file=ADMISSION,
        old="        return self.limbo or self.unchecked\n",
        new="        return self.limbo\n",
        tests=(EACH_MARK,),
    ),
    planted(
        "the boundary goes with the marks of its ledger",
        stands_for=("no boot fence",),
        file=ADMISSION,
        old="    if facts.behind_boundary and not is_recovery:\n",
        new="    if facts.behind_boundary and facts.is_marked:\n",
        tests=(
            JUDGED + "test_r24_once_the_check_has_ended_the_boundary_ends_who_comes_later",
            FENCES_LOST,
        ),
    ),
    planted(
        "the server believes that a cleared ledger takes adds",
        stands_for=("no boot fence",),
        file=FACTS,
        old="    is_behind = boundary is not None and boundary.covers(ledger_id)\n    is_un",
        new="    is_behind = boundary is not None and boundary.covers(ledger_id)\n"
        "    is_behind = is_behind and (record is None or not record.checked_epoch)\n    is_un",
        tests=(FENCES_LOST,),
    ),
    planted(
        "a plain unclean stop ends writers forever",
        stands_for=("a writer that could go on is cut off",),
        file=MARKING,
        old="listing.undecided, fences_lost=False)",
        new="listing.undecided, fences_lost=True)",
        tests=(SERVED + "test_r24_a_ledger_of_which_all_is_back_takes_adds_again",),
    ),
    planted(
        "what is unchecked takes adds unless a boundary covers it",
        stands_for=("no boot fence",),
        file=FACTS,
        old="    is_unchecked = storage.is_unchecked(ledger_id)\n",
        new="    is_unchecked = is_behind and storage.is_unchecked(ledger_id)\n",
        tests=(SERVED + "test_s1_s24_also_when_its_fence_request_never_arrived",),
    ),
    planted(
        "marks that were set without a boundary are not seen by the next boot",
        stands_for=("S26 marker cleared early",),
        file=LEDGERS,
        old="for one in (self._fence, self._unchecked) if",
        new="for one in (self._fence,) if",
        tests=(BOOTED + "test_a_marking_that_was_interrupted_doubts_everything",),
    ),
    planted(
        "a boot takes an epoch again that marks of before have",
        stands_for=("S26 marker cleared early",),
        file=LEDGERS,
        old="        return max(0, *boundaries, max(records, default=0))\n",
        new="        return max(0, *boundaries)\n",
        tests=(BOOTED + "test_an_epoch_that_marks_had_is_never_taken_again",),
    ),
    planted(
        "a mark that outlives every judgement fences the ledger before that is durable",
        stands_for=("S44 early fence reply",),
        file=RECORDS,
        old="replace(self.marked(epoch), returns=self.returns + 1)",
        new="replace(self.marked(epoch), fenced=True, returns=self.returns + 1)",
        tests=(FENCED_MEANWHILE,),
    ),
    planted(
        "a tombstone fences the ledger before that is durable",
        stands_for=("S44 early fence reply",),
        file=LEDGERS,
        old="replace(record, limbo=False, deleted=True)",
        new="replace(record, fenced=True, limbo=False, deleted=True)",
        tests=(FENCED_MEANWHILE,),
    ),
    planted(
        "a plain stop erases the boundary of a lost disk",
        stands_for=("no boot fence",),
        file=MAINTENANCE,
        old="                    directory.facts, fence=self.ledgers.fence, unchecked",
        new="                    directory.facts,\n"
        "                    fence=self.ledgers.fence if fences_lost else None,\n"
        "                    unchecked",
        tests=(BOOTED + "test_r24_a_boundary_of_before_stays",),
    ),
    planted(
        "a second boundary takes the place of the first",
        stands_for=("no boot fence",),
        file=LEDGERS,
        old="self.fence = union([self.fence, boundary])",
        new="self.fence = boundary",
        tests=(TABLED + "test_a_later_boundary_covers_what_an_earlier_one_covered",),
    ),
    planted(
        "a ledger is added to by the permit of before it was unchecked",
        stands_for=("no boot fence",),
        file=LEDGERS,
        old="        self._unchecked = boundary\n        self.permits.drop_all()\n",
        new="        self._unchecked = boundary\n",
        tests=(PERMITS + "test_whoever_changes_what_a_ruling_looks_at_drops_the_permit",),
    ),
    planted(
        "the record of a loss goes before the copy is durable",
        stands_for=("a loss that is none",),
        file=SERVER_MARKS,
        old="        log_bytes = await asyncio.to_thread(work)\n"
        "        await take_back_losses(self.storage, self.store)\n",
        new="        await take_back_losses(self.storage, self.store)\n"
        "        log_bytes = await asyncio.to_thread(work)\n",
        tests=(MARKS + "test_the_record_of_a_loss_goes_no_earlier_than_its_copy_is_durable",),
    ),
    planted(
        "a fence is taken for a mark, which its writer may go round",
        stands_for=("S23 fenced treated as failure",),
        file=ADMISSION,
        old="    if facts.deleted or (facts.fenced and not is_recovery):\n"
        "        return Ruling(Status.FENCED)\n"
        "    if (facts.is_marked or not is_writable)",
        new="    if facts.deleted:\n"
        "        return Ruling(Status.FENCED)\n"
        "    if (facts.is_marked or facts.fenced or not is_writable)",
        tests=(JUDGED + "test_r24_a_fence_of_a_client_and_a_tombstone_each_end_the_writer",),
    ),
    planted(
        "a repair closes every open ledger in limbo",
        stands_for=("a writer that could go on is cut off",),
        file=OUTCOME,
        old="is_in_limbo and not is_left_to_writer(metadata, *self.limbo_on)\n",
        new="is_in_limbo\n",
        tests=(MOVED_ON,),
    ),
    planted(
        "a repair leaves an open ledger to its writer if one bookie in limbo was replaced",
        stands_for=("limbo that nothing ends",),
        file=OUTCOME,
        old="is_left_to_writer(metadata, *self.limbo_on)",
        new="any(is_left_to_writer(metadata, one) for one in self.limbo_on)",
        tests=(
            STEP + "test_a_ledger_that_one_of_two_bookies_in_limbo_is_still_written_to_is_closed",
        ),
    ),
    planted(
        "a repair leaves an open ledger to its writer though entries of it are nowhere",
        stands_for=("limbo that nothing ends",),
        file=REPAIR,
        old="any(look.verdict.gone & each for each in owed)",
        new="all(not each for each in owed)",
        tests=(
            STEP + "test_an_open_ledger_with_entries_that_nobody_has_is_closed_and_they_are_lost",
        ),
    ),
    planted(
        "a repair copies whole ledgers",
        stands_for=("more copied than was forgotten",),
        file=EXPECT,
        old="        lacking=absent - unread if holding.has_searched else EMPTY,\n",
        new="        lacking=owed - unread if holding.has_searched else EMPTY,\n",
        tests=(STEP + "test_only_what_was_not_synced_is_copied_after_a_crash",),
    ),
    planted(
        "a loss record stays though the entry is here",
        stands_for=("a loss that is none",),
        file=FOUND,
        old="    if not found:\n        return\n",
        new="    return\n",
        tests=(
            MARKS + "test_an_entry_that_turns_up_takes_its_loss_record_back_with_the_next_flush",
        ),
    ),
    planted(
        "what a person gave up beyond the end is lost no more once it turns up",
        stands_for=("a loss that is none",),
        file=CLEAR,
        old="    return lost & held & EntrySet.from_ranges([(0, metadata.last_entry_id)])\n",
        new="    return lost & held\n",
        also=(
            Patch(
                CLEAR,
                "    if not metadata.is_closed or metadata.last_entry_id < 0:\n",
                "    if not metadata.is_closed:\n",
            ),
        ),
        tests=(MARKS + "test_what_a_person_gave_up_beyond_the_end_stays_lost_though_it_turns_up",),
    ),
    planted(
        "a repair gives writers no time",
        stands_for=("a writer that could go on is cut off",),
        file=STEPS,
        old="    await run.leave_to_writers([task for task in tasks if task.limbo_on])\n",
        new="",
        tests=(STEP + "test_a_writer_that_moves_on_within_the_grace_keeps_its_ledger",),
    ),
    planted(
        "a writer takes the bookie again that refused its ledger",
        stands_for=("a writer that could go on is cut off",),
        file=PLACEMENT,
        old="if b not in refusing and not",
        new="if not",
        tests=(PLACED + "test_who_refuses_a_ledger_replaces_nobody_in_it",),
    ),
    planted(
        "a writer forgets who refused its ledger",
        stands_for=("a writer that could go on is cut off",),
        file=WRITER,
        old="        if status is Status.READ_ONLY:\n",
        new="        if status is Status.OVERLOADED:\n",
        tests=(
            "tests/bookie/client/test_writer_faults.py::"
            "test_the_only_spare_bookie_that_refused_the_ledger_is_asked_again_later",
        ),
    ),
    planted(
        "a drain ends the ledger of a writer that has moved on since its turn was awaited",
        stands_for=("a writer that could go on is cut off",),
        file=EVACUATION,
        old=", only_if=self._must_end)",
        new=")",
        tests=(
            "tests/bookie/repair/jobs/test_drain_job.py::"
            "test_a_writer_that_moves_on_while_its_ledger_waits_for_its_turn_is_left_alone",
        ),
    ),
)
