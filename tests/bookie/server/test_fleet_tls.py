"""TLS from the first byte on both data ports, and on the control plane: who is let in, and as whom.

Each bookie here is `bookie-0` of the fleet `lab/demo`; the other fleet's certificates are signed by
the same authority, as they are where one issuer signs for a whole Kubernetes cluster.
"""

import asyncio
import ssl
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from bookie.hosts import loopback
from bookie.metadata.store import ADMIN_ENDPOINT
from bookie.protocol.status import Status
from bookie.server.admin_roles import MAY
from bookie.testing.certificates import DNS, LIFETIME, MAIL, URI, Authority, Identity
from bookie.tls.client_tls import ClientTls
from bookie.tls.credentials import CredentialsFolder
from bookie.tls.principals import PREFIX, Role
from bookie.wire.admin import bookie_admin_pb2 as pb
from bookie.wire.stock.messages import Outcome
from cryptography import x509
from server_lab import KEY, ME, ServerLab, frame
from stock_client import V2Client, V3Client
from storage_kit import ids
from uvloop_story import on_uvloop, run_on_uvloop

MIB = 1 << 20
SERVICE = pb.DESCRIPTOR.services_by_name["BookieAdmin"]
REQUESTS = {one.name: getattr(pb, one.input_type.name) for one in SERVICE.methods}


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("fleet"), "ours")


class FleetLab:
    """A bookie with credentials of the fleet, in a folder of its own."""

    def __init__(self, server: ServerLab, authority: Authority) -> None:
        self.server = server
        self.authority = authority
        self.counted: dict[str, int] = {}
        """Connections under TLS by port, when the add that came last was answered."""
        self.folder = authority.sign(ME, Role.BOOKIE).folder

    async def start(self, **settings: Any) -> "FleetLab":
        self.server.tree["tls"] = {"directory": str(self.folder), **settings}
        await self.server.start()
        return self

    def client(self, identity: Identity | None) -> ClientTls | None:
        return None if identity is None else ClientTls(CredentialsFolder(identity.folder))

    async def add_as(self, tls: ClientTls | None, *, first: int = 0) -> Status:
        """One add over a connection of its own."""
        pool = self.server.new_pool(tls)
        answer: asyncio.Future[Status] = asyncio.get_running_loop().create_future()
        pool.add_run(ME, master_key=KEY, frame=frame(1, first), on_reply=answer.set_result)
        status = await answer
        self.counted = dict(self.server.traffic.tls_connections)
        await pool.close()
        return status

    async def call_as(self, identity: Identity | None, method: str) -> grpc.StatusCode:
        """What an empty request of this method comes to."""
        self.server.caller = self.client(identity)
        try:
            await self.server.call(method, REQUESTS[method]())
        except grpc.aio.AioRpcError as error:
            return error.code()
        return grpc.StatusCode.OK


@pytest.fixture
def fleet(idle_server: ServerLab, authority: Authority) -> FleetLab:
    return FleetLab(idle_server, authority)


# ---- the native port ----------------------------------------------------------------------------


async def test_a_client_of_the_fleet_adds_under_tls(fleet: FleetLab) -> None:
    await (await fleet.start()).server.ledger()
    assert await fleet.add_as(fleet.client(fleet.authority.sign("writer"))) is Status.OK
    assert fleet.counted["run"] == 1


async def test_a_client_in_plain_is_refused_where_tls_is_required(
    fleet: FleetLab, caplog: pytest.LogCaptureFixture
) -> None:
    await (await fleet.start()).server.ledger()
    assert await fleet.add_as(None) is Status.UNREACHABLE
    assert (
        "refuses our connections: this port takes TLS only, found a client without" in caplog.text
    )


async def test_a_port_that_accepts_tls_takes_both(fleet: FleetLab) -> None:
    await (await fleet.start(mode="Accepted")).server.ledger()
    assert await fleet.add_as(None) is Status.OK
    tls = fleet.client(fleet.authority.sign("writer"))
    assert await fleet.add_as(tls, first=1) is Status.OK


async def test_a_client_of_another_authority_is_not_let_in(fleet: FleetLab, tmp_path: Path) -> None:
    await fleet.start()
    stranger = Authority.make(tmp_path, "others").sign("writer")
    (stranger.folder / "ca.crt").write_bytes(fleet.authority.signer.pem)  # it trusts the bookie
    assert await fleet.add_as(fleet.client(stranger)) is Status.UNREACHABLE
    assert fleet.server.traffic.tls_failures["run"] == 1


