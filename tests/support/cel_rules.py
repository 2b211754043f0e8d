"""What an API server makes of the rules of a CRD and of admission policies, by a library's CEL.

Of a schema it knows what a rule depends on: not patterns, bounds or types, which an API server
checks beside them.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final

import cel
from bookie_operator.model.quantity import size_bytes

Schema = Mapping[str, Any]
ADDED: Final[dict[str, Callable[..., Any]]] = {
    "split": str.split,
    "substring": lambda text, start, end: text[start:end],
    "quantity": size_bytes,
    "compareTo": lambda one, other: (one > other) - (one < other),
}
"""Functions that an API server adds to CEL, as far as our rules call them."""
_compiled = cache(cel.compile)


def meant(expression: str, functions: dict[str, Callable[..., Any]] = ADDED, **names: Any) -> Any:
    """What an expression of CEL comes to; `names`: what it may speak of."""
    context = cel.Context(variables=names, functions=functions)
    return _compiled(expression).execute(context)


def holds(rule: str, value: Any, old: Any = None) -> bool:
    """Whether this rule of a schema is true of a value, and of the one before it."""
    found = meant(rule, self=value, oldSelf=old)
    assert isinstance(found, bool), f"{rule}: found {found!r}, expected true or false"
    return found


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
