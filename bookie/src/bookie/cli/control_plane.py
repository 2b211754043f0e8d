"""One call of a bookie's control plane, from a command that has no event loop."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from bookie.cli.common import run
from bookie.wire.admin.client import ControlPlane, control_plane

Reply = TypeVar("Reply")


def asked(target: str, ask: Callable[[ControlPlane], Awaitable[Reply]]) -> Reply:
    """What the control plane at host:port answers to one call; an error ends the program."""

    async def work() -> Reply:
        async with control_plane(target) as plane:
            return await ask(plane)

    reply: Reply = run(work())
    return reply
