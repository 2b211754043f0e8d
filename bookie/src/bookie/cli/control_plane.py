"""A bookie's control plane by its address: of one process, registered or not."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc

from bookie.errors import UnavailableError
from bookie.wire.admin import bookie_admin_pb2 as pb
from bookie.wire.admin.bookie_admin_pb2_grpc import BookieAdminStub
from bookie.wire.admin.calls import ask
from bookie.wire.identity import Identity

_OPTIONS = (("grpc.enable_http_proxy", 0),)


class ControlPlane:
    """One that is asked first who it is; whatever comes after is meant for that process alone."""

    def __init__(self, stub: Any, *, meant: Identity | None) -> None:
        self._stub = stub
        self.meant = meant

    async def health(self, *, timeout_s: float) -> pb.Health:
        """Of whoever is there, unless somebody is meant already."""
        health: pb.Health
        request = pb.GetHealthRequest()
        health, self.meant = await ask(self._stub, request, meant=self.meant, timeout_s=timeout_s)
        return health

    async def ask(self, request: Any, *, timeout_s: float) -> Any:
        """The reply; see `wire.admin.calls.ask`."""
        assert self.meant is not None, "ask for its health first"
        return (await ask(self._stub, request, meant=self.meant, timeout_s=timeout_s))[0]


@asynccontextmanager
async def control_plane(
    target: str, *, meant: Identity | None = None
) -> AsyncIterator[ControlPlane]:
    """The bookie at host:port; an answer that does not come is UnavailableError."""
    async with grpc.aio.insecure_channel(target, options=_OPTIONS) as channel:
        try:
            stub = BookieAdminStub(channel)  # type: ignore[no-untyped-call]
            yield ControlPlane(stub, meant=meant)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.FAILED_PRECONDITION:
                raise UnavailableError(f"refused at {target}: {error.details()}") from error
            raise UnavailableError(
                f"no bookie answers at {target} ({error.code().name}): check that it runs and that "
                "this is its admin port"
            ) from error
