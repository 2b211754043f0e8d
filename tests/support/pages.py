"""What a page of the repository names: paths, names of the code, links and their headings."""

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent.parent
SOURCES: Final = (ROOT, ROOT / "bookie/src/bookie", ROOT / "operator/src/bookie_operator")
"""A path on a page begins at one of these."""
PATH: Final = re.compile(r"`([\w.-]+(?:/[\w.-]+)+/?)(?:::(\w+))?`")
"""`client/writer.py::append`: a file or folder, and what is defined there."""
LINK: Final = re.compile(r"\]\(([^)#]*)(?:#([^)]*))?\)")


def text_of(page: Path) -> str:
    """On one line, so that no name is cut by the end of one."""
    return " ".join(page.read_text(encoding="utf-8").split())


def anchors(page: Path) -> set[str]:
    """Of its headings, as a link names them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


def is_defined(name: str, file: Path) -> bool:
    """Whether a function or class of this name is written there."""
    return re.search(rf"\b(?:def|class) {name}\b", file.read_text(encoding="utf-8")) is not None


def is_there(path: str, name: str) -> bool:
    """Whether the file or folder exists, and defines this name, if one is given."""
    found = [source / path for source in SOURCES if (source / path).exists()]
    return bool(found) and (not name or is_defined(name, found[0]))


def broken_links(page: Path) -> list[tuple[str, str]]:
    """Links of a page that lead to no file, no folder or no heading: (where to, heading)."""
    links = LINK.findall(text_of(page))
    return [(to, at) for to, at in links if not _leads(page.parent / to if to else page, at)]


def _leads(to: Path, at: str) -> bool:
    return to.exists() and (not at or at in anchors(to))
