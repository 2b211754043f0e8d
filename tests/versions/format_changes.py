"""Which changes of a format the version before, or its data, would not survive. Pure.

Versions stand beside each other for as long as an upgrade takes, and an upgrade may be taken back.
So each side reads what the other one writes: fields are only added, limits only widened, and
nothing new is required.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from format_tables import Table

GROWING: Final = frozenset({"choices", "words"})
"""More may be taken than before."""
SHRINKING: Final = frozenset({"types"})
"""No more may be given than before: what reads it knows no others."""
RISING: Final = frozenset({"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"})
FALLING: Final = frozenset({"minimum", "exclusiveMinimum", "minLength", "minItems"})
"""Limits that may rise, and that may fall; or go."""
OWN_IMAGE: Final = re.compile(r"^(bookie-operator/\w+):\d+\.\d+\.\d+$")


def refused(older: Table, newer: Table) -> list[str]:
    """A sentence for each change that must not be made like that; none = all go together."""
    added = [path for path in newer if path not in older]
    sentences = [f"{path} was taken away" for path in older if path not in newer]
    for path in older.keys() & newer.keys():
        sentences += _changed(path, older[path], newer[path], added)
    for path in added:
        sentences += _added(path, older, newer)
    return sorted(sentences)


def _changed(
    path: str, was: Mapping[str, Any], now: Mapping[str, Any], added: list[str]
) -> list[str]:
    return [
        f"{path}: {name} was {was.get(name)!r}, is {now.get(name)!r}"
        for name in sorted({*was, *now})
        if was.get(name) != now.get(name)
        and not _is_wider(name, was.get(name), now.get(name), [p for p in added if path in p])
    ]


def _is_wider(name: str, was: Any, now: Any, added: list[str]) -> bool:
    if name in RISING or name in FALLING:
        further: Callable[[Any, Any], bool] = max if name in RISING else min  # type: ignore[assignment]
        return now is None or (was is not None and further(was, now) == now)
    if name in GROWING:
        return now is None or (was is not None and set(was) <= set(now))
    if name in SHRINKING:
        # A null stands for nothing known: then any type is as good as another.
        return not was or set(now or ()) <= set(was)
    if name == "default":
        was, now = _without_version(was), _without_version(now)
        if isinstance(was, Mapping) and isinstance(now, Mapping):
            return was.items() <= now.items()
        return bool(was == now)
    if name == "required":
        return bool(was) and not now
    if name == "rules":
        more = [rule for rule in now or () if rule not in (was or ())]
        return all(_is_about(rule, added) for rule in more)
    return False


def _without_version(default: Any) -> Any:
    """Images of ours are of the release that names them: each release has other ones."""
    if isinstance(default, Mapping):
        return {name: _without_version(value) for name, value in default.items()}
    return OWN_IMAGE.sub(r"\1", default) if isinstance(default, str) else default


def _is_about(rule: str, added: list[str]) -> bool:
    """A rule over a field that did not exist refuses nothing that did."""
    names = {re.split(r"[.\[\]{}]+", path.rstrip("[]{}"))[-1] for path in added}
    return any(re.search(rf"\b{re.escape(name)}\b", rule) for name in names)


def _added(path: str, older: Table, newer: Table) -> list[str]:
    parent = re.sub(r"(\.[^.\[\]{} ]+|\[\]|\{\}| [^ ]+)$", "", path)
    facts = newer[path]
    if facts.get("required") and parent in older:
        return [f"{path} is new and required"]
    number = facts.get("number")
    former = [
        one
        for one, had in older.items()
        if number is not None and had.get("number") == number and one.rpartition(".")[0] == parent
    ]
    return [f"{path} has the number {number} that {one} had" for one in former]
