"""What `bookie ledger` says on a small fleet, in words and as JSON."""

from dataclasses import replace
from typing import Final

from cli_lab import CliLab
from repair_lab import RepairLab
from shell_record import ShellRecord

SECRET: Final = ("--password", "secret")


def test_ledgers_that_are_written_and_read(shell: ShellRecord) -> None:
    shell.both("ledger", "list")
    shell("ledger", "write", "--lines", typed="one\ntwo\n\nlast")
    shell("ledger", "write", "--output", "json", typed="x")
    shell("ledger", "write", "--lines", *SECRET, typed=b"\x1b[2Jx\ty\n\xff\x00\n" + b"x" * 99)
    shell.both("ledger", "read", 0)
    shell.both("ledger", "read", 2, *SECRET)
    shell("ledger", "read", 0, "--first", 1, "--last", 2)
    shell("ledger", "read", 0, "--first", 1, "--raw")
    shell("ledger", "read", 1, "--first", 0, "--last", 0, "--output", "json")
    shell("ledger", "tail", 0, "--first", 2)
    shell("ledger", "tail", 0, "--first", 1, "--output", "json")
    shell("ledger", "tail", 0, "--raw")
    shell("ledger", "list")


def test_ledgers_from_their_creation_to_their_end(shell: ShellRecord) -> None:
    shell("ledger", "create")
    shell("ledger", "create", "--output", "json", "--digest", "hmac", *SECRET)
    few = ("--ensemble", 2, "--write-quorum", 2, "--ack-quorum", 1, "--digest", "dummy")
    shell("ledger", "write", "--keep-open", "--lines", *few, typed="open\nledger\n")
    shell.both("ledger", "list")
    shell.both("ledger", "info", 1)
    shell.both("ledger", "read", 2)
    shell("ledger", "recover", 0)
    shell("ledger", "recover", 1, "--output", "json", *SECRET)
    shell("ledger", "recover", 2)
    shell("ledger", "info", 2)
    shell("ledger", "delete", 0, typed="n\n")
    shell("ledger", "delete", 0)
    shell("ledger", "delete", 0, typed="YES\n")
    shell("ledger", "delete", 1, "--output", "json", "--yes")
    shell("ledger", "list")


def test_a_ledger_of_several_fragments_and_one_that_nobody_can_read(
    shell: ShellRecord, cli: CliLab
) -> None:
    async def make(lab: RepairLab) -> None:
        moved = await lab.ledger((0, (0, 1, 2)), (3, (2, 1, 0)), entries=5, last=4)
        spoilt = await lab.ledger(entries=1, last=0)
        found = await lab.store.read_ledger(moved.ledger_id)
        tagged = replace(found.value, custom={"owner": b"ann", "bytes": b"\xff\n"})
        await lab.store.write_ledger(tagged, version=found.version)
        lab.garble(spoilt.ledger_id)

    cli.do(make)
    shell.both("ledger", "list")
    shell.both("ledger", "info", 0)
    shell.both("ledger", "info", 1)
    shell("ledger", "read", 0, "--first", 2, "--last", 3, *SECRET)


def test_what_of_ledgers_is_refused(shell: ShellRecord) -> None:
    shell("ledger", "write", "--lines", *SECRET, typed="a\nb\nc\n")
    for command in ("read", "tail", "recover"):
        shell("ledger", command, 0, "--password", "wrong")
        shell("ledger", command, 9)
    for bounds in (("--first", 3), ("--last", 3), ("--first", 1, "--last", 9)):
        shell("ledger", "read", 0, *bounds, *SECRET, "--output", "json")
    shell("ledger", "read", 0, "--first", 9, "--last", 2)
    shell("ledger", "tail", 0, "--raw", "--output", "json")
    shell("ledger", "info", 9, "--output", "json")
    shell("ledger", "delete", 9, "--yes")
    shell("ledger", "create", "--ensemble", 4, "--write-quorum", 4)
    shell("ledger", "create", "--ensemble", 2)
    shell("ledger", "create", "--digest", "none")
    shell("ledger", "info", -1)
    shell("ledger", "info", 2**63)
    shell("ledger", "write", "/nowhere")
    shell("ledger", "list", "--output", "yaml")


def test_a_fleet_that_is_down(shell: ShellRecord, cli: CliLab) -> None:
    shell("ledger", "write", "--lines", typed="a\n")

    async def fall(lab: RepairLab) -> None:
        for number in range(3):
            lab.fleet[number].down = True
            await lab.store.unregister(lab.ids[number])

    cli.do(fall)
    shell("ledger", "create")
    shell("ledger", "write", "--lines", typed="a\n")
    shell("ledger", "info", 0)
