"""Planted bugs of those who look after bookies: repair, audit, and the operator's plan."""

from typing import Final

from mutant import Mutant, planted

AUDIT: Final = "bookie/src/bookie/repair/look/audit.py"
DIGESTS: Final = "bookie/src/bookie/frames/digests.py"
COPY: Final = "bookie/src/bookie/repair/mend/copy.py"
EXPECT: Final = "bookie/src/bookie/repair/judge/expect.py"
LOSSES: Final = "bookie/src/bookie/repair/mend/losses.py"
END_SEARCH: Final = "bookie/src/bookie/protocol/end_search.py"
RECOVERY: Final = "bookie/src/bookie/protocol/recovery.py"
REPAIR: Final = "bookie/src/bookie/repair/mend/ledger_repair.py"
STEPS: Final = "bookie/src/bookie/repair/jobs/repair_job.py"
BUDGET: Final = "operator/src/bookie_operator/plan/budget.py"
DRAINS: Final = "operator/src/bookie_operator/plan/drains.py"
EPISODES: Final = "operator/src/bookie_operator/plan/episodes.py"
MENDS: Final = "operator/src/bookie_operator/plan/mends.py"
PLANS: Final = "operator/src/bookie_operator/plan/planner.py"
PLAN_REPAIR: Final = "operator/src/bookie_operator/plan/repair.py"
STATES: Final = "operator/src/bookie_operator/plan/states.py"

RECHECK: Final = "bookie/src/bookie/server/recheck.py"
INDEX: Final = "bookie/src/bookie/storage/index.py"

OWN: Final = "tests/bookie/server/test_recheck.py::"
STEP: Final = "tests/bookie/repair/jobs/test_repair_job.py::"
LOSS: Final = "tests/scenarios/test_limbo_and_loss.py::"
PLAN: Final = "tests/bookie_operator/plan/test_plan.py::"
MEND: Final = "tests/bookie_operator/plan/test_mends.py::"
LEAVE: Final = "tests/bookie_operator/plan/test_drains.py::"

