"""The events of a cluster: when each was seen last, how often, and in which order they are told."""

from typing import Any

import pytest
from bookie_operator.kubectl.events import event_table, events_of, moment
from kubectl_lab import FakeLab
from operator_scenes import at
from rich.console import Console

CREATED = {"metadata": {"creationTimestamp": "2026-01-01T00:00:01Z"}}
FIRST = {"eventTime": "2026-01-01T00:00:02.500000Z"}
LAST = {"lastTimestamp": "2026-01-01T00:00:03Z"}
SERIES = {"series": {"lastObservedTime": "2026-01-01T00:00:04Z", "count": 7}}
NONE = {"series": None, "eventTime": None, "lastTimestamp": None}


@pytest.mark.parametrize(
    ("event", "second"),
    [
        (CREATED, 1),
        (CREATED | NONE, 1),
        (CREATED | FIRST, 2.5),
        (CREATED | FIRST | LAST, 3),
        (CREATED | FIRST | LAST | SERIES, 4),
        (CREATED | FIRST | {"series": {"count": 7}}, 2.5),
    ],
)
def test_an_event_was_seen_last_when_the_latest_of_its_times_says(
    event: dict[str, Any], second: float
) -> None:
    assert moment(event) == at(second)


def rows(*events: dict[str, Any]) -> list[str]:
    screen = Console(width=200)
    with screen.capture() as drawn:
        screen.print(event_table([CREATED | event for event in events], now=at(8)))
    return [" ".join(line.split()) for line in drawn.get().splitlines()[1:]]


@pytest.mark.parametrize(
    ("event", "told"),
    [
        ({}, "told"),
        ({"count": None}, "told"),
        ({"count": 1}, "told"),
        ({"count": 2}, "told (x2)"),
        ({"count": 3, "series": None}, "told (x3)"),
        ({"series": {"count": 5}}, "told (x5)"),
        ({"count": 3, "series": {"count": 5}}, "told (x5)"),
        ({"series": {}}, "told"),
    ],
)
def test_what_was_seen_again_is_counted(event: dict[str, Any], told: str) -> None:
    named = {"type": "Normal", "reason": "Why", "message": "told"}
    assert rows(named | event) == [f"7s ago Normal Why {told}"]


def test_an_event_need_not_say_more_than_when_it_was() -> None:
    assert rows({}) == ["7s ago"]


@pytest.mark.parametrize(("kind", "colour"), [("Warning", "\x1b[33m"), ("Normal", "")])
def test_a_warning_is_seen_by_its_colour(kind: str, colour: str) -> None:
    screen = Console(width=200, force_terminal=True, color_system="standard")
    with screen.capture() as drawn:
        screen.print(event_table([CREATED | {"type": kind}], now=at(8)))
    assert ("\x1b[33m" in drawn.get()) is bool(colour)


def test_the_events_of_the_named_cluster_alone_are_told_newest_last(lab: FakeLab) -> None:
    mine = {"kind": "BookieCluster", "name": "demo"}
    for name, about, time in (
        ("a", mine, LAST),
        ("b", mine, FIRST),
        ("c", mine | {"name": "other"}, {}),
        ("d", mine | {"kind": "BookieTask"}, {}),
        ("e", mine, SERIES),
        ("f", mine, {}),
    ):
        tree = {"metadata": CREATED["metadata"] | {"name": name}, "involvedObject": about}
        lab.put("events", tree | time)
    found = events_of(lab.kubectl(), "demo")
    assert [event["metadata"]["name"] for event in found] == ["f", "b", "a", "e"]
