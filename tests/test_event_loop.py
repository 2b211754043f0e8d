"""Nothing asks a disk in the event loop's thread: read from the source of server and boot.

What blocks says so in its docstring ("Blocking"); every method of a Disk does. Such a call may
stand only in a function that is handed to a thread, or that says so of itself.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from code_lines import ROOT

SOURCE: Final = ROOT / "bookie/src/bookie"
ROOMS: Final = ("server", "boot")
HOLDERS: Final = {
    "storage": ("storage/storage.py", "Storage"),
    "maintenance": ("storage/maintenance.py", "Maintenance"),
    "disk": ("storage/disk.py", "Disk"),
    "lock": ("boot/lock.py", "FolderLock"),
    "markers": ("boot/marker.py", "BootMarkers"),
    "runtime": ("server/runtime_file.py", "RuntimeFile"),
}
"""What a name holds, wherever it stands: `self._storage`, `booted.storage`, `storage`."""
THREADS: Final = ("to_thread", "in_thread", "run_in_executor", "submit", "ask")
"""What runs the function that it is given in another thread; `ask` is `DiskReads.ask`."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
Blocking = dict[str, frozenset[str]]
"""Methods by the name that holds their object; functions under the empty one."""


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def blocks(function: Function) -> bool:
    return bool(re.search(r"\bblocking\b", ast.get_docstring(function) or "", re.IGNORECASE))


def functions_of(body: list[ast.stmt]) -> list[Function]:
    return [node for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def what_blocks() -> Blocking:
    found: Blocking = {}
    for holder, (path, name) in HOLDERS.items():
        classes = (node for node in parsed(SOURCE / path).body if isinstance(node, ast.ClassDef))
        (kept,) = (node for node in classes if node.name == name)
        own = functions_of(kept.body)
        found[holder] = frozenset(f.name for f in own if name == "Disk" or blocks(f))
    rooms = [path for room in ROOMS for path in (SOURCE / room).glob("*.py")]
    found[""] = frozenset(f.name for p in rooms for f in functions_of(parsed(p).body) if blocks(f))
    return found


def last_name(node: ast.expr) -> str:
    """`self._storage.held` -> `held`."""
    return getattr(node, "attr", None) or getattr(node, "id", "")


def own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Without what the functions inside of it do: they may run elsewhere."""
    for node in ast.iter_child_nodes(function):
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from own_nodes(node)


def handed_over(tree: ast.AST) -> set[str]:
    """Names of functions that are given to a thread, also by way of `partial`."""
    found = set[str]()
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        if last_name(call.func) in THREADS:
            given = [part for argument in call.args for part in ast.walk(argument)]
            found.update(last_name(p) for p in given if isinstance(p, ast.Name | ast.Attribute))
    return found


def blocking_calls(tree: ast.Module, blocking: Blocking) -> list[str]:
    """Function and call of each that runs in the event loop's thread."""
    named = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    elsewhere = handed_over(tree) | {f.name for f in named if blocks(f)}
    found = []
    for function in named:
        if function.name in elsewhere and isinstance(function, ast.FunctionDef):
            continue
        nodes = list(own_nodes(function))
        awaited = {id(node.value) for node in nodes if isinstance(node, ast.Await)}
        for call in (node for node in nodes if isinstance(node, ast.Call)):
            holder = last_name(call.func.value) if isinstance(call.func, ast.Attribute) else ""
            known = blocking.get(holder.lstrip("_"), frozenset())
            if last_name(call.func) in known and id(call) not in awaited:
                found.append(f"{function.name}: {ast.unparse(call.func)}")
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_no_disk_is_asked_in_the_event_loops_thread(room: str) -> None:
    blocking = what_blocks()
    found = {
        path.name: calls
        for path in sorted((SOURCE / room).glob("*.py"))
        if (calls := blocking_calls(parsed(path), blocking))
    }
    assert found == {}


@pytest.mark.parametrize(
    "line",
    [
        "self._storage.maintenance.usage()",
        "booted.storage.held(7)",
        "self._disk.space(path)",
        "finish_clean_stop(storage, markers)",
        "lock.acquire()",
        "self._lock.holders()",
    ],
)
def test_such_a_call_is_found(line: str) -> None:
    for begin in ("async def health(self)", "def health(self)"):
        tree = ast.parse(f"{begin}:\n    return {line}")
        assert len(blocking_calls(tree, what_blocks())) == 1


def test_a_call_in_another_thread_is_none() -> None:
    text = """
async def flush(self):
    def work():
        return self._maintenance.usage()
    await asyncio.to_thread(work)
    await asyncio.to_thread(self._maintenance.checkpoint)
    await in_thread(lambda: self._markers.begin(confirmed=1))
"""
    assert blocking_calls(ast.parse(text), what_blocks()) == []
