"""Planted bugs of who writes and reads: acks, ensemble changes, close, reads, the ledger list."""

from typing import Final

from mutant import Mutant, Patch, planted

ANSWERS: Final = "bookie/src/bookie/protocol/answers.py"
BATCHES: Final = "bookie/src/bookie/protocol/batches.py"
LOG_CHAIN: Final = "bookie/src/bookie/client/log_chain.py"
LOG_LIST: Final = "bookie/src/bookie/client/log_list.py"
QUORUM: Final = "bookie/src/bookie/protocol/quorum.py"
READER: Final = "bookie/src/bookie/protocol/reader.py"
RECOVER: Final = "bookie/src/bookie/client/recovery.py"
WRITEBACK: Final = "bookie/src/bookie/protocol/writeback.py"
WRITER: Final = "bookie/src/bookie/protocol/writer.py"

WRITES: Final = "tests/scenarios/test_s15_to_s23_writer.py::"
END: Final = "tests/scenarios/test_finding_the_end.py::"
LOSS: Final = "tests/scenarios/test_limbo_and_loss.py::"
CHAIN: Final = "tests/scenarios/test_log_ownership.py::"
READS: Final = "tests/bookie/protocol/test_reader.py::"
RUNS: Final = "tests/bookie/protocol/test_writer.py::"
BACK: Final = "tests/bookie/protocol/test_writeback.py::"

UN_ACK: Final = "            run.stored &= ~replaced\n"

