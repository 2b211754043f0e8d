"""Ages as kubectl writes them."""

import click
import pytest
from bookie_operator.status_tree.ages import seconds_of, span

CONTEXT, OPTION = click.Context(click.Command("x")), click.Option(["--timeout"])


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0s"),
        (119.9, "119s"),
        (120, "2m"),
        (185, "3m5s"),
        (2820, "47m"),
        (10800, "3h"),
        (18600, "5h10m"),
        (28860, "8h"),
        (172799, "47h"),
        (172800, "2d"),
        (259200, "3d"),
    ],
)
def test_a_span_is_as_precise_as_it_is_short(seconds: float, text: str) -> None:
    assert span(seconds) == text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("9s", 9), ("500ms", 0.5), ("1.5m", 90), ("1h", 3600), (None, None)],
)
def test_a_time_limit_is_read(text: str | None, seconds: float | None) -> None:
    assert seconds_of(CONTEXT, OPTION, text) == seconds


def test_a_time_limit_that_is_none_is_refused() -> None:
    with pytest.raises(click.BadParameter, match="found '5 min', expected a time such as"):
        seconds_of(CONTEXT, OPTION, "5 min")
