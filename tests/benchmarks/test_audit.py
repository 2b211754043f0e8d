"""The synthetic cluster that the audit is measured on, and the table made of it."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from benchmarks.bench_audit import Row, audit_once, merged, table
from benchmarks.synthetic import Shape

SMALL = Shape(ledgers=50, entries=5000, damaged=7)
ROW = Row("1e9 entries", "inline", 1, 2, 3, cpu_s=2.0, startup_cpu_s=1.0, wall_s=2.0, peak_mib=9)


@pytest.mark.parametrize(
    "shape", [SMALL, replace(SMALL, ensemble=5), replace(SMALL, runs=10)], ids=lambda s: s.url
)
async def test_an_audit_finds_just_what_was_planted(shape: Shape) -> None:
    found = await audit_once(shape.url, "inline")
    assert (found["ledgers"], found["entries"], found["missing"]) == (50, 5000, 7)
    assert found["ok"] == 4993


def test_a_target_is_held_or_not() -> None:
    assert ROW.is_held and not replace(ROW, cpu_s=2.1).is_held
    assert not replace(ROW, peak_mib=3 * 1024).is_held


def test_rows_measured_anew_take_the_place_of_earlier_ones(tmp_path: Path) -> None:
    path, other = tmp_path / "audit.json", replace(ROW, what="1e8 entries")
    path.write_text(json.dumps({"rows": [asdict(ROW) | {"held": True}]}))
    assert merged(path, [other]) == [other, ROW]
    assert merged(path, [replace(ROW, cpu_s=9.0)]) == [replace(ROW, cpu_s=9.0)]


def test_the_table_has_a_line_for_each_row() -> None:
    assert table([ROW, ROW]).count("| 1e9 entries | inline |") == 2
