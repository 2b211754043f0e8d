"""Where values of the settings are found in a program that was composed of them.

`Walk` goes through all objects that can be reached from some roots, and notes which attribute holds
which value. If each setting has a value that nothing else has, that tells where it went, and two
that were swapped show. What is always seen alike (flags, choices) is shown by `facts`.
"""

import asyncio
import dataclasses
import functools
import ssl
import types
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from pathlib import PurePath
from typing import Any, Final

from pydantic import BaseModel

OURS: Final = ("bookie.", "bookie_operator.")
MARK: Final = "-41"
"""In each text that is looked for inside of others as well: `service-41` of `service-41/host`."""
SEVERAL: Final = frozenset({"Pace", "PlacedFile", "RenewedFiles", "_Taken"})
"""Classes of which one process has several objects: they are named by who holds them."""
SLEEPS: Final = "_set_result_unless_cancelled"
"""What ends a sleep: the duties of the bookie sleep all the time."""
BY_THE_MACHINE: Final = frozenset({"_fd", "_descriptor", "_descriptors", "pid"})
"""Attributes whose number the kernel chose: it may be that of a setting by chance."""
Place = tuple[object, str]


class Walk:
    """`values`: name of the setting by its value. `sections`: parts of the document by their id:
    who holds a whole one is noted, and nothing inside of it."""

    def __init__(self, values: Mapping[object, str], sections: Mapping[int, str]) -> None:
        self.values = values
        self.sections = sections
        self.found: dict[str, set[str]] = {
            name: set() for name in (*values.values(), *sections.values())
        }
        self._seen: dict[int, object] = {}

    def through(self, roots: Mapping[str, object]) -> dict[str, set[str]]:
        waiting: deque[Place] = deque((one, name) for name, one in roots.items())
        while waiting:
            one, label = waiting.popleft()
            if id(one) in self.sections:
                self.found[self.sections[id(one)]].add(label)
            elif isinstance(one, int | float | str | PurePath):
                self._note(one, label)
            elif id(one) not in self._seen:
                self._seen[id(one)] = one  # kept, so that no other object gets its id
                waiting.extend(_inside(one, label))
        return {name: held for name, held in self.found.items() if held or name[0] != "["}

    def _note(self, leaf: object, label: str) -> None:
        plain = str(leaf) if isinstance(leaf, PurePath) else leaf
        if not isinstance(plain, bool) and plain in self.values:
            self.found[self.values[plain]].add(label)
        elif isinstance(plain, str):
            host, _colon, port = plain.rpartition(":")
            if port.isdecimal() and "/" not in host:
                self._note(int(port), f"{label} (part of it)")
                self._note(host, f"{label} (part of it)")
            for value, name in self.values.items():
                if MARK in str(value) and str(value) in plain:
                    self.found[name].add(f"{label} (part of it)")


def _inside(one: object, label: str) -> Iterator[Place]:
    if isinstance(one, Mapping):
        for key, value in one.items():
            yield value, f"{label}[{key}]" if isinstance(key, str) else label
            yield key, label
    elif isinstance(one, tuple) and hasattr(one, "_fields"):
        yield from ((v, f"{type(one).__name__}.{n}") for n, v in zip(one._fields, one, strict=True))
    elif isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], str):
        yield one[1], f"{label}[{one[0]}]"
        yield one[0], label
    elif isinstance(one, list | tuple | set | frozenset | deque):
        yield from ((value, label) for value in one)
    elif isinstance(one, functools.partial):
        name = getattr(one.func, "__qualname__", "partial")
        yield one.func, label
        yield from ((value, f"{name}(…)") for value in one.args)
        yield from ((value, f"{name}({key}=)") for key, value in one.keywords.items())
    elif isinstance(one, types.MethodType):
        yield one.__self__, label
    elif isinstance(one, types.FunctionType):
        for name, cell in zip(one.__code__.co_freevars, one.__closure__ or (), strict=True):
            yield from ((value, f"{one.__qualname__} of {name}") for value in _contents(cell))
    elif isinstance(one, types.CoroutineType):
        yield from _of_coroutine(one, label)
    elif isinstance(one, asyncio.Task):
        yield one.get_coro(), label
    elif isinstance(one, ThreadPoolExecutor):
        yield one._max_workers, "ThreadPoolExecutor.max_workers"
    elif isinstance(one, asyncio.Server):
        yield getattr(one, "_ssl_handshake_timeout", None), f"{label}: time for a handshake"
        yield [one.getsockname()[:2] for one in one.sockets], f"{label}: listens on"
    elif type(one).__module__.startswith(OURS) and not isinstance(one, type | BaseModel):
        kind = type(one).__qualname__
        prefix = f"{label} > {kind}" if kind in SEVERAL else kind
        yield from (
            (value, f"{prefix}.{name}")
            for name, value in fields_of(one)
            if name not in BY_THE_MACHINE
        )


