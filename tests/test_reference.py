"""docs/reference is what the code says now, and no field, figure, error or event lacks a word."""

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from bookie_operator.observed import JobKind
from bookie_operator.plan import news
from bookie_operator.plan.states import GONE
from pages import ROOT, SOURCES, broken_links
from reference_pages import SAID, headings, meanings_of, pages
from schema_tables import Tables, kind_of, row

FOLDER = ROOT / "docs" / "reference"
MADE = dict(pages())
BY_HAND = {"README.md", "events.md"}
EVENTS = (FOLDER / "events.md").read_text(encoding="utf-8")
OPERATOR = SOURCES[2]
PUT_TOGETHER = {
    *("f'{name}Started'", "f'Bookie{one.state}'", "incident.kind"),
    *("verified.value", "kind.value", "now.reason", "degraded.reason", "row['reason']"),
}
"""Reasons of jobs, states, incidents, conditions, and of events that are shown again."""


def rows(text: str) -> list[list[str]]:
    """Cells of tables, without their heads."""
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def test_the_pages_are_those_of_the_code_as_it_is() -> None:
    paths = [path for path in FOLDER.iterdir() if path.name not in BY_HAND]
    assert {path.name: path.read_text(encoding="utf-8") for path in paths} == MADE, (
        "run `make reference`"
    )


@pytest.mark.parametrize("page", sorted(FOLDER.iterdir()), ids=lambda page: page.name)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    assert broken_links(page) == []


@pytest.mark.parametrize("name", sorted(MADE))
def test_every_row_says_what_it_is(name: str) -> None:
    found = rows(MADE[name])
    meanings = [cells[2] if name == "errors.md" else cells[3] for cells in found]
    assert len(found) > 5 and all(meanings)


def test_what_is_said_of_settings_here_the_code_leaves_open() -> None:
    said = [(set(section.model_fields), meanings_of(section)[1]) for section in headings()]
    needed = {name for fields, meanings in said for name in fields - meanings.keys()}
    assert set(SAID) <= needed


def test_the_guide_to_the_reference_leaves_no_page_out() -> None:
    guide = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert [name for name in {*MADE, "events.md"} if f"]({name})" not in guide] == []


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "integer", "minimum": 1, "maximum": 64}, "whole number, 1 to 64"),
        ({"type": "integer", "minimum": 16 * 2**20}, "whole number, at least 16 MiB"),
        ({"type": "number", "exclusiveMinimum": 0}, "number, more than 0"),
        ({"type": "array", "items": {"type": "string"}}, "list of texts"),
        ({"enum": ["Auto", ""]}, "`Auto`, empty"),
    ],
)
def test_a_type_is_said_with_its_bounds(schema: dict[str, object], kind: str) -> None:
    assert kind_of(schema) == kind


def test_a_bar_ends_no_cell() -> None:
    assert row("a", {"type": "string", "description": "b|c"}, is_needed=True) == (
        "| `a` | text | needed | b\\|c |\n"
    )


def test_an_object_that_is_in_a_schema_twice_has_one_table() -> None:
    part = {"type": "object", "properties": {"size": {"type": "integer"}}}
    whole = {"properties": {"one": part, "two": {"type": "array", "items": part}}}
    text = "".join(Tables().of(whole, "spec"))
    assert text.count("## spec.one") == 1 and "## spec.two" not in text
    assert text.count("[below](#specone)") == 2


def calls() -> Iterator[ast.expr]:
    """The reason of each event that the operator's code makes."""
    for path in OPERATOR.rglob("*.py"):
        module = import_module(f"bookie_operator.{dotted(path)}") if dotted(path) else None
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "Event":
                reasons = [*node.args[:1], *(k.value for k in node.keywords if k.arg == "reason")]
                yield from (valued(one, module) for one in reasons)


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(OPERATOR).with_suffix("").parts).removesuffix(".__init__")


def valued(reason: ast.expr, module: object) -> ast.expr:
    """A name of a constant as what it stands for."""
    value = getattr(module, reason.id, None) if isinstance(reason, ast.Name) else None
    return ast.Constant(value) if isinstance(value, str) else reason


def reasons() -> set[str]:
    """Every one that the code can give, but those of incidents and conditions."""
    found = {one.value for one in calls() if isinstance(one, ast.Constant)}
    jobs = {"".join(map(str.capitalize, kind.value.split("-"))) for kind in JobKind}
    conditions = {*news._WARNINGS, *("CertificatesValid", "SecretsUsable", "DurabilityVerified")}
    made = {f"{job}Started" for job in jobs} | {f"Bookie{state}" for state in GONE}
    return {str(one) for one in found | made | conditions}


def test_every_event_has_a_row_and_every_row_an_event() -> None:
    first = [line.split("|")[1] for line in EVENTS.splitlines() if line.startswith("| ")]
    said = set(re.findall(r"\b[A-Z]\w+", " ".join(first)))
    assert said - {"UncleanShutdown", "Degraded"} == reasons()


def test_an_event_is_made_of_nothing_else_than_what_is_looked_at() -> None:
    made = {ast.unparse(one) for one in calls() if not isinstance(one, ast.Constant)}
    assert made == PUT_TOGETHER
