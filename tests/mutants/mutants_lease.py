"""Planted bugs of one process per bookie: leases, claims, generations, proofs of a clean stop."""

from typing import Final

from mutant import Mutant, planted

ANNOUNCE: Final = "bookie/src/bookie/server/announce.py"
ADMISSION: Final = "bookie/src/bookie/protocol/admission.py"
CLAIM: Final = "bookie/src/bookie/boot/claim.py"
FOUND: Final = "bookie/src/bookie/boot/inspection.py"
LEASE: Final = "bookie/src/bookie/server/lease.py"
LOCK: Final = "bookie/src/bookie/boot/lock.py"
MARKER: Final = "bookie/src/bookie/boot/marker.py"
STATE: Final = "bookie/src/bookie/server/state.py"
TAKEOVER: Final = "bookie/src/bookie/boot/takeover.py"
CONNECTIONS: Final = "bookie/src/bookie/server/connections.py"

ANNOUNCES: Final = "tests/bookie/server/test_announce.py::"
BOOT: Final = "bookie/src/bookie/boot/boot.py"
MARKS: Final = "bookie/src/bookie/server/marks.py"
BOOTS: Final = "tests/bookie/boot/test_takeover.py::"
CLAIMS: Final = "tests/bookie/boot/test_claim.py::"
FINDS: Final = "tests/bookie/boot/test_verdicts.py::"
LEASES: Final = "tests/bookie/server/test_lease.py::"
RULES: Final = "tests/bookie/protocol/test_admission.py::"

TWO: Final = ("A2 two processes of one bookie",)
COPY: Final = ("A4 an older copy of the same boot",)
LATE: Final = ("A8 its own late write refuses a boot",)
PROOF: Final = ("A4 absence taken for a clean stop",)
STORE: Final = ("A5 a rolled back store is not noticed",)

