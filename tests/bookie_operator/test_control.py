"""A bookie's answer as the planner reads it."""

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from bookie.errors import UnavailableError
from bookie.wire.admin import bookie_admin_pb2 as pb
from bookie.wire.admin.bookie_admin_pb2_grpc import (
    BookieAdminServicer,
    BookieAdminStub,
    add_BookieAdminServicer_to_server,
)
from bookie.wire.admin.calls import ask
from bookie.wire.identity import Identity
from bookie_operator.control import GrpcControl, health_of

MEANT = Identity("cluster", "bookie-0", 2)


@pytest.mark.parametrize(("counted", "expected"), [(True, 0), (False, None)])
def test_a_count_that_was_not_made_is_not_zero(counted: bool, expected: int | None) -> None:
    told = pb.Health(
        bookie_id="bookie-0", phase=pb.DRAINING, draining=True, ledgers_counted=counted
    )
    health = health_of(told, MEANT)
    assert health is not None and health.draining
    assert health.ledgers_naming_it == expected


def test_a_phase_of_another_version_is_no_answer() -> None:
    told = pb.Health(bookie_id="bookie-0", phase=pb.PHASE_UNSPECIFIED)
    assert health_of(told, MEANT) is None


@pytest.mark.parametrize(
    ("told", "is_meant"),
    [
        (Identity("cluster", "bookie-0", 2), True),
        (Identity("cluster", "bookie-0", 3), True),
        (Identity("", "bookie-0"), True),
        (Identity("cluster", "bookie-1", 2), False),
        (Identity("another", "bookie-0", 2), False),
        (Identity("cluster", "bookie-0", 1), False),
    ],
    ids=["itself", "a later boot", "booting", "another bookie", "a namesake", "an older process"],
)
def test_d11_a_health_of_another_process_is_no_answer(told: Identity, is_meant: bool) -> None:
    health = pb.Health(phase=pb.SERVING, bookie_id=told.bookie, instance_id=told.cluster)
    health.boot.boot_epoch = told.epoch
    assert (health_of(health, MEANT) is not None) == is_meant


def test_a5_what_a_bookie_says_of_the_metadata_store_is_passed_on() -> None:
    told = pb.Health(
        bookie_id="bookie-0",
        phase=pb.SERVING,
        metadata_rolled_back="older",
        collection_held="90 of 100",
    )
    health = health_of(told, MEANT)
    assert health is not None
    assert (health.metadata_rolled_back, health.collection_held) == ("older", "90 of 100")


class Older(BookieAdminServicer):
    """A bookie of a version whose replies do not say who made them."""

    async def Drain(self, request: Any, context: Any) -> pb.DrainReply:
        return pb.DrainReply(phase="DRAINING")

    async def ApproveCookieFix(self, request: Any, context: Any) -> pb.ApproveCookieFixReply:
        return pb.ApproveCookieFixReply(accepted=request.plan_id == "right", message="not mine")

    async def ListLimbo(self, request: Any, context: Any) -> pb.ListLimboReply:
        return pb.ListLimboReply()


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


async def test_d11_what_an_older_bookie_says_of_ledgers_counts_for_nothing(older: str) -> None:
    async with grpc.aio.insecure_channel(older) as channel:
        stub: Any = BookieAdminStub(channel)  # type: ignore[no-untyped-call]
        with pytest.raises(UnavailableError, match="of an older version, upgrade it"):
            await ask(stub, pb.ListLimboRequest(), meant=MEANT, timeout_s=5.0)