def _contents(cell: types.CellType) -> list[object]:
    try:
        return [cell.cell_contents]
    except ValueError:  # nothing was put there yet
        return []


def _of_coroutine(one: "types.CoroutineType[Any, Any, Any]", label: str) -> Iterator[Place]:
    if one.cr_frame is None:
        return
    held = one.cr_frame.f_locals
    methods = [v.__qualname__ for v in held.values() if isinstance(v, types.MethodType)]
    name = f"{one.__qualname__}[{', '.join(methods)}]" if methods else one.__qualname__
    for key, value in held.items():
        yield value, f"{name}({key})"
    yield one.cr_await, label


def fields_of(one: object) -> Iterator[tuple[str, object]]:
    names: dict[str, None] = {}
    for kind in type(one).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        names |= dict.fromkeys((slots,) if isinstance(slots, str) else slots)
    names |= dict.fromkeys(getattr(one, "__dict__", {}))
    for name in names:
        if not name.startswith("__"):
            yield name, getattr(one, name, None)


def parts_of(tree: BaseModel, path: str = "") -> Iterator[tuple[str, Any]]:
    """Everything in a document by its path, in the names of the document: values and sections."""
    for name, field in type(tree).model_fields.items():
        value = getattr(tree, name)
        where = f"{path}{field.alias or name}"
        for number, part in enumerate(value if isinstance(value, tuple) else (value,)):
            here = f"{where}.{number}" if isinstance(value, tuple) else where
            yield here, part
            if isinstance(part, BaseModel):
                yield from parts_of(part, f"{here}.")
            elif isinstance(part, dict):
                yield from ((f"{here}.{key}", held) for key, held in part.items())


def timers(values: Mapping[object, str]) -> list[str]:
    """What waits for as long as a setting says: its callback, by the setting's name."""
    loop = asyncio.get_running_loop()
    found = []
    for handle in loop._scheduled:  # type: ignore[attr-defined]
        left = handle.when() - loop.time()
        callback = getattr(handle._callback, "__qualname__", "").replace(SLEEPS, "")
        for value, name in values.items():
            is_time = isinstance(value, float) and name.endswith("Seconds")
            if is_time and value - 20 < left <= value and not handle.cancelled() and callback:
                found.append(f"{name}: {callback}")
    return sorted(found)


def facts(one: object, indent: str = "") -> str:
    """A settings object field by field; one of ours inside of it below it."""
    lines = [f"{indent}{type(one).__qualname__}"]
    for name, value in _facts_of(one):
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            lines.append(f"{indent}  {name}: {facts(value, indent + '  ').lstrip()}")
        else:
            lines.append(f"{indent}  {name}: {_shown(value)}")
    return "\n".join(lines)


def _facts_of(one: object) -> Iterator[tuple[str, object]]:
    if isinstance(one, ssl.SSLContext):
        for name in ("protocol", "verify_mode", "check_hostname", "minimum_version"):
            yield name, getattr(one, name)
        yield "authorities", len(one.get_ca_certs())
        return
    yield from ((name, value) for name, value in fields_of(one) if not callable(value))


def _shown(value: object) -> str:
    if isinstance(value, Enum):
        return str(value)
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(_shown, value)) + "]"
    if type(value).__module__.startswith(OURS):
        return f"a {type(value).__qualname__}"
    return str(value) if isinstance(value, PurePath) else repr(value)


def table(rows: Mapping[str, Collection[str]]) -> str:
    lines = []
    for name, held in rows.items():
        lines.append(name)
        lines += [f"    {one}" for one in sorted(held)] or ["    (in no object)"]
    return "\n".join(lines) + "\n"