MUTANTS: Final[tuple[Mutant, ...]] = (
    planted(
        "an audit begins at a follower that may lag",
        stands_for=("S38 stale listing",),
        file="bookie/src/bookie/repair/look/same_cluster.py",
        old="        await store.barrier()\n        others",
        new="        others",
        tests=(
            "tests/bookie/repair/look/test_same_cluster.py::"
            "test_s38_a_run_begins_with_every_ledger_that_a_lagging_follower_does_not_show_yet",
        ),
    ),
    planted(
        "a run of which one entry verifies is copied whole",
        stands_for=("S10 corruption copied",),
        file=DIGESTS,
        old="    return hmac.compare_digest(found, expected)\n",
        new="    return any(map(operator.eq, found, expected))\n",
        tests=(
            "tests/bookie/frames/test_digests_of_long_runs.py::"
            "test_any_flipped_bit_is_found_and_spoils_its_entry_only",
        ),
    ),
    planted(
        "digests of a long run count as right together whatever they say",
        stands_for=("S10 corruption copied",),
        file=DIGESTS,
        old="    entries = said ^ all_shifted(begun ^ heads, each - head_bytes)\n"
        "    return joined(entries, each=each) == _entries_checksum(run)\n",
        new="    return bool(said.size)\n",
        tests=(
            "tests/bookie/frames/test_digests_jointly.py::"
            "test_up_to_three_flipped_bits_are_always_found",
        ),
    ),
    planted(
        "repair copies what does not verify",
        stands_for=("S10 corruption copied",),
        file=COPY,
        old="        right = zip(checked.ids, checked.entries(), strict=True)\n",
        new="        right = zip(run.entry_ids(), run.entries(), strict=True)\n",
        tests=(STEP + "test_a_corrupt_copy_is_not_spread",),
    ),
    planted(
        "a bookie rejects copies on anybody's word",
        stands_for=("S10 corruption copied",),
        file=RECHECK,
        old="    if not seen:\n        return Recheck()\n",
        new="    await asyncio.to_thread(\n"
        "        storage.maintenance.reject, ledger_id, entries, lambda _frame: entries\n    )\n",
        tests=(OWN + "test_good_copies_and_others_words_change_nothing",),
    ),
    planted(
        "a rejected copy is denied",
        stands_for=("S9 EIO mapped to NSE",),
        file=INDEX,
        old="                parts = good + rows_of(bad, row.rejected())\n",
        new="                parts = good\n",
        tests=(OWN + "test_a_wrong_copy_is_unreadable_then_and_never_denied",),
    ),
    planted(
        "repair has the last copy rejected",
        stands_for=("S10 corruption copied",),
        file=REPAIR,
        old="            given |= entries & corrupt\n        if given:\n",
        new="            given |= entries & corrupt\n        given = corrupt\n        if given:\n",
        tests=(
            "tests/bookie/repair/look/test_digests.py::test_the_last_copy_is_not_rejected_however_wrong",
        ),
    ),
    planted(
        "the holder of a corrupt copy counts toward the acks",
        stands_for=("S10 corruption copied",),
        file=RECOVERY,
        old="            effects += self._writeback.distrust(bookie_id)\n",
        new="            pass\n",
        tests=(
            "tests/scenarios/test_finding_the_end.py::"
            "test_s10_the_holder_of_a_corrupt_copy_does_not_count_toward_the_acks",
        ),
    ),
    planted(
        "a loss is recorded of an entry that a member of an older fragment has",
        stands_for=("S34 loss not classified",),
        file=EXPECT,
        old="        gone, no_copy = gone - held, no_copy - held\n",
        new="        no_copy = no_copy - held\n",
        tests=(STEP + "test_a_copy_that_only_a_member_of_before_has_is_no_loss_and_is_given_back",),
    ),
    planted(
        "a repair leaves the last fragment of an open ledger to its writer",
        stands_for=("D1 findings that nobody repairs",),
        file=REPAIR,
        old="            wanted = share.lacking - look.verdict.gone\n",
        new="            wanted = share.lacking - look.verdict.gone\n"
        "            if metadata.state is LedgerState.OPEN:\n"
        "                wanted = wanted.clip(0, metadata.last_fragment.first_entry_id - 1)\n",
        tests=(
            STEP + "test_d1_what_a_live_writer_knows_acknowledged_is_copied_to_a_member_of_now",
        ),
    ),
    planted(
        "a mend of an open ledger copies one entry more than a LAC covers",
        stands_for=("S12 LAC advanced in recovery adds",),
        file=EXPECT,
        old="return EntryId(max(metadata.last_fragment.first_entry_id - 1, lac))",
        new="return EntryId(max(metadata.last_fragment.first_entry_id - 1, lac + 1))",
        tests=(
            STEP + "test_d1_what_a_live_writer_knows_acknowledged_is_copied_to_a_member_of_now",
        ),
    ),
    planted(
        "an entry that is lost for certain blocks recovery like one in question",
        stands_for=("S34 loss not classified",),
        file=END_SEARCH,
        old="return self.next <= self.proven and verdict in",
        new="return self.next < 0 and verdict in",
        tests=(LOSS + "test_s34_a_loss_that_is_certain_is_told_apart_from_one_that_is_possible",),
    ),
    planted(
        "an entry is called lost although a member has not searched",
        stands_for=("S34 loss not classified",),
        file=EXPECT,
        old="        lacking=absent - unread if holding.has_searched else EMPTY,\n",
        new="        lacking=absent - unread,\n",
        tests=(STEP + "test_s35_no_loss_is_recorded_while_a_member_is_down",),
    ),
    planted(
        "repair looks at marked ledgers only, never again at the others",
        stands_for=("S37 one-time metadata cache",),
        file=STEPS,
        old="        if self._request.covers_all:\n",
        new="        if self._request.covers_all and not marks:\n",
        tests=(STEP + "test_s37_an_unmarked_hole_is_found_and_filled_by_a_later_pass",),
    ),
    planted(
        "the audit calls missing what a bookie in limbo does not list",
        stands_for=("S42 limbo leaks as negative",),
        file=EXPECT,
        old="(Status.OK, Status.NO_SUCH_LEDGER) and not self.is_marked",
        new="(Status.OK, Status.NO_SUCH_LEDGER) or self.is_marked",
        tests=(STEP + "test_s42_the_audit_reports_limbo_as_unknown_not_missing",),
    ),
    planted(
        "a repair is over when its job says so",
        stands_for=("repair that trusts a Job's exit code",),
        file=PLAN_REPAIR,
        old="state=RepairState.RUNNING if job.running else RepairState.FAILED,",
        new="state=RepairState.RUNNING if job.running else "
        "RepairState.FAILED if job.exit_code else RepairState.FINISHED,",
        tests=(
            PLAN + "TestRepairs::test_a_job_that_succeeded_proves_nothing_while_marks_are_left",
        ),
    ),
    planted(
        "a repair that was seen running runs until its bookie has marks again",
        stands_for=("D1 findings that nobody repairs",),
        file=PLAN_REPAIR,
        old="known = _while_away(pass_, one.bookie.id, before)",
        new="known = before",
        tests=(
            PLAN + "TestRepairs::test_a_later_boot_without_marks_is_audited_though_its_repair_was_"
            "last_seen_running",
        ),
    ),
    planted(
        "an incident is over when its repair's job succeeded",
        stands_for=("repair that trusts a Job's exit code",),
        file=EPISODES,
        old="if not is_over and _says_clear(one, incident):",
        new="if not is_over and any(job.exit_code == 0 for job in jobs):",
        tests=(PLAN + "TestUncleanStop::test_only_the_bookies_own_count_clears",),
    ),
    planted(
        "a bookie in limbo uses up no loss budget",
        stands_for=("planner exceeds the loss budget",),
        file=STATES,
        old="    if marks:\n        return Impairment.IN_LIMBO\n",
        new="",
        tests=(PLAN + "TestRestarts::test_a_restart_is_refused_while_limbo_exists",),
    ),
    planted(
        "all bookies whose settings changed restart at once",
        stands_for=("planner exceeds the loss budget",),
        file=PLANS,
        old="*due_first(wanted, observed)[:1], ",
        new="*due_first(wanted, observed), ",
        tests=(PLAN + "TestRestarts::test_changed_settings_restart_one_bookie",),
    ),
    planted(
        "the first bookie leaves first",
        stands_for=("wrong victim order",),
        file=DRAINS,
        old="max(reversed(surplus), key=urgency",
        new="max(surplus, key=urgency",
        tests=(LEAVE + "TestTurningBack::test_the_last_to_come_is_the_first_to_go",),
    ),
    planted(
        "bookie-9 leaves before bookie-10",
        stands_for=("wrong victim order",),
        file=STATES,
        old="for bookie_id in sorted(known, key=by_number)",
        new="for bookie_id in sorted(known)",
        tests=(LEAVE + "TestTheWayOut::test_ten_comes_after_nine",),
    ),
    planted(
        "healthy bookies restart before the broken one",
        stands_for=("wrong victim order",),
        file=BUDGET,
        old="        if others and not self._is_most_broken(candidate):\n",
        new="        if others and self._is_most_broken(candidate):\n",
        tests=(
            PLAN + "TestRestarts::test_one_that_is_out_anyway_restarts_before_those_that_serve",
        ),
    ),
    planted(
        "a loss that stands in one record is entered in no other",
        stands_for=("S34 loss not classified",),
        file=LOSSES,
        old="before[ledger_id].gone & look.verdict.unrecorded",
        new="before[ledger_id].gone & look.verdict.unrecorded - look.verdict.lost",
        tests=(STEP + "test_a_bookie_whose_loss_record_is_gone_gets_another_one",),
    ),
    planted(
        "what an audit finds outside limbo is told and left",
        stands_for=("D1 findings that nobody repairs",),
        file=MENDS,
        old="    return missing + (corrupt.entries if corrupt is not None else 0)\n",
        new="    return 0\n",
        tests=(MEND + "test_d1_what_an_audit_finds_starts_a_repair_of_every_ledger",),
    ),
    planted(
        "a repair of findings follows another without a look in between",
        stands_for=("D1 findings that nobody repairs",),
        file=MENDS,
        old="    return looked and (",
        new="    return (",
        tests=(MEND + "test_no_round_follows_while_audits_fail",),
    ),
    planted(
        "a bookie that was away cleanly asks for no audit",
        stands_for=("D2 verified by an audit from before",),
        file=PLANS,
        old="        is_asked=bool(suspected) or is_disturbed(pass_),\n",
        new="        is_asked=bool(suspected),\n",
        tests=(
            MEND
            + "TestDisturbances::test_d2_after_a_bookie_was_away_only_a_younger_audit_verifies",
        ),
    ),
)
