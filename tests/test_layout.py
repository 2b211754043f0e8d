"""The tree itself: what would break Python, the house's limits, and one importer per client."""

import ast
import operator
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from code_lines import ROOT, code_lines, modules

LINES_MAX = 410
"""Of code in a module: comments and docstrings are never in the way. Lower it as modules shrink."""
FUNCTION_LINES_MAX = 60
CLASS_LINES_MAX = 345
METHODS_MAX = 48
IMPORTERS = {
    "kazoo": ("bookie/metadata/",),
    "pyspark": ("bookie/repair/spark/",),
    "py4j": ("bookie/repair/spark/",),
    "kopf": ("bookie_operator/handlers.py",),
}


def functions(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) and len(node.body) > 1 else node.body
            yield node.name, (node.end_lineno or 0) - body[0].lineno + 1


def classes(tree: ast.AST, code: set[int]) -> Iterator[tuple[str, int, int]]:
    """Name, lines of code (of those in `code`) and methods of each class."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            lines = len(code & set(range(node.lineno, (node.end_lineno or 0) + 1)))
            methods = [
                one for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
            ]
            yield node.name, lines, len(methods)


def test_the_operator_folder_does_not_shadow_the_standard_library() -> None:
    assert operator.add(1, 2) == 3
    assert not list((ROOT / "operator").glob("*.py"))
    subprocess.run([sys.executable, "-c", "import collections"], cwd=ROOT, check=True)


def test_tests_are_no_packages() -> None:
    assert not list((ROOT / "tests").rglob("__init__.py"))


def test_no_package_that_a_registry_has_is_kept_here() -> None:
    kept = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines()
    assert not [name for name in kept if name.endswith((".whl", ".jar", ".class", ".pyc"))]


@pytest.mark.parametrize("path", list(modules()), ids=lambda p: str(p.relative_to(ROOT)))
def test_module_keeps_the_house_limits(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    tree, code = ast.parse(text), code_lines(text)
    assert len(code) <= LINES_MAX
    assert ast.get_docstring(tree) or text.count("\n") <= 1, "a module docstring places the file"
    long = [(name, lines) for name, lines in functions(tree) if lines > FUNCTION_LINES_MAX]
    assert not long
    large = [one for one in classes(tree, code) if one[1] > CLASS_LINES_MAX or one[2] > METHODS_MAX]
    assert not large


def test_only_code_counts_as_code() -> None:
    text = '"""Says\nwhat."""\n\nfield = 1  # why\n"""Of it."""\n# a comment\nother = (\n    2\n)\n'
    assert code_lines(text) == {4, 7, 8, 9}


def imported_roots(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.split(".")[0]


@pytest.fixture(scope="module")
def roots() -> dict[Path, set[str]]:
    """What each module imports, by the first part of its name."""
    return {
        path: set(imported_roots(ast.parse(path.read_text(encoding="utf-8")))) for path in modules()
    }


@pytest.mark.parametrize("client", sorted(IMPORTERS))
def test_a_third_party_client_has_its_own_importing_modules(
    client: str, roots: dict[Path, set[str]]
) -> None:
    strays = [
        str(path)
        for path, imported_by in roots.items()
        if client in imported_by
        and not any(allowed in path.as_posix() for allowed in IMPORTERS[client])
    ]
    assert not strays


def exported(tree: ast.Module) -> set[str]:
    """Names in `__all__`, and those imported under their own name (`import x as x`)."""
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            found.update(ast.literal_eval(node.value))
        elif isinstance(node, ast.ImportFrom | ast.Import):
            found.update(alias.name for alias in node.names if alias.asname == alias.name)
    return found


def imported(tree: ast.Module) -> set[str]:
    return {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom | ast.Import)
        for alias in node.names
    }


def test_a_name_has_one_home() -> None:
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in modules()}
    passing_on = {path for path, tree in trees.items() if exported(tree) & imported(tree)}
    assert [path.as_posix().partition("/src/")[2] for path in passing_on] == []
