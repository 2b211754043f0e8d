"""What jobs on a whole fleet say: audit, repair, drain, re-replication, and decisions on losses."""

from collections.abc import Iterator
from pathlib import Path
from time import time
from typing import Final

import pytest
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.metadata.store import Cookie
from bookie.protocol.availability import EntrySet
from cli_lab import CliLab
from repair_lab import RepairLab
from shell_record import ShellRecord, readable

AT_ONCE: Final = ("--recheck-delay", "0.001")
INLINE: Final = ("--engine", "inline", "--writer-grace", "0.001")
WHY: Final = ("--reason", "power cut")


async def mixed(lab: RepairLab) -> None:
    """Ledger 0 is whole, entries of 1 are gone, bookie-1 has forgotten the end of 2."""
    await lab.ledger(entries=4, last=3)
    await lab.ledger(entries=3, last=4)
    await lab.ledger(entries=5, flush=False)
    await lab.crash(1)


async def undecided(lab: RepairLab) -> None:
    """Two of three have forgotten the end of two open ledgers."""
    for _ in range(2):
        ledger = await lab.ledger(entries=5, last=None)
        lab.write(ledger, [5, 6], on=(0, 1))
    await lab.crash(0, 1)


async def fall(lab: RepairLab) -> None:
    lab.fleet[2].down = True


async def forget(lab: RepairLab) -> None:
    """The third comes back, and has forgotten the end as well."""
    lab.fleet[2].down = False
    await lab.crash(2)


def test_limbo(shell: ShellRecord, cli: CliLab) -> None:
    shell.both("limbo")
    cli.do(mixed)
    shell.both("limbo")
    shell.both("limbo", "--unchecked")
    shell("limbo", "--bookie", "bookie-0", "--bookie", "bookie-1", "--bookie", "bookie-1")
    shell.both("limbo", "--bookie", "bookie-0")
    shell("limbo", "--bookie", "bookie-9")

    async def silence(lab: RepairLab) -> None:
        await lab.store.create_cookie(Cookie(BookieId("old"), ("/j",), ("/l",), "instance"))
        lab.control.unreachable.add(lab.ids[2])

    cli.do(silence)
    shell.both("limbo")


def test_an_audit_of_a_fleet_that_is_whole(shell: ShellRecord, cli: CliLab) -> None:
    shell("audit")

    async def make(lab: RepairLab) -> None:
        await lab.ledger(entries=4, last=3)

    cli.do(make)
    shell.both("audit")
    shell("audit", "--ledger", 0, "--progress")
    shell("audit", "--verify-digests", "--read-rate", 10**9)


def test_an_audit_that_finds_something(shell: ShellRecord, cli: CliLab, tmp_path: Path) -> None:
    cli.do(mixed)
    shell("audit", *AT_ONCE, "--progress")
    shell("audit", *AT_ONCE, "--output", "json")
    summary = tmp_path / "summary"
    cli.bookie("audit", *AT_ONCE, "--summary", summary)
    shell.note("--summary has")
    shell.note(readable("{\n" + summary.read_text()[1:]))


def test_every_kind_of_problem_that_an_audit_may_find(
    shell: ShellRecord, cli: CliLab, tmp_path: Path
) -> None:
    async def make(lab: RepairLab) -> None:
        rotten = await lab.ledger(entries=4, last=3)
        lab.fleet[1].fail_reads(rotten.ledger_id, [EntryId(2)])
        spoilt = await lab.ledger(entries=1, last=0)
        lab.garble(spoilt.ledger_id)
        await lab.ledger(entries=1, last=0, ack=1)
        lost = (await lab.ledger(entries=2, last=1)).ledger_id
        del lab.fleet[0].ledgers[lost].entries[EntryId(1)]
        await lab.store.underreplication.mark(LedgerId(0), [lab.ids[1]], now_ms=1)
        await lab.store.underreplication.mark(LedgerId(2), [lab.ids[1]], now_ms=int(time() * 1000))

    cli.do(make)
    racks = tmp_path / "racks.yaml"
    racks.write_text("bookie-0: /a\nbookie-1: /a\nbookie-2: /a\nbookie-9: /b\n")
    words = ("audit", *AT_ONCE, "--verify-digests", "--ack-quorum", 2, "--racks", racks)
    words += ("--history", tmp_path / "history", "--underreplicated-grace", 3600)
    found = shell(*words, "--output", "json")
    assert found.exit_code == 3
    shell(*words)


def test_an_audit_while_bookies_are_away(shell: ShellRecord, cli: CliLab) -> None:
    async def make(lab: RepairLab) -> None:
        await lab.ledger(entries=2, last=1)
        await fall(lab)

    cli.do(make)
    shell.both("audit", *AT_ONCE)


def test_what_of_jobs_is_wrong_usage(shell: ShellRecord) -> None:
    shell("audit", "--ledger", 99)
    shell("audit", "--racks", "/nowhere/racks.yaml")
    shell("audit", "--read-rate", 5)
    shell("audit", "--engine", "flink")
    shell("repair", "--engine", "spark-kubernetes")
    shell("repair", "--writer-grace", "-1")
    shell("repair", "--bookie", "bookie-9")
    shell("audit", "--result", "/dev/null/audit.json")
    shell("audit", "--html", "/dev/null/audit.html")
    shell("audit", "--summary", "/dev/null/summary")
    shell("drain", "bookie-9")
    shell("drain", "bookie-9", "--cancel")
    shell("drain", "bookie-1", "--if-draining")
    shell("rereplicate", "bookie-9", "--yes")
    shell("rereplicate", "bookie-1")
    shell("rereplicate", "bookie-1", typed="n\n")
    shell("rereplicate", "bookie-1", "--yes", "--bytes-per-second-per-bookie", 0)


