"""Planted bugs of the loss budget: missing copies, quorums of ledgers, who holds the last copy."""

from typing import Final

from mutant import Mutant, Patch, planted

BUDGET: Final = "operator/src/bookie_operator/plan/budget.py"
COPIES: Final = "operator/src/bookie_operator/plan/copies.py"
DRAINS: Final = "operator/src/bookie_operator/plan/drains.py"
AUDITS: Final = "operator/src/bookie_operator/model/audit_status.py"
LAST: Final = "bookie/src/bookie/repair/judge/last_copies.py"
LOST: Final = "operator/src/bookie_operator/plan/lost.py"
REPLACEMENTS: Final = "operator/src/bookie_operator/plan/replacements.py"
QUORUMS: Final = "bookie/src/bookie/repair/judge/quorums.py"

ROLLOUTS: Final = "tests/bookie_operator/plan/test_rollouts.py::"
PLAN: Final = "tests/bookie_operator/plan/test_budget.py::"
GIVEN_UP: Final = "tests/bookie_operator/plan/test_given_up.py::"
HELD: Final = "tests/bookie/repair/judge/test_last_copies.py::"
OWN: Final = "tests/bookie/repair/judge/test_quorums.py::"
EXCEEDS: Final = ("planner exceeds the loss budget",)

