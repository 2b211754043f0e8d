"""What the proof of the dashboards says of a query; the one in docs/proof is of all of them."""

import json
from pathlib import Path
from typing import Final

import pytest
from dashboards import Dashboard, Panel, dashboards
from panel_answers import UNKNOWN, findings, shown_answer

PROOF: Final = Path(__file__).parents[2] / "docs" / "proof" / "dashboards.json"
QUERY: Final = ("a_b", "{{pod}} of {{cluster}}")
PANEL: Final = Panel("Waits", [QUERY], unit="s")
PAGE: Final = Dashboard("one", "Bookies / one", [], [PANEL])


def series(pod: str, *values: float) -> dict[str, object]:
    return {"metric": {"pod": pod, "cluster": "demo"}, "values": list(values)}


def test_a_series_is_shown_under_its_legend_with_its_ends() -> None:
    shown = shown_answer(PAGE, PANEL, QUERY, [series("p-0", 1.0, 0.123456, 3.0, 2.0)])
    values = {"first": 1.0, "least": 0.1235, "most": 3.0, "last": 2.0}
    assert shown == {
        "dashboard": "Bookies / one",
        "panel": "Waits",
        "query": "a_b",
        "unit": "s",
        "series": 1,
        "shown": {"p-0 of demo": values},
    }


def test_of_many_series_those_that_move_are_shown() -> None:
    still = [series(f"still-{number}", 1.0, 1.0) for number in range(9)]
    shown = shown_answer(PAGE, PANEL, QUERY, [*still, series("moves", 1.0, 2.0)])
    assert shown["series"] == 10 and next(iter(shown["shown"])) == "moves of demo"


@pytest.mark.parametrize(("reasons", "why"), [({}, UNKNOWN), ({("Waits", QUERY[1]): "no"}, "no")])
def test_a_query_without_series_has_a_reason(reasons: dict[tuple[str, str], str], why: str) -> None:
    assert shown_answer(PAGE, PANEL, QUERY, [], reasons=reasons)["reason"] == why


def test_no_series_without_a_reason_is_a_finding() -> None:
    assert findings({("Waits", "a"): 0, ("Waits", "b"): 1}) == ["Waits (a): found no series"]


def test_a_reason_that_is_not_true_any_more_is_a_finding() -> None:
    [found] = findings({("Waits", "a"): 2}, reasons={("Waits", "a"): "nobody waits"})
    assert "its reason to have none is not true any more" in found


def test_what_docs_proof_has_is_of_every_query_of_now() -> None:
    proved = json.loads(PROOF.read_text(encoding="utf-8"))["queries"]
    ours = [(p.title, q[0]) for page in dashboards() for p in page.panels for q in p.queries]
    again = "run `make dashboards-proof RESULTS=docs/proof`"
    assert [(one["panel"], one["query"]) for one in proved] == ours, again
    assert [one["panel"] for one in proved if one.get("reason") == UNKNOWN] == [], again
