"""The figures of docs/safety.md are those that the commands wrote, and none failed."""

import pytest
from safety_figures import BEGIN, END, PAGE, PROOF, read_figures, rendered


def test_the_page_shows_the_committed_figures() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert rendered(page, read_figures(PROOF)) == page, "run `make safety-page`"


def test_no_committed_figure_tells_of_a_failure() -> None:
    found = read_figures(PROOF)
    assert found["simulation"]["failed"] == {}
    assert (found["crash-images"]["wrong"], found["mutants"]["survived"]) == (0, 0)
    assert not any(model["violation"] or model["stuck"] for model in found["model"]["models"])
    assert (found["soak"]["lost"], found["soak"]["wrong"]) == (0, 0)


def test_figures_go_between_the_markers_and_nowhere_else() -> None:
    total = {"schedules": 2000, "runs": [{}], "simulated_hours": 8.5}
    page = rendered(f"above\n{BEGIN}\nold\n{END}\nbelow\n", {"total": total})
    assert "2,000 schedules" in page and "old" not in page
    assert page.startswith("above\n") and page.endswith(f"{END}\nbelow\n")


def test_a_page_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="no place for its figures"):
        rendered("nothing", {})
