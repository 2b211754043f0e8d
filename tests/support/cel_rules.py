"""What an API server makes of CEL: of the rules of a CRD, and of admission policies.

It knows what of CEL our rules are written in, and of a schema what such a rule depends on: not
patterns, bounds or types, which an API server checks beside them.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from bookie_operator.model.quantity import size_bytes

Schema = Mapping[str, Any]
_WORDS: Final = (
    (r"!(?!=)", " not "),
    (r"&&", " and "),
    (r"\|\|", " or "),
    (r"\bhas\(([\w.]+)\.(\w+)\)", r"has(\1, '\2')"),
    (r"\.(all|exists_one|map)\((\w+), ", r".\1(lambda \2: "),
    (r"(\[[^]]*\])\.all", r"Items(\1).all"),
)
"""Words of CEL, and what Python says instead."""


class Fields(dict[str, Any]):
    """An object: its fields are attributes, and `all` asks of its keys."""

    def __getattr__(self, name: str) -> Any:
        return valued(self[name])

    def __getitem__(self, name: str) -> Any:
        return valued(super().__getitem__(name))

    def all(self, holds: Callable[[Any], bool]) -> bool:
        return all(holds(Text(key)) for key in self)


class Items(list[Any]):
    def all(self, holds: Callable[[Any], bool]) -> bool:
        return all(holds(valued(one)) for one in self)

    def exists_one(self, holds: Callable[[Any], bool]) -> bool:
        return [bool(holds(valued(one))) for one in self].count(True) == 1

    def map(self, made: Callable[[Any], Any]) -> list[Any]:
        return [made(valued(one)) for one in self]

    def size(self) -> int:
        return len(self)


class Text(str):
    __slots__ = ()

    def startsWith(self, start: str) -> bool:
        return self.startswith(start)

    def contains(self, part: str) -> bool:
        return part in self

    def matches(self, pattern: str) -> bool:
        return re.search(pattern, self) is not None

    def substring(self, start: int, end: int) -> "Text":
        return Text(self[start:end])


class Quantity(int):
    def compareTo(self, other: int) -> int:
        return (self > other) - (self < other)


def valued(tree: Any) -> Any:
    """A value as rules see it."""
    if isinstance(tree, dict):
        return Fields(tree)
    if isinstance(tree, list):
        return Items(tree)
    return Text(tree) if isinstance(tree, str) else tree


def meant(expression: str, **names: Any) -> Any:
    """What an expression of CEL comes to; `names`: what it may speak of."""
    for word, said in _WORDS:
        expression = re.sub(word, said, expression)
    known = {name: valued(value) for name, value in names.items()}
    own = {
        "has": lambda tree, name: name in tree,
        "size": len,
        "quantity": lambda size: Quantity(size_bytes(size)),
        "Items": Items,
        "null": None,
    }
    return eval(_chosen(" ".join(expression.split())), own | known)


def _chosen(expression: str) -> str:
    """Python's words for `what ? this : that`, innermost first."""
    while " ? " in expression:
        at = expression.rindex(" ? ")
        start, end = at, at
        depth = 0
        while start > 0 and (depth or expression[start - 1] not in "(,"):
            start -= 1
            depth += {")": 1, "(": -1}.get(expression[start], 0)
        while end < len(expression) and (depth or expression[end] != ")"):
            depth += {"(": 1, ")": -1}.get(expression[end], 0)
            end += 1
        this, that = expression[at + 3 : end].split(" : ", 1)
        made = f"({this}) if ({expression[start:at]}) else ({that})"
        expression = f"{expression[:start]}{made}{expression[end:]}"
    return expression


def holds(rule: str, value: Any, old: Any = None) -> bool:
    """Whether this rule of a schema is true of a value, and of the one before it."""
    return bool(meant(rule, self=value, oldSelf=old))


def with_defaults(schema: Schema, tree: Any) -> Any:
    """What an API server makes of an object before it asks any rule."""
    if isinstance(tree, dict):
        parts = schema.get("properties", {})
        filled = {name: part["default"] for name, part in parts.items() if "default" in part} | tree
        more = schema.get("additionalProperties", {})
        return {name: with_defaults(parts.get(name, more), one) for name, one in filled.items()}
    if isinstance(tree, list):
        return [with_defaults(schema.get("items", {}), one) for one in tree]
    return tree


def broken(schema: Schema, tree: Any, old: Any = None) -> Iterator[str]:
    """Rules that refuse this object, which has its defaults. `old`: what it was before; without
    it, rules about changes are not asked."""
    for one in schema.get("x-kubernetes-validations", ()):
        is_asked = "oldSelf" not in one["rule"] or old is not None
        if is_asked and not holds(one["rule"], tree, old):
            yield one["rule"]
    if isinstance(tree, dict):
        for name, part in schema.get("properties", {}).items():
            if name in tree:
                yield from broken(part, tree[name], (old or {}).get(name))
    if isinstance(tree, list):
        for one in tree:
            yield from broken(schema.get("items", {}), one)
