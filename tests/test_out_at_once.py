"""How many bookies are out at a time, by their pods: the stories' own count."""

from datetime import UTC, datetime
from typing import Any

import pytest
from harness.claims import out_at_once
from harness.watch import Seen


def seen(words: str) -> list[Seen]:
    """`a+` the pod of `a` is ready, `a-` it is not, `a!` it is on its way out."""
    return [Seen(datetime.now(UTC), pod(*word)) for word in words.split()]


def pod(name: str, state: str) -> dict[str, Any]:
    deleted = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if state == "!" else {}
    ready = {"type": "Ready", "status": "False" if state == "-" else "True"}
    return {"metadata": {"name": name, **deleted}, "status": {"conditions": [ready]}}


@pytest.mark.parametrize(
    ("words", "most"),
    [
        ("a+ b+ c+", 0),
        ("a+ b+ c+ a! a- a+ b! b- b+", 1),
        ("a+ b+ c+ a! b! a- b- a+ b+", 2),
        ("a+ b+ c+ a- b- c- a+ b+ c+", 3),
        ("a- b- c- a+ b+ c+ c! c+", 1),
    ],
)
def test_pods_that_are_not_ready_or_on_their_way_out_are_out(words: str, most: int) -> None:
    assert out_at_once(seen(words), bookies=3) == most


def test_a_watch_that_never_saw_all_of_them_proves_nothing() -> None:
    with pytest.raises(AssertionError, match="never saw 3 ready pods"):
        out_at_once(seen("a+ b+ a- a+"), bookies=3)
