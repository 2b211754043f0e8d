"""Planted bugs of a ledger's recovery: fencing, judging answers, writing back, closing."""

from typing import Final

from mutant import Mutant, Patch, planted

ADMISSION: Final = "bookie/src/bookie/protocol/admission.py"
ANSWERS: Final = "bookie/src/bookie/protocol/answers.py"
LEDGER: Final = "bookie/src/bookie/protocol/ledger.py"
END_SEARCH: Final = "bookie/src/bookie/protocol/end_search.py"
LAC_READ: Final = "bookie/src/bookie/protocol/lac_read.py"
RECOVERY: Final = "bookie/src/bookie/protocol/recovery.py"
STATUS: Final = "bookie/src/bookie/protocol/status.py"
WRITEBACK: Final = "bookie/src/bookie/protocol/writeback.py"

FENCING: Final = "tests/scenarios/test_fencing.py::"
END: Final = "tests/scenarios/test_finding_the_end.py::"
LOSS: Final = "tests/scenarios/test_limbo_and_loss.py::"
RIVALS: Final = "tests/scenarios/test_rival_recoverers.py::"
UNIT: Final = "tests/bookie/protocol/test_recovery.py::"

MUTANTS: Final[tuple[Mutant, ...]] = (
    planted(
        "recovery reads do not fence",
        stands_for=("recovery reads do not fence", "S4 reads without fence"),
        file=END_SEARCH,
        old="ops=ops, fence=True)",
        new="ops=ops, fence=False)",
        model="reads-do-not-fence",
        tests=(FENCING + "test_s04_a_recovery_read_fences_the_bookie_that_missed_the_first_fence",),
    ),
    planted(
        "one denial ends the ledger",
        stands_for=("one NSE is enough", "S2 early decision", "S8 deciding before all are in"),
        file=ANSWERS,
        old="if covers(denials, cohort=write_quorum, ack_quorum=ack_quorum):",
        new="if denials:",
        model="one-denial-is-enough",
        tests=(
            END + "test_s02_limbo_bookie_does_not_deny_the_only_acked_entry",
            END + "test_s08_a_late_copy_counts_after_a_denial_and_a_timeout",
        ),
    ),
    planted(
        "a majority of denials ends the ledger, whatever its ack quorum",
        stands_for=("S7 majority of negatives",),
        file=ANSWERS,
        old="if covers(denials, cohort=write_quorum, ack_quorum=ack_quorum):",
        new="if denials > write_quorum // 2:",
        tests=(END + "test_s07_with_ack_quorum_1_two_denials_decide_nothing",),
    ),
    planted(
        "UNKNOWN counts as a denial",
        stands_for=("UNKNOWN counted as negative", "S2 UNKNOWN as negative"),
        file=STATUS,
        old="return self in (Status.NO_SUCH_LEDGER, Status.NO_SUCH_ENTRY)",
        new="return self in (Status.NO_SUCH_LEDGER, Status.NO_SUCH_ENTRY, Status.UNKNOWN)",
        model="unknown-is-denial",
        tests=(END + "test_s02_limbo_bookie_does_not_deny_the_only_acked_entry",),
    ),
    planted(
        "fence coverage counts answers over the whole ensemble",
        stands_for=("S6 count QC over the ensemble",),
        file=LAC_READ,
        old="""        return fence_covers(
            covered,
            ensemble_size=self._metadata.ensemble_size,
            write_quorum=self._metadata.write_quorum,
            ack_quorum=self._metadata.ack_quorum,
        )""",
        new="""        needed = self._metadata.write_quorum - self._metadata.ack_quorum + 1
        return len(covered) >= needed""",
        tests=(FENCING + "test_s06_two_fences_that_leave_a_write_set_free_are_not_enough",),
    ),
    planted(
        "one fenced bookie is enough to read on",
        stands_for=("fence threshold 1",),
        file=LAC_READ,
        old="""        return fence_covers(
            covered,
            ensemble_size=self._metadata.ensemble_size,
            write_quorum=self._metadata.write_quorum,
            ack_quorum=self._metadata.ack_quorum,
        )""",
        new="        return len(covered) > 0",
        tests=(UNIT + "test_one_fenced_bookie_of_three_does_not_begin_the_reading",),
    ),
    planted(
        "an entry is recovered only from an ack quorum of copies",
        stands_for=("AQ positives required", "S32 AQ-positive rule"),
        file=ANSWERS,
        old="if Status.OK in answers:",
        new="if list(answers).count(Status.OK) >= ack_quorum:",
        model="ack-quorum-of-copies",
        tests=(END + "test_s32_an_entry_is_recovered_from_its_one_copy",),
    ),
    planted(
        "what recovery reads is not written back",
        stands_for=("no write-back",),
        file=RECOVERY,
        old="            effects += self._writeback.add(found)\n",
        new="            pass\n",
        model="no-write-back",
        tests=(UNIT + "test_reads_never_count_as_acks",),
    ),
    planted(
        "recovery adds carry a LAC that advances",
        stands_for=("LAC advances in recovery adds", "S12 LAC advanced in recovery adds"),
        file=WRITEBACK,
        old="lac=self._lac,\n            pattern",
        new="lac=EntryId(run_ids[-1] - 1),\n            pattern",
        model="lac-advances-in-recovery-adds",
        tests=(RIVALS + "test_s12_a_tail_is_never_shown_what_a_rival_wrote_back",),
    ),
    planted(
        "a closed ledger can be recovered once more",
        stands_for=("closed ledger re-opened", "S36 re-opened closed ledger"),
        file=RECOVERY,
        old="""        if self._metadata.is_closed:
            return self._adopt(self._metadata, self._version)
""",
        new="",
        also=(
            Patch(
                LEDGER,
                "        assert not self.is_closed\n        return replace(self, state",
                "        return replace(self, state",
            ),
        ),
        model="closed-is-reopened",
        tests=(LOSS + "test_s36_a_closed_ledger_keeps_its_end",),
    ),
    planted(
        "recovery starts at the LAC it was told, also below the last fragment",
        stands_for=("S5 LAC default as start",),
        file=END_SEARCH,
        old="EntryId(max(lac, floor))\n",
        new="EntryId(lac)\n",
        also=(
            Patch(
                END_SEARCH,
                "        assert self._metadata.last_fragment.first_entry_id - 1 <= self.proven\n",
                "",
            ),
        ),
        model="starts-at-lac",
        tests=(END + "test_s05_recovery_never_goes_below_the_last_fragment",),
    ),
    planted(
        "ensemble changes of a recovery are committed at once",
        stands_for=("S13 ensemble committed during recovery",),
        file=RECOVERY,
        old="effects = list(self._writeback.on_replacement(position, bookie_id)) + self._go_on()",
        new="""effects = list(self._writeback.on_replacement(position, bookie_id)) + self._go_on()
            changed = self._metadata.with_fragments(self._writeback.fragments)
            effects = [WriteMetadata(changed, self._version), *effects]""",
        model="recovery-commits-changes-at-once",
        tests=(
            UNIT + "test_the_ensemble_changed_in_recovery_is_written_by_the_closing_write_only",
        ),
    ),
    planted(
        "recovery goes on past a hole when later entries are there",
        stands_for=("S14 continuing past a hole",),
        file=END_SEARCH,
        old="return self.next <= self.proven and verdict in",
        new="""behind = any(max(m._copies, default=-1) > self.next for m in self._reads.answers)
        return (behind or self.next <= self.proven) and verdict in""",
        tests=(END + "test_s14_a_hole_ends_the_ledger_after_the_write_backs",),
    ),
    planted(
        "recovery closes before its write-backs are acknowledged",
        stands_for=("S14 closing before write-backs",),
        file=RECOVERY,
        old="if self._writeback.pending or self._length_reads.busy:",
        new="if self._length_reads.busy:",
        also=(
            Patch(RECOVERY, "not self._writeback.pending and not self._length", "not self._length"),
        ),
        model="closes-before-write-backs",
        tests=(UNIT + "test_no_close_before_the_write_backs_are_acked",),
    ),
    planted(
        "a recoverer that lost the closing write closes over the winner",
        stands_for=("S11 close without state check",),
        file=RECOVERY,
        old="        if metadata.is_closed:\n            return self._adopt(metadata, version)\n",
        new="        if metadata.is_closed and self.phase is RecoveryPhase.MARK:\n"
        "            return self._adopt(metadata, version)\n",
        also=(
            Patch(
                RECOVERY,
                "        self._metadata, self._version = metadata, version\n"
                "        return self._write_end()",
                "        self._version = version\n        return self._write_end()",
            ),
        ),
        model="closes-without-state-check",
        tests=(RIVALS + "test_s11_the_loser_adopts_the_winners_end",),
    ),
    planted(
        "a tail that cannot be decided is closed in silence",
        stands_for=("S33 silent close",),
        file=RECOVERY,
        old="        if verdict is EntryVerdict.ABSENT:\n            return self._settle()\n",
        new="        ends = (EntryVerdict.ABSENT, EntryVerdict.UNDECIDABLE)\n"
        "        if verdict in ends and self._accepted_loss is None:\n"
        "            return self._settle()\n",
        tests=(LOSS + "test_s33_a_possible_loss_is_named_and_waited_for",),
    ),
    planted(
        "no acceptance of a loss counts while a member is in limbo",
        stands_for=("S33 no way out",),
        file=RECOVERY,
        old="(Status.NO_SUCH_LEDGER, Status.NO_SUCH_ENTRY, Status.UNKNOWN, Status.IO_ERROR)",
        new="(Status.NO_SUCH_LEDGER, Status.NO_SUCH_ENTRY)",
        tests=(LOSS + "test_s33_a_person_may_accept_the_loss_and_it_is_recorded",),
    ),
)
