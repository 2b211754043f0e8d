"""`bookie flush`: what a pod runs before its bookie gets SIGTERM.

While the bookie still serves, its memory goes to disk, so that what is left to flush after SIGTERM
fits the grace period easily. A failed flush holds nothing up: the stop flushes again.
"""

from typing import Final

import click

from bookie.cli.common import fail, output_option, run
from bookie.cli.output import show_fields
from bookie.errors import UnavailableError
from bookie.exit_codes import Exit
from bookie.hosts import at_port, loopback
from bookie.wire.admin.client import Call, CallError, Failure, control_plane

ADMIN_PORT: Final = 3183
ANSWER_S: Final = 1.5
"""A bookie that hangs or is not there must not use up the time that its stop has."""
FLUSH_S: Final = 120.0


@click.command("flush")
@click.option(
    "--admin",
    metavar="HOST:PORT",
    default=lambda: at_port(loopback(), ADMIN_PORT),
    show_default="this machine, port 3183",
    help="Control plane of the bookie.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0, min_open=True),
    default=FLUSH_S,
    show_default=True,
    metavar="SECONDS",
    help="How long the flush may take.",
)
@output_option
def flush(output: str, admin: str, timeout_s: float) -> None:
    """Bring everything that a running bookie has accepted to its disks."""
    log_bytes, problem = run(_flush(admin, timeout_s))
    if problem:
        fail(problem, Exit.ERROR)
    show_fields({"flushed": admin, "log_bytes": log_bytes}, output=output)


async def _flush(target: str, timeout_s: float) -> tuple[int, str]:
    """(bytes of the logs that are on disk, "") or (0, why they are not)."""
    async with control_plane(target) as bookie:
        try:
            health = await bookie.health(Call(None, ANSWER_S))
        except UnavailableError as error:
            return 0, str(error)
        try:
            return await bookie.flush(Call(health.answered_by, timeout_s)), ""
        except CallError as error:
            if error.failure is Failure.LATE:
                late = f"the flush did not end within {timeout_s:g} s; the bookie goes on with it"
                return 0, late
            return 0, f"not flushed: {error.words}"
        except UnavailableError as error:
            return 0, str(error)
