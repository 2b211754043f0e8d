"""What a page of the repository names: paths, names of the code, links and their headings."""

import ast
import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent.parent
SOURCES: Final = (ROOT, ROOT / "bookie/src/bookie", ROOT / "operator/src/bookie_operator")
"""A path on a page begins at one of these."""
PATH: Final = re.compile(r"`([\w.-]+(?:/[\w.-]+)+/?)(?:::([\w.]+))?`")
"""`client/writer.py::append`: a file or folder, and what is defined there, also in a class."""
NAME: Final = re.compile(r"`((?:[A-Za-z_]\w*\.)+[A-Za-z_]\w*)`")
"""`server.lifecycle.Host`, `Boot.run`: a module or a name of the code, with dots."""
NO_CODE: Final = re.compile(r"^(status|spec)\.|\.(py|md|json|jsonl|toml|yaml|sqlite|png|csv)$")
"""Fields of the cluster's object, and files."""
GUIDED: Final = re.compile(r"`([a-z]\w*(?:\.\w+)*\*?)`")
"""`writer`, `frame.parse_run`, `stock*`: what the docstring of a package sends its reader to."""
LINK: Final = re.compile(r"\]\(([^)#]*)(?:#([^)]*))?\)")


def text_of(page: Path) -> str:
    """On one line, so that no name is cut by the end of one."""
    return " ".join(page.read_text(encoding="utf-8").split())


def anchors(page: Path) -> set[str]:
    """Of its headings, as a link names them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}


def is_defined(name: str, file: Path) -> bool:
    """Whether a function, class, method (also as `Class.method`) or constant is there."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    first, *parts = name.split(".")
    found = [node for node in ast.walk(tree) if first in _names_of(node)]
    for part in parts:
        children = (child for node in found for child in ast.iter_child_nodes(node))
        found = [child for child in children if part in _names_of(child)]
    return bool(found)


def _names_of(node: ast.AST) -> set[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return {node.name}
    targets = getattr(node, "targets", [getattr(node, "target", None)])
    return {target.id for target in targets if isinstance(target, ast.Name)}


def is_code(name: str) -> bool:
    """Whether a dotted name leads to a module, or to what is defined in one: from a package, from a
    room of one (`server.lifecycle.Host`), or from a class that any room has (`Boot.run`)."""
    parts = name.split(".")
    for source in (*SOURCES[1:], SOURCES[1].parent, SOURCES[2].parent):
        for count in range(len(parts), 0, -1):
            path = source.joinpath(*parts[:count])
            if count == len(parts) and path.is_dir():
                return True
            if path.with_suffix(".py").exists():
                rest = ".".join(parts[count:])
                return not rest or is_defined(rest, path.with_suffix(".py"))
    return any(is_defined(name, file) for file in _files_with(parts[0]))


def _files_with(name: str) -> list[Path]:
    files = [file for source in SOURCES[1:] for file in source.rglob("*.py")]
    wanted = re.compile(rf"^(class {name}\b|{name}\b)", re.MULTILINE)
    return [f for f in files if f.stem == name or wanted.search(f.read_text(encoding="utf-8"))]


def leads_from(room: Path, name: str) -> bool:
    """Whether a docstring of this package may name this: a module or room of it (or of one round
    it), what such a module defines, or a function or class of any module right in it."""
    if name.endswith("*"):
        return any(room.glob(f"{name}.py"))
    first, _, rest = name.partition(".")
    for around in (room, *room.parents):
        file = (around / first).with_suffix(".py")
        if (around / first).is_dir() and (not rest or leads_from(around / first, rest)):
            return True
        if file.exists():
            return not rest or is_defined(rest, file)
        if not (around / "__init__.py").exists():
            break
    return any(_has_at_top(file, name) for file in room.glob("*.py"))


def _has_at_top(file: Path, name: str) -> bool:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return any(name in _names_of(node) for node in tree.body)


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
