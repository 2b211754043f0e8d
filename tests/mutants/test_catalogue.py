"""The catalogue itself: every patch fits, every danger has a mutant, every named test exists."""

import ast
from functools import cache
from pathlib import Path

import pytest
from dangers import CLASSES, DANGERS, ISSUE, MODEL_ROWS, NOTES, REVIEW, SCENARIOS, WRITERS
from model_mutants import NOTHING
from model_runs import PLANTED
from mutant import Mutant
from mutant_catalogue import MUTANTS
from mutant_overlay import ROOT, StaleMutantError, check_fit, replaced_once
from mutant_reach import BEYOND, why_beyond


def test_every_snippet_stands_once_in_the_code_of_today() -> None:
    for mutant in MUTANTS:
        check_fit(mutant)


def test_a_snippet_that_is_gone_or_ambiguous_is_refused() -> None:
    for text in ("", "old old"):
        with pytest.raises(StaleMutantError, match="mutant is stale"):
            replaced_once(text, "old", "new", at="file.py")


def mutated(mutant: Mutant) -> dict[str, str]:
    """The files of a mutant as it leaves them."""
    texts: dict[str, str] = {}
    for patch in mutant.patches:
        text = texts.get(patch.file) or (ROOT / patch.file).read_text(encoding="utf-8")
        texts[patch.file] = replaced_once(text, patch.old, patch.new, at=patch.file)
    return texts


def test_a_mutated_file_is_still_python() -> None:
    for mutant in MUTANTS:
        for file, text in mutated(mutant).items():
            ast.parse(text, filename=f"{file} of mutant: {mutant.name}")


def test_names_are_unique() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(names) == len(set(names)) >= 40


def test_no_two_mutants_are_the_same() -> None:
    patches = [mutant.patches for mutant in MUTANTS]
    assert len(patches) == len(set(patches))


def test_a_mutant_stands_for_known_dangers_only() -> None:
    assert {danger for mutant in MUTANTS for danger in mutant.stands_for} <= DANGERS
    assert all(mutant.stands_for and mutant.caught_by for mutant in MUTANTS)


@pytest.mark.parametrize(
    "danger", (*MODEL_ROWS, *SCENARIOS, *ISSUE, *REVIEW, *CLASSES, *NOTES, *WRITERS)
)
def test_every_danger_has_a_mutant(danger: str) -> None:
    assert any(danger in mutant.stands_for for mutant in MUTANTS)


def test_every_scenario_is_among_the_dangers() -> None:
    assert {danger.split()[0] for danger in SCENARIOS} == {f"S{n}" for n in range(1, 47)}


@cache
def functions_of(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, functions)}


def test_every_named_test_exists() -> None:
    for test_id in (test_id for mutant in MUTANTS for test_id in mutant.test_ids):
        path, *_classes, function = test_id.split("::")
        assert function.split("[")[0] in functions_of(ROOT / path), test_id


def test_every_model_mutant_named_is_one_that_the_model_sees() -> None:
    seen = {mutant.name for mutant in PLANTED if mutant.expects != NOTHING}
    assert {name for mutant in MUTANTS for name in mutant.model_mutants} <= seen


def test_committed_seeds_are_of_mutants_that_a_cluster_can_meet() -> None:
    for mutant in MUTANTS:
        assert all(int(seed) > 0 for seed in mutant.seeds)
        assert not (why_beyond(mutant) and mutant.seeds)


def test_every_reason_is_about_a_mutant_that_is_there() -> None:
    assert BEYOND.keys() <= {mutant.name for mutant in MUTANTS}
