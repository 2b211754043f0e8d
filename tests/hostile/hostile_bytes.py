"""Bytes that hold what a reader trips over: its corpus, cut, spliced and with bad parts put in."""

import json
import random
from collections.abc import Sequence
from typing import Any, Final

PARTS: Final[Sequence[bytes]] = (
    b"", b"\0", b"\xff" * 8, b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\x7f" + b"\xff" * 7, b"9" * 25,
    b"-1", b"1e999", b"NaN", b"Infinity", b'"\\ud800"', b"\xed\xa0\x80", b"[" * 1200, b"{}",
    b"null", b"[]", b"&a [*a]", b"*a", b"!!timestamp x", b"!!int x", b"!!bool x",
    b"0x" + b"f" * 5000, b": ", b"\n", b"\t", b"\r\n", b"'", b'"', b"%", b"\xe2\x80\xa8",
    b"1" * 5000, b"\xd9\xa1", b"<<: *a",
)  # fmt: skip
VALUES: Final[Sequence[Any]] = (
    None, True, 0, -1, 1, 2**31, 2**63 - 1, 2**63, 10**30, 0.5, -0.0, 1e308, "", "x", "x" * 2000,
    "\ud800", "\0", "/", "..", "a\nb", "1", "2026-02-30", "99999999999d", "10Gi", "-1Gi", "1e999Gi",
    "* * * * *", "0 0 31 2 *", [], {}, [None], [[]], {"": None}, {"a": {"b": {}}}, ["x"] * 200,
)  # fmt: skip


def mutated(seeds: Sequence[bytes], chance: random.Random, *, is_json: bool) -> bytes:
    """One of them, changed in a few places."""
    raw = chance.choice(seeds) if seeds and chance.random() < 0.95 else chance.randbytes(40)
    if is_json and chance.random() < 0.7:
        return _with_other_values(raw, chance)
    for _ in range(chance.randint(1, 4)):
        at = chance.randint(0, len(raw))
        to = min(len(raw), at + int(chance.expovariate(0.2)))
        if chance.random() < 0.5:
            part = chance.choice(PARTS)
        elif chance.random() < 0.5:
            part = chance.randbytes(chance.randint(1, 4))
        else:
            other = chance.choice(seeds) if seeds else b""
            start = chance.randint(0, len(other))
            part = other[start : start + chance.randint(1, 30)]
        raw = raw[:at] + part + (b"" if chance.random() < 0.1 else raw[to:])
    return raw


def _with_other_values(raw: bytes, chance: random.Random) -> bytes:
    """Its JSON with a few values of another kind."""
    try:
        tree = json.loads(raw)
    except (ValueError, RecursionError):
        return raw
    for _ in range(chance.randint(1, 3)):
        tree = _changed(tree, chance)
    return json.dumps(tree).encode()


def _changed(tree: Any, chance: random.Random) -> Any:
    if chance.random() < 0.15 or not isinstance(tree, dict | list) or not tree:
        return chance.choice(VALUES)
    if isinstance(tree, list):
        at = chance.randrange(len(tree))
        return [*tree[:at], _changed(tree[at], chance), *tree[at + 1 :]]
    name = chance.choice(sorted(tree))
    if chance.random() < 0.1:
        return {key: value for key, value in tree.items() if key != name}
    if chance.random() < 0.05:
        return {**tree, chance.choice(("x", "", "\n", "\ud800")): chance.choice(VALUES)}
    return {**tree, name: _changed(tree[name], chance)}
