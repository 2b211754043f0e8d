"""The `bookie` command: the names of its commands; a command's module is loaded only when it
runs."""

import os
from typing import Final

import click

from bookie.cli.lazy import LazyProgram
from bookie.tls.environment import DIRECTORY_VARIABLE

COMMANDS: Final = {
    "audit": ("bookie.cli.audit:audit", "Compare what bookies hold with what they must hold."),
    "collect": ("bookie.cli.collect:collect_group", "Approve a collection of deleted ledgers."),
    "completion": (
        "bookie.completion:completion",
        "Print the script with which a shell completes these commands.",
    ),
    "cookie": ("bookie.cli.cookies:cookie_group", "Show, approve and fix identities of disks."),
    "decisions": (
        "bookie.cli.person_decisions:decisions",
        "Show what people have decided about bookies.",
    ),
    "drain": (
        "bookie.cli.drain:drain",
        "Move every ledger off a bookie, so that it can be removed.",
    ),
    "flush": (
        "bookie.cli.flush:flush",
        "Write all entries that a running bookie holds in memory to its disks.",
    ),
    "read-only": (
        "bookie.cli.read_only:read_only",
        "Stop a bookie from taking new entries for a while.",
    ),
    "index": ("bookie.cli.folders:index_group", "Rebuild the index of a stopped bookie."),
    "inspect": (
        "bookie.cli.folders:inspect",
        "Show the contents of a stopped bookie's directories.",
    ),
    "ledger": ("bookie.cli.ledgers:ledger_group", "Write, read, list, recover, delete ledgers."),
    "limbo": (
        "bookie.cli.limbo:limbo",
        "List ledgers of which a bookie may have forgotten entries.",
    ),
    "metadata": (
        "bookie.cli.rollbacks:metadata_group",
        "Check access rights in the metadata store; accept a rollback of it.",
    ),
    "repair": ("bookie.cli.repair:repair", "Make missing copies again and clear limbo."),
    "rereplicate": (
        "bookie.cli.rereplicate:rereplicate",
        "Give the ledgers of permanently lost bookies new bookies.",
    ),
    "serve": ("bookie.cli.serve:serve", "Run one bookie."),
}


@click.group(
    cls=LazyProgram, lazy=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(package_name="bookie-operator")
@click.option(
    "--tls",
    "directory",
    envvar=DIRECTORY_VARIABLE,
    show_envvar=True,
    metavar="DIRECTORY",
    help="Directory with tls.crt, tls.key and ca.crt. Without it, connections are not encrypted.",
)
def main(directory: str | None) -> None:
    """Run a BookKeeper bookie that is safe without a journal; audit, repair and drain bookies.

    Exit codes: 0 done, 1 error, 2 wrong usage, 3 damage found, 4 not everything can be known now, 5
    refused for safety, 130 interrupted. `bookie serve` has its own exit codes.
    """
    if directory:  # child processes, such as Spark's, need it as well
        os.environ[DIRECTORY_VARIABLE] = directory