async def test_a_client_of_another_fleet_of_the_same_authority_is_not_let_in(
    fleet: FleetLab, caplog: pytest.LogCaptureFixture
) -> None:
    await fleet.start()
    tls = fleet.client(fleet.authority.sign("writer", cluster="other", file="other-writer"))
    assert tls is not None
    stranger = ClientTls(tls.credentials)
    assert await fleet.add_as(stranger) is Status.UNREACHABLE
    connect = asyncio.open_connection(
        loopback(), fleet.server.bookie.ports["run"], ssl=tls.context(),  # type: ignore[union-attr]
        server_hostname="localhost",
    )  # fmt: skip
    reader, writer = await connect
    assert await reader.read() == b""
    writer.close()
    assert "expected one of lab/demo" in caplog.text


async def test_a_client_takes_no_other_bookie_for_the_one_it_means(fleet: FleetLab) -> None:
    fleet.folder = fleet.authority.sign("bookie-9", Role.BOOKIE).folder
    await fleet.start()
    assert await fleet.add_as(fleet.client(fleet.authority.sign("writer"))) is Status.UNREACHABLE


async def test_a_client_of_a_required_fleet_sends_nothing_to_a_bookie_in_plain(
    fleet: FleetLab,
) -> None:
    await fleet.server.start()
    await fleet.server.ledger()
    assert await fleet.add_as(fleet.client(fleet.authority.sign("writer"))) is Status.UNREACHABLE
    assert fleet.server.traffic.entries_added == 0


async def test_a_client_that_accepts_plain_goes_by_the_registration(fleet: FleetLab) -> None:
    folder = CredentialsFolder(fleet.authority.sign("writer").folder)
    await fleet.server.start()
    await fleet.server.ledger()
    assert await fleet.add_as(ClientTls(folder, takes_plain=True)) is Status.OK


async def test_the_registration_says_that_there_is_tls(fleet: FleetLab) -> None:
    await fleet.start()
    info = (await fleet.server.store.bookies())[ME]
    assert {one.auth for one in info.endpoints} == {("tls",)}
    endpoint = info.endpoint(ADMIN_ENDPOINT)
    assert endpoint is not None and endpoint.has_tls


async def test_runs_of_megabytes_come_and_go(fleet: FleetLab) -> None:
    await (await fleet.start()).server.ledger()
    tls = fleet.client(fleet.authority.sign("writer"))
    fleet.server.pool = fleet.server.new_pool(tls)
    for first in range(0, 8_000, 1_000):
        assert await fleet.server.add(1, first, 1_000) is Status.OK
    assert await fleet.server.held(1, 0, 7_999) == list(range(8_000))


async def is_cut_off(fleet: FleetLab, identity: Identity) -> bool:
    """At the native port, once there was a handshake."""
    assert fleet.server.bookie is not None
    context = ssl.create_default_context(cafile=str(fleet.authority.own.certificate))
    context.load_cert_chain(identity.certificate, identity.key)
    port = fleet.server.bookie.ports["run"]
    reader, writer = await asyncio.open_connection(
        loopback(), port, ssl=context, server_hostname="localhost"
    )
    heard = await reader.read()
    writer.close()
    return heard == b""


OTHER = f"{PREFIX}lab/other/client/writer"


