"""Times for people: milliseconds since 1970 that any client of the metadata store may have written.

Where no calendar has such a time, its number is shown: one absurd time must not end a list of a
thousand ledgers.
"""

from datetime import UTC, datetime


def time_text(at_ms: int) -> str:
    """`2026-11-27 12:00:00 UTC`, to the second."""
    at = _moment(at_ms)
    return _number(at_ms) if at is None else f"{at:%Y-%m-%d %H:%M:%S} UTC"


def iso_time(at_ms: int) -> str:
    """`2026-11-27T12:00:00+00:00`, to the second."""
    at = _moment(at_ms)
    return _number(at_ms) if at is None else at.isoformat(timespec="seconds")


def _moment(at_ms: int) -> datetime | None:
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def _number(at_ms: int) -> str:
    return f"{at_ms} ms"
