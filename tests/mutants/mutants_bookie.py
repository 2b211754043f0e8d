"""Planted bugs of a serving bookie: what it keeps, and what it says of what is not there."""

from typing import Final

from mutant import Mutant, planted

ADMISSION: Final = "bookie/src/bookie/protocol/admission.py"
ASSIGNMENT: Final = "bookie/src/bookie/protocol/assignment.py"
AVAILABILITY: Final = "bookie/src/bookie/protocol/availability.py"
DURABLE: Final = "bookie/src/bookie/server/durable.py"
LEDGERS: Final = "bookie/src/bookie/storage/ledger_table.py"
PERMITS: Final = "bookie/src/bookie/storage/permits.py"
STATE: Final = "bookie/src/bookie/server/state.py"
ENGINE: Final = "bookie/src/bookie/storage/storage.py"
MARKS: Final = "bookie/src/bookie/server/marks.py"
MEMTABLE: Final = "bookie/src/bookie/storage/memtable.py"
READING: Final = "bookie/src/bookie/storage/reading.py"
RECORDS: Final = "bookie/src/bookie/storage/records.py"
OPERATIONS: Final = "bookie/src/bookie/server/operations.py"
MAINTENANCE: Final = "bookie/src/bookie/storage/maintenance.py"

RULES: Final = "tests/bookie/protocol/test_admission.py::"
ASKED: Final = "tests/bookie/server/test_requests.py::"
ADDS: Final = "tests/bookie/server/test_operations.py::"
SERVED: Final = "tests/scenarios/test_boot_served.py::"
STORED: Final = "tests/bookie/storage/test_storage.py::"
SETS: Final = "tests/bookie/protocol/test_availability.py::"

