"""JSON merge patches (RFC 7386) and what is used of JSON patches (RFC 6902), as kopf sends them."""

from collections.abc import Sequence
from typing import Any

from fake_api import copied


class PatchError(Exception):
    """A test of the patch failed, or it names a place that is not there."""


def merged(tree: Any, patch: Any) -> Any:
    """A new tree: null takes a field away, a list is replaced whole."""
    if not isinstance(patch, dict):
        return copied(patch)
    made = dict(tree) if isinstance(tree, dict) else {}
    for key, value in patch.items():
        if value is None:
            made.pop(key, None)
        else:
            made[key] = merged(made.get(key), value)
    return made


def patched(tree: Any, steps: Sequence[Any]) -> Any:
    """A new tree, after every step; PatchError: nothing of it is done."""
    made = copied(tree)
    for step in steps:
        *way, last = [part.replace("~1", "/").replace("~0", "~") for part in _parts(step["path"])]
        node = made
        for key in way:
            node = _child(node, key)
        _do(step, node, last)
    return made


def _parts(path: str) -> list[str]:
    if not path.startswith("/"):
        raise PatchError(f"the path {path!r} names no field")
    return path[1:].split("/")


def _do(step: Any, node: Any, key: str) -> None:
    operation = step["op"]
    if operation == "test":
        if _child(node, key) != step["value"]:
            raise PatchError(f"testing path {step['path']} value failed")
    elif operation == "remove":
        _child(node, key)
        del node[int(key) if isinstance(node, list) else key]
    elif operation in ("add", "replace"):
        if operation == "replace":
            _child(node, key)
        _put(node, key, copied(step["value"]), is_new=operation == "add")
    else:
        raise PatchError(f"the operation {operation!r} is not known here")


def _child(node: Any, key: str) -> Any:
    try:
        return node[int(key)] if isinstance(node, list) else node[key]
    except (KeyError, IndexError, ValueError, TypeError) as error:
        raise PatchError(f"there is no {key!r}") from error


def _put(node: Any, key: str, value: Any, *, is_new: bool) -> None:
    if isinstance(node, list):
        place = len(node) if key == "-" else int(key)
        node[place : place + (not is_new)] = [value]
    else:
        node[key] = value
