"""The pages that strangers meet: the change log, the first change, the forms of an issue."""

import importlib.util
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import click
import pytest
import release_notes
import yaml
from bookie.cli.main import main as bookie
from bookie_operator.__main__ import main as bookie_operator
from bookie_operator.kubectl.__main__ import plugin as kubectl_bookie
from bookie_operator.status_tree import tree
from commands import parse
from pages import ROOT, broken_links, text_of

CHANGES: Final = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
SECTIONS: Final = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
"""Those of keepachangelog.com, in the order that a release has them in."""
SUBJECTS: Final = (
    "Bookie",
    "Client",
    "Stock clients",
    "Repair and audit",
    "Command line",
    "Operator",
    "Kubectl plugin",
    "Charts",
    "Local platform",
    "Images",
    "Documentation",
    "Packages",
    "Proof",
)
"""What a bullet begins with, in the order of a section's bullets."""
FIRST_CHANGE: Final = (
    (ROOT / "CONTRIBUTING.md")
    .read_text(encoding="utf-8")
    .split("## Your first change, step by step\n")[1]
    .split("\n## ")[0]
)
FORMS: Final = ROOT / ".github" / "ISSUE_TEMPLATE"
ASKED: Final = {
    "bug": {"happened", "version", "platform", "status", "log"},
    "feature": {"need", "today"},
    "missing-entry": {"entry", "acknowledged", "audit", "status", "version", "untouched"},
}
"""What a form does not let out."""
PROGRAMS: Final[dict[str, click.Command]] = {
    "kubectl bookie": kubectl_bookie,
    "bookie-operator": bookie_operator,
    "bookie": bookie,
}
COMMAND: Final = re.compile(rf"`((?:{'|'.join(PROGRAMS)}) [^`]+)`")
STRANGERS_READ: Final = ("CHANGELOG.md", "CODE_OF_CONDUCT.md", "SECURITY.md")


@dataclass(frozen=True, slots=True)
class Bullet:
    """A change, and where it stands."""

    release: str
    """The release's heading."""
    section: str
    """The heading above it in the release; empty = none."""
    subject: str
    """The bold words that it begins with; empty = none."""


def bullets(changes: str) -> Iterator[Bullet]:
    release = section = ""
    for line in changes.splitlines():
        if line.startswith("## "):
            release, section = line, ""
        elif line.startswith("### "):
            section = line.removeprefix("### ")
        elif line.startswith("- "):
            subject = re.match(r"- \*\*(.+?)\*\*: ", line)
            yield Bullet(release, section, subject[1] if subject else "")


def sections_of(release: str) -> list[str]:
    return re.findall(r"^### (.+)$", release, re.MULTILINE)


def subjects_by_section(changes: str) -> dict[tuple[str, str], list[str]]:
    found: dict[tuple[str, str], list[str]] = {}
    for one in bullets(changes):
        found.setdefault((one.release, one.section), []).append(one.subject)
    return found


def test_every_release_has_sections_of_known_names_in_their_order() -> None:
    for release, text in release_notes.sections(CHANGES).items():
        found = sections_of(text)
        assert found or release == release_notes.UNRELEASED
        assert found == [name for name in SECTIONS if name in found], release


def test_what_is_unreleased_is_on_top_and_releases_have_dates_the_newest_first() -> None:
    (unreleased, _none), *releases = release_notes.dates(CHANGES).items()
    assert unreleased == release_notes.UNRELEASED
    dates = [date for _release, date in releases]
    assert all(dates) and dates == sorted(dates, reverse=True)


def test_every_change_stands_in_a_section_and_begins_with_its_subject() -> None:
    found = list(bullets(CHANGES))
    assert len(found) > 100
    assert [one for one in found if not one.section or one.subject not in SUBJECTS] == []


def test_changes_of_a_section_are_grouped_by_subject() -> None:
    for where, subjects in subjects_by_section(CHANGES).items():
        assert subjects == sorted(subjects, key=SUBJECTS.index), where


def test_a_change_under_no_section_is_found() -> None:
    [found] = bullets("## 0.2.0\n- A line at the top.\n")
    assert (found.release, found.section, found.subject) == ("## 0.2.0", "", "")


@pytest.mark.parametrize("page", STRANGERS_READ)
def test_links_of_a_page_that_strangers_read_lead_somewhere(page: str) -> None:
    assert [link for link in broken_links(ROOT / page) if "://" not in link[0]] == []