MUTANTS: Final[tuple[Mutant, ...]] = (
    planted(
        "the loss budget leaves out whom the action is for",
        stands_for=EXCEEDS,
        file=BUDGET,
        old="        out = {*self.impaired, candidate}\n",
        new="        out = {*self.impaired}\n",
        tests=(
            PLAN + "TestAckQuorumOne::test_disks_and_cookies_are_a_persons_decision_and_say_so",
        ),
    ),
    planted(
        "the loss budget ignores what an audit found below the ack quorum",
        stands_for=EXCEEDS,
        file=BUDGET,
        old="        return _refuse(action, candidate, LAST_COPY, taken) if taken else None\n",
        new="        return None\n",
        tests=(PLAN + "TestLastCopies::test_replace_disk_refuses_to_destroy_the_last_copy",),
    ),
    planted(
        "a bookie with a last copy may be evicted",
        stands_for=EXCEEDS,
        file=BUDGET,
        old="        if self._last_copies():\n            return 0\n",
        new="",
        tests=(PLAN + "TestLastCopies::test_replace_disk_refuses_to_destroy_the_last_copy",),
    ),
    planted(
        "an emptied bookie goes though the last audit names it",
        stands_for=EXCEEDS,
        file=DRAINS,
        old="        last = self.gate.budget.last_copy_refusal(SCALE_DOWN, self.victim)\n",
        new="        last = None\n",
        tests=(
            PLAN + "TestLastCopies::test_an_emptied_bookie_goes_once_an_audit_names_it_no_more",
        ),
    ),
    planted(
        "holders that are out already count as holders",
        stands_for=EXCEEDS,
        file=COPIES,
        old="away.issuperset(held.known)",
        new="len(held.known) < 2",
        tests=(PLAN + "TestLastCopies::test_the_other_holder_is_the_last_while_one_is_out",),
    ),
    planted(
        "the loss budget is by the spec's ack quorum whatever ledgers have",
        stands_for=EXCEEDS,
        file=COPIES,
        old="    if lowest < min(wanted, asked):\n",
        new="    if lowest < 1:\n",
        tests=(
            PLAN + "TestQuorums::test_a_cookie_fix_counts_by_the_lowest_ack_quorum_of_the_ledgers",
        ),
    ),
    planted(
        "status shows another loss budget than counts",
        stands_for=EXCEEDS,
        file=BUDGET,
        old="            limit=self.limit,\n            reason=reason,\n",
        new="            limit=self.copies.certain,\n            reason=reason,\n",
        tests=(PLAN + "TestQuorums::test_after_it_there_is_no_doubt",),
    ),
    planted(
        "a second bookie is taken out while one is",
        stands_for=EXCEEDS,
        file=BUDGET,
        old="        if others and not self._is_most_broken(candidate):\n",
        new="        if others and not self.limit:\n",
        tests=(ROLLOUTS + "test_d4_of_two_that_are_out_only_the_most_broken_is_restarted",),
    ),
    planted(
        "memory that is all that has an entry is restarted",
        stands_for=EXCEEDS,
        file=BUDGET,
        old="        if keeps_disks and candidate not in self.forgetful:\n",
        new="        if keeps_disks:\n",
        tests=(PLAN + "TestAckQuorumOne::test_one_that_runs_from_memory_is_not_stopped",),
    ),
    planted(
        "holders of last copies are cut off silently by whoever reads them",
        stands_for=EXCEEDS,
        file=AUDITS,
        old="        return len(self.held_by) == self.groups and not self.entries_left_out\n",
        new="        return True\n",
        tests=(PLAN + "TestLastCopies::test_what_was_cut_off_concerns_every_bookie",),
    ),
    planted(
        "holders of last copies are cut off silently by whoever tells them",
        stands_for=EXCEEDS,
        file=LAST,
        old='            "groups": len(rows),\n',
        new='            "groups": min(len(rows), ROWS_MAX),\n',
        tests=(HELD + "test_groups_beyond_the_bound_are_counted_as_left_out",),
    ),
    planted(
        "a copy of a silent bookie counts as a known one",
        stands_for=EXCEEDS,
        file=LAST,
        old="owed - share.missing - share.unknown if bookie_id",
        new="owed - share.missing if bookie_id",
        tests=(HELD + "test_a_copy_of_a_silent_bookie_is_no_known_one",),
    ),
    planted(
        "a ledger that is written counts by its write quorum",
        stands_for=EXCEEDS,
        file=QUORUMS,
        old="    copies = metadata.write_quorum if metadata.is_closed else metadata.ack_quorum\n",
        new="    copies = metadata.write_quorum\n",
        also=(
            Patch(
                file=QUORUMS,
                old="np.where(ledgers.is_closed[chosen], ledgers.write_quorum[chosen], ack)",
                new="ledgers.write_quorum[chosen]",
            ),
        ),
        tests=(OWN + "test_of_an_open_ledger_its_ack_quorum_counts_of_a_closed_one_its_copies",),
    ),
    planted(
        "a bookie that came back still gives up its volumes",
        stands_for=EXCEEDS,
        file=REPLACEMENTS,
        old="bookie_id not in pass_.spec.bookie_ids or gone_since(pass_, bookie_id) is None:",
        new="bookie_id not in pass_.spec.bookie_ids:",
        tests=(
            "tests/bookie_operator/plan/test_replacements.py::"
            "test_one_that_comes_back_before_keeps_its_volumes",
        ),
    ),
    planted(
        "an outage of many is taken for the loss of one",
        stands_for=EXCEEDS,
        file=LOST,
        old="    if len(gone) > limit:\n",
        new="    if False:\n",
        tests=(
            "tests/bookie_operator/plan/test_lost.py::"
            "test_more_than_the_ack_quorum_leaves_over_is_an_outage_and_a_person_decides",
        ),
    ),
    planted(
        "a dead bookie leaves before others hold what it held",
        stands_for=EXCEEDS,
        file=DRAINS,
        old="        why = why_not_made_good(self.pass_, self.victim)\n",
        new='        why = ""\n',
        tests=(GIVEN_UP + "test_a_dead_bookie_stays_until_others_hold_what_it_held",),
    ),
    planted(
        "a re-replication that the bookie may have come back after counts",
        stands_for=EXCEEDS,
        file=LOST,
        old="made_at >= known_since\n",
        new="True\n",
        tests=(GIVEN_UP + "test_what_was_made_good_before_the_operator_looked_does_not_count",),
    ),
    planted(
        "a re-replication from before the bookie came back counts",
        stands_for=EXCEEDS,
        file=LOST,
        old="if job.started_at >= begun_at and _is_clean(job)",
        new="if _is_clean(job)",
        tests=(
            "tests/bookie_operator/plan/test_lost.py::"
            "test_a_job_from_before_it_went_away_once_more_says_nothing",
        ),
    ),
)
