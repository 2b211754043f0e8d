"""What an audit says while it looks."""

import pytest
from bookie.repair.jobs.audit_job import AuditRequest, audit
from bookie.repair.look.digests import DigestSettings
from bookie.repair.reports.audit_progress import AuditProgress
from bookie.repair.reports.progress_lines import ProgressLine
from clock import Clock
from repair_lab import AUDIT, RepairLab


def lines(total: int | None, *steps: tuple[float, int], again: bool = False) -> list[str]:
    """Said when so many ledgers were looked at, at these times."""
    clock, said = Clock(), list[str]()
    looking = AuditProgress(said.append, total, again=again, clock=clock)
    for now, ledgers in steps:
        clock.now = now
        looking.reached(ledgers)
    return said


def test_of_a_known_number_it_says_how_many_and_how_long() -> None:
    assert lines(400, (20.0, 100)) == ["100 of 400 ledgers looked at, 60 s left"]


def test_of_an_unknown_number_it_says_how_many() -> None:
    assert lines(None, (20.0, 100), again=True) == ["100 ledgers looked at again"]


def test_the_time_left_is_reckoned_from_when_the_looking_began() -> None:
    assert lines(20, (100.0, 0), (110.0, 10))[-1] == "10 of 20 ledgers looked at, 10 s left"


def test_ledgers_that_came_meanwhile_are_in_the_number_too() -> None:
    assert lines(10, (1.0, 12)) == ["12 of 12 ledgers looked at, 0 s left"]


def test_little_is_said_and_always_the_end() -> None:
    said = lines(10, *((0.1 * n, n) for n in range(11)))
    assert len(said) < 5 and said[-1].startswith("10 of 10")
    assert [line.is_last for line in said if isinstance(line, ProgressLine)][-1]


@pytest.mark.parametrize("digests", [None, DigestSettings()])
async def test_an_audit_whose_ledgers_were_counted_says_how_far_it_is(
    digests: DigestSettings | None,
) -> None:
    lab, said = await RepairLab().start(), list[str]()
    for _ in range(3):
        await lab.ledger(entries=2, last=1)
    await audit(
        lab.cluster, AuditRequest(engine="auto", settings=AUDIT, digests=digests), say=said.append
    )
    (line,) = [line for line in said if isinstance(line, ProgressLine)]
    assert line == "3 of 3 ledgers looked at, 0 s left"
