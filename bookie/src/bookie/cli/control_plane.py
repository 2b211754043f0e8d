"""One call of a bookie's control plane, from a command that has no event loop."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeVar

from bookie.cli.common import cluster_id, run, store_at
from bookie.errors import UnavailableError
from bookie.hosts import at_port
from bookie.ids import BookieId
from bookie.metadata.store import ADMIN_ENDPOINT
from bookie.wire.admin.client import ControlPlane, control_plane
from bookie.wire.identity import Identity

Reply = TypeVar("Reply")


def asked(
    target: str, ask: Callable[[ControlPlane], Awaitable[Reply]], *, has_tls: bool = True
) -> Reply:
    """Make one call to the control plane at host:port; an error ends the program."""

    async def work() -> Reply:
        async with control_plane(target, has_tls=has_tls) as plane:
            return await ask(plane)

    reply: Reply = run(work())
    return reply


class Registered(NamedTuple):
    """The address of a serving bookie's control plane, and its identity."""

    target: str
    meant: Identity
    has_tls: bool

    def asked(self, ask: Callable[[ControlPlane], Awaitable[Reply]]) -> Reply:
        """Make one call to this control plane; see the function `asked`."""
        return asked(self.target, ask, has_tls=self.has_tls)


async def registered(metadata: str, bookie_id: BookieId) -> Registered:
    """Find a bookie's control plane by its registration; UnavailableError if it does not serve."""
    async with store_at(metadata) as store:
        instance_id = await cluster_id(store, metadata)
        found = (await store.bookies()).get(bookie_id)
    endpoint = found.endpoint(ADMIN_ENDPOINT) if found is not None else None
    if found is None or endpoint is None:
        raise UnavailableError(
            f"{bookie_id} is not registered with a control plane: start the bookie first"
        )
    where = at_port(endpoint.host, endpoint.port)
    meant = Identity(instance_id, bookie_id, found.boot_epoch)
    return Registered(where, meant, endpoint.has_tls)
