"""Broken rules are seen: quick ones by search here, all of them by `make model`."""

import ast
from pathlib import Path

import pytest
from model_mutants import MUTANTS, NOTHING, Mutant
from model_rules import Rules
from model_runs import PLANTED, SEEDED, check_case, plant

ROOT = Path(__file__).parent.parent.parent
QUICK = (
    "no-write-back",
    "cleared-without-copies",
    "closed-not-unchecked",
    "cleared-before-copies-are-synced",
    "one-denial-is-enough",
    "closed-is-reopened",
    "lac-advances-in-recovery-adds",
    "acks-too-early",
    "closes-before-write-backs",
)
HIDDEN = [mutant for mutant in PLANTED if mutant.expects == NOTHING]


@pytest.mark.parametrize("name", QUICK)
def test_a_broken_rule_is_found(name: str) -> None:
    outcome = plant(next(mutant for mutant in MUTANTS if mutant.name == name))
    assert outcome.is_right and outcome.story


@pytest.mark.parametrize("name", ["closes-without-state-check", "unchecked-cleared-in-recovery"])
def test_from_the_same_start_the_products_rules_hold(name: str) -> None:
    case = next(case for case in SEEDED if case.name == f"from the start of {name}")
    assert check_case(case).is_right


def test_a_mutant_that_breaks_nothing_is_told_as_wrong() -> None:
    harmless = Mutant("none", "no rule", Rules(), MUTANTS[0].expects, MUTANTS[0].bounds)
    outcome = plant(harmless)
    assert not outcome.is_right and "EXPECTED" in outcome.line


def test_every_mutant_breaks_a_rule_and_has_a_name_of_its_own() -> None:
    assert len({mutant.name for mutant in PLANTED}) == len(PLANTED)
    assert all(mutant.rules != Rules() for mutant in PLANTED)


@pytest.mark.parametrize("mutant", HIDDEN, ids=lambda mutant: mutant.name)
def test_what_the_model_cannot_see_has_a_directed_test(mutant: Mutant) -> None:
    assert mutant.directed
    for directed in mutant.directed:
        path, _, name = directed.partition("::")
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        functions = (ast.FunctionDef, ast.AsyncFunctionDef)
        assert name in {node.name for node in ast.walk(tree) if isinstance(node, functions)}