MUTANTS: Final[tuple[Mutant, ...]] = (
    planted(
        "a boot does not outwait the process before",
        stands_for=TWO,
        file=TAKEOVER,
        old="        await asyncio.sleep(max(self.settings.lease_wait_s, claimed_s))\n",
        new="",
        tests=(BOOTS + "test_a2_after_a_crash_elsewhere_a_boot_waits_before_it_serves",),
    ),
    planted(
        "what a former process took while a boot waited is denied",
        stands_for=TWO,
        file=BOOT,
        old="outlive_former(found, claim) and reason:",
        new="outlive_former(found, claim) and not reason:",
        tests=(BOOTS + "test_a2_what_a_former_process_may_take_while_a_boot_waits_is_not_denied",),
    ),
    planted(
        "without a lease the control plane denies what is absent",
        stands_for=TWO,
        file=MARKS,
        old=" or not self.state.look_at_lease()",
        new="",
        tests=(
            "tests/bookie/server/test_marks.py::"
            "test_a2_without_a_lease_the_control_plane_denies_nothing_either",
        ),
    ),
    planted(
        "a first claim that goes unheard makes an upgrade after a clean stop an unclean one",
        stands_for=PROOF,
        file=TAKEOVER,
        old="served = 0 if found.is_bare else found.last_served",
        new="served = found.last_served",
        tests=(
            BOOTS
            + "test_a_first_claim_that_goes_unheard_takes_no_clean_stop_of_a_version_before_away",
        ),
    ),
    planted(
        "a boot outwaits a lease of its own settings, whatever the former process was told",
        stands_for=TWO,
        file=TAKEOVER,
        old="max(self.settings.lease_wait_s, claimed_s)",
        new="self.settings.lease_wait_s",
        tests=(BOOTS + "test_a2_a_boot_outwaits_the_lease_that_was_told_and_not_its_own",),
    ),
    planted(
        "a boot that waits tells its own lease alone",
        stands_for=TWO,
        file=TAKEOVER,
        old="max(self.settings.lease_s, seen.stored.value.lease_s if seen.stored else 0.0)",
        new="self.settings.lease_s",
        tests=(BOOTS + "test_a2_a_boot_outwaits_the_lease_that_was_told_and_not_its_own",),
    ),
    planted(
        "any lock proves that the process before is gone",
        stands_for=TWO,
        file=TAKEOVER,
        old='holder == holder != ""',
        new='holder != ""',
        tests=(BOOTS + "test_a2_when_the_wait_is_over_it_serves",),
    ),
    planted(
        "locks that cannot be named prove it",
        stands_for=TWO,
        file=TAKEOVER,
        old='holder == holder != ""',
        new="holder == holder",
        tests=(BOOTS + "test_a2_locks_that_cannot_be_named_prove_nothing",),
    ),
    planted(
        "a lock is named by its machine alone",
        stands_for=TWO,
        file=LOCK,
        old='f"{stat.st_dev} {system.f_fsid:x}:{stat.st_ino}"',
        new='f"{stat.st_dev} {system.f_fsid:x}"',
        tests=(BOOTS + "test_a2_a_cloned_folder_has_other_locks",),
    ),
    planted(
        "the lease runs from the answer that confirmed it",
        stands_for=TWO,
        file=LEASE,
        old="            self._state.extend_lease(began + self._seconds)\n",
        new="            self._state.extend_lease(self._state.clock() + self._seconds)\n",
        tests=(LEASES + "test_the_lease_runs_from_before_the_write_that_confirmed_it",),
    ),
    planted(
        "a lease is prolonged before it is confirmed",
        stands_for=TWO,
        file=LEASE,
        old="            stored = self._claim.stored\n",
        new="            self._state.extend_lease(began + self._seconds)\n"
        "            stored = self._claim.stored\n",
        tests=(LEASES + "test_a_store_that_is_away_prolongs_nothing",),
    ),
    planted(
        "a lease that has run out denies what is absent",
        stands_for=TWO,
        file=ADMISSION,
        old="return self.limbo or self.unchecked or not self.is_leased",
        new="return self.limbo or self.unchecked",
        tests=(RULES + "test_a2_without_a_lease_nothing_is_denied_taken_or_fenced",),
    ),
    planted(
        "a lease that has run out still takes fences and recovery adds",
        stands_for=TWO,
        file=ADMISSION,
        old=" if facts.is_leased else Ruling(Status.NOT_READY)",
        new="",
        tests=(RULES + "test_a2_without_a_lease_nothing_is_denied_taken_or_fenced",),
    ),
    planted(
        "a process that slept takes what lies in its sockets",
        stands_for=TWO,
        file=CONNECTIONS,
        old="        self._end += nbytes\n        self._on_bytes()\n",
        new="        self._end += nbytes\n",
        tests=(
            "tests/bookie/server/test_slept.py::"
            "test_an_add_that_lay_in_the_socket_is_not_stored_after_the_lease",
        ),
    ),
    planted(
        "a newer epoch that somebody names is ignored",
        stands_for=TWO,
        file=STATE,
        old="            self.lease_until = self.clock()\n            self.look_at_lease()\n",
        new="",
        tests=(
            LEASES + "test_a2_a_newer_epoch_that_somebody_names_ends_it_until_the_store_denies",
        ),
    ),
    planted(
        "a rival's claim is written over",
        stands_for=TWO,
        file=CLAIM,
        old="    return ClaimState.ROLLED_BACK if is_older else ClaimState.RIVAL\n",
        new="    return ClaimState.ROLLED_BACK\n",
        tests=(CLAIMS + "test_a2_a_rival_s_boot_ends_the_claim",),
    ),
    planted(
        "a boot takes its own late claim for a rival's",
        stands_for=LATE,
        file=CLAIM,
        old="    if found.value.nonce == wanted.nonce:\n",
        new="    if False:\n",
        tests=(
            BOOTS + "test_a8_an_own_claim_that_lands_after_the_next_attempt_has_looked_is_ours",
        ),
    ),
    planted(
        "a boot takes its own late cookie for a rival's",
        stands_for=LATE,
        file=TAKEOVER,
        old="            if found is None or found.value != wanted:\n",
        new="            if found is not None:\n",
        tests=(
            "tests/bookie/boot/test_boot_disks.py::"
            "test_a8_a_cookie_that_an_earlier_attempt_wrote_late_is_ours",
        ),
    ),
    planted(
        "generations are not compared",
        stands_for=COPY,
        file=FOUND,
        old="return generation is not None and generation < self.generation",
        new="return False",
        tests=(
            FINDS + "test_a4_a_directory_of_an_older_generation_is_stale_in_every_mode",
            BOOTS + "test_a4_a_volume_put_back_to_an_older_copy_of_the_same_boot_is_stale",
        ),
    ),
    planted(
        "the generation stays as it is while the bookie writes",
        stands_for=COPY,
        file=LEASE,
        old="        if written == self._written:\n",
        new="        if True:\n",
        tests=(LEASES + "test_a4_the_generation_rises_with_what_is_written_and_only_then",),
    ),
    planted(
        "a missing marker is a clean stop",
        stands_for=PROOF,
        file=FOUND,
        old="return says_dirty or (self.needs_proof and not self._is_proven_clean)",
        new="return says_dirty",
        tests=(FINDS + "test_a4_without_the_whole_proof_the_stop_was_unclean",),
    ),
    planted(
        "new disks alone are proof of a clean stop",
        stands_for=PROOF,
        file=FOUND,
        old="return bool(markers) and all(\n",
        new="return all(\n",
        tests=(
            BOOTS + "test_a2_with_every_disk_new_nothing_proves_that_the_former_process_is_gone",
        ),
    ),
    planted(
        "a clean stop of any boot is proof",
        stands_for=PROOF,
        file=FOUND,
        old="marker.is_clean and marker.boot_epoch in boots",
        new="marker.is_clean",
        tests=(FINDS + "test_a4_without_the_whole_proof_the_stop_was_unclean",),
    ),
    planted(
        "a boot that cannot reach the store any more leaves doubt though it never served",
        stands_for=PROOF,
        file=TAKEOVER,
        old="mine.generation, is_clean=is_calm, keeps_notes=keeps_notes",
        new="mine.generation, keeps_notes=keeps_notes",
        tests=(BOOTS + "test_a_boot_that_the_store_does_not_answer_takes_no_clean_stop_away",),
    ),
    planted(
        "a copy of the disks from just before the first answer passes for a clean stop",
        stands_for=COPY,
        file=MARKER,
        old="        self.raise_generation(confirmed=confirmed)\n",
        new="        self.write(replace(self.current, confirmed=confirmed))\n",
        tests=(BOOTS + "test_a4_a_copy_from_before_the_first_answer_is_stale",),
    ),
    planted(
        "an announcement whose reply was lost is believed to be the one before",
        stands_for=("S38 stale listing",),
        file=ANNOUNCE,
        old="            self._announced = None\n            try:",
        new="            try:",
        tests=(ANNOUNCES + "test_a_change_taken_back_after_its_reply_was_lost_is_announced_again",),
    ),
    planted(
        "data ports open before the store has confirmed who serves",
        stands_for=COPY,
        file="bookie/src/bookie/server/lifecycle.py",
        old="        if await self._patiently(lease.confirm) is None:\n            return\n",
        new="",
        tests=(
            "tests/bookie/server/test_lifecycle.py::"
            "test_a2_no_port_is_open_before_the_store_has_confirmed_who_serves",
        ),
    ),
    planted(
        "what serves is marked as a clean stop",
        stands_for=PROOF,
        file=MARKER,
        old="        self.current = replace(self.current, is_clean=False)\n",
        new="",
        tests=(BOOTS + "test_whoever_serves_after_a_clean_stop_is_marked_as_dirty",),
    ),
    planted(
        "a store that was put back is written over without a word",
        stands_for=STORE,
        file=CLAIM,
        old="rolled_back=wanted.rolled_back or self._what_was(found)",
        new="rolled_back=wanted.rolled_back",
        tests=(CLAIMS + "test_a5_a_store_that_was_put_back_is_noticed_and_written_again",),
    ),
    planted(
        "a boot does not compare what the store had confirmed",
        stands_for=STORE,
        file=FOUND,
        old="        if confirmed <= self.generation:\n",
        new="        if True:\n",
        tests=(
            FINDS + "test_a_store_that_saw_less_than_it_confirmed_was_put_back",
            BOOTS + "test_a4_a_store_put_back_is_told_by_the_next_boot",
        ),
    ),
    planted(
        "of a version before a proof is asked that it never left",
        stands_for=PROOF,
        file=TAKEOVER,
        old="        served = 0 if found.is_bare else found.last_served\n",
        new="        served = found.last_served\n",
        tests=(
            BOOTS
            + "test_a_first_claim_that_goes_unheard_takes_no_clean_stop_of_a_version_before_away",
        ),
    ),
    planted(
        "a copy elsewhere of a bookie that rested is believed to have synced all",
        stands_for=COPY,
        file=TAKEOVER,
        old="        return found.needs_proof and not all(\n",
        new="        return not found.needs_proof and not all(\n",
        tests=(
            BOOTS
            + "test_a4_a_copy_elsewhere_of_a_bookie_that_rested_is_not_believed_to_have_synced_all",
        ),
    ),
)
