"""The operator's calls of control planes: to a bookie of an older version, and under TLS."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from bookie.errors import UnavailableError
from bookie.hosts import at_port, loopback
from bookie.testing.certificates import Authority
from bookie.tls.principals import Role
from bookie.wire.admin import bookie_admin_pb2 as pb
from bookie.wire.admin.bookie_admin_pb2_grpc import (
    BookieAdminServicer,
    add_BookieAdminServicer_to_server,
)
from bookie.wire.admin.health import Health
from bookie.wire.identity import Identity
from bookie_operator.control import CONNECTIONS_MAX, Addressee, GrpcControl
from bookie_operator.model.status import ClusterStatus
from bookie_operator.plan.planner import plan
from bookie_operator.status_tree.pending import held_collections
from dead_channels import DeadChannels
from operator_scenes import bookie, cluster, observed, task
from server_lab import ME, ServerLab

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


HELD = ("collection_held", "collection_plan_id")


def address_of(server: ServerLab) -> Addressee:
    assert server.bookie is not None
    address = at_port(loopback(), server.bookie.ports["admin"])
    return Addressee(address, server.bookie.control.identity())


async def holding(server: ServerLab) -> Health:
    """A real bookie whose ledgers were all deleted."""
    await server.hold_collection()
    health = await GrpcControl().health(address_of(server))
    assert health is not None
    return health


async def test_what_an_older_bookie_was_asked_to_do_counts_as_done(older: str) -> None:
    control = GrpcControl()
    try:
        await control.drain(Addressee(older, MEANT), cancel=False)
        await control.approve(Addressee(older, MEANT), plan_id="right", approved_by="ann")
        with pytest.raises(UnavailableError, match="refused: not mine"):
            await control.approve(Addressee(older, MEANT), plan_id="wrong", approved_by="ann")
    finally:
        await control.close()


async def test_the_operator_finds_and_approves_what_a_bookie_of_this_version_holds(
    idle_server: ServerLab,
) -> None:
    health, addressee, control = await holding(idle_server), address_of(idle_server), GrpcControl()
    held = bookie("bookie-0", **{name: getattr(health, name) for name in HELD})
    [found] = held_collections(plan(cluster(), observed(held), ClusterStatus()).status)
    assert found.plan_id == health.collection_plan_id
    with pytest.raises(UnavailableError, match="refused: the collection that waits is"):
        await control.approve_collection(addressee, plan_id="f00d", approved_by="ann")
    await control.approve_collection(addressee, plan_id=found.plan_id, approved_by="ann")
    after = await control.health(addressee)
    assert after is not None
    wish = task("approve-collection", bookie="bookie-0", planId=found.plan_id, approvedBy="ann")
    seen = observed(bookie("bookie-0", decisions=after.decisions), tasks=[wish])
    assert plan(cluster(), seen, ClusterStatus()).tasks["task-1"].phase == "Succeeded"
    await control.close()


async def test_a_phase_of_another_version_is_no_answer(older: str) -> None:
    control = GrpcControl()
    try:
        assert await control.health(Addressee(older, MEANT)) is None
    finally:
        await control.close()


# ---- under TLS ----------------------------------------------------------------------------------


class Secure:
    """A bookie under TLS, and the operator's folder, which is not there before it is made."""

    def __init__(self, server: ServerLab, folder: Path) -> None:
        self.server = server
        self.authority = Authority.make(folder, "ours")
        self.folder: Path | None = None

    async def start(self) -> None:
        bookie = self.authority.sign(ME, Role.BOOKIE)
        self.server.tree["tls"] = {"directory": str(bookie.folder)}
        await self.server.start()

    def certify(self) -> None:
        self.folder = self.authority.sign("operator", Role.OPERATOR).folder

    @property
    def addressee(self) -> Addressee:
        bookie = self.server.bookie
        assert bookie is not None
        address = at_port(loopback(), bookie.ports["admin"])
        return Addressee(address, bookie.control.identity(), has_tls=True)


@pytest.fixture
async def secure(idle_server: ServerLab, tmp_path: Path) -> Secure:
    found = Secure(idle_server, tmp_path / "certificates")
    await found.start()
    return found


async def test_a_bookie_under_tls_is_asked_with_the_operators_credentials(secure: Secure) -> None:
    secure.certify()
    control = GrpcControl(lambda: secure.folder)
    assert await control.health(secure.addressee) is not None
    await control.drain(secure.addressee, cancel=False)
    await control.close()


