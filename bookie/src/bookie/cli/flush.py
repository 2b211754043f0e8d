"""`bookie flush`: what a pod runs before its bookie is told to stop.

While the bookie still serves, its memory goes to disk, so that what is left to flush after SIGTERM
fits the grace period easily. A failed flush holds nothing up: the stop flushes again.
"""

from typing import Final

import click
import grpc

from bookie.cli.common import fail, output_option, run
from bookie.cli.control_plane import ControlPlane, control_plane
from bookie.cli.exit_codes import Exit
from bookie.cli.output import show_fields
from bookie.errors import UnavailableError
from bookie.wire.admin import bookie_admin_pb2 as pb

ANSWER_S: Final = 1.5
"""A bookie that hangs or is not there must not use up the time that its stop has."""
FLUSH_S: Final = 120.0


@click.command("flush")
@click.option(
    "--admin",
    metavar="HOST:PORT",
    default="127.0.0.1:3183",
    show_default=True,
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
    try:
        async with control_plane(target) as bookie:
            await bookie.health(timeout_s=ANSWER_S)
            return await _ask(bookie, timeout_s)
    except UnavailableError as error:
        return 0, str(error)


async def _ask(bookie: ControlPlane, timeout_s: float) -> tuple[int, str]:
    try:
        reply = await bookie.ask(pb.FlushRequest(), timeout_s=timeout_s)
    except grpc.aio.AioRpcError as error:
        if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
            return 0, f"the flush did not end within {timeout_s:g} s; the bookie goes on with it"
        return 0, f"not flushed: {error.details()}"
    return int(reply.log_bytes), ""
