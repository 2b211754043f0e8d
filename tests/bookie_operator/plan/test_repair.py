"""Repairs of limbo: how far one is, and which is due next; `test_plan` follows one to its end."""

from typing import Any

import pytest
from bookie.ids import BookieId
from bookie_operator.model.reports import LossReport
from bookie_operator.model.status import BookieState, BookieStatus, ClusterStatus, RepairStatus
from bookie_operator.model.task import BookieTask
from bookie_operator.observed import Bookie, Job, JobKind
from bookie_operator.plan.actions import StartJob
from bookie_operator.plan.passes import Pass
from bookie_operator.plan.repair import repairs
from operator_scenes import at, bookie, cluster, observed, task

B0, B1 = BookieId("bookie-0"), BookieId("bookie-1")


def marked(limbo: int = 3, unchecked: int = 0, name: str = B0) -> Bookie:
    return bookie(name, epoch=2, reason="UncleanShutdown", limbo=limbo, unchecked=unchecked)


def attempt(number: int = 1, *, of: str = B0, running: bool = False) -> Job:
    """It began at 10 and, if it has ended, failed at 20."""
    return Job(
        f"demo-{of}-2-{number}", JobKind.REPAIR, number, running, at(10), BookieId(of), 2,
        ended_at=None if running else at(20), exit_code=None if running else 1,
    )  # fmt: skip


def before(**repair: Any) -> ClusterStatus:
    known = RepairStatus.model_validate({"episode": "bookie-0-2", "state": "Running"} | repair)
    one = BookieStatus(id=B0, state=BookieState.LIMBO, boot_epoch=2, repair=known)
    return ClusterStatus(bookies=(one,))


def started(
    *special: Bookie, jobs: tuple[Job, ...], seconds: float, tasks: tuple[BookieTask, ...] = ()
) -> list[tuple[str, int]]:
    """Bookie and attempt of what begins."""
    seen = observed(*special, jobs=jobs, tasks=tasks, seconds=seconds)
    made = repairs(Pass.of(cluster(), seen, ClusterStatus()))
    return [(one.bookie_id or "", one.attempt) for one in made.actions if isinstance(one, StartJob)]


@pytest.mark.parametrize(
    ("limbo", "unchecked", "total", "progress"),
    [
        (3, 2, 10, "5/10 ledgers (50 %)"),
        (0, 4, 12, "8/12 ledgers (66 %)"),
        (1, 2, 0, "0/3 ledgers (0 %)"),
        (9, 9, 10, "0/18 ledgers (0 %)"),
        (0, 0, 7, "7/7 ledgers (100 %)"),
        (0, 0, 0, ""),
    ],
)
def test_its_progress_is_what_has_gone_of_limbo_and_unchecked_together(
    limbo: int, unchecked: int, total: int, progress: str
) -> None:
    seen = observed(marked(limbo, unchecked), jobs=[attempt(running=True)], seconds=15)
    pass_ = Pass.of(cluster(), seen, before(attempt=1, ledgers_total=total))
    status = repairs(pass_).statuses[B0]
    assert status.progress == progress
    assert (status.ledgers_total - status.ledgers_cleared) == limbo + unchecked


@pytest.mark.parametrize(
    ("asked", "seconds", "begins"),
    [(None, 29, []), (None, 30, [(B0, 2)]), (B0, 25, [(B0, 2)]), (B1, 25, [])],
)
def test_one_that_failed_waits_out_its_back_off_unless_somebody_asks_for_it(
    asked: str | None, seconds: float, begins: list[tuple[str, int]]
) -> None:
    tasks = () if asked is None else (task("repair", bookie=asked),)
    assert started(marked(), jobs=(attempt(),), seconds=seconds, tasks=tasks) == begins


@pytest.mark.parametrize(("decided", "begins"), [(19, []), (20, []), (21, [(B0, 2)])])
def test_one_that_failed_is_tried_again_after_a_decision_of_since(
    decided: float, begins: list[tuple[str, int]]
) -> None:
    closed = Job(
        "demo-loss-x", JobKind.ACCEPT_LOSS, 1, False, at(5), ended_at=at(decided), exit_code=0,
        report=LossReport(ledger_id=7, last_entry_id=4, lost_from=5, recorded_on=(B0,)),
    )  # fmt: skip
    assert started(marked(), jobs=(attempt(), closed), seconds=25) == begins


def test_the_one_with_the_fewest_attempts_is_next_and_one_runs_at_a_time() -> None:
    both = (marked(), marked(name=B1))
    assert started(*both, jobs=(), seconds=25) == [(B0, 1)]
    assert started(*both, jobs=(attempt(),), seconds=99) == [(B1, 1)]
    assert started(*both, jobs=(attempt(running=True),), seconds=99) == []
