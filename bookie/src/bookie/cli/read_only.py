"""`bookie read-only`: stop a bookie from taking new entries, or let it take them again."""

from typing import Final

import click

from bookie.cli.common import metadata_option, output_option, run
from bookie.cli.control_plane import registered
from bookie.cli.output import show_fields
from bookie.ids import BookieId
from bookie.wire.admin.client import Call

DEADLINE_S: Final = 10.0


@click.command("read-only")
@click.argument("bookie", metavar="BOOKIE")
@click.option("--off", is_flag=True, help="Let the bookie take new entries again.")
@metadata_option
@output_option
def read_only(metadata: str, output: str, bookie: str, off: bool) -> None:
    """Stop BOOKIE from taking new entries, until --off or its next restart.

    Writers continue with other bookies. BOOKIE still serves reads, and recoveries may write to it.
    """
    known = run(registered(metadata, BookieId(bookie)))
    call = Call(known.meant, DEADLINE_S)
    phase = known.asked(lambda plane: plane.set_read_only(call, read_only=not off))
    show_fields({"bookie": bookie, "phase": phase.value}, output=output)
