"""Planted bugs of collection: when deleted ledgers go, what tombstones do, whose fences stay."""

from typing import Final

from mutant import Mutant, Patch, planted

ADMISSION: Final = "bookie/src/bookie/protocol/admission.py"
BUDGET: Final = "operator/src/bookie_operator/plan/budget.py"
COLLECT: Final = "bookie/src/bookie/server/collect.py"
COLLECTION: Final = "bookie/src/bookie/protocol/collection.py"
RECORDS: Final = "bookie/src/bookie/storage/records.py"

JUDGED: Final = "tests/bookie/protocol/test_collection.py::"
COLLECTED: Final = "tests/bookie/server/test_collect.py::"
FENCED: Final = "tests/bookie/server/test_first_fences.py::"
KEPT: Final = "tests/bookie/storage/test_records.py::"
PLANNED: Final = "tests/bookie_operator/plan/test_collection.py::"

PREMATURE: Final = ("A5 premature collection",)
ROLLED_BACK: Final = ("A5 a rolled back store is acted on",)

MUTANTS: Final[tuple[Mutant, ...]] = (
    planted(
        "a collection begins without a write barrier",
        stands_for=PREMATURE,
        file=COLLECT,
        old="        await self.store.barrier()\n",
        new="",
        tests=(COLLECTED + "test_a5_a_look_begins_with_a_write_barrier",),
    ),
    planted(
        "one look is enough to drop a ledger",
        stands_for=PREMATURE,
        file=COLLECTION,
        old="            if look.began_s - since >= self._rules.grace_s\n",
        new="",
        tests=(
            JUDGED + "test_a5_a_ledger_goes_when_it_is_missing_in_two_looks_a_grace_apart",
            JUDGED + "test_a5_collection_beside_adds_never_drops_a_ledger_that_existed_throughout",
        ),
    ),
    planted(
        "a ledger that was there between two looks counts as missing in both",
        stands_for=PREMATURE,
        file=COLLECTION,
        old="        self._missing_since = {\n            i:",
        new="        self._missing_since = before | {\n            i:",
        tests=(JUDGED + "test_a5_a_ledger_that_was_there_in_between_is_missing_anew",),
    ),
    planted(
        "collection has no brake",
        stands_for=PREMATURE,
        file=COLLECTION,
        old="going >= self._rules.brake_from and going > self._rules.share_max * held",
        new="False",
        tests=(
            JUDGED + "test_a5_the_brake_holds_a_pass_that_would_drop_too_large_a_share",
            COLLECTED + "test_a5_a_store_that_lost_many_ledgers_is_not_believed_without_a_person",
        ),
    ),
    planted(
        "an approval lets any collection go",
        stands_for=PREMATURE,
        file=COLLECTION,
        old="        if plan_id != self.plan.plan_id:",
        new="        if not plan_id:",
        tests=(JUDGED + "test_a5_a_person_approves_the_plan_that_they_saw_and_no_other",),
    ),
    planted(
        "a bookie collects while the store looks rolled back",
        stands_for=ROLLED_BACK,
        file=COLLECT,
        old="        if self.state.metadata_rolled_back:\n",
        new="        if not self.state.bookie_id:\n",
        also=(
            Patch(
                COLLECT,
                "        if not going or self.state.metadata_rolled_back:\n",
                "        if not going:\n",
            ),
        ),
        tests=(
            COLLECTED + "test_a5_nothing_is_collected_while_the_store_looks_rolled_back",
            COLLECTED + "test_a5_a_rollback_that_comes_to_light_between_look_and_drop_is_in_time",
        ),
    ),
    planted(
        "a bookie of a paused cluster collects",
        stands_for=ROLLED_BACK,
        file=COLLECT,
        old='        return "the cluster is paused" if await read_paused(self.store) else ""\n',
        new='        return ""\n',
        tests=(COLLECTED + "test_a5_nothing_is_collected_while_the_cluster_is_paused",),
    ),
    planted(
        "the planner acts on a store that looks rolled back",
        stands_for=ROLLED_BACK,
        file=BUDGET,
        old="        if self.rolled_back:\n",
        new="        if self.rolled_back and not self.metadata.url:\n",
        tests=(PLANNED + "test_a5_nothing_is_taken_away_while_the_store_looks_rolled_back",),
    ),
    planted(
        "a tombstone stays for ever",
        stands_for=("A5 premature collection", "S40 fence lost with the ledger"),
        file=COLLECTION,
        old="        revive = tuple(i for i in look.tombstones if i in look.existing)\n",
        new="        revive = ()\n",
        tests=(
            JUDGED + "test_a5_a_tombstone_gives_way_as_soon_as_its_ledger_is_there",
            COLLECTED
            + "test_a5_a_tombstone_gives_way_when_the_metadata_store_names_the_ledger_again",
        ),
    ),
    planted(
        "an older record makes a ledger that is back a tombstone again",
        stands_for=PREMATURE,
        file=RECORDS,
        old="if each.returns == newer.returns]",
        new="]",
        tests=(KEPT + "test_a5_a_tombstone_gives_way_to_a_mark_and_no_older_state_brings_it_back",),
    ),
    planted(
        "a tombstone denies to who fences",
        stands_for=("A5 premature collection", "S42 limbo leaks as negative"),
        file=ADMISSION,
        old="        return Status.UNKNOWN if fence else Status.NO_SUCH_LEDGER\n",
        new="        return Status.NO_SUCH_LEDGER\n",
        tests=(
            "tests/bookie/protocol/test_admission.py::"
            "test_a5_a_tombstone_denies_nothing_to_who_fences",
        ),
    ),
    planted(
        "a fence of an id that nobody has leaves a record",
        stands_for=("A9 fences of nobody's ledgers",),
        file=ADMISSION,
        old="    return Status.OK if exists else Status.BAD_REQUEST\n",
        new="    return Status.OK\n",
        tests=(FENCED + "test_a9_a_fence_of_an_id_that_nobody_has_leaves_no_record",),
    ),
    planted(
        "fences that could not be looked up are not bounded",
        stands_for=("A9 fences of nobody's ledgers",),
        file=ADMISSION,
        old="Status.OK if unconfirmed < UNCONFIRMED_FENCES_MAX else Status.OVERLOADED\n",
        new="Status.OK\n",
        tests=(FENCED + "test_a9_fences_that_nobody_could_look_up_are_bounded",),
    ),
)
