"""`bookie rereplicate`: what a person is asked and told, and the exit codes."""

from collections.abc import Iterator

import pytest
from bookie.ids import BookieId, LedgerId
from bookie.metadata.store import StoredBoot
from cli_lab import CliLab
from repair_lab import RepairLab


@pytest.fixture
def cli(request: pytest.FixtureRequest) -> Iterator[CliLab]:
    """Four bookies and the command; a closed ledger on the first three."""
    made = CliLab(request.node.nodeid, bookies=4)
    made.start()

    async def make(lab: RepairLab) -> None:
        await lab.ledger(entries=10, last=9)

    made.do(make)
    yield made
    made.stop()


def lose(cli: CliLab) -> None:
    async def lost(lab: RepairLab) -> None:
        lab.fleet[0].down = True
        await lab.store.unregister(lab.ids[0])

    cli.do(lost)


def test_a_bookie_that_is_gone_is_replaced_and_the_person_is_told_so(cli: CliLab) -> None:
    lose(cli)
    shown = cli.bookie("rereplicate", "bookie-0", "--yes")
    assert shown.exit_code == 0
    assert "no ledger names a bookie that is gone" in shown.stdout
    assert "1 ledgers, 0 closed for it" in shown.stdout
    assert cli.json("audit")["audit"]["ok"] == 10


def test_nobody_is_given_up_without_being_asked(cli: CliLab) -> None:
    lose(cli)
    shown = cli.bookie("rereplicate", "bookie-0")
    assert shown.exit_code == 2 and "pass --yes" in shown.stderr


def test_a_bookie_that_is_there_is_not_gone(cli: CliLab) -> None:
    shown = cli.bookie("rereplicate", "bookie-0", "--yes")
    assert shown.exit_code == 5 and "StillRegistered" in shown.stdout


def test_marks_alone_need_no_question(cli: CliLab) -> None:
    async def mark(lab: RepairLab) -> None:
        await lab.store.underreplication.mark(0, [lab.ids[1]], now_ms=1)  # type: ignore[arg-type]

    cli.do(mark)
    assert cli.json("rereplicate")["marks"] == {"found": 1, "cleared": 1}


@pytest.mark.parametrize("name", ["bookei-0", ""])
def test_a_bookie_that_never_existed_is_no_replaced_one(cli: CliLab, name: str) -> None:
    told = cli.bookie("rereplicate", name, "--yes")
    assert told.exit_code == 2 and "there is no bookie" in told.stderr and not told.stdout
    assert "known are bookie-0" in told.stderr


@pytest.mark.parametrize("known_by", ["mark", "boot"])
def test_a_bookie_without_cookie_and_ledgers_may_be_replaced(cli: CliLab, known_by: str) -> None:
    gone = BookieId("old-1")

    async def know(lab: RepairLab) -> None:
        if known_by == "mark":
            await lab.store.underreplication.mark(LedgerId(0), [gone], now_ms=1)
        else:
            await lab.store.write_boot(gone, StoredBoot(1), version=None)

    cli.do(know)
    assert cli.bookie("rereplicate", gone, "--yes").exit_code == 0
