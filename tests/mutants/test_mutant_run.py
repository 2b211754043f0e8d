"""The runner can say no: a test that does not notice, a check that cannot tell, the wrong code."""

from pathlib import Path

import pytest
from mutant import Mutant, planted
from mutant_catalogue import MUTANTS
from mutant_checks import Outcome, run_tests, when_hung
from mutant_overlay import ROOT, Overlay
from mutant_run import Verdict, verdict_of

ONE, OTHER = "tests/a.py::test_one", "tests/a.py::test_other"


def mutant(*tests: str) -> Mutant:
    return planted("m", stands_for=(), file="f", old="a", new="b", tests=tests)


def test_all_named_tests_must_notice() -> None:
    outcome = Outcome(passed=(OTHER,), failed={f"{ONE}[3]": "assert 1 == 2"})
    assert verdict_of(mutant(ONE), outcome) == (Verdict.CAUGHT, (ONE,), "assert 1 == 2")
    verdict, by, why = verdict_of(mutant(ONE, OTHER), outcome)
    assert verdict is Verdict.SURVIVED and by == (ONE,) and OTHER in why


def test_a_check_that_cannot_tell_catches_nothing() -> None:
    outcome = Outcome(failed={ONE: "assert 1 == 2"}, errors={OTHER: "ImportError: no module"})
    assert verdict_of(mutant(ONE), outcome)[0] is Verdict.BROKEN


def test_a_process_that_hangs_after_its_tests_failed_has_caught_the_bug() -> None:
    failed = Outcome(failed={f"{ONE}[3]": "assert 1 == 2"})
    assert when_hung(failed, [ONE], seconds=90) == failed
    for said in (failed, Outcome(), Outcome(passed=(ONE, OTHER))):
        hung = when_hung(said, [ONE, OTHER], seconds=90)
        assert not hung.failed and hung.errors == {"process": "hung for 90 s outside its tests"}


@pytest.fixture(scope="module")
def overlay(tmp_path_factory: pytest.TempPathFactory) -> Overlay:
    return Overlay(tmp_path_factory.mktemp("overlay"))


def test_an_overlay_is_as_before_when_the_mutant_is_gone(overlay: Overlay) -> None:
    for one in MUTANTS:
        file = one.patches[0].file
        with overlay.mutated(one):
            assert (overlay.folder / file).read_bytes() != (ROOT / file).read_bytes()
        assert (overlay.folder / file).read_bytes() == (ROOT / file).read_bytes()


def test_a_check_runs_on_the_copy(overlay: Overlay) -> None:
    one = next(one for one in MUTANTS if one.name.startswith("write sets begin"))
    with overlay.mutated(one):
        assert run_tests(overlay, one.test_ids).failed
    assert run_tests(overlay, one.test_ids).passed == one.test_ids


def test_a_patch_that_is_no_python_is_no_catch(overlay: Overlay) -> None:
    one = next(one for one in MUTANTS if one.name.startswith("write sets begin"))
    path = overlay.folder / one.patches[0].file
    before = path.read_text(encoding="utf-8")
    path.write_text(before + "\nthis is no python\n", encoding="utf-8")
    outcome = run_tests(overlay, one.test_ids)
    path.write_text(before, encoding="utf-8")
    assert outcome.errors and verdict_of(one, outcome)[0] is Verdict.BROKEN


def test_other_code_than_the_copy_is_refused(overlay: Overlay, tmp_path: Path) -> None:
    elsewhere = Overlay(tmp_path)
    elsewhere.environment = overlay.environment  # type: ignore[method-assign]
    elsewhere.pytest_path = overlay.pytest_path  # type: ignore[method-assign]
    outcome = run_tests(elsewhere, MUTANTS[0].test_ids)
    assert "is under test, expected that in" in outcome.errors["pytest"]