@pytest.mark.parametrize(
    "names",
    [
        [OTHER.encode(), OTHER.encode() + b"2"],
        [OTHER.replace("other", "%64emo").encode()],
        [b"spiffe://elsewhere/\xff\xfe"],
    ],
    ids=["of two", "spelled otherwise", "no UTF-8"],
)
async def test_a_certificate_whose_names_are_odd_is_not_let_in(
    fleet: FleetLab, names: list[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    await fleet.start()
    odd = fleet.authority.sign_raw("odd", [(URI, name) for name in names])
    assert await is_cut_off(fleet, odd)
    await fleet.server.until(lambda: fleet.server.traffic.tls_failures["run"] == 1)
    assert "no TLS" in caplog.text


@pytest.mark.parametrize("days", [-1, 3])
async def test_a_client_whose_certificate_is_not_of_today_is_not_let_in(
    fleet: FleetLab, days: int
) -> None:
    await fleet.start()
    identity = fleet.authority.sign("late", since=timedelta(days=days))
    assert await fleet.add_as(fleet.client(identity)) is Status.UNREACHABLE
    assert fleet.server.traffic.tls_failures["run"] == 1


# ---- the stock port -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [V2Client, V3Client], ids=["v2", "v3"])
async def test_the_stock_port_takes_tls_from_the_first_byte(
    fleet: FleetLab, kind: type[V2Client | V3Client]
) -> None:
    ledger = await (await fleet.start()).server.ledger()
    tls = fleet.client(fleet.authority.sign("writer"))
    assert tls is not None and fleet.server.bookie is not None
    client = await kind.connect(fleet.server.bookie.ports["stock"], tls=tls.context())
    added = await client.ask(*[client.add(ledger, i, payload=bytes(MIB)) for i in range(4)])
    assert {one.outcome for one in added} == {Outcome.OK}
    assert fleet.server.traffic.tls_connections["stock"] == 1
    await client.close()


# ---- before the handshake -----------------------------------------------------------------------


async def lost(fleet: FleetLab, *, port: str, words: bytes) -> bytes:
    """All that a stranger hears who says this and then waits."""
    assert fleet.server.bookie is not None
    reader, writer = await asyncio.open_connection(loopback(), fleet.server.bookie.ports[port])
    writer.write(words)
    heard = await reader.read()
    writer.close()
    return heard


@pytest.mark.parametrize("port", ["run", "stock"])
@pytest.mark.parametrize("words", [b"", b"\x16", b"\x16\x03\x01\x02\x00\x01"], ids=len)
async def test_half_of_a_handshake_is_given_up(fleet: FleetLab, port: str, words: bytes) -> None:
    await fleet.start(handshakeSeconds=0.05)
    assert await lost(fleet, port=port, words=words) == b""
    assert fleet.server.traffic.tls_failures[port] == 1


async def test_a_handshake_in_pieces_of_one_byte_succeeds(fleet: FleetLab) -> None:
    await fleet.start()
    tls = fleet.client(fleet.authority.sign("writer"))
    assert tls is not None and fleet.server.bookie is not None
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = tls.context().wrap_bio(received, sent, server_hostname="localhost")
    reader, writer = await asyncio.open_connection(loopback(), fleet.server.bookie.ports["run"])
    done = False
    while not done:
        try:
            session.do_handshake()
            done = True
        except ssl.SSLWantReadError:
            pass
        for byte in sent.read():
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)
        if not done:
            received.write(await reader.read(MIB))
    await fleet.server.until(lambda: fleet.server.traffic.tls_connections["run"] == 1)
    writer.close()


async def test_more_connections_than_are_allowed_wait_for_no_handshake(fleet: FleetLab) -> None:
    fleet.server.tree["limits"] = {"connections": 3}
    await fleet.start()
    assert fleet.server.bookie is not None
    port = fleet.server.bookie.ports["run"]
    silent = [await asyncio.open_connection(loopback(), port) for _ in range(3)]
    assert await lost(fleet, port="run", words=b"") == b""
    for _reader, writer in silent:
        writer.close()
    tls = fleet.client(fleet.authority.sign("writer"))
    await fleet.server.until_status(lambda: fleet.add_as(tls), Status.OK)


@on_uvloop
def test_the_stories_hold_on_uvloop(authority: Authority, tmp_path: Path) -> None:
    """It has a TLS of its own."""

    async def story(number: int, told: Any) -> None:
        lab = FleetLab(ServerLab(tmp_path / str(number)), authority)
        try:
            await told(lab)
        finally:
            await lab.server.end()

    stories = [
        test_a_client_of_the_fleet_adds_under_tls,
        test_a_port_that_accepts_tls_takes_both,
        test_runs_of_megabytes_come_and_go,
        test_a_handshake_in_pieces_of_one_byte_succeeds,
        test_more_connections_than_are_allowed_wait_for_no_handshake,
    ]
    for number, told in enumerate(stories):
        run_on_uvloop(story(number, told))


# ---- the control plane --------------------------------------------------------------------------


def test_every_method_says_who_may_call_it() -> None:
    assert set(MAY) == set(REQUESTS)


@pytest.mark.parametrize("method", sorted(MAY))
@pytest.mark.parametrize("role", sorted(Role))
async def test_who_may_call_what(fleet: FleetLab, role: Role, method: str) -> None:
    await fleet.start()
    name = ME if role is Role.BOOKIE else role.value
    code = await fleet.call_as(fleet.authority.sign(name, role), method)
    is_refused = code is grpc.StatusCode.PERMISSION_DENIED
    assert is_refused is (role not in MAY[method]), code


async def test_the_control_plane_takes_nobody_in_plain(fleet: FleetLab) -> None:
    await fleet.start(mode="Accepted")
    assert await fleet.call_as(None, "GetHealth") is grpc.StatusCode.UNAVAILABLE


async def test_the_control_plane_takes_no_operator_of_another_fleet(fleet: FleetLab) -> None:
    await fleet.start()
    other = fleet.authority.sign("operator", Role.OPERATOR, cluster="other", file="other-operator")
    fleet.server.caller = None
    tls = CredentialsFolder(other.folder)
    assert fleet.server.bookie is not None
    port = fleet.server.bookie.ports["admin"]
    async with grpc.aio.secure_channel(f"localhost:{port}", tls.channel_credentials()) as channel:
        call = channel.unary_unary("/bookie.wire.admin.BookieAdmin/GetHealth")
        with pytest.raises(grpc.aio.AioRpcError, match="is for lab/demo, found operator") as found:
            await call(b"", timeout=10)
    assert found.value.code() is grpc.StatusCode.PERMISSION_DENIED


@pytest.mark.parametrize("kind", [DNS, MAIL], ids=["DNS", "mail"])
async def test_the_control_plane_takes_no_name_of_another_kind(fleet: FleetLab, kind: int) -> None:
    await fleet.start()
    name = f"{PREFIX}lab/demo/operator/operator".encode()
    odd = fleet.authority.sign_raw("odd", [(kind, name)])
    assert await fleet.call_as(odd, "GetHealth") is grpc.StatusCode.PERMISSION_DENIED


async def test_the_control_plane_takes_no_name_with_more_behind_its_end(fleet: FleetLab) -> None:
    """gRPC's own list of names ends each of them at a zero byte."""
    await fleet.start()
    name = f"{PREFIX}lab/demo/operator/operator\0/client/one".encode()
    odd = fleet.authority.sign_raw("odd", [(URI, name)])
    assert await fleet.call_as(odd, "GetHealth") is grpc.StatusCode.PERMISSION_DENIED


async def test_a_connection_lasts_no_longer_than_its_certificate(fleet: FleetLab) -> None:
    await fleet.start()
    ends_soon = fleet.authority.sign("ann", Role.DECISION, since=LIFETIME - timedelta(seconds=2.5))
    fleet.server.caller = fleet.client(ends_soon)
    meant = fleet.server.bookie.control.identity().to_metadata()  # type: ignore[union-attr]
    async with fleet.server.admin() as stub:
        assert await stub.GetHealth(pb.GetHealthRequest(), metadata=meant)
        with pytest.raises(grpc.aio.AioRpcError, match="ended at"):
            while True:
                await stub.GetHealth(pb.GetHealthRequest(), metadata=meant)


async def test_an_epoch_is_not_heard_from_who_may_not_call(fleet: FleetLab) -> None:
    await fleet.start()
    assert fleet.server.bookie is not None
    state, own = fleet.server.bookie.state, fleet.server.bookie.control.identity()
    fleet.server.caller = fleet.client(fleet.authority.sign("client"))
    with pytest.raises(grpc.aio.AioRpcError, match="may not call"):
        await fleet.server.call("GetHealth", pb.GetHealthRequest(), meant=replace(own, epoch=99))
    assert state.epoch_heard == 0


async def test_the_control_plane_takes_no_certificate_without_a_fleet(
    fleet: FleetLab, tmp_path: Path
) -> None:
    await fleet.start()
    stranger = Authority.make(tmp_path, "others").sign("operator", Role.OPERATOR)
    (stranger.folder / "ca.crt").write_bytes(fleet.authority.signer.pem)
    assert await fleet.call_as(stranger, "GetHealth") is grpc.StatusCode.UNAVAILABLE


async def test_a_bookie_may_have_only_itself_flushed(fleet: FleetLab) -> None:
    await fleet.start()
    neighbour = fleet.authority.sign("bookie-1", Role.BOOKIE)
    assert await fleet.call_as(neighbour, "Flush") is grpc.StatusCode.PERMISSION_DENIED
    own = fleet.authority.sign(ME, Role.BOOKIE)
    assert await fleet.call_as(own, "Flush") is grpc.StatusCode.OK


async def test_a_renewed_certificate_is_shown_by_the_control_plane(fleet: FleetLab) -> None:
    await fleet.start()
    assert fleet.server.bookie is not None
    port = fleet.server.bookie.ports["admin"]
    before = ssl.get_server_certificate((loopback(), port))
    fleet.authority.sign(ME, Role.BOOKIE)
    assert before != ssl.get_server_certificate((loopback(), port))


async def test_the_figures_say_in_seconds_when_the_certificate_in_use_ends(
    fleet: FleetLab,
) -> None:
    await fleet.start()
    assert fleet.server.bookie is not None
    for age in (timedelta(0), timedelta(minutes=1)):
        shown = fleet.authority.sign(ME, Role.BOOKIE, since=age)
        leaf = x509.load_pem_x509_certificate((shown.folder / "tls.crt").read_bytes())
        figures = await fleet.server.bookie.control.gauges()
        assert figures.certificate_ends_s == leaf.not_valid_after_utc.timestamp()


async def test_a_bookie_that_cannot_boot_says_when_its_certificate_ends(fleet: FleetLab) -> None:
    fleet.server.tree["tls"] = {"directory": str(fleet.folder)}
    fleet.server.metadata.is_out = True
    bookie = fleet.server.begin()
    await fleet.server.until(lambda: bool(bookie.state.message))
    leaf = x509.load_pem_x509_certificate((fleet.folder / "tls.crt").read_bytes())
    figures = await bookie.control.gauges()
    assert figures.certificate_ends_s == leaf.not_valid_after_utc.timestamp()


async def lost_by(fleet: FleetLab, role: Role) -> Any:
    """What a loss by a person's word comes to, which ann's certificate of this role sends."""
    await fleet.start()
    ledger = await fleet.server.ledger()
    current = await fleet.server.store.read_ledger(ledger)
    await fleet.server.store.write_ledger(current.value.in_recovery(), version=current.version)
    fleet.server.caller = fleet.client(fleet.authority.sign("ann", role))
    ranges = [pb.EntryRange(first=0, last=0)]
    request = pb.RecordLossRequest(ledger_id=ledger, ranges=ranges, by_person=True, reason="burnt")
    return await fleet.server.call("RecordLoss", request)


@pytest.mark.parametrize("role", [Role.JOB, Role.OPERATOR])
async def test_a_persons_word_about_a_loss_is_nobody_elses_to_give(
    fleet: FleetLab, role: Role
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await lost_by(fleet, role)
    assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
    words = refused.value.details() or ""
    assert (
        "may not record a loss as a person's decision, expected one of: decision, person" in words
    )
    assert fleet.server.bookie is not None
    assert not fleet.server.bookie.control.serving.booted.storage.losses_count


@pytest.mark.parametrize("role", [Role.PERSON, Role.DECISION])
async def test_a_loss_by_a_persons_word_is_kept_in_the_name_of_the_certificate(
    fleet: FleetLab, role: Role
) -> None:
    assert (await lost_by(fleet, role)).recorded
    [decision] = (await fleet.server.call("GetHealth", pb.GetHealthRequest())).decisions
    assert (decision.kind, decision.decided_by) == ("LossAccepted", "ann")


def test_the_certificate_of_a_decision_decides_about_losses_alone() -> None:
    mine = {method for method, roles in MAY.items() if Role.DECISION in roles}
    assert mine == {"GetHealth", "GetAvailability", "RecordLoss", "RetractLoss"}


async def retracted_by(fleet: FleetLab, caller: Identity | None, said: str) -> str:
    """Whom the bookie remembers for a loss record that this caller takes back, in this name."""
    await fleet.start()
    ledger = await fleet.server.ledger()
    assert fleet.server.bookie is not None
    storage = fleet.server.bookie.control.serving.booted.storage
    storage.maintenance.record_loss(ledger, ids((7, 7)), reason="a mistake")
    fleet.server.caller = fleet.client(caller)
    request = pb.RetractLossRequest(ledger_id=ledger, retracted_by=said, reason="it is wrong")
    reply = await fleet.server.call("RetractLoss", request)
    assert reply.retracted and reply.entries == 1 and not storage.losses_count
    [decision] = (await fleet.server.call("GetHealth", pb.GetHealthRequest())).decisions
    return str(decision.decided_by)


@pytest.mark.parametrize("role", [Role.PERSON, Role.DECISION])
async def test_a_person_takes_a_loss_back_in_no_name_but_their_own(
    fleet: FleetLab, role: Role
) -> None:
    ann = fleet.authority.sign("ann", role)
    assert await retracted_by(fleet, ann, "bob") == "ann"


async def test_who_takes_a_loss_back_for_another_is_named_beside_them(fleet: FleetLab) -> None:
    operator = fleet.authority.sign("prod", Role.OPERATOR)
    assert await retracted_by(fleet, operator, "ann") == "ann (operator prod says so)"


async def test_without_tls_the_name_of_a_decision_is_what_was_written(
    server: ServerLab,
) -> None:
    ledger = await server.ledger()
    assert server.bookie is not None
    storage = server.bookie.control.serving.booted.storage
    storage.maintenance.record_loss(ledger, ids((7, 7)), reason="a mistake")
    request = pb.RetractLossRequest(ledger_id=ledger, retracted_by="bob", reason="it is wrong")
    await server.call("RetractLoss", request)
    assert [one.by for one in storage.decisions] == ["bob"]
