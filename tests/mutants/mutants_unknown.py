"""Planted bugs by which what nobody has seen counts as good, as absent or as over."""

from typing import Final

from mutant import Mutant, planted

BOOKIE: Final = "bookie/src/bookie/"
OPERATOR: Final = "operator/src/bookie_operator/"
T: Final = "tests/bookie/"
DIGESTS: Final = T + "repair/look/test_digests.py::"
UNSEEN: Final = ("what nobody has seen counts",)

MUTANTS: Final[tuple[Mutant, ...]] = (
    planted(
        "copies that a scrub could not read are whole",
        stands_for=UNSEEN,
        file=BOOKIE + "repair/mend/ledger_repair.py",
        old="                    _block_unread(outcome, look)\n",
        new="                    pass\n",
        tests=(DIGESTS + "test_a_scrub_that_could_not_read_a_bookie_does_not_end_as_whole",),
    ),
    planted(
        "a second reading passes over who did not answer the first",
        stands_for=UNSEEN,
        file=BOOKIE + "repair/look/digests.py",
        old="{b: e - good[b].good if b in good else e for b, e in _listed(look).items()}",
        new="{b: e - good[b].good for b, e in _listed(look).items() if b in good or not good}",
        tests=(
            DIGESTS
            + "test_copies_of_a_bookie_that_comes_back_between_two_looks_are_read_and_twice",
        ),
    ),
    planted(
        "a deep look judges by metadata that changed at every look",
        stands_for=UNSEEN,
        file=BOOKIE + "repair/look/digests.py",
        old="            return undecided(look)\n",
        new="            return _judged(look, read)\n",
        tests=(DIGESTS + "test_nothing_is_called_corrupt_whose_metadata_changed_at_every_look",),
    ),
    planted(
        "a finding is over where an audit lacks a copy that it does not know",
        stands_for=UNSEEN,
        file=BOOKIE + "repair/reports/findings_report.py",
        old="    return any(share.unknown for share in verdict.shares.values())\n",
        new="    return bool(verdict.unknown)\n",
        tests=(
            T + "repair/test_findings.py::"
            "test_findings_of_an_entry_stay_though_a_bookie_that_lacks_it_goes_away",
        ),
    ),
    planted(
        "an audit that left ledgers out is clean",
        stands_for=UNSEEN,
        file=OPERATOR + "model/reports.py",
        old="        return not (self.exit_code or unseen or any(",
        new="        return not (any(",
        tests=(
            "tests/bookie_operator/test_reports.py::"
            "test_an_audit_that_left_a_ledger_out_or_could_not_read_one_is_not_clean",
        ),
    ),
    planted(
        "an unlock is repeated without a look at the owner",
        stands_for=UNSEEN,
        file=BOOKIE + "metadata/underreplication.py",
        old="await self._znodes.delete(path, version=ANY_VERSION)\n",
        new="await self._znodes.delete(path, version=ANY_VERSION, repeat=True)\n",
        tests=(
            T + "metadata/test_races.py::"
            "test_an_unlock_that_nobody_heard_of_leaves_the_next_workers_lock",
        ),
    ),
    planted(
        "a password that was never stored is stored as none",
        stands_for=UNSEEN,
        file=BOOKIE + "metadata/codec.py",
        old="        password=metadata.password if is_stored else None,\n",
        new="        password=metadata.password,\n",
        tests=(
            T + "metadata/test_codec.py::"
            "test_what_version_1_cannot_hold_is_written_without_a_password",
        ),
    ),
    planted(
        "a bookie that says nothing of its loss records has none",
        stands_for=UNSEEN,
        file=BOOKIE + "repair/mend/retract_loss.py",
        old="        elif not holding.has_searched:\n",
        new='        elif holding.status.name == "UNREACHABLE":\n',
        tests=(
            T + "repair/mend/test_retract_loss.py::"
            "test_a_bookie_that_does_not_say_what_it_holds_may_have_a_record",
        ),
    ),
    planted(
        "figures of a bookie that boots say that nothing is in limbo",
        stands_for=UNSEEN,
        file=BOOKIE + "server/http.py",
        old="    limbo_ledgers: int | None = None\n",
        new="    limbo_ledgers: int | None = 0\n",
        tests=(T + "server/test_http.py::test_what_only_a_boot_finds_out_is_no_figure_before",),
    ),
)
