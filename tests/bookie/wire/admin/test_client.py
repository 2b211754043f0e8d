"""A control plane asked by its address: who answers, and what becomes of the answer."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import fields, replace
from typing import Any

import grpc
import pytest
from bookie.errors import UnavailableError
from bookie.server.state import Phase as ServerPhase
from bookie.wire.admin import bookie_admin_pb2 as pb
from bookie.wire.admin import client
from bookie.wire.admin.bookie_admin_pb2_grpc import (
    BookieAdminServicer,
    add_BookieAdminServicer_to_server,
)
from bookie.wire.admin.client import Call, CallError, ControlPlane, Failure, control_plane
from bookie.wire.admin.health import BootRecord, DiskHealth, Health, Phase
from bookie.wire.identity import Identity
from server_lab import ServerLab

S = 5.0
MEANT = Identity("cluster", "bookie-0", 2)


def address(lab: ServerLab) -> str:
    assert lab.bookie is not None
    return f"127.0.0.1:{lab.bookie.ports['admin']}"


async def test_who_told_its_health_is_the_one_that_is_asked(server: ServerLab) -> None:
    async with control_plane(address(server)) as bookie:
        health = await bookie.health(Call(None, S))
        assert server.bookie is not None
        assert health.answered_by == server.bookie.control.identity()
        assert await bookie.flush(Call(health.answered_by, S)) >= 0


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"cluster": "another"}, "not of another"),
        ({"bookie": "bookie-9"}, "not bookie-9"),
        ({"epoch": 2}, "boot 2 is known"),
    ],
)
async def test_a1_another_process_there_by_now_does_nothing(
    server: ServerLab, other: dict[str, str], words: str
) -> None:
    assert server.bookie is not None
    meant = replace(server.bookie.control.identity(), **other)  # type: ignore[arg-type]
    async with control_plane(address(server)) as bookie:
        with pytest.raises(CallError, match=f"refused at .*{words}") as refused:
            await bookie.drain(Call(meant, S), cancel=False)
    assert refused.value.failure is Failure.REFUSED
    assert server.bookie.state.phase is ServerPhase.SERVING


async def test_no_proxy_of_the_environment_stands_between(
    server: ServerLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("grpc_proxy", "https_proxy", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("no_grpc_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    async with control_plane(address(server)) as bookie:
        assert (await bookie.health(Call(None, S))).phase is Phase.SERVING


async def test_nobody_at_an_address_is_an_error_that_says_what_to_check() -> None:
    async with control_plane("127.0.0.1:1") as bookie:
        with pytest.raises(CallError, match=r"no bookie answers at 127.0.0.1:1 \(UNAVAILABLE\)"):
            await bookie.health(Call(None, S))


async def test_a_call_over_a_closed_connection_is_an_error_of_ours() -> None:
    async with control_plane("127.0.0.1:1") as bookie:
        pass
    with pytest.raises(UnavailableError, match=r"to 127.0.0.1:1 was closed before the call"):
        await bookie.flush(Call(None, S))


def test_every_phase_of_the_proto_is_known() -> None:
    names = {phase.name for phase in Phase} - {"UNKNOWN"}
    assert names == set(pb.Phase.keys()) - {"PHASE_UNSPECIFIED"}


def test_every_field_of_an_answer_is_filled() -> None:
    """Fields of other names than the proto's are named where they are made."""
    made = {"answered_by", "is_fresh", *client._MADE}
    assert {one.name for one in fields(Health)} == {*client._HEALTH, *made}
    assert {one.name for one in fields(BootRecord)} == {*client._BOOT, "epoch", "started_at"}
    assert {one.name for one in fields(DiskHealth)} == set(client._DISK)


class Saying(BookieAdminServicer):
    """A bookie that gives this answer, and says who it is in its health only."""

    def __init__(self, health: pb.Health) -> None:
        self.health = health

    async def GetHealth(self, request: Any, context: Any) -> pb.Health:
        return self.health

    async def ListLimbo(self, request: Any, context: Any) -> pb.ListLimboReply:
        return pb.ListLimboReply()


@asynccontextmanager
async def saying(health: pb.Health) -> AsyncIterator[str]:
    server = grpc.aio.server()
    add_BookieAdminServicer_to_server(Saying(health), server)  # type: ignore[no-untyped-call]
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(None)


async def health_of(said: pb.Health, meant: Identity | None = MEANT) -> Health:
    async with saying(said) as target, control_plane(target) as bookie:
        return await bookie.health(Call(meant, S))


@pytest.mark.parametrize(("counted", "expected"), [(True, 0), (False, None)])
async def test_a_count_that_was_not_made_is_not_zero(counted: bool, expected: int | None) -> None:
    said = pb.Health(
        bookie_id="bookie-0", phase=pb.DRAINING, draining=True, ledgers_counted=counted
    )
    health = await health_of(said)
    assert health.draining and health.ledgers_naming_it == expected


async def test_a_phase_of_another_version_is_unknown() -> None:
    health = await health_of(pb.Health(bookie_id="bookie-0", phase=pb.PHASE_UNSPECIFIED))
    assert health.phase is Phase.UNKNOWN


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
async def test_d11_a_health_of_another_process_is_no_answer(told: Identity, is_meant: bool) -> None:
    said = pb.Health(phase=pb.SERVING, bookie_id=told.bookie, instance_id=told.cluster)
    said.boot.boot_epoch = told.epoch
    if is_meant:
        assert (await health_of(said)).answered_by == told
        return
    with pytest.raises(UnavailableError, match="another process answers"):
        await health_of(said)


@pytest.mark.parametrize(("epoch", "expected"), [(2, [2]), (3, [3]), (1, [])])
async def test_a2_of_whom_was_meant_the_boot_that_answered_is_told(
    epoch: int, expected: list[int]
) -> None:
    """From then on an older process is no answer, at whatever address."""
    said = pb.Health(phase=pb.SERVING, bookie_id="bookie-0", instance_id="cluster")
    said.boot.boot_epoch, heard = epoch, list[int]()
    async with saying(said) as target:
        bookie = ControlPlane(target, heard=lambda who: heard.append(who.epoch))
        with suppress(UnavailableError):
            await bookie.health(Call(MEANT, S))
        await bookie.close()
    assert heard == expected


async def test_a5_what_a_bookie_says_of_the_metadata_store_is_passed_on() -> None:
    said = pb.Health(
        bookie_id="bookie-0",
        phase=pb.SERVING,
        metadata_rolled_back="older",
        collection_held="90 of 100",
    )
    health = await health_of(said)
    assert (health.metadata_rolled_back, health.collection_held) == ("older", "90 of 100")


async def test_d11_what_an_older_bookie_says_of_ledgers_counts_for_nothing() -> None:
    async with saying(pb.Health()) as target, control_plane(target) as bookie:
        with pytest.raises(UnavailableError, match="of an older version, upgrade it"):
            await bookie.marks(Call(MEANT, S), after=-1, limit=10)
