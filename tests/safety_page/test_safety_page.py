"""The figures of docs/safety.md are those that the commands wrote, and none failed."""

import pytest
from bookie.testing.figures import release
from safety_figures import (
    BEGIN,
    CHANGELOG,
    END,
    PAGE,
    PROOF,
    core_of,
    of_earlier_core,
    read_figures,
    releases_of,
    rendered,
    too_old,
)

SOAK = {
    "revision": "abc", "core": "c0ffee", "release": "0.2.0", "python": "3.11.7", "minutes": 10.0,
    "faults": {}, "asked": {}, "acked": 1, "checked": 1, "lost": 0, "wrong": 0,
    "limbo_cleared_s": {"median": 1},
}  # fmt: skip


def test_the_page_shows_the_committed_figures() -> None:
    page = PAGE.read_text(encoding="utf-8")
    fresh = rendered(page, read_figures(PROOF), core=core_of(page))
    assert fresh == page, "run `make safety-page`"


def test_no_committed_figure_tells_of_a_failure() -> None:
    found = read_figures(PROOF)
    assert found["simulation"]["failed"] == {}
    assert (found["crash-images"]["wrong"], found["mutants"]["survived"]) == (0, 0)
    assert not any(model["violation"] or model["stuck"] for model in found["model"]["models"])
    assert (found["soak"]["lost"], found["soak"]["wrong"]) == (0, 0)
    assert {run["exit_code"] for run in found["judge"]["runs"]} == {0}
    assert found.get("chaos", {"found": ""})["found"] == ""
    assert all(row["is_caught"] for row in found["judge-mutants"]["rows"])
    assert all(row["is_caught"] for row in found["e2e-mutants"]["rows"])


def test_figures_go_between_the_markers_and_nowhere_else() -> None:
    page = rendered(f"above\n{BEGIN}\nold\n{END}\nbelow\n", {"soak": SOAK}, core="c0ffee")
    assert "| 10.0 | 0 | 1 | 1 | 0 | 0 | 1 s |" in page and "old" not in page
    assert page.startswith("above\n") and page.endswith(f"{END}\nbelow\n")
    assert core_of(page) == "c0ffee"


@pytest.mark.parametrize("found, words", [("", "nothing"), ("3 entries lost\ndetail", "3 entries")])
def test_a_run_on_kubernetes_shows_its_strikes_and_what_was_found(found: str, words: str) -> None:
    figures = {
        "revision": "abc", "core": "c0ffee", "release": "0.2.0", "python": "3.11.7", "seed": 7,
        "date": "2026-11-27", "minutes": 6.8, "rounds": 9, "bookies_made_to_forget": 7,
        "struck": {"SIGKILL of a bookie": 5}, "strikes_at_once": {"2": 7, "3": 2}, "found": found,
        "verdicts": [{"judged": 36130, "copies_judged": 92367, "copies": 330588}],
        "numbers": {"longest_gap_s": 7.9},
    }  # fmt: skip
    page = rendered(f"{BEGIN}\n{END}\n", {"chaos": figures}, core="c0ffee")
    assert "| 6.8 | 9 | 7 | 1 | 36,130 | 92,367 | 7.9 s |" in page
    assert f"What was found: {words}" in page and "SIGKILL of a bookie 5." in page
    assert "Rounds: 7 of 2 strikes, 2 of 3 strikes." in page


@pytest.mark.parametrize("drawn, words", [(40, "(seed 7); of"), (99, "of which 40 are judged so")])
def test_a_sample_of_mutants_is_shown_package_by_package(drawn: int, words: str) -> None:
    row = {
        "name": "bookie.boot", "mutants": 40, "killed": 36, "timeout": 1, "equivalent": 1,
        "survived": 2, "share": 0.9487,
    }  # fmt: skip
    core = {"revision": "abc", "core": "c0ffee", "release": "0.2.0", "python": "3.11.7"}
    figures = core | {
        "seed": 7,
        "sample": drawn,
        "date": "2026-11-26",
        "total": row | {"name": "total"},
        "packages": [row],
    }
    page = rendered(f"{BEGIN}\n{END}", {"mutation": figures}, core="c0ffee")
    assert "| bookie.boot | 40 | 36 | 1 | 1 | 2 | 94.9% |" in page and words in page


def test_a_page_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="no place for its figures"):
        rendered("nothing", {}, core="")


def test_a_figure_of_an_earlier_core_says_so_beside_itself() -> None:
    page = f"{BEGIN}\n{END}"
    assert "of an earlier core" not in rendered(page, {"soak": SOAK}, core="c0ffee")
    assert "core `c0ffee`, **of an earlier core**" in rendered(page, {"soak": SOAK}, core="beef")
    assert (of_earlier_core({"soak": SOAK}, "c0ffee"), of_earlier_core({"soak": SOAK}, "beef")) == (
        [],
        ["soak"],
    )


@pytest.mark.parametrize(
    ("releases", "words"),
    [
        (["0.3.0", "0.2.0", "0.1.0"], ""),
        (["0.4.0", "0.3.0", "0.2.0"], "of release 0.2.0, expected 0.4.0 or 0.3.0"),
    ],
)
def test_lint_refuses_figures_that_are_more_than_one_release_behind(
    releases: list[str], words: str
) -> None:
    assert words in "".join(too_old({"soak": SOAK}, releases))
    assert bool(words) == bool(too_old({"soak": SOAK}, releases))


def test_lint_refuses_figures_that_do_not_say_of_which_core_they_are() -> None:
    nameless = {name: value for name, value in SOAK.items() if name != "core"}
    assert "names no core" in too_old({"soak": nameless}, ["0.2.0"])[0]


def test_seeds_that_failed_and_seeds_that_differ_are_told_core_by_core() -> None:
    core = {"release": "0.1.0", "simulated_hours": 1.0, "faults": 9}
    total = {
        "aim": 1_000_000, "distinct_seeds": 2000, "schedules": 3000,
        "cores": [
            core | {"core": "older", "seeds": [[1, 2000]], "failed": {"7": "a rule"}},
            core | {"core": "newer", "seeds": [[1, 1000]], "failed": {}},
        ],
    }  # fmt: skip
    page = rendered(f"{BEGIN}\n{END}", {"total": total}, core="newer")
    assert "2,000 different seeds" in page and "| `newer` | 0.1.0 | 1,000 |" in page
    assert "Failed on core `older`: 7 (a rule)." in page


def test_the_release_on_the_way_comes_before_those_of_the_change_log() -> None:
    log = "## Unreleased\n\n## 0.2.0 - 2026-12-01\n\n## 0.1.0 - 2026-11-30\n"
    assert releases_of(log, "0.3.0") == ["0.3.0", "0.2.0", "0.1.0"]
    assert releases_of(log, "0.2.0") == ["0.2.0", "0.1.0"]
    assert releases_of(CHANGELOG.read_text(encoding="utf-8"), release())[0] == release()
