"""Schedules: an interval, a shorthand such as @hourly, or a cron expression in UTC."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

from cronsim import CronSim, CronSimError
from pydantic import AfterValidator, StringConstraints

NEVER: Final = "@never"
_SHORT: Final = {"@hourly": "@every 1h", "@daily": "@every 1d"}
_EVERY: Final = re.compile(r"^@every ([1-9][0-9]{0,5})([smhd])$")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_ANY_DAY: Final = datetime(2026, 1, 1, tzinfo=UTC)


def due_after(schedule: str, moment: datetime) -> datetime | None:
    """The first time after `moment` at which something is due; None = never.

    An interval counts from `moment`; a cron expression does not depend on it.
    """
    if schedule == NEVER:
        return None
    match = _EVERY.match(_SHORT.get(schedule, schedule))
    if match is not None:
        return moment + timedelta(**{_UNITS[match[2]]: int(match[1])})
    return next(CronSim(schedule, moment.astimezone(UTC)))


def _possible(schedule: str) -> str:
    """Check a schedule with the cron parser, which finds mistakes that the pattern does not."""
    try:
        due_after(schedule, _ANY_DAY)
    except (CronSimError, StopIteration) as error:
        why = str(error) or "no such day ever comes"
        raise ValueError(
            f"found {schedule!r} ({why}), expected @hourly, @daily, @every 30m, @never, or minute, "
            "hour, day of the month, month and day of the week as in cron: 0 3 * * MON"
        ) from error
    return schedule


Schedule = Annotated[
    str,
    StringConstraints(
        pattern=(
            r"^(@hourly|@daily|@never|@every [1-9][0-9]{0,5}[smhd]"
            r"|([0-9A-Z*,/#L-]+ ){4}[0-9A-Z*,/#L-]+)$"
        ),
        max_length=100,
    ),
    AfterValidator(_possible),
]
"""A schedule as a person writes it."""
