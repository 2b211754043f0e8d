"""State objects explain their fields: what a number counts, when a list is emptied."""

import ast

import pytest
from fields import left, now, unexplained


def test_no_field_of_a_state_object_is_unexplained() -> None:
    """Write a line below the field; those of `fields_left.txt` are of the test kit, and go."""
    assert sorted(set(now()) - set(left())) == []


def test_what_is_left_only_shrinks() -> None:
    """`python tests/house/fields.py --write` drops the lines that are not true any more."""
    assert sorted(set(left()) - set(now())) == []


def test_the_product_leaves_none() -> None:
    assert [line for line in left() if "/testing/" not in line] == []


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("self._count = 0", ["_count"]),
        ("self._count = 0\n        'Of all.'", []),
        ("self._count = count", []),
        ("self._many = many or Many()", []),
        ("self._many = Many()", []),
        ("self._queue: deque[int] = deque()", ["_queue"]),
        ("self._other: Other = made()", []),
        ("self._at = clock()", ["_at"]),
        ("self._at = self._loop.time()", ["_at"]),
        ("self._seen = EMPTY", ["_seen"]),
        ("self.phase = Phase.OPEN", ["phase"]),
        ("self._state = operations.state", []),
        ("self._other: Other | None = None", ["_other"]),
    ],
)
def test_plain_values_need_a_line(body: str, expected: list[str]) -> None:
    text = f"class A:\n    def __init__(self, count, many):\n        {body}\n"
    kept = ast.parse(text).body[0]
    assert isinstance(kept, ast.ClassDef)
    assert list(unexplained(kept)) == expected


@pytest.mark.parametrize(
    ("head", "body", "expected"),
    [
        ("@dataclass", "a: int", ["a"]),
        ("@dataclass", "a: int\n    'Why.'", []),
        ("@dataclass", "'Of `a` things.'\n    a: int", []),
        ("@dataclass(frozen=True)", "a: int", []),
        ("@dataclass", "a: Other", []),
        ("@dataclass", "a: LedgerId", ["a"]),
        ("@dataclass", "a: object", ["a"]),
    ],
)
def test_fields_of_changing_dataclasses_need_a_line(
    head: str, body: str, expected: list[str]
) -> None:
    kept = ast.parse(f"{head}\nclass A:\n    {body}\n").body[0]
    assert isinstance(kept, ast.ClassDef)
    assert list(unexplained(kept)) == expected
