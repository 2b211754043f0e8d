"""How a story about the operator is written down: trees as lines, and what changed between two."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Final

Lines = dict[str, str]
"""Path -> value."""
KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "conditions": ("type",),
    "bookies": ("id",),
    "disks": ("name",),
    "leftOver": ("bookie",),
    "incidents": ("bookie", "bootEpochAfter"),
    "blocked": ("action", "bookie", "predicate"),
    "certificates": ("name",),
    "authorities": ("fingerprint",),
}
"""Fields by which the rows of a list are known, so that a row more moves none of the others."""


def flat(tree: Any, path: str = "") -> Lines:
    """Each value with its path. Of a list of rows the order of their names is a value, too."""
    found: Lines = {}
    for where, value in _walked(tree, path):
        assert where not in found, f"two values are at {where}"
        found[where] = value
    return found


def _walked(tree: Any, path: str) -> Iterator[tuple[str, str]]:
    keys = KEYS.get(path.rpartition(".")[2])
    if isinstance(tree, Mapping) and tree:
        for name, value in tree.items():
            yield from _walked(value, f"{path}.{name}" if path else str(name))
    elif isinstance(tree, list) and keys and tree and isinstance(tree[0], Mapping):
        names = _numbered("/".join(str(row[key]) for key in keys if key in row) for row in tree)
        yield path, f"[{', '.join(names)}]"
        for name, row in zip(names, tree, strict=True):
            if keys == ("type",):
                yield f"{path}.{name}", _condition(row)
                continue
            rest = {key: value for key, value in row.items() if key not in keys}
            yield from _walked(rest, f"{path}.{name}")
    elif isinstance(tree, list) and tree and isinstance(tree[0], Mapping):
        for place, row in enumerate(tree):
            yield from _walked(row, f"{path}.{place}")
    else:
        yield path, word(tree)


def _numbered(names: Iterable[str]) -> list[str]:
    """Names that come again have a number."""
    found: list[str] = []
    for name in names:
        again = sum(one.partition("#")[0] == name for one in found)
        found.append(f"{name}#{again + 1}" if again else name)
    return found


def _condition(row: Mapping[str, Any]) -> str:
    """All of it on one line: status, reason and message mean nothing without one another."""
    rest = dict(row)
    status, reason, said = (rest.pop(key) for key in ("status", "reason", "message"))
    since, generation = rest.pop("lastTransitionTime"), rest.pop("observedGeneration", None)
    assert list(rest) == ["type"], rest
    other = "" if generation is None else f", generation {generation}"
    return f"{status} {reason} {json.dumps(said)} (since {since}{other})"


def changes(before: Lines, after: Lines) -> Iterator[str]:
    """What is new, other and gone, in the order of `after`; of a whole part that is gone only its
    name, as all of it stands above."""
    for path, value in after.items():
        if path not in before:
            yield f"+ {path}: {value}"
        elif before[path] == value:
            continue
        elif path.startswith("conditions."):
            yield f"~ {path}: {value}"
        else:
            yield f"~ {path}: {before[path]} -> {value}"
    yield from dict.fromkeys(f"- {_gone(path, after)}" for path in before if path not in after)


def _gone(path: str, after: Lines) -> str:
    """The largest part around this value of which nothing is left."""
    for end in (place for place, letter in enumerate(path) if letter == "."):
        part = path[:end]
        if not any(left == part or left.startswith(f"{part}.") for left in after):
            return part
    return path


def word(value: Any) -> str:
    """A value of JSON on one line; a plain word without quotes."""
    if isinstance(value, str) and value and "\n" not in value:
        return value
    return json.dumps(value)


def in_full(thing: Any, named: Callable[[str], str] = str) -> str:
    """An action or an event with all its fields, on one line. `named`: puts names in place of texts
    that are others in each run."""
    told = (f"{one.name}={_value(getattr(thing, one.name), named)}" for one in fields(thing))
    return f"{type(thing).__name__}({', '.join(told)})"


def _value(value: Any, named: Callable[[str], str]) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    if is_dataclass(value):
        return in_full(value, named)
    if isinstance(value, frozenset | set | tuple | list):
        shown = [_value(one, named) for one in value]
        is_ordered = isinstance(value, tuple | list)
        return f"[{', '.join(shown)}]" if is_ordered else f"{{{', '.join(sorted(shown))}}}"
    return repr(named(value)) if isinstance(value, str) else str(value)
