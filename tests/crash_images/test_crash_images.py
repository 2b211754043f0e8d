"""Marker, cookie fix and flags: every image of every crash point, as part of `make test`.

All runs and the second level are `make crash-images`.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from bookie.testing.inline import InlineLoop
from crash_catalogue import run_named
from crash_explore import Depth, Exploration, Place

FLAT = Depth(boots=0)


@pytest.fixture
def loop() -> Iterator[InlineLoop]:
    made = InlineLoop()
    yield made
    made.close()


@pytest.mark.parametrize(
    "name",
    [
        "clean-stop",
        "unclean-boot",
        "journal-disk-replaced",
        "losses",
        "retraction",
        "deletion",
        "drain",
    ],
)
def test_the_bookie_is_right_after_every_crash(name: str, loop: InlineLoop) -> None:
    tally = Exploration(run_named(name), FLAT, loop=loop).all()
    assert [str(finding) for finding in tally.findings] == []
    assert tally.complete == tally.points and tally.images >= tally.operations


def test_a_crash_while_booting_after_a_crash_is_survived(loop: InlineLoop) -> None:
    depth = Depth(boots=1, boot_images=20)
    tally = Exploration(run_named("deletion"), depth, loop=loop).all()
    assert [str(finding) for finding in tally.findings] == []
    assert tally.images > 20


def test_a_life_is_the_same_whenever_it_is_lived(loop: InlineLoop) -> None:
    first, again = (Exploration(run_named("life-7"), FLAT, loop=loop).trace() for _ in range(2))
    assert [p.before for p in first] == [p.before for p in again] and len(first) > 100
    assert first[-1].promises == again[-1].promises


def test_a_rebuild_of_the_index_is_refused_until_it_has_ended(loop: InlineLoop) -> None:
    exploration = Exploration(run_named("index-rebuild"), FLAT, loop=loop)
    under_way = [p for p in exploration.trace() if "index.sqlite.new" in p.before]
    outcomes = {exploration.repeat(Place(point.number, "")).why for point in under_way}
    assert any("run `bookie index rebuild`" in why for why in outcomes)
    assert not exploration.tally.findings


def test_the_command_ends_with_its_figures(tmp_path: Path) -> None:
    command = [sys.executable, "tests/crash_images", "--run", "drain", "--json", tmp_path / "x"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines()[-1].startswith("crash-images: 1 runs, ")
    assert " 0 wrong; " in done.stdout and (tmp_path / "x").exists()
