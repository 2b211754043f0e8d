"""`bookie drain`: what a person is told, and the exit codes."""

from collections.abc import Iterator

import pytest
from bookie.protocol.ledger import LedgerMetadata
from cli_lab import CliLab
from repair_lab import RepairLab


@pytest.fixture
def cli(request: pytest.FixtureRequest) -> Iterator[CliLab]:
    """Four bookies and the command."""
    made = CliLab(request.node.nodeid, bookies=4)
    made.start()
    yield made
    made.stop()


def closed_ledger(cli: CliLab) -> LedgerMetadata:
    async def make(lab: RepairLab) -> LedgerMetadata:
        return await lab.ledger(entries=10, last=9)

    return cli.do(make)


def crash(cli: CliLab, number: int) -> None:
    async def crashed(lab: RepairLab) -> None:
        await lab.crash(number)

    cli.do(crashed)


def test_a_drained_bookie_may_be_removed_and_the_person_is_told_so(cli: CliLab) -> None:
    closed_ledger(cli)
    shown = cli.bookie("drain", "bookie-0")
    assert shown.exit_code == 0
    assert "nothing names bookie-0 any more: it may be stopped and removed" in shown.stdout
    assert "1 ledgers, 0 closed for it" in shown.stdout
    assert cli.json("drain", "bookie-0")["ledgers_left"] == 0
    assert cli.json("audit")["audit"]["ok"] == 10


def test_a_cancelled_drain_takes_ledgers_again(cli: CliLab) -> None:
    cli.json("drain", "bookie-0")
    assert cli.lab.fleet[0].read_only
    assert cli.json("drain", "bookie-0", "--cancel") == {"bookie": "bookie-0", "draining": False}
    assert not cli.lab.fleet[0].read_only


def test_a_drain_in_limbo_is_refused_with_the_reason(cli: CliLab) -> None:
    closed_ledger(cli)
    crash(cli, 0)
    shown = cli.bookie("drain", "bookie-0")
    assert shown.exit_code == 5 and "NotDraining  bookie-0 has marks" in shown.stdout


def test_a_bookie_that_does_not_answer_cannot_be_told(cli: CliLab) -> None:
    shown = cli.bookie("drain", "bookie-9", "--cancel")
    assert shown.exit_code == 4 and "bookie-9 is not registered" in shown.stderr


def test_a_bookie_that_does_not_exist_is_no_drained_one(cli: CliLab) -> None:
    told = cli.bookie("drain", "nope", "--engine", "inline")
    assert told.exit_code == 2 and "there is no bookie nope; known are bookie-0" in told.stderr
