"""Bugs that are planted for stories on Kubernetes: they fit the code, and only a claim counts."""

import re
from pathlib import Path

import pytest
from harness.settings import ROOT
from planted_images import patched
from planted_twins import TWINS, Twin, is_caught, renewed

STORIES = "".join(path.read_text() for path in Path(ROOT, "e2e", "stories").glob("test_*.py"))


@pytest.mark.parametrize("twin", TWINS, ids=lambda twin: f"{twin.story}: {twin.bug}")
class TestTwin:
    def test_its_patches_stand_once_in_the_code(self, twin: Twin) -> None:
        for file, text in patched(twin.patches).items():
            compile(text, file, "exec")

    def test_there_is_one_such_story(self, twin: Twin) -> None:
        assert len(re.findall(rf'mark\.story\(\s*"{twin.story}"', STORIES)) == 1

    def test_another_failure_is_no_proof(self, twin: Twin) -> None:
        assert not is_caught(twin, "failure", "LateError: after 90 s still waiting for a ready pod")
        assert not is_caught(twin, "error", twin.seen)
        assert not is_caught(twin, "passed", "")


def test_a_story_that_fails_by_its_claim_sees_its_bug() -> None:
    twin = Twin("x", "a bug", (), seen="expected 1")
    assert is_caught(twin, "failure", "AssertionError: 2 were out at once, expected 1")


def test_a_report_keeps_rows_of_bugs_that_were_not_run_again_and_drops_those_of_no_bug() -> None:
    first, second = ({"bug": twin.bug, "run": 1} for twin in TWINS[:2])
    again = second | {"run": 2}
    assert renewed([second, {"bug": "planted no more"}, first], [again]) == [first, again]
