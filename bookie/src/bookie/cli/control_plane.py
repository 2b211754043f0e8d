"""A bookie's control plane by its address: of one process, registered or not."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc

from bookie.protocol.errors import UnavailableError
from bookie.wire.admin.bookie_admin_pb2_grpc import BookieAdminStub

_OPTIONS = (("grpc.enable_http_proxy", 0),)


@asynccontextmanager
async def control_plane(target: str) -> AsyncIterator[Any]:
    """A stub of the bookie at host:port; an answer that does not come is UnavailableError."""
    async with grpc.aio.insecure_channel(target, options=_OPTIONS) as channel:
        try:
            yield BookieAdminStub(channel)  # type: ignore[no-untyped-call]
        except grpc.aio.AioRpcError as error:
            raise UnavailableError(
                f"no bookie answers at {target} ({error.code().name}): check that it runs and that "
                "this is its admin port"
            ) from error