def form(name: str) -> dict[str, Any]:
    found = yaml.safe_load((FORMS / f"{name}.yml").read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def is_required(item: dict[str, Any]) -> bool:
    options = item["attributes"].get("options", [])
    ticks = [one.get("required", False) for one in options if isinstance(one, dict)]
    return bool(item.get("validations", {}).get("required")) or any(ticks)


def test_every_form_is_one_of_those_that_are_judged() -> None:
    assert {path.stem for path in FORMS.iterdir()} == {*ASKED, "config"}
    assert form("config")["blank_issues_enabled"] is True


@pytest.mark.parametrize("name", ASKED)
def test_a_form_lets_out_nothing_that_we_must_know(name: str) -> None:
    found = form(name)
    assert found["name"] and found["description"] and found["title"]
    asked = [item for item in found["body"] if item["type"] != "markdown"]
    assert {item["id"] for item in asked if is_required(item)} == ASKED[name]


@pytest.mark.parametrize("name", ASKED)
def test_a_form_has_no_field_twice_and_none_without_a_label(name: str) -> None:
    asked = [item for item in form(name)["body"] if item["type"] != "markdown"]
    assert len({item["id"] for item in asked}) == len(asked)
    assert all(item["attributes"]["label"] for item in asked)


def test_who_misses_an_entry_is_asked_to_restart_nothing() -> None:
    first = form("missing-entry")["body"][0]
    assert first["type"] == "markdown" and "Restart nothing" in first["attributes"]["value"]


@pytest.mark.parametrize("name", ASKED)
def test_commands_of_a_form_can_be_given(name: str) -> None:
    given = COMMAND.findall(text_of(FORMS / f"{name}.yml"))
    assert given or name == "feature"
    for command in given:
        begins = next(program for program in PROGRAMS if command.startswith(f"{program} "))
        if command != "bookie --version":
            parse(PROGRAMS[begins], shlex.split(command.removeprefix(begins)))


def test_a_pull_request_asks_for_three_lines() -> None:
    asked = text_of(ROOT / ".github/PULL_REQUEST_TEMPLATE.md")
    expected = ["What a user sees", "What shows it", "What was run"]
    assert re.findall(r"\*\*(.+?)\*\*", asked) == expected


def blocks(language: str) -> list[str]:
    """Of the first change: what stands between fences of this language."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", FIRST_CHANGE, re.MULTILINE | re.DOTALL)
    return [text for named, text in found if named == language]


def test_the_first_change_calls_targets_of_the_makefile() -> None:
    lines = [line for block in blocks("") for line in block.splitlines()]
    called = {word for line in lines if line.startswith("make ") for word in line.split()[1:]}
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert {"install", "lint", "types"} <= called <= set(targets)


def test_the_first_change_names_files_that_there_are() -> None:
    named = re.findall(r"\b(?:operator|tests)/[\w./*]+[\w*]", FIRST_CHANGE)
    assert len(named) > 4 and [name for name in named if not list(ROOT.glob(name))] == []


def claims_of_the_tree() -> ModuleType:
    """The tests of the status tree, with the claim of the first change at their end."""
    path = ROOT / "tests/bookie_operator/status_tree/test_tree.py"
    spec = importlib.util.spec_from_file_location("first_change", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.__dict__["MendStatus"] = tree.MendStatus
    [claim] = blocks("python")
    exec(claim, module.__dict__)
    return module


def lines_of_the_diff() -> tuple[str, str]:
    [diff] = blocks("diff")
    before, after = diff.splitlines()
    assert before.startswith("-") and after.startswith("+")
    return before[1:], after[1:]


def tree_with(line: str) -> ModuleType:
    """The module of the status tree with this line of the diff, before the first change or after
    it: the checked out one may be either, since who makes the change runs these tests as well."""
    source = Path(str(tree.__file__)).read_text(encoding="utf-8")
    [there] = [one for one in lines_of_the_diff() if one in source]
    module = ModuleType("tree_with_one_line")
    exec(source.replace(there, line), module.__dict__)
    return module


def test_the_claim_of_the_first_change_fails_before_it_and_holds_after_it() -> None:
    claims, (before, after) = claims_of_the_tree(), lines_of_the_diff()
    claims.__dict__["cluster_tree"] = tree_with(before).cluster_tree
    with pytest.raises(AssertionError):
        claims.test_one_ledger_that_was_not_mended_is_one_ledger()
    claims.__dict__["cluster_tree"] = tree_with(after).cluster_tree
    claims.test_one_ledger_that_was_not_mended_is_one_ledger()


def test_the_first_change_is_found_by_the_words_that_its_grep_asks_for() -> None:
    [asked] = re.findall(r'grep -rn "(.+)" operator/src', FIRST_CHANGE)
    assert asked in lines_of_the_diff()[0]


def test_the_line_for_the_change_log_has_its_shape() -> None:
    [line] = blocks("markdown")
    [bullet] = bullets(line)
    assert bullet.subject in SUBJECTS
