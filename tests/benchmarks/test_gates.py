"""Gates: what a run is held to, and what it says when it is not."""

from typing import Any

import pytest

from benchmarks.bench_append import GATED
from benchmarks.gates import Gate, gates_of, judge, read_gates
from benchmarks.rows import Row

FAST = Row("append", "fast", ({"ratio": 0.5, "mib_per_s": 90.0}, {"ratio": 0.7, "mib_per_s": 80.0}))
SLOW = Row("append", "slow", ({"ratio": 0.2, "mib_per_s": 45.0}, {"ratio": 0.2, "mib_per_s": 20.0}))


@pytest.mark.parametrize("bound, is_held", [(0.6, True), (0.61, False)])
def test_the_median_decides(bound: float, is_held: bool) -> None:
    gate = Gate(row="append: fast", figure="ratio", at_least=bound)
    assert judge([FAST, SLOW], [gate])[0].is_held is is_held


def test_less_may_be_better() -> None:
    gate = Gate(row="append: slow", figure="ratio", at_most=0.2)
    assert judge([SLOW], [gate])[0].is_held


def test_rows_are_compared_repeat_by_repeat() -> None:
    gate = Gate(row="append: fast", figure="mib_per_s", over="append: slow", at_least=3)
    assert judge([FAST, SLOW], [gate])[0].values == [2.0, 4.0]


def test_a_broken_gate_says_what_was_found_and_what_was_expected() -> None:
    gate = Gate(row="append: slow", figure="ratio", at_least=0.3, goal=0.85)
    line = judge([SLOW], [gate])[0].line
    assert line == ("BROKEN append: slow: ratio: 0.20 (0.20-0.20), gate >= 0.3, goal 0.85")


def test_a_row_that_was_not_measured_is_no_pass() -> None:
    gate = Gate(row="append: gone", figure="ratio", at_least=0.1)
    with pytest.raises(KeyError, match="no row 'append: gone' among 'append: slow'"):
        judge([SLOW], [gate])


def test_a_run_of_one_benchmark_is_judged_by_its_own_gates() -> None:
    gates = [Gate(row=f"{name}: gone", figure="ratio", at_least=0.1) for name in ("append", "tls")]
    assert gates_of(gates, [SLOW]) == gates[:1]


@pytest.mark.parametrize("bounds", [{}, {"at_least": 1.0, "at_most": 1.0}])
def test_a_gate_has_one_bound(bounds: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="needs one of at_least and at_most"):
        Gate(row="append: slow", figure="ratio", **bounds)


def test_the_committed_gates_name_rows_of_the_gated_set() -> None:
    names = {f"append: {case.what}" for case in GATED}
    gates = [gate for gate in read_gates() if gate.row.startswith("append")]
    assert gates and all({gate.row, gate.over or gate.row} <= names for gate in gates)
