"""The operator's calls of control planes, against a bookie of an older version."""

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from bookie.errors import UnavailableError
from bookie.wire.admin import bookie_admin_pb2 as pb
from bookie.wire.admin.bookie_admin_pb2_grpc import (
    BookieAdminServicer,
    add_BookieAdminServicer_to_server,
)
from bookie.wire.identity import Identity
from bookie_operator.control import GrpcControl

MEANT = Identity("cluster", "bookie-0", 2)


class Older(BookieAdminServicer):
    """A bookie of a version whose replies do not say who made them."""

    async def Drain(self, request: Any, context: Any) -> pb.DrainReply:
        return pb.DrainReply(phase="DRAINING")

    async def ApproveCookieFix(self, request: Any, context: Any) -> pb.ApproveCookieFixReply:
        return pb.ApproveCookieFixReply(accepted=request.plan_id == "right", message="not mine")

    async def GetHealth(self, request: Any, context: Any) -> pb.Health:
        return pb.Health(phase=pb.PHASE_UNSPECIFIED, bookie_id="bookie-0")


@pytest.fixture
async def older() -> AsyncIterator[str]:
    """The address of its control plane."""
    server = grpc.aio.server()
    add_BookieAdminServicer_to_server(Older(), server)  # type: ignore[no-untyped-call]
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(None)


async def test_what_an_older_bookie_was_asked_to_do_counts_as_done(older: str) -> None:
    control = GrpcControl()
    try:
        await control.drain(older, MEANT, cancel=False)
        await control.approve(older, MEANT, plan_id="right", approved_by="ann")
        with pytest.raises(UnavailableError, match="refused: not mine"):
            await control.approve(older, MEANT, plan_id="wrong", approved_by="ann")
    finally:
        await control.close()


async def test_a_phase_of_another_version_is_no_answer(older: str) -> None:
    control = GrpcControl()
    try:
        assert await control.health(older, MEANT) is None
    finally:
        await control.close()
