"""The pages that lead a reader: whatever they name exists, and nothing is left out."""

import ast
from collections.abc import Iterable
from pathlib import Path

import pytest
from pages import (
    GUIDED,
    NAME,
    NO_CODE,
    PATH,
    ROOT,
    SOURCES,
    broken_links,
    is_code,
    is_there,
    leads_from,
    text_of,
)

PAGES = (
    ROOT / "README.md",
    ROOT / "ARCHITECTURE.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "e2e/README.md",
    ROOT / "tests/README.md",
    *sorted((ROOT / "docs").glob("*.md")),
)
CITING = ("ARCHITECTURE.md", "docs/design.md", "docs/protocol-rules.md")
"""Pages that name modules and functions."""
ROOMS = {
    "bookie": SOURCES[1],
    "bookie_operator": SOURCES[2],
}


def folders(of: Path) -> set[str]:
    return {path.name for path in of.iterdir() if path.is_dir() and path.name != "__pycache__"}


def unnamed(names: Iterable[str], page: str) -> list[str]:
    """Those that the page does not name: `name`, `name/` or a longer path that begins so."""
    text = text_of(ROOT / page)
    return [name for name in names if f"`{name}`" not in text and f"`{name}/" not in text]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_page_and_a_heading_of_it(page: Path) -> None:
    assert broken_links(page) == []


@pytest.mark.parametrize("page", CITING)
def test_every_path_and_name_on_the_page_exists(page: str) -> None:
    named = PATH.findall(text_of(ROOT / page))
    assert named and [found for found in named if not is_there(*found)] == []


def test_every_name_with_dots_on_the_map_exists() -> None:
    named = NAME.findall(text_of(ROOT / "ARCHITECTURE.md"))
    code = [name for name in named if not NO_CODE.search(name)]
    assert len(code) > 10 and [name for name in code if not is_code(name)] == []


@pytest.mark.parametrize("name", ["server.nowhere", "server.lifecycle.Nobody", "Boot.nothing"])
def test_a_name_that_does_not_exist_is_found_out(name: str) -> None:
    assert not is_code(name)


def guides() -> list[Path]:
    """Every `__init__.py` of the product: its docstring leads through the room."""
    return sorted(path for source in SOURCES[1:] for path in source.rglob("__init__.py"))


@pytest.mark.parametrize("guide", guides(), ids=lambda guide: str(guide.parent.relative_to(ROOT)))
def test_every_module_that_a_room_s_docstring_names_exists(guide: Path) -> None:
    said = ast.get_docstring(ast.parse(guide.read_text(encoding="utf-8"))) or ""
    assert [name for name in GUIDED.findall(said) if not leads_from(guide.parent, name)] == []


@pytest.mark.parametrize("name", ["engine", "marking", "storage.nowhere", "stick*", "connection"])
def test_a_module_that_is_not_in_the_room_is_found_out(name: str) -> None:
    assert not leads_from(SOURCES[1] / "storage", name)


def test_the_guide_to_the_pages_leaves_none_out() -> None:
    guide = text_of(ROOT / "docs/README.md")
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert [page for page in sorted(pages) if guide.count(f"]({page})") != 1] == []


def test_the_guide_to_the_tests_leaves_no_folder_out() -> None:
    made_here = {".pytest_cache"}
    assert unnamed(folders(ROOT / "tests") - made_here, "tests/README.md") == []


def test_the_guide_to_the_tests_leaves_no_file_beside_the_folders_out() -> None:
    names = [path.name for path in (ROOT / "tests").glob("test_*.py")]
    assert unnamed(names, "tests/README.md") == []


@pytest.mark.parametrize("package", ROOMS)
def test_the_map_has_every_room(package: str) -> None:
    assert unnamed(folders(ROOMS[package]), "ARCHITECTURE.md") == []


@pytest.mark.parametrize("package", ROOMS)
def test_the_tests_mirror_the_rooms(package: str) -> None:
    assert folders(ROOT / "tests" / package) <= folders(ROOMS[package])