def test_a_repair(shell: ShellRecord, cli: CliLab) -> None:
    cli.do(mixed)
    shell("repair", *INLINE, "--progress")
    shell("repair", *INLINE, "--bookie", "bookie-1")
    shell("repair", *INLINE, "--every-ledger", "--output", "json")


def test_a_repair_that_cannot_decide(shell: ShellRecord, cli: CliLab, tmp_path: Path) -> None:
    cli.do(undecided)
    cli.do(fall)
    shell("repair", *INLINE)
    shell("repair", *INLINE, "--output", "json", "--summary", tmp_path / "summary")
    shell.note("--summary has")
    shell.note(readable("{\n" + (tmp_path / "summary").read_text()[1:]))


def test_decisions_on_losses(shell: ShellRecord, cli: CliLab) -> None:
    cli.do(undecided)
    cli.do(fall)
    shell("ledger", "accept-loss", 0, *WHY, "--yes")
    cli.do(forget)
    assert cli.bookie("repair", *INLINE).exit_code == 4
    shell("ledger", "accept-loss", "0-9", "--dry-run")
    shell("ledger", "accept-loss", "0,7", "--dry-run", "--output", "json")
    shell("ledger", "accept-loss", 0, *WHY, "--yes", "--entry", 99)
    shell("ledger", "accept-loss", 0, *WHY, typed="no\n")
    shell("ledger", "accept-loss", "0,1", *WHY, typed="no\n")
    shell("ledger", "accept-loss", 0, *WHY, "--yes", "--entry", 5)
    shell("ledger", "accept-loss", "0,1,7", *WHY, "--yes")
    shell("ledger", "accept-loss", 1, *WHY, "--yes", "--output", "json")
    shell("ledger", "accept-loss", "0-9", "--dry-run")
    shell("ledger", "info", 0)
    shell("ledger", "accept-loss", "4-3", *WHY)
    shell("ledger", "accept-loss", "4,5", *WHY, "--entry", 3)
    shell("ledger", "accept-loss", 4, "--reason", " ")
    shell("ledger", "retract-loss", 0, *WHY, "--by", "ann", "--yes")


def test_losses_that_are_taken_back(shell: ShellRecord, cli: CliLab) -> None:
    async def record(lab: RepairLab) -> None:
        ledger = (await lab.ledger(entries=5, last=4)).ledger_id
        lab.control.lost[lab.ids[1], ledger] = EntrySet.from_ranges([(3, 4)])
        for entry in (3, 4):
            del lab.fleet[1].ledgers[ledger].entries[EntryId(entry)]

    cli.do(record)
    words = ("ledger", "retract-loss", 0, *WHY, "--by", "ann")
    shell(*words)
    shell(*words, typed="n\n")
    shell(*words, "--yes", "--entries", "0-2", "--output", "json")
    shell(*words, "--yes", "--entries", "5-4")
    shell(*words, "--yes", "--entries", "4", "--output", "json")
    shell(*words, typed="y\n")
    shell(*words, "--yes")
    shell("limbo")
    cli.do(fall)
    shell(*words, "--yes")
    shell("ledger", "retract-loss", 7, *WHY, "--by", "ann", "--yes")


@pytest.fixture
def cli(request: pytest.FixtureRequest) -> Iterator[CliLab]:
    """Where ledgers move there is one bookie more than a ledger needs."""
    moves = request.function in (test_drain, test_rereplication)
    made = CliLab(request.node.nodeid, bookies=4 if moves else 3)
    made.start()
    yield made
    made.stop()


def test_drain(shell: ShellRecord, cli: CliLab) -> None:
    async def make(lab: RepairLab) -> None:
        await lab.ledger(entries=4, last=3)
        await lab.ledger(entries=2)

    cli.do(make)
    shell("drain", "bookie-0", "--progress", "--bytes-per-second-per-bookie", 10**9)
    shell("drain", "bookie-0", "--if-draining", "--output", "json")
    shell("ledger", "list")
    shell("drain", "bookie-1")
    shell.both("drain", "bookie-0", "--cancel")
    cli.do(lambda lab: lab.crash(2))
    shell("drain", "bookie-2")


def test_rereplication(shell: ShellRecord, cli: CliLab) -> None:
    async def make(lab: RepairLab) -> None:
        await lab.ledger(entries=4, last=3)
        await lab.store.underreplication.mark(LedgerId(0), [lab.ids[1]], now_ms=1)

    async def lose(lab: RepairLab) -> None:
        lab.fleet[0].down = True
        await lab.store.unregister(lab.ids[0])

    cli.do(make)
    shell("rereplicate", "bookie-0", "--yes")
    shell("rereplicate", "--output", "json")
    cli.do(lose)
    shell("rereplicate", "bookie-0", "--progress", typed="y\n")
    shell("ledger", "list")
    shell("rereplicate", "bookie-0", "bookie-1", "--yes", "--output", "json")