async def test_without_credentials_a_bookie_under_tls_is_silent_until_they_come(
    secure: Secure, caplog: pytest.LogCaptureFixture
) -> None:
    control = GrpcControl(lambda: secure.folder)
    caplog.set_level("INFO")
    assert await control.health(secure.addressee) is None
    assert "the operator has no credentials yet" in caplog.text
    secure.certify()
    assert await control.health(secure.addressee) is not None
    await control.close()


async def test_renewed_credentials_make_another_connection(secure: Secure) -> None:
    secure.certify()
    control = GrpcControl(lambda: secure.folder)
    await control.health(secure.addressee)
    [before] = control._lines.values()
    secure.certify()
    assert await control.health(secure.addressee) is not None
    [line] = control._lines.values()
    assert line.plane is not before.plane
    await control.close()


async def test_a_connection_with_former_credentials_is_closed(secure: Secure) -> None:
    secure.certify()
    control = GrpcControl(lambda: secure.folder)
    await control.health(secure.addressee)
    [before] = control._lines.values()
    secure.certify()
    await control.health(secure.addressee)
    assert before.plane._channel.get_state() is grpc.ChannelConnectivity.SHUTDOWN
    await control.close()


async def test_calls_that_find_renewed_credentials_at_once_share_one_connection(
    tmp_path: Path,
) -> None:
    authority = await asyncio.to_thread(Authority.make, tmp_path, "ours")
    folder, channels = authority.sign("operator", Role.OPERATOR).folder, DeadChannels()
    control = GrpcControl(lambda: folder, dial=lambda _tls: channels.dial)
    for _ in range(2):
        authority.sign("operator", Role.OPERATOR)
        to = Addressee("127.0.0.1:1", MEANT, has_tls=True)
        await asyncio.gather(*(control.health(to) for _ in range(3)))
    assert (len(channels), channels.open_count) == (2, 1)
    await control.close()
    assert channels.open_count == 0


async def test_no_call_is_cut_off_in_a_fleet_with_more_bookies_than_connections_are_kept() -> None:
    channels = DeadChannels(turns=5 * CONNECTIONS_MAX)
    control = GrpcControl(dial=lambda _tls: channels.dial)
    fleet = [Addressee(f"127.0.0.1:{port}", MEANT) for port in range(1, CONNECTIONS_MAX + 51)]
    await asyncio.gather(*map(control.health, fleet))
    assert len(channels) == len(fleet) and not any(one.was_cut_off for one in channels)
    await control.health(Addressee("127.0.0.1:9999", MEANT))
    assert channels.open_count == CONNECTIONS_MAX
    await control.close()


async def test_an_address_that_another_bookie_has_now_is_asked_as_that_ones(secure: Secure) -> None:
    secure.certify()
    control = GrpcControl(lambda: secure.folder)
    now = secure.addressee
    before = now._replace(meant=Identity(now.meant.cluster, "bookie-9", 1))
    assert await control.health(before) is None
    assert await control.health(now) is not None
    await control.close()


async def test_credentials_that_do_not_fit_together_are_no_credentials(secure: Secure) -> None:
    secure.certify()
    assert secure.folder is not None
    (secure.folder / "tls.key").write_text("garbage")
    control = GrpcControl(lambda: secure.folder)
    with pytest.raises(UnavailableError, match=r"the operator.s credentials: .*tls.key"):
        await control.drain(secure.addressee, cancel=False)
    await control.close()


async def test_a_small_fleet_is_asked_over_the_connections_that_are_open() -> None:
    channels = DeadChannels()
    control = GrpcControl(dial=lambda _tls: channels.dial)
    fleet = [Addressee(f"127.0.0.1:{port}", MEANT) for port in range(1, CONNECTIONS_MAX + 1)]
    for _round in range(2):
        for one in fleet:
            await control.health(one)
    assert len(channels) == channels.open_count == CONNECTIONS_MAX
    await control.close()


async def test_credentials_in_another_folder_take_the_place_of_those_before(
    secure: Secure, tmp_path: Path
) -> None:
    secure.certify()
    control = GrpcControl(lambda: secure.folder)
    assert await control.health(secure.addressee) is not None
    secure.folder = tmp_path / "nothing"
    assert await control.health(secure.addressee) is None
    await control.close()
