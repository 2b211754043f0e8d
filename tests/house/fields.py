"""Fields of state objects that no line explains: what a number counts, when a list is emptied.

A state object is a class that is not frozen. Its fields are explained by a line below each, or by
their names in backticks in the docstring of the class or of `__init__`. A field that holds another
object of the house is explained by that one's class, and a parameter that is kept under its own
name by the docstring. What is left stands in `fields_left.txt`, a ratchet.

    python tests/house/fields.py          # what no line explains
    python tests/house/fields.py --write  # drops lines that are not true any more
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from code_lines import ROOT, modules

LEFT: Final = Path(__file__).with_name("fields_left.txt")
PLAIN: Final = re.compile(
    r"\b(int|float|str|bool|bytes|bytearray|memoryview|dict|list|set|deque|tuple|frozenset"
    r"|defaultdict|Counter|Mapping|Sequence|Callable|datetime|None"
    r"|object|Buffer|EntrySet|BookieId|LedgerId|EntryId)\b"
)
"""Types that say nothing of what their value means: those of Python, and ids and bytes of ours."""
PLAIN_CALLS: Final = frozenset(
    {"dict", "list", "set", "deque", "tuple", "bytearray", "memoryview", "defaultdict", "Counter"}
)
CLOCKS: Final = frozenset({"clock", "monotonic", "time", "float"})
"""Functions that give a plain number, of an object or a module."""
CONSTANT: Final = re.compile(r"(\w+\.)*[A-Z][A-Z0-9_]*")
"""`EMPTY`, `Phase.OPEN`: where a value begins, and not what becomes of it."""
Statement = ast.stmt


def _text(statement: Statement | None) -> str:
    is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return str(statement.value.value) if is_text else ""  # type: ignore[union-attr]


def _named(*docstrings: str | None) -> set[str]:
    return {name for text in docstrings for name in re.findall(r"`(\w+)", text or "")}


def _is_plain(value: ast.expr | None, annotation: ast.expr | None) -> bool:
    """The value says nothing of its meaning by its type."""
    if annotation is not None:
        return bool(PLAIN.search(ast.unparse(annotation)))
    if isinstance(value, ast.Call):
        made = ast.unparse(value.func)
        return made in PLAIN_CALLS or made.rpartition(".")[2] in CLOCKS
    if isinstance(value, ast.Name | ast.Attribute):
        return CONSTANT.fullmatch(ast.unparse(value)) is not None
    return True


def _pairs(body: list[Statement]) -> Iterator[tuple[Statement, str]]:
    """Each statement, and the text below it."""
    for at, statement in enumerate(body):
        yield statement, _text(body[at + 1] if at + 1 < len(body) else None)


def _of_dataclass(kept: ast.ClassDef) -> Iterator[str]:
    said = _named(ast.get_docstring(kept))
    for statement, line in _pairs(kept.body):
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        annotation = ast.unparse(statement.annotation)
        is_field = "ClassVar" not in annotation and statement.target.id != "_"
        is_plain = _is_plain(None, statement.annotation)
        if is_field and is_plain and not line and statement.target.id not in said:
            yield statement.target.id


def _of_init(kept: ast.ClassDef, made: ast.FunctionDef) -> Iterator[str]:
    said = _named(ast.get_docstring(kept), ast.get_docstring(made))
    parameters = {one.arg for one in (*made.args.args, *made.args.kwonlyargs)}
    for statement, line in _pairs(made.body):
        target = _target(statement)
        if target is None:
            continue
        value = getattr(statement, "value", None)
        # `settings or Settings()` is kept as it came, too.
        first = value.values[0] if isinstance(value, ast.BoolOp) else value
        is_kept = isinstance(first, ast.Name) and first.id in parameters
        is_plain = _is_plain(value, getattr(statement, "annotation", None))
        if is_plain and not is_kept and not line and not said & {target, target.lstrip("_")}:
            yield target


def _target(statement: Statement) -> str | None:
    """`self._x = ...` -> `_x`."""
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    for one in targets[:1]:
        if isinstance(one, ast.Attribute) and ast.unparse(one.value) == "self":
            return one.attr
    return None


def unexplained(kept: ast.ClassDef) -> Iterator[str]:
    """Names of fields of this class that no line explains."""
    marks = " ".join(map(ast.unparse, kept.decorator_list))
    if "dataclass" in marks and "frozen=True" not in marks:
        yield from _of_dataclass(kept)
    for one in kept.body:
        if isinstance(one, ast.FunctionDef) and one.name == "__init__":
            yield from _of_init(kept, one)


def now() -> list[str]:
    """`path Class.field` of each, in order."""
    found = []
    for path in modules():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                where = f"{path.relative_to(ROOT)} {node.name}"
                found += [f"{where}.{name}" for name in unexplained(node)]
    return sorted(found)


def left() -> list[str]:
    return LEFT.read_text(encoding="utf-8").splitlines()


if __name__ == "__main__":
    known, found = left(), now()
    print("\n".join(found))
    if "--write" in sys.argv:
        LEFT.write_text("".join(f"{line}\n" for line in found if line in known), encoding="utf-8")