MUTANTS: Final[tuple[Mutant, ...]] = (
    planted(
        "a fence is never written",
        stands_for=("fence not durable", "S1 fence in memory only"),
        file=RECORDS,
        old="flags = _FENCED * self.fenced | ",
        new="flags = ",
        tests=(
            "tests/bookie/storage/test_records.py::test_a_record_survives_its_encoding",
            SERVED + "test_s1_where_the_boot_fences_nothing_the_fence_itself_outlives_the_crash",
        ),
    ),
    planted(
        "the fencing LAC read answers before the fence is durable",
        stands_for=("fence answered before durable", "S44 early fence reply"),
        file=OPERATIONS,
        old="        if ruling.fence:\n"
        "            self._facts.when_durable(request.ledger_id, answer)\n"
        "        else:\n            answer(None)",
        new="        answer(None)",
        tests=(ASKED + "test_s44_a_fence_is_told_only_once_it_is_on_the_disk",),
    ),
    planted(
        "a fencing read answers before the fence is durable",
        stands_for=("fence answered before durable", "S44 early fence reply"),
        file=OPERATIONS,
        old="        if fence:\n            self._facts.when_durable(request.ledger_id, start)\n"
        "        else:\n            start(None)",
        new="        start(None)",
        tests=(ASKED + "test_s44_a_fence_is_told_only_once_it_is_on_the_disk",),
    ),
    planted(
        "a second fence is answered while the first is on its way to the disk",
        stands_for=("S44 early fence reply",),
        file=ADMISSION,
        old="Status.OK, learn_key=not facts.master_key, fence=True",
        new="Status.OK, learn_key=not facts.master_key, fence=not facts.fenced",
        tests=(
            RULES + "test_s44_every_fencing_request_asks_for_a_durable_fence_also_a_repeated_one",
        ),
    ),
    planted(
        "a record that changes leaves what a ledger's adds were permitted on",
        stands_for=("fence not durable", "S1 fence in memory only"),
        file=LEDGERS,
        old="        self.permits.drop(record.ledger_id)\n",
        new="",
        tests=(
            ASKED + "test_a_fence_ends_what_many_adds_were_taken_on",
            ADDS + "test_after_a_change_the_next_add_is_ruled_on",
        ),
    ),
    planted(
        "a boundary that is put leaves what adds were permitted on",
        stands_for=("fence not durable",),
        file=LEDGERS,
        old="        self._fence = boundary\n        self.permits.drop_all()\n",
        new="        self._fence = boundary\n",
        tests=(ADDS + "test_after_a_change_the_next_add_is_ruled_on",),
    ),
    planted(
        "a phase or a lease that ends leaves what adds were permitted on",
        stands_for=("fence not durable",),
        file=STATE,
        old="        object.__setattr__(self, name, value)\n        self.on_change()\n",
        new="        object.__setattr__(self, name, value)\n",
        tests=(ADDS + "test_after_a_change_the_next_add_is_ruled_on",),
    ),
    planted(
        "an add that was ruled on before a change is a permit after it",
        stands_for=("fence not durable",),
        file=PERMITS,
        old="            if as_of != self.version:\n                return\n",
        new="",
        tests=(
            "tests/bookie/storage/test_permits.py::"
            "test_whoever_changes_what_a_ruling_looks_at_drops_the_permit",
        ),
    ),
    planted(
        "an add does not wait for a fact on its way to the disk",
        stands_for=("fence answered before durable",),
        file=DURABLE,
        old="            ledger_id not in self._under_way\n            and ledger_id",
        new="            ledger_id",
        tests=(
            ADDS + "test_they_wait_for_facts_of_the_ledger_that_are_on_their_way",
            ADDS + "test_an_add_waits_for_a_fact_on_its_way_to_the_disk",
        ),
    ),
    planted(
        "an add is answered while its ledger's key is on its way to the disk",
        stands_for=("fence answered before durable",),
        file=OPERATIONS,
        old="        if self._facts.are_durable(ledger_id):\n",
        new="        if True:\n",
        tests=(ASKED + "test_an_add_is_answered_once_the_key_that_it_taught_is_durable",),
    ),
    planted(
        "a fence that could not be written is told later as if it were",
        stands_for=("fence answered before durable",),
        file=DURABLE,
        old="            self._undurable.add(ledger_id)\n",
        new="            pass\n",
        tests=(
            ASKED + "test_a_fence_refused_by_a_full_disk_is_not_told_later_as_if_it_were_written",
        ),
    ),
    planted(
        "a bookie in limbo denies what it does not have",
        stands_for=("S3 false NSE",),
        file=ADMISSION,
        old="    if facts.may_have_forgotten:\n        return Status.UNKNOWN\n",
        new="",
        tests=(
            "tests/scenarios/test_finding_the_end.py::"
            "test_s02_limbo_bookie_does_not_deny_the_only_acked_entry",
            RULES + "test_s42_who_may_have_forgotten_denies_on_no_path",
        ),
    ),
    planted(
        "a bookie in limbo tells its LAC as if it knew",
        stands_for=("S42 limbo leaks as negative",),
        file=ADMISSION,
        old="is_doubtful = fence if facts.deleted else facts.may_have_forgotten",
        new="is_doubtful = fence and facts.deleted",
        tests=(
            RULES + "test_s42_who_may_have_forgotten_denies_on_no_path",
            ASKED + "test_s42_in_limbo_nothing_is_denied_on_any_path",
        ),
    ),
    planted(
        "a bookie in limbo lists its entries as if they were all",
        stands_for=("S42 limbo leaks as negative",),
        file=MARKS,
        old="        if forgot:\n            return Status.UNKNOWN\n",
        new="",
        tests=(
            "tests/bookie/server/test_admin.py::"
            "test_availability_in_limbo_is_what_is_there_and_unknown",
        ),
    ),
    planted(
        "an entry the disk cannot give is left out of the answer",
        stands_for=("NSE from an I/O error", "S9 EIO mapped to NSE"),
        file=READING,
        old="            if not self._take(row):\n                self._bad |= self._wanted(row)\n",
        new="            self._take(row)\n",
        model="io-error-is-denial",
        tests=(STORED + "test_a_damaged_frame_is_unreadable_and_neither_absent_nor_served",),
    ),
    planted(
        "what the storage calls unreadable is not said to the client",
        stands_for=("NSE from an I/O error", "S9 EIO mapped to NSE"),
        file=OPERATIONS,
        old="            unknown=tuple(found.unreadable),\n",
        new="            unknown=(),\n",
        tests=(ASKED + "test_s9_what_the_disk_cannot_give_is_unknown_and_not_denied",),
    ),
    planted(
        "a striped bookie's share begins one entry late",
        stands_for=("wrong write set for a striped ledger",),
        file=ASSIGNMENT,
        old="(first - (position - write_quorum + 1)) % ensemble_size",
        new="(first - (position - write_quorum + 2)) % ensemble_size",
        tests=(
            "tests/bookie/protocol/test_assignment.py::"
            "test_assigned_entries_are_those_whose_write_set_names_the_bookie",
        ),
    ),
    planted(
        "a run reaches one entry too far in the list of what is held",
        stands_for=("availability off by one at run borders",),
        file=AVAILABILITY,
        old="tails[-1] = pattern.id_at(first, count - 1)",
        new="tails[-1] = pattern.id_at(first, count)",
        tests=(SETS + "test_runs_hold_the_ids_of_their_pattern",),
    ),
    planted(
        "runs that touch are not joined, runs with a gap of one are",
        stands_for=("availability off by one at run borders",),
        file=AVAILABILITY,
        old="        gap = starts[1:] > reach[:-1] + 1\n",
        new="        gap = starts[1:] > reach[:-1] + 2\n",
        tests=(SETS + "test_overlapping_ranges_are_merged",),
    ),
    planted(
        "a read that begins at a run's last entry does not find it",
        stands_for=("availability off by one at run borders",),
        file=MEMTABLE,
        old="if row.last >= first]",
        new="if row.last > first]",
        tests=(
            "tests/bookie/storage/test_index.py::"
            "test_the_memtable_finds_every_row_that_touches_a_range",
        ),
    ),
    planted(
        "an add is acknowledged when it is taken, whatever the mode promises",
        stands_for=("limbo cleared before copies are synced",),
        file=ENGINE,
        old="        return _DONE if self._acks_from_memory else _PENDING\n",
        new="        return _DONE\n",
        tests=(
            STORED + "test_no_add_is_acknowledged_before_its_sync_has_ended",
            "tests/bookie/storage/test_storage_adds.py::"
            "test_where_a_sync_is_promised_nothing_is_done_on_return",
        ),
    ),
    planted(
        "the journal is trimmed before the indexes hold what it has",
        stands_for=("fence not durable",),
        file=MAINTENANCE,
        old="        sequence = self._commit(covers_journal=True)\n"
        "        self.journal.trim(sequence)\n",
        new="        self.journal.trim(self.journal.last_sequence())\n"
        "        self._commit(covers_journal=True)\n",
        tests=(
            "tests/bookie/storage/test_storage_crash.py::"
            "test_a_power_cut_before_any_step_of_a_checkpoint_loses_nothing_acknowledged",
        ),
    ),
)
