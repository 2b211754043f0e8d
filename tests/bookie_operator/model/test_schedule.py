"""Schedules: what is admitted, and when it is due."""

from datetime import UTC, datetime, timedelta

import pytest
from bookie_operator.errors import ManifestError
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.manifest import parse
from bookie_operator.model.schedule import due_after
from operator_scenes import cluster, manifest

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)  # a Thursday


@pytest.mark.parametrize(
    ("schedule", "hours"),
    [
        ("@hourly", 1),
        ("@daily", 24),
        ("@every 90m", 1.5),
        ("0 3 * * *", 15),
        ("30 13 * * FRI", 25.5),
    ],
)
def test_due_is_an_interval_later_or_when_cron_says(schedule: str, hours: float) -> None:
    assert cluster(audit={"schedule": schedule}).spec.audit.schedule == schedule
    assert due_after(schedule, NOON) == NOON + timedelta(hours=hours)


def test_never_is_never_due() -> None:
    assert due_after("@never", NOON) is None


@pytest.mark.parametrize("schedule", ["61 * * * *", "0 0 30 2 *", "0 3 * *", "0 3 * * * *", "3am"])
def test_what_no_calendar_has_is_refused(schedule: str) -> None:
    with pytest.raises(ManifestError, match=r"spec\.audit\.schedule: found"):
        parse(BookieCluster, manifest(audit={"schedule": schedule}), source="x.yaml")


def test_cron_is_read_in_utc_wherever_the_operator_runs() -> None:
    elsewhere = NOON.astimezone(datetime.now().astimezone().tzinfo)
    assert due_after("0 13 * * *", elsewhere) == NOON + timedelta(hours=1)


@pytest.mark.parametrize(
    ("schedule", "why"), [("61 * * * *", "Bad minute"), ("0 0 30 2 *", "Bad day-of-month")]
)
def test_a_refusal_says_which_part_no_calendar_has(schedule: str, why: str) -> None:
    with pytest.raises(ManifestError) as refused:
        parse(BookieCluster, manifest(audit={"schedule": schedule}), source="x.yaml")
    assert f"found '{schedule}' ({why}), expected @hourly" in str(refused.value)
