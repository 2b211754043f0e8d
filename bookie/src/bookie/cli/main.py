"""The `bookie` command: its groups in one place. Parsing only; the work is elsewhere."""

import click

from bookie.cli.ledgers import ledger_group
from bookie.cli.serve import serve


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="bookie-operator")
def main() -> None:
    """Bookies that are safe without a journal: serve, look, audit, repair."""


main.add_command(serve)
main.add_command(ledger_group)
