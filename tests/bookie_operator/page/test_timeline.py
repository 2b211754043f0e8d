"""The figure of incidents: where each bar lies, what it says, and the moments below."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from bookie_operator.model.incidents import Incident
from bookie_operator.page.timeline import BAR_LEAST, NAMES, ROW, WIDTH, timeline

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def incident(begin: float, end: float | None = None, **more: Any) -> Incident:
    """Detected and cleared so many seconds ago."""
    fields = {"kind": "Kind", "bookie": "b", "detected_at": NOW - timedelta(seconds=begin)}
    if end is not None:
        fields |= {"outcome": "Cleared", "cleared_at": NOW - timedelta(seconds=end)}
    return Incident.model_validate(fields | more)


def figure(*incidents: Incident) -> str:
    return timeline(incidents, now=NOW)


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (incident(60), "b Kind, 60s ago, not cleared yet"),
        (incident(60, 20), "b Kind, 60s ago, cleared in 40s"),
        (incident(60, outcome="Superseded"), "b Kind, 60s ago, superseded"),
        (incident(60, 20, outcome="Superseded"), "b Kind, 60s ago, superseded"),
        (incident(60, kind="<", bookie=">"), "&gt; &lt;, 60s ago, not cleared yet"),
    ],
)
def test_a_bar_says_what_it_stands_for(one: Incident, words: str) -> None:
    assert re.findall(r"<title>(.*?)</title>", figure(one)) == [words]
    assert re.findall(r'<rect class="(\w+)"', figure(one)) == [one.outcome.value.lower()]


@pytest.mark.parametrize(
    ("incidents", "words"),
    [
        ((incident(60),), "1 incident in the last 60s"),
        ((incident(60, 20), incident(90, 80)), "2 incidents in the last 90s"),
    ],
)
def test_the_figure_has_its_words_below_and_for_who_does_not_see_it(
    incidents: tuple[Incident, ...], words: str
) -> None:
    made = figure(*incidents)
    assert f'aria-label="{words}"' in made and f"<figcaption>{words}</figcaption>" in made


def places(*incidents: Incident) -> list[tuple[float, ...]]:
    """Left, top and width of each bar."""
    found = re.findall(r'x="([\d.]+)" y="(\d+)" width="([\d.]+)"', figure(*incidents))
    return [tuple(map(float, one)) for one in found]


@pytest.mark.parametrize(
    ("begin", "end", "left", "right"),
    [
        (1000, None, 0.03, 1.03),
        (1000, 0, 0.03, 1.03),
        (1000, 500, 0.03, 0.53),
        (500, 250, 0.53, 0.78),
        (100, None, 0.93, 1.03),
    ],
)
def test_a_bar_lies_where_its_incident_was_between_the_first_and_now(
    begin: float, end: float | None, left: float, right: float
) -> None:
    found = places(incident(1000, 1000), incident(begin, end))[1]
    unit = (WIDTH - NAMES) / 1.03
    assert found[0] == pytest.approx(NAMES + left * unit, abs=0.1)
    assert found[0] + found[2] == pytest.approx(NAMES + right * unit, abs=0.1)


@pytest.mark.parametrize("begin", [0, -5])
def test_one_of_this_moment_or_of_a_clock_ahead_is_at_the_right_end(begin: float) -> None:
    assert places(incident(begin))[0][::2] == (WIDTH - BAR_LEAST, BAR_LEAST)


def test_a_second_before_the_first_is_shown_where_all_was_just_now() -> None:
    [(left, _top, width)] = places(incident(1))
    half = (WIDTH - NAMES) / 2
    assert (left, width) == (NAMES + half, half)


def test_each_bookie_has_a_row_with_its_bars_beside_its_name() -> None:
    names = ("b-10", "b-9", "b-9", "c")
    made = [incident(60, bookie=name) for name in names]
    labels = re.findall(r'<text x="0" y="(\d+)">(.*?)</text>', figure(*made))
    assert labels == [("18", "c"), ("44", "b-9"), ("70", "b-10")]
    assert [top for _left, top, _width in places(*made)] == [6, 6 + ROW, 6 + ROW, 6 + 2 * ROW]
    assert f'viewBox="0 0 {WIDTH} {4 * ROW}"' in figure(*made)


def test_five_moments_are_marked_from_the_first_to_now() -> None:
    made = figure(incident(100))
    marks = re.findall(r'x="([\d.]+)" y="(\d+)" text-anchor="(\w+)">(.*?)</text>', made)
    assert marks == [
        ("130.0", "46", "start", "103s ago"),
        ("347.5", "46", "middle", "77s ago"),
        ("565.0", "46", "middle", "51s ago"),
        ("782.5", "46", "middle", "25s ago"),
        ("1000.0", "46", "end", "now"),
    ]
    lines = re.findall(r'<line x1="([\d.]+)" x2="([\d.]+)" y1="0" y2="(\d+)"/>', made)
    assert lines == [(x, x, "30") for x, _y, _anchor, _word in marks]
