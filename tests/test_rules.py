"""docs/protocol-rules.md and docs/design.md: whoever cites a rule or scenario finds it there."""

import re
from pathlib import Path

import pytest
from model_mutants import MUTANTS as MODEL_MUTANTS
from mutant_catalogue import MUTANTS

ROOT = Path(__file__).parent.parent
RULES, DESIGN = ROOT / "docs/protocol-rules.md", ROOT / "docs/design.md"
PAGES = (RULES, DESIGN)
NUMBERS = (*(f"R{n}" for n in range(1, 30)), *(f"S{n}" for n in range(1, 47)))
CODE = ("bookie", "operator", "tests", "e2e")
CITED = re.compile(r"\b[RS][1-9][0-9]?\b")
PATH = re.compile(r"`([\w.-]+(?:/[\w.-]+)+/?)(?:::(\w+))?`")
MODEL_NAME = re.compile(r"`([a-z0-9]+(?:-[a-z0-9]+)+)`")
LINK = re.compile(r"\]\(([^)#]*)(?:#([^)]*))?\)")


def text_of(page: Path) -> str:
    """On one line, so that no name is cut by the end of one."""
    return " ".join(page.read_text(encoding="utf-8").split())


def section(number: str) -> str:
    return RULES.read_text(encoding="utf-8").split(f"\n### {number}\n")[1].split("\n#")[0]


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


def is_defined(name: str, file: Path) -> bool:
    return re.search(rf"\b(?:def|class) {name}\b", file.read_text(encoding="utf-8")) is not None


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_path_and_name_on_the_page_exists(page: Path) -> None:
    named = [(ROOT / path, name) for path, name in PATH.findall(text_of(page))]
    gone = [(path, name) for path, name in named if not path.exists()]
    assert named and not gone
    assert not [(path, name) for path, name in named if name and not is_defined(name, path)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_link_leads_to_a_page_and_a_heading_of_it(page: Path) -> None:
    links = [(page.parent / to if to else page, at) for to, at in LINK.findall(text_of(page))]
    assert not [to for to, _at in links if not to.is_file()]
    assert not [(to, at) for to, at in links if at and at not in anchors(to)]


def test_every_planted_bug_on_the_page_is_in_the_catalogue() -> None:
    named = set(re.findall(r'"([^"]+)"', text_of(RULES)))
    assert named and named <= {mutant.name for mutant in MUTANTS}


def test_every_rule_of_the_model_on_the_page_is_one_of_its_mutants() -> None:
    named = set(MODEL_NAME.findall(text_of(RULES)))
    assert named and named <= {mutant.name for mutant in MODEL_MUTANTS}


@pytest.mark.parametrize("number", [number for number in NUMBERS if number[0] == "S"])
def test_a_scenario_names_a_test_that_plays_it(number: str) -> None:
    paths = (ROOT / path for path, _name in PATH.findall(section(number)))
    assert any(plays(number, path) for path in paths if path.is_relative_to(ROOT / "tests"))
