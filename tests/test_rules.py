"""docs/protocol-rules.md: whoever cites a rule or scenario finds it there."""

import re
from pathlib import Path

import pytest
from model_runs import PLANTED
from mutant_catalogue import MUTANTS
from pages import PATH, ROOT, text_of

RULES = ROOT / "docs/protocol-rules.md"
NUMBERS = (*(f"R{n}" for n in range(1, 30)), *(f"S{n}" for n in range(1, 47)))
CODE = ("bookie", "operator", "tests", "e2e")
CITED = re.compile(r"\b[RS][1-9][0-9]?\b")
MODEL_NAME = re.compile(r"`([a-z0-9]+(?:-[a-z0-9]+)+)`")


def section(number: str) -> str:
    return RULES.read_text(encoding="utf-8").split(f"\n### {number}\n")[1].split("\n#")[0]


def plays(number: str, file: Path) -> bool:
    names = rf"_s0?{number[1:]}_|\b{number}\b"
    return re.search(names, file.read_text(encoding="utf-8")) is not None


def test_the_page_has_every_rule_and_scenario_once_in_order() -> None:
    headings = re.findall(r"^### (.+)$", RULES.read_text(encoding="utf-8"), re.MULTILINE)
    assert headings == list(NUMBERS)


@pytest.mark.parametrize("tree", CODE)
def test_every_number_that_code_cites_has_its_heading(tree: str) -> None:
    files = (ROOT / tree).rglob("*.py")
    cited = {number for path in files for number in CITED.findall(path.read_text("utf-8"))}
    assert cited <= set(NUMBERS)


def test_every_planted_bug_on_the_page_is_in_the_catalogue() -> None:
    named = set(re.findall(r'"([^"]+)"', text_of(RULES)))
    assert named and named <= {mutant.name for mutant in MUTANTS}


def test_every_rule_of_the_model_on_the_page_is_one_of_its_mutants() -> None:
    named = set(MODEL_NAME.findall(text_of(RULES)))
    assert named and named <= {mutant.name for mutant in PLANTED}


@pytest.mark.parametrize("number", [number for number in NUMBERS if number[0] == "S"])
def test_a_scenario_names_a_test_that_plays_it(number: str) -> None:
    paths = (ROOT / path for path, _name in PATH.findall(section(number)))
    assert any(plays(number, path) for path in paths if path.is_relative_to(ROOT / "tests"))
