"""Nothing asks a disk in the event loop's thread: read from the source of three rooms.

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

ROOMS: Final = {
    "server": ROOT / "bookie/src/bookie/server",
    "boot": ROOT / "bookie/src/bookie/boot",
    "platform": ROOT / "operator/src/bookie_operator/platform",
}
"""Of the platform only the local one: what asks an API server is in a package of its own."""
HOLDERS: Final = {
    "storage": ("bookie/src/bookie/storage/storage.py", "Storage"),
    "maintenance": ("bookie/src/bookie/storage/maintenance.py", "Maintenance"),
    "disk": ("bookie/src/bookie/storage/disk.py", "Disk"),
    "lock": ("bookie/src/bookie/boot/lock.py", "FolderLock"),
    "markers": ("bookie/src/bookie/boot/marker.py", "BootMarkers"),
    "runtime": ("bookie/src/bookie/server/runtime_file.py", "RuntimeFile"),
    "children": ("operator/src/bookie_operator/platform/processes.py", "Children"),
    "folders": ("operator/src/bookie_operator/platform/folders.py", "LocalFolders"),
    "jobs": ("operator/src/bookie_operator/platform/jobs.py", "JobProcesses"),
    "kubelet": ("operator/src/bookie_operator/platform/kubelet.py", "Kubelet"),
}
"""What a name holds, wherever it stands: `self._storage`, `booted.storage`, `storage`."""
THREADS: Final = ("to_thread", "in_thread", "run_in_executor", "submit", "ask", "_in_turn")
"""What runs the function that it is given in another thread; `ask` is `DiskReads.ask`, `_in_turn`
the local platform's."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
Blocking = dict[str, frozenset[str]]
"""Methods by the name that holds their object; functions under the empty one."""


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def blocks(function: Function) -> bool:
    return bool(re.search(r"\bblocking\b", ast.get_docstring(function) or "", re.IGNORECASE))


def functions_of(body: list[ast.stmt]) -> list[Function]:
    return [node for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def what_blocks(room: str) -> Blocking:
    """As the room sees it: a plain name is a function of its own package."""
    found: Blocking = {}
    for holder, (path, name) in HOLDERS.items():
        classes = (node for node in parsed(ROOT / path).body if isinstance(node, ast.ClassDef))
        (kept,) = (node for node in classes if node.name == name)
        own = functions_of(kept.body)
        found[holder] = frozenset(f.name for f in own if name == "Disk" or blocks(f))
    near = [folder for folder in ROOMS.values() if folder.parent == ROOMS[room].parent]
    rooms = [path for folder in near for path in folder.glob("*.py")]
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
    blocking = what_blocks(room)
    found = {
        path.name: calls
        for path in sorted(ROOMS[room].glob("*.py"))
        if (calls := blocking_calls(parsed(path), blocking))
    }
    assert found == {}


@pytest.mark.parametrize(
    ("room", "line"),
    [
        ("server", "self._storage.maintenance.usage()"),
        ("server", "booted.storage.held(7)"),
        ("server", "self._disk.space(path)"),
        ("server", "finish_clean_stop(storage, markers)"),
        ("server", "lock.acquire()"),
        ("server", "self._lock.holders()"),
        ("platform", "self._kubelet.ensure(template)"),
        ("platform", "self._jobs.start(job, metadata_url=url)"),
        ("platform", "self._children.spawn(argv, log=log, folder=folder)"),
        ("platform", "write_json(path, tree)"),
    ],
)
def test_such_a_call_is_found(room: str, line: str) -> None:
    for begin in ("async def health(self)", "def health(self)"):
        tree = ast.parse(f"{begin}:\n    return {line}")
        assert len(blocking_calls(tree, what_blocks(room))) == 1


def test_a_call_in_another_thread_is_none() -> None:
    text = """
async def flush(self):
    def work():
        return self._maintenance.usage()
    await asyncio.to_thread(work)
    await asyncio.to_thread(self._maintenance.checkpoint)
    await in_thread(lambda: self._markers.begin(confirmed=1))
"""
    assert blocking_calls(ast.parse(text), what_blocks("server")) == []
