"""The `bookie` command: names its commands; each one's module is loaded when it is asked for."""

import os
from typing import Final

import click

from bookie.cli.lazy import Program
from bookie.tls.environment import DIRECTORY_VARIABLE

COMMANDS: Final = {
    "audit": ("bookie.cli.audit:audit", "Compare what bookies hold with what they must hold."),
    "collect": ("bookie.cli.collect:collect_group", "Approve a collection of deleted ledgers."),
    "completion": (
        "bookie.completion:completion",
        "Print what makes a shell complete these commands.",
    ),
    "cookie": ("bookie.cli.cookies:cookie_group", "Show, approve and fix identities of disks."),
    "decisions": ("bookie.cli.person_decisions:decisions", "What people decided about bookies."),
    "drain": ("bookie.cli.drain:drain", "Move every ledger off a bookie that is to leave."),
    "flush": ("bookie.cli.flush:flush", "Bring what a running bookie has accepted to disk."),
    "read-only": (
        "bookie.cli.read_only:read_only",
        "Let a bookie take no entries for a while.",
    ),
    "index": ("bookie.cli.folders:index_group", "Rebuild the index of a stopped bookie."),
    "inspect": ("bookie.cli.folders:inspect", "What lies in a stopped bookie's directories."),
    "ledger": ("bookie.cli.ledgers:ledger_group", "Write, read, list, recover, delete ledgers."),
    "limbo": ("bookie.cli.limbo:limbo", "Ledgers of which a bookie may have forgotten entries."),
    "metadata": (
        "bookie.cli.rollbacks:metadata_group",
        "Who may change the store, and its rollbacks.",
    ),
    "repair": ("bookie.cli.repair:repair", "Bring missing copies back and clear limbo."),
    "rereplicate": (
        "bookie.cli.rereplicate:rereplicate",
        "New members for the ledgers of bookies that are gone for good.",
    ),
    "serve": ("bookie.cli.serve:serve", "Run one bookie."),
}


@click.group(cls=Program, lazy=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="bookie-operator")
@click.option(
    "--tls",
    "directory",
    envvar=DIRECTORY_VARIABLE,
    show_envvar=True,
    metavar="DIRECTORY",
    help="Credentials to show: tls.crt, tls.key, ca.crt. Without: in plain.",
)
def main(directory: str | None) -> None:
    """Bookies that are safe without a journal: serve, look, audit, repair, drain.

    Exit codes: 0 done, 1 error, 2 wrong usage, 3 damage found, 4 not everything is known now,
    5 refused for safety, 130 interrupted. `bookie serve` has its own.
    """
    if directory:  # processes that a command starts, such as Spark's, are to have it as well
        os.environ[DIRECTORY_VARIABLE] = directory
