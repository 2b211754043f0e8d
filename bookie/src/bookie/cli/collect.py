"""`bookie collect approve`: let a bookie remove the entries of unusually many deleted ledgers."""

from typing import Final

import click

from bookie.cli.common import (
    ask,
    fail,
    metadata_option,
    output_option,
    run,
    yes_option,
)
from bookie.cli.control_plane import registered
from bookie.cli.lazy import LazyGroup
from bookie.cli.output import show_fields
from bookie.exit_codes import Exit
from bookie.ids import BookieId
from bookie.user import user_name
from bookie.wire.admin.client import Call

COMMANDS: Final = {
    "approve": (
        "bookie.cli.collect:approve",
        "Let a bookie remove the entries of many deleted ledgers.",
    ),
}
DEADLINE_S: Final = 10.0


@click.group("collect", cls=LazyGroup, lazy=COMMANDS)
def collect_group() -> None:
    """Collection: bookies remove the entries of deleted ledgers from their disks."""


@click.command("approve")
@click.argument("bookie", metavar="BOOKIE")
@click.option("--plan", help="Plan to approve. Default: show the waiting plan and ask.")
@click.option("--by", default=user_name, show_default="you", help="Who approves.")
@yes_option
@metadata_option
@output_option
def approve(metadata: str, output: str, bookie: str, plan: str | None, by: str, yes: bool) -> None:
    """Let a bookie remove the entries of unusually many deleted ledgers.

    So many of its ledgers are missing in the metadata store that the bookie does not remove their
    entries by itself. Approve only if they were deleted on purpose: what a bookie removes cannot be
    brought back.
    """
    bookie_id = BookieId(bookie)
    known = run(registered(metadata, bookie_id))
    call = Call(known.meant, DEADLINE_S)
    health = known.asked(lambda plane: plane.health(call))
    chosen = plan or health.collection_plan_id
    if not chosen:
        fail(f"{bookie} does not wait for an approval of a collection", Exit.REFUSED)
    if plan is None:
        ask(f"{bookie}: {health.collection_held}. Approve?", yes=yes)
    taken = known.asked(lambda plane: plane.approve_collection(call, plan_id=chosen, by=by))
    if not taken.accepted:
        fail(taken.message, Exit.REFUSED)
    show_fields({"bookie": bookie, "plan": chosen, "approved_by": by}, output=output)
