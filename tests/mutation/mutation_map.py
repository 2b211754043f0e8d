"""Which tests reach which lines: recorded once, test file by test file, and kept under build/.

A record is of one test file: its digest, how long each test took, and the lines of the product that
each reached. Only test files that are new or changed are recorded again. A source that has changed
since is looked up by function, not by line: lines move, and a test of a function stays one.
"""

import ast
import hashlib
import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
HERE: Final = Path(__file__).parent
SOURCES: Final = ("operator/src", "bookie/src")
BUILD: Final = ROOT / "build" / "mutation"
FILES_AT_ONCE: Final = 8
"""Test files of one recording process: few enough that little is lost when it is ended."""
NOT_RECORDED: Final = (
    "tests/mutation/", "tests/mutants/", "tests/house/", "tests/java/", "tests/safety_page/",
    "tests/charts/", "tests/benchmarks/", "tests/test_",
)  # fmt: skip
"""Tests of the tree's texts and of the proofs themselves: they judge no behaviour."""

Lines = dict[str, dict[int, list[str]]]


@dataclass(frozen=True, slots=True)
class RecordedTest:
    """One test as it was recorded."""

    id: str
    seconds: float
    """Of CPU mostly: setup, call and teardown, under coverage."""
    is_process: bool
    """Starts real processes: their setup is paid again in every mutant's process."""

    @property
    def file(self) -> str:
        return self.id.partition("::")[0]


@dataclass(slots=True)
class Reach:
    """What all records together say."""

    tests: dict[str, RecordedTest] = field(default_factory=dict)
    """By node id; those that failed while they were recorded are absent."""
    lines: dict[tuple[str, int], set[str]] = field(default_factory=lambda: defaultdict(set))
    """Source file (from the root) and line, of sources that are as they were."""
    functions: dict[tuple[str, str], set[str]] = field(default_factory=lambda: defaultdict(set))
    """Source file and qualified name."""
    at_import: set[tuple[str, int]] = field(default_factory=set)
    """Lines that also ran outside all tests: at import, or while tests were collected."""
    changed: set[str] = field(default_factory=set)
    """Sources whose text is not the one that was recorded, in any record."""

    def tests_of(self, source: str, lines: Iterable[int], function: str) -> set[str]:
        """Tests that reach a line; those of its function when that is not known by line; those of
        its module for what runs at import only, like a constant."""
        found: set[str] = set()
        for line in lines:
            found |= self.lines.get((source, line), set())
        if source in self.changed or not found:
            found |= self.functions.get((source, function), set())
        return found or self.tests_of_module(source)

    def tests_of_module(self, source: str) -> set[str]:
        """Tests that reach any line of it."""
        return set().union(*(ids for (file, _), ids in self.functions.items() if file == source))


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def functions_of(text: str) -> Iterator[tuple[str, range]]:
    """Qualified name and lines of every function and method; a nested one belongs to its outer."""

    def visit(nodes: Iterable[ast.stmt], prefix: str) -> Iterator[tuple[str, range]]:
        for node in nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield prefix + node.name, range(node.lineno, (node.end_lineno or 0) + 1)
            elif isinstance(node, ast.ClassDef):
                yield from visit(node.body, f"{prefix}{node.name}.")

    return visit(ast.parse(text).body, "")


# Recording


def record_path(test_file: str) -> Path:
    return BUILD / "map" / (test_file.replace("/", "+") + ".json")


def test_files(only: Sequence[str] = ()) -> list[str]:
    """All that are worth recording, from the root; `only` names files or folders."""
    found = (str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py"))
    files = sorted(file for file in found if not file.startswith(NOT_RECORDED))
    return [file for file in files if not only or file.startswith(tuple(only))]


def stale(files: Iterable[str]) -> list[str]:
    """Those with no record of their text of today."""
    return [file for file in files if _recorded_digest(file) != digest(ROOT / file)]


def _recorded_digest(file: str) -> str:
    try:
        return str(json.loads(record_path(file).read_text(encoding="utf-8"))["digest"])
    except FileNotFoundError:
        return ""


def record(files: Sequence[str], *, workers: int) -> None:
    """Runs these test files under coverage and keeps what each test reached."""
    parts = [files[at : at + FILES_AT_ONCE] for at in range(0, len(files), FILES_AT_ONCE)]
    with ThreadPoolExecutor(workers) as pool:
        for part, said in zip(parts, pool.map(_record_part, parts), strict=True):
            print(f"recorded {len(part)} test files from {part[0]}: {said}", flush=True)


def _record_part(files: Sequence[str]) -> str:
    paths = [HERE, *(ROOT / source for source in SOURCES)]
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "mutation_recording",
        "-p", "no:cacheprovider", "-o", "timeout=400", *files,
    ]  # fmt: skip
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))},
        capture_output=True,
        text=True,
        check=False,
    )
    return (done.stdout.strip().splitlines() or [done.stderr.strip()[-300:]])[-1]


def keep(test_file: str, tests: Sequence[RecordedTest], lines: Lines, at_import: Lines) -> None:
    """One record, written whole or not at all."""
    sources = {
        source: {
            "digest": digest(ROOT / source),
            "lines": {line: ids for line, ids in by_line.items() if ids},
            "functions": _by_function(source, by_line),
            "at_import": sorted(at_import.get(source, {})),
        }
        for source, by_line in lines.items()
    }
    content = {
        "digest": digest(ROOT / test_file),
        "tests": [[test.id, test.seconds, test.is_process] for test in tests],
        "sources": sources,
    }
    path = record_path(test_file)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".new")
    partial.write_text(json.dumps(content), encoding="utf-8")
    partial.replace(path)


@cache
def _function_lines(source: str) -> list[tuple[str, range]]:
    return list(functions_of((ROOT / source).read_text(encoding="utf-8")))


def _by_function(source: str, by_line: dict[int, list[str]]) -> dict[str, list[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for name, lines in _function_lines(source):
        for line in lines[1:] or lines:
            found[name].update(by_line.get(line, ()))
    return {name: sorted(ids) for name, ids in found.items() if ids}


# What was recorded


def read(sources: Iterable[str]) -> Reach:
    """All records, of these sources only."""
    reach = Reach()
    wanted = {source: digest(ROOT / source) for source in sources}
    for path in sorted((BUILD / "map").glob("*.json")):
        if not (ROOT / path.stem.replace("+", "/")).exists():
            continue  # the test file has moved, or is gone
        content = json.loads(path.read_text(encoding="utf-8"))
        tests = [RecordedTest(*one) for one in content["tests"]]
        reach.tests |= {test.id: test for test in tests}
        for source, recorded in content["sources"].items():
            if source in wanted:
                _add(reach, source, recorded, is_same=recorded["digest"] == wanted[source])
    return reach


def _add(reach: Reach, source: str, recorded: dict[str, Any], *, is_same: bool) -> None:
    if is_same:
        for line, ids in recorded["lines"].items():
            reach.lines[source, int(line)].update(ids)
        reach.at_import.update((source, line) for line in recorded["at_import"])
    else:
        reach.changed.add(source)
    for name, ids in recorded["functions"].items():
        reach.functions[source, name].update(ids)
