"""How long the next attempt waits."""

from dataclasses import replace
from datetime import timedelta

import pytest
from bookie_operator.model.repair_spec import Repair
from bookie_operator.observed import Job, JobKind
from bookie_operator.plan.deadlines import CLOCKS_APART, backoff, is_waited_out, overdue
from operator_scenes import at, cluster

SHORT = Repair(backoffSeconds=1, backoffMaxSeconds=1)


def test_the_first_wait_applies_though_the_longest_is_shorter() -> None:
    wanted = Repair(backoffSeconds=600, backoffMaxSeconds=60)
    assert {backoff(number, wanted) for number in (1, 2, 9)} == {timedelta(seconds=600)}
    assert not is_waited_out(at(600), wanted, at(0))


@pytest.mark.parametrize(("ahead", "begins"), [(CLOCKS_APART, False), (2 * CLOCKS_APART, True)])
def test_short_waits_are_kept_though_the_clock_of_the_job_is_ahead(
    ahead: timedelta, begins: bool
) -> None:
    assert is_waited_out(at(1) + ahead, SHORT, at(0)) is begins


BOUNDED = cluster(
    repair={"startDeadlineSeconds": 100, "deadlineSeconds": 1000},
    scrub={"deadlineSeconds": 5000},
).spec


@pytest.mark.parametrize("kind", JobKind)
@pytest.mark.parametrize("progress", ["", "3 of 5 ledgers"])
def test_a_job_has_time_to_start_and_other_time_to_work(kind: JobKind, progress: str) -> None:
    """One that works and has nothing to say of it yet is no job that does not start."""
    works = Job("demo-job", kind, 1, True, at(0), progress=progress)
    waits = replace(works, waiting="ErrImagePull: no")
    end = 5000 if kind in (JobKind.SCRUB, JobKind.INDEX_REBUILD) else 1000
    assert [overdue(waits, BOUNDED, at(s)) for s in (100, 101)] == [
        None,
        "NotStarted, ErrImagePull: no",
    ]
    assert [overdue(works, BOUNDED, at(s)) for s in (101, end, end + 1)] == [
        None,
        None,
        "DeadlineExceeded",
    ]
