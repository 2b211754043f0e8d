"""Planted bugs of who answers: cluster, bookie and epoch on both wires, addresses used again."""

from typing import Final

from mutant import Mutant, planted

IDENTITY: Final = "bookie/src/bookie/wire/identity.py"
REQUESTS: Final = "bookie/src/bookie/server/requests.py"
CONNECTION: Final = "bookie/src/bookie/client/pool.py"
ADDRESSES: Final = "bookie/src/bookie/client/addresses.py"
ADMIN: Final = "bookie/src/bookie/server/admin.py"
CALLS: Final = "bookie/src/bookie/wire/admin/client.py"
OBSERVE: Final = "operator/src/bookie_operator/observe.py"

STORY: Final = "tests/scenarios/test_who_answers.py::"
WIRE: Final = "tests/bookie/client/test_pool.py::"
PORT: Final = "tests/bookie/server/test_connections.py::"
CONTROL: Final = "tests/bookie/server/test_admin.py::"
CALLING: Final = "tests/bookie/repair/look/test_grpc_control.py::"
JUDGE: Final = "tests/bookie/wire/test_identity.py::"
LOOP: Final = "tests/bookie_operator/test_reconcile.py::"

OTHER_CLUSTER: Final = ("A1 another cluster's bookie answers",)
OLDER: Final = ("A2 an older process answers",)

MUTANTS: Final[tuple[Mutant, ...]] = (
    planted(
        "nobody compares the cluster",
        stands_for=OTHER_CLUSTER,
        file=IDENTITY,
        old="if meant.cluster and found.cluster and found.cluster != meant.cluster:",
        new="if False:",
        tests=(
            # Nothing would be truncated: a namesake refuses first fences of what it does not know.
            STORY
            + "test_a1_a_namesake_gives_readers_nothing_and_its_writers_are_not_fenced"
            + "[registered still]",
            STORY
            + "test_b1_a_namesakes_control_plane_searches_clears_and_records_nothing"
            + "[registered still]",
        ),
    ),
    planted(
        "a bookie greets whoever connects",
        stands_for=OTHER_CLUSTER,
        file=REQUESTS,
        old="return refusal(meant, own)",
        new="return refusal(own, own)",
        tests=(PORT + "test_a1_whoever_means_another_process_is_sent_away",),
    ),
    planted(
        "a client takes whatever greets it for the bookie meant",
        stands_for=OTHER_CLUSTER,
        file=CONNECTION,
        old="why = refusal(self._addresses.meant(self._bookie_id), found)",
        new="why = refusal(found, found)",
        tests=(WIRE + "test_a1_nothing_is_sent_to_and_no_answer_taken_from_another_process",),
    ),
    planted(
        "an older process of a bookie counts",
        stands_for=OLDER,
        file=IDENTITY,
        old="if 0 < found.epoch < meant.epoch:",
        new="if False:",
        tests=(
            JUDGE + "test_only_the_process_meant_or_a_later_one_of_it_counts",
            PORT + "test_a1_whoever_means_another_process_is_sent_away[other2-its boot 9 is known]",
            CONTROL + "test_a_call_for_another_bookie_is_refused",
        ),
    ),
    planted(
        "a client forgets the highest epoch it has seen",
        stands_for=OLDER,
        file=ADDRESSES,
        old="if epoch > self._epochs.get(bookie_id, 0):",
        new="if epoch != self._epochs.get(bookie_id, 0):",
        tests=(WIRE + "test_a2_an_older_process_than_was_seen_does_not_count",),
    ),
    planted(
        "a connection to an older process stays",
        stands_for=OLDER,
        file=CONNECTION,
        old="if self._channel is not None and self._epoch < epoch:",
        new="if False:",
        tests=(WIRE + "test_a2_what_is_under_way_with_an_older_process_is_cut_off",),
    ),
    planted(
        "a control plane answers calls for another cluster",
        stands_for=OTHER_CLUSTER,
        file=ADMIN,
        old="return refusal(meant, own, while_booting=True)",
        new='return "" if meant.bookie == own.bookie else "another"',
        tests=(CONTROL + "test_a_call_for_another_bookie_is_refused",),
    ),
    planted(
        "nobody looks who answered a control plane call",
        stands_for=OTHER_CLUSTER,
        file=CALLS,
        old="if meant is not None:",
        new="if False:",
        tests=(CALLING + "test_a1_a_reply_of_another_process_is_no_answer",),
    ),
    planted(
        "the operator takes the health of a namesake",
        stands_for=OTHER_CLUSTER,
        file=OBSERVE,
        old='if cluster and health.instance_id not in ("", cluster):',
        new="if False:",
        tests=(LOOP + "test_d11_a_namesake_of_another_cluster_is_no_bookie_of_this_one",),
    ),
    planted(
        "addresses are never forgotten",
        stands_for=("A1 the address of a bookie that has gone",),
        file=ADDRESSES,
        old="        self._endpoints = {\n            bookie_id: endpoint",
        new="        self._endpoints |= {\n            bookie_id: endpoint",
        tests=(
            WIRE + "test_a1_an_address_whose_bookie_is_not_registered_is_forgotten",
            CALLING + "test_a1_an_address_whose_bookie_is_not_registered_is_forgotten",
        ),
    ),
)