MUTANTS: Final[tuple[Mutant, ...]] = (
    planted(
        "the writer closes whatever the store says of the end",
        stands_for=("S15 writer closes from its own view",),
        file=WRITER,
        old="found.is_closed and found.last_entry_id == self.lac:",
        new="True:",
        model="writer-closes-blindly",
        tests=(WRITES + "test_s15_close_loses_against_a_recovery_under_way",),
    ),
    planted(
        "the writer takes any closed end for its own",
        stands_for=("S16 wrong conflict handling",),
        file=WRITER,
        old="found.is_closed and found.last_entry_id == self.lac:",
        new="found.is_closed:",
        tests=(WRITES + "test_s16_close_fails_when_a_recoverer_closed_at_another_end",),
    ),
    planted(
        "a close that lost against the same end fails",
        stands_for=("S16 wrong conflict handling",),
        file=WRITER,
        old="found.is_closed and found.last_entry_id == self.lac:",
        new="found.is_closed and found.last_entry_id < self.lac:",
        tests=(WRITES + "test_s16_close_succeeds_when_a_recoverer_closed_at_the_same_end",),
    ),
    planted(
        "adds are acknowledged while an ensemble change is not committed",
        stands_for=("S17 local-only ensembles",),
        file=WRITER,
        old="if self._change is not None or self.phase is not _OPEN:\n            return []\n"
        "        quorum",
        new="if self.phase is not _OPEN:\n            return []\n        quorum",
        model="acks-while-changing",
        tests=(
            WRITES
            + "test_s17_acks_nothing_while_the_store_stalls_and_members_fail_one_after_another",
        ),
    ),
    planted(
        "acks of a replaced member keep counting",
        stands_for=("S18 acks of replaced members", "ack of a replaced member"),
        file=WRITER,
        old=UN_ACK,
        new="",
        model="acks-of-replaced-count",
        tests=(
            WRITES + "test_s19_overlapping_replacements_with_striped_acks_pending",
            WRITES + "test_s20_callbacks_only_after_all_pending_were_evaluated_again_in_order",
        ),
    ),
    planted(
        "a late answer of a replaced member counts for its successor",
        stands_for=("S18 acks of replaced members", "S22 ABA on index"),
        file=WRITER,
        old="            or generation != self._generations[position]\n",
        new="",
        tests=(
            WRITES
            + "test_s22_a_member_that_returns_to_its_position_stores_what_is_attributed_to_it",
        ),
    ),
    planted(
        "of several members replaced at once only the first loses its acks",
        stands_for=("S19 stepwise un-ack",),
        file=WRITER,
        old=UN_ACK,
        new="            run.stored &= ~(replaced & -replaced)\n",
        tests=(WRITES + "test_s19_members_replaced_in_one_change_lose_all_their_acks",),
    ),
    planted(
        "adds are acknowledged before all of them were re-evaluated",
        stands_for=("S20 early callbacks",),
        file=WRITER,
        old="        sends: list[Effect] = []\n        for run in (run for batch",
        new="        sends: list[Effect] = self._advance()\n        for run in (run for batch",
        tests=(WRITES + "test_s20_a_change_that_lands_acks_nothing_by_the_members_it_replaced",),
    ),
    planted(
        "an ensemble change that lost is written again over a recovery",
        stands_for=("S21 retry CAS blindly",),
        file=WRITER,
        old="        if metadata.state is not LedgerState.OPEN:\n"
        "            return self._ended_in_store(metadata)\n",
        new="        if metadata.is_closed:\n"
        "            return self._ended_in_store(metadata)\n"
        "        if metadata.state is not LedgerState.OPEN:\n"
        "            self.version = version\n",
        model="ensemble-change-retried-blindly",
        tests=(WRITES + "test_s21_an_ensemble_change_that_meets_a_recovery_stops_the_writer",),
    ),
    planted(
        "a bookie that says fenced is replaced like one that failed",
        stands_for=("S23 fenced treated as failure",),
        file=WRITER,
        old="        if status is Status.FENCED:\n"
        "            return self.fail(LedgerFencedError(self.metadata.ledger_id))\n",
        new="",
        tests=(WRITES + "test_s23_fenced_keeps_what_is_acked_fails_the_rest_and_replaces_nobody",),
    ),
    planted(
        "answers are counted, not the bookies that gave them",
        stands_for=("S41 counting answers, not bookies",),
        file=WRITER,
        old="            or not run.waiting & bit\n",
        new="",
        also=(Patch(WRITER, "run.stored |= bit", "run.stored = run.stored << 1 | 1"),),
        tests=(WRITES + "test_s41_an_ok_that_comes_twice_counts_once",),
    ),
    planted(
        "write-back acks are counted, not the bookies that gave them",
        stands_for=("S41 counting answers, not bookies",),
        file=WRITEBACK,
        old="        sent = self._sent.pop(op, None)",
        new="        sent = self._sent.get(op)",
        also=(
            Patch(
                WRITEBACK,
                "        self._acked[sent.position] |= self._pending.keys() & sent.entry_ids\n",
                "        lacking = [a for a in self._acked if not a.issuperset(sent.entry_ids)]\n"
                "        for acked in lacking[:1]:\n"
                "            acked |= self._pending.keys() & sent.entry_ids\n",
            ),
        ),
        tests=(BACK + "test_an_entry_is_settled_by_an_ack_quorum_of_distinct_members",),
    ),
    planted(
        "a slow OK counts for whatever is pending when it comes",
        stands_for=("S43 answer attributed to the wrong entry",),
        file=WRITER,
        old="run = self._runs.get(run_id)",
        new="run = next((r for b in self._batches for r in b.runs), None)",
        tests=(WRITES + "test_s43_a_slow_ok_counts_for_its_own_entry_only",),
    ),
    planted(
        "a striped entry goes to a write set of its own making",
        stands_for=("wrong write set for a striped ledger",),
        file=BATCHES,
        old="members = self._write_sets[first % self._stride]",
        new="members = self._write_sets[self._next_run_id % self._stride]",
        tests=(RUNS + "test_a_striped_batch_reaches_each_entrys_write_set_in_one_run_per_set",),
    ),
    planted(
        "write sets begin at the entry id modulo the write quorum",
        stands_for=("wrong write set for a striped ledger",),
        file=QUORUM,
        old="start = entry_id % ensemble_size",
        new="start = entry_id % write_quorum",
        tests=("tests/bookie/protocol/test_quorum.py::test_a_write_set_goes_round_the_ensemble",),
    ),
    planted(
        "a digest is not looked at",
        stands_for=("S10 digest unchecked",),
        file="bookie/src/bookie/frames/entry.py",
        old="if not hmac.compare_digest(found, expected):",
        new="if len(found) != len(expected):",
        tests=(END + "test_s10_a_corrupt_copy_is_reported_and_never_copied",),
    ),
    planted(
        "a reader goes on beyond the closed end",
        stands_for=("S11 reader ignores the end",),
        file=READER,
        old="    if last > end:\n        raise",
        new="    if last > end and end < 0:\n        raise",
        tests=(END + "test_s14_a_hole_ends_the_ledger_after_the_write_backs",),
    ),
    planted(
        "a lost entry reads like the end of the ledger",
        stands_for=("S35 NSE shown as end of ledger",),
        file=READER,
        old="        return DataLossError(ledger_id, entry_id)",
        new="        return NoSuchEntryError(ledger_id, entry_id, last=EntryId(entry_id - 1))",
        tests=(LOSS + "test_s35_an_entry_within_the_closed_end_is_never_reported_as_not_there",),
    ),
    planted(
        "an undecided entry is tried again at once, for ever",
        stands_for=("S33 hot loop",),
        file=RECOVER,
        old="await sleep(min(settings.backoff_max_s, settings.backoff_s * 2 ** (attempt - 1)))",
        new="await sleep(0)",
        tests=(
            "tests/bookie/client/test_client_recovery.py::test_pauses_between_attempts_grow_to_their_bound",
        ),
    ),
    planted(
        "the list of ledgers is written over what another leader wrote",
        stands_for=("S45 chaining without CAS",),
        file=LOG_LIST,
        old="        named = self._version\n",
        new="        stored = await self._store.read_value(self.key)\n"
        "        named = stored.version if stored is not None else None\n",
        tests=("tests/bookie/client/test_log_list.py::test_only_one_of_two_writers_wins",),
    ),
    planted(
        "a new leader recovers the last ledger only",
        stands_for=("S45 closing only the last one",),
        file=LOG_CHAIN,
        old="left.ledgers[-RECOVERED_ON_OPEN:]",
        new="left.ledgers[-1:]",
        tests=(CHAIN + "test_s45_both_of_the_last_two_ledgers_are_fenced",),
    ),
)
