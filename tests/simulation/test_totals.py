"""The committed total counts different seeds, core by core, and forgets no failure."""

import json
from itertools import islice
from pathlib import Path
from typing import Any

from bookie.testing.figures import core_digest, digest_of, release, tell
from bookie.testing.simulation.plan import Plan
from bookie.testing.simulation.totals import Total, Totals, next_seeds, ranges_of, seeds_of
from bookie.testing.simulation.world import Verdict

OLDER = {"revision": "aaa", "core": "older", "release": "0.1.0"}
NEWER = {"revision": "bbb", "core": "newer", "release": "0.1.0"}


def run(*seeds: int, failed: int = 0) -> Totals:
    totals = Totals()
    for seed in seeds:
        wrong = ("at 1.0 s: a rule",) if seed == failed else ()
        totals.add(Verdict(Plan(seed), wrong, "", 3.6, 0, 0, 0))
    return totals


def written(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def test_a_seed_counts_once_for_a_core_and_again_for_another(tmp_path: Path) -> None:
    path = tmp_path / "total.json"
    Total(path, OLDER).append(run(1, 2, 3))
    Total(path, OLDER).append(run(3, 4))
    Total(path, NEWER).append(run(1, 2))
    found = written(path)
    assert (found["distinct_seeds"], found["schedules"]) == (4, 6)
    assert [one["seeds"] for one in found["cores"]] == [[[1, 4]], [[1, 2]]]
    assert Total(path, NEWER).ran() == {1, 2}


def test_a_seed_that_failed_stays_named_with_its_core(tmp_path: Path) -> None:
    path = tmp_path / "total.json"
    Total(path, OLDER).append(run(1, 2, failed=2))
    Total(path, OLDER).append(run(3))
    Total(path, NEWER).append(run(2))
    assert [one["failed"] for one in written(path)["cores"]] == [
        {"2": "at 1.0 s: a rule"},
        {},
    ]


def test_a_night_runs_what_this_core_has_not_run_of_each_drawing_in_turn() -> None:
    found = next_seeds({1, 2, 4, 101}, firsts=(1, 100), wanted=5)
    assert list(found) == [3, 100, 5, 102, 6]
    assert list(islice(next_seeds(set(), firsts=(7,), wanted=9), 2)) == [7, 8]


def test_ranges_hold_exactly_their_seeds() -> None:
    seeds = {1, 2, 3, 7, 9, 10}
    assert ranges_of(seeds) == [[1, 3], [7, 7], [9, 10]]
    assert seeds_of(ranges_of(seeds)) == seeds


def test_a_digest_tells_cores_apart_and_generated_files_do_not_count() -> None:
    files = [("protocol/a.py", b"1"), ("wire/b.py", b"2")]
    assert digest_of(files) == digest_of(reversed(files))
    assert digest_of(files) != digest_of([("protocol/a.py", b"1"), ("wire/b.py", b"3")])
    assert digest_of(files) != digest_of([("protocol/a.py", b"12"), ("wire/b.py", b"")])
    assert digest_of(files) == digest_of([*files, ("wire/c_pb2.py", b"9")])
    assert len(core_digest()) == 12 and release().count(".") == 2


def test_a_long_run_speaks_of_the_code_that_it_began_with(tmp_path: Path) -> None:
    path = tmp_path / "soak.json"
    tell("make soak", {"seed": 1}, path=path, line="done", of=OLDER)
    told = written(path)
    assert {name: told[name] for name in OLDER} == OLDER
    assert told["seed"] == 1 and told["command"] == "make soak"
