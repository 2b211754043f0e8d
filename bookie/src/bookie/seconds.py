"""Seconds on a command line: a number that a clock can count."""

import math
from typing import Any, Final

import click

SECONDS_MAX: Final = 10 * 365 * 86400
"""Ten years."""


class Seconds(click.FloatRange):
    """At most ten years; `inf`, which never comes, and `nan`, which is no number, are wrong."""

    def __init__(self, *, at_most: float = SECONDS_MAX, min_open: bool = False) -> None:
        super().__init__(0, at_most, min_open=min_open)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        found: float = super().convert(value, param, ctx)
        if math.isnan(found):  # click takes it for one within every range
            self.fail(f"found {value}, expected a number of seconds", param, ctx)
        return found
