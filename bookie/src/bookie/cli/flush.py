"""`bookie flush`: a pod runs it before its bookie gets SIGTERM.

The bookie writes its memory to disk while it still serves, so that little is left to write within
the grace period after SIGTERM. A failed flush does no harm: the bookie flushes again when it stops.
"""

from typing import Final

import click

from bookie.cli.common import fail, output_option, run
from bookie.cli.output import show_fields
from bookie.errors import UnavailableError
from bookie.exit_codes import Exit
from bookie.hosts import at_port, loopback
from bookie.seconds import Seconds
from bookie.wire.admin.client import Call, CallError, Failure, control_plane

ADMIN_PORT: Final = 3183
ANSWER_S: Final = 1.5
"""How long to wait for an answer: a missing bookie must not use up the time for the stop."""
FLUSH_S: Final = 120.0


@click.command("flush")
@click.option(
    "--admin",
    metavar="HOST:PORT",
    default=lambda: at_port(loopback(), ADMIN_PORT),
    show_default="this machine, port 3183",
    help="Address of the bookie's control plane.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=Seconds(min_open=True),
    default=FLUSH_S,
    show_default=True,
    metavar="SECONDS",
    help="How long the flush may take.",
)
@output_option
def flush(output: str, admin: str, timeout_s: float) -> None:
    """Write all entries that a running bookie holds in memory to its disks."""
    log_bytes, problem = run(_flush(admin, timeout_s))
    if problem:
        fail(problem, Exit.ERROR)
    show_fields({"flushed": admin, "log_bytes": log_bytes}, output=output)


async def _flush(target: str, timeout_s: float) -> tuple[int, str]:
    """Return (bytes of the logs that are on disk, ""), or (0, why the flush failed)."""
    async with control_plane(target) as bookie:
        try:
            health = await bookie.health(Call(None, ANSWER_S))
        except UnavailableError as error:
            return 0, str(error)
        try:
            return await bookie.flush(Call(health.answered_by, timeout_s)), ""
        except CallError as error:
            if error.failure is Failure.LATE:
                late = f"the flush did not end within {timeout_s:g} s; the bookie continues it"
                return 0, late
            return 0, f"not flushed: {error.words}"
        except UnavailableError as error:
            return 0, str(error)
