"""The installed program `bookie-operator`: it says which extra it needs if that is missing."""

import sys

import click
from bookie.exit_codes import Exit
from bookie.extras import needs_extra

EXTRA = "local"


def main() -> None:
    try:
        from bookie_operator.__main__ import main as run
    except ModuleNotFoundError as error:
        sentence = needs_extra(error, EXTRA)
        if not sentence:
            raise
        click.echo(f"error: {sentence}", err=True)
        sys.exit(Exit.ERROR)
    except KeyboardInterrupt:
        sys.exit(Exit.INTERRUPTED)
    run()
