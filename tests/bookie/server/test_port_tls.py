"""START_TLS on the stock port: who is let in, what comes before the handshake, what ends it."""

import asyncio
import logging
import os
import re
import shutil
import ssl
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from bookie.hosts import loopback
from bookie.protocol.status import Status
from bookie.server import stock
from bookie.server.port_tls import PortTls
from bookie.server.settings import Tls
from bookie.testing.certificates import Authority, Identity
from bookie.tls.client_tls import ClientTls
from bookie.tls.credentials import CredentialsFolder
from bookie.tls.principals import Role
from bookie.wire.stock.auth import AUTH_DISABLED
from bookie.wire.stock.framing import FRAME_LENGTH
from bookie.wire.stock.messages import Outcome
from server_lab import ServerLab
from stock_client import StockClient, V2Client, V3Client, handshake
from uvloop_story import on_uvloop, run_on_uvloop

OK = Outcome.OK
MIB = 1 << 20
BOTH_WIRES = pytest.mark.parametrize("kind", [V2Client, V3Client], ids=["v2", "v3"])
BOTH_TLS = pytest.mark.parametrize(
    "version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["TLS 1.2", "TLS 1.3"]
)


@dataclass(frozen=True, slots=True)
class Certificates:
    """The bookie's and a client's are of one authority, the stranger's of another."""

    authority: Authority
    bookie: Identity
    renewed: Identity
    client: Identity
    stranger: Identity

    def context(
        self, who: Identity | None, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
    ) -> ssl.SSLContext:
        """Of a client that shows this certificate, or none."""
        context = ssl.create_default_context(cafile=str(self.authority.own.certificate))
        context.maximum_version = version
        if who is not None:
            context.load_cert_chain(who.certificate, who.key)
        return context


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    folder = tmp_path_factory.mktemp("certificates")
    ours, others = Authority.make(folder, "ours"), Authority.make(folder, "others")
    bookie = ours.sign("bookie-0", Role.BOOKIE)
    renewed = ours.sign("bookie-0", Role.BOOKIE, file="renewed")
    return Certificates(ours, bookie, renewed, ours.sign("client"), others.sign("stranger"))


class TlsLab:
    """A bookie with certificates, in files of its own."""

    def __init__(self, server: ServerLab, certificates: Certificates) -> None:
        self.server = server
        self.certificates = certificates
        self.folder = server.root.with_name("tls")
        self.folder.mkdir()
        self.clients: list[StockClient] = []
        server.pool = server.new_pool(ClientTls(CredentialsFolder(certificates.client.folder)))
        self.renew(certificates.bookie)
        self.settings: dict[str, Any] = {"directory": str(self.folder), "mode": "Accepted"}

    def renew(self, identity: Identity) -> None:
        """The bookie's files are others from now on."""
        for source in identity.folder.iterdir():
            shutil.copy(source, self.folder / "new")
            os.replace(self.folder / "new", self.folder / source.name)

    async def start(self, **settings: Any) -> "TlsLab":
        self.server.tree["tls"] = self.settings | settings
        await self.server.start()
        return self

    async def plain(self, kind: type[StockClient] = V3Client) -> Any:
        assert self.server.bookie is not None
        self.clients.append(await kind.connect(self.server.bookie.ports["stock"]))
        return self.clients[-1]

    async def secure(
        self, kind: type[StockClient] = V3Client, context: ssl.SSLContext | None = None
    ) -> Any:
        client = await self.plain(kind)
        await client.upgrade(context or self.certificates.context(self.certificates.client))
        return client

    async def is_let_in(self, context: ssl.SSLContext) -> bool:
        """With TLS 1.3 a client only learns that it is not when it has asked something."""
        try:
            client = await self.secure(context=context)
            [answer] = await client.ask(client.read_lac(1))
        except (OSError, asyncio.IncompleteReadError):
            return False
        return bool(answer.outcome is Outcome.NO_LEDGER)

    async def until_gone(self) -> None:
        """The bookie has no connection."""
        await self.server.until(lambda: self.server.traffic.connections == 0)

    async def until_failed(self) -> None:
        """The bookie has no connection, and has counted why: loops may do that a turn later."""
        await self.until_gone()
        await self.server.until(lambda: self.server.traffic.tls_failures["stock"] > 0)

    async def close(self) -> None:
        for client in self.clients:
            await client.close()


@pytest.fixture
async def tls(idle_server: ServerLab, certificates: Certificates) -> Any:
    lab = TlsLab(idle_server, certificates)
    yield lab
    await lab.close()


# ---- under TLS ----------------------------------------------------------------------------------


@BOTH_WIRES
async def test_entries_come_and_go_under_tls(tls: TlsLab, kind: type[StockClient]) -> None:
    ledger = await (await tls.start()).server.ledger()
    client = await tls.secure(kind)
    added = await client.ask(*[client.add(ledger, i) for i in range(200)])
    assert {a.outcome for a in added} == {OK}
    found = await client.ask(*[client.read(ledger, i) for i in range(200)])
    assert [a.body[-9:] for a in found[100:]] == [b"entry %d" % i for i in range(100, 200)]
    assert tls.server.traffic.tls_connections["stock"] == 1


async def test_megabytes_go_both_ways_under_tls(tls: TlsLab) -> None:
    ledger = await (await tls.start()).server.ledger()
    client = await tls.secure(V2Client)
    await client.ask(*[client.add(ledger, i, payload=bytes([i]) * MIB) for i in range(8)])
    found = await client.ask(*[client.read(ledger, i) for i in range(8)])
    assert [a.body[-MIB:] for a in found] == [bytes([i]) * MIB for i in range(8)]


async def test_what_comes_with_the_end_of_the_handshake_is_answered_under_tls(tls: TlsLab) -> None:
    await tls.start()
    client = await tls.plain()
    await client.ask(client.start_tls())
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = tls.certificates.context(tls.certificates.client)
    session = context.wrap_bio(received, sent, server_hostname="localhost")
    await handshake(client, session, received, sent)
    request = client.read_lac(1)
    session.write(FRAME_LENGTH.pack(len(request)) + request)
    client.writer.write(sent.read())  # the last of the handshake, and the request
    received.write(await client.reader.read(MIB))
    assert client.parse(session.read()[4:]).outcome is Outcome.NO_LEDGER


async def test_a_connection_under_tls_is_counted_until_it_ends(tls: TlsLab) -> None:
    await tls.start()
    client = await tls.secure(V2Client)
    await client.ask(client.read(1, 1))
    traffic = tls.server.traffic
    assert (traffic.tls_connections["stock"], traffic.stock_connections["v2"]) == (1, 1)
    await client.close()
    await tls.until_gone()
    assert (traffic.tls_connections["stock"], traffic.stock_connections["v2"]) == (0, 0)


async def test_a_bookie_stops_with_clients_under_tls_and_in_a_handshake(tls: TlsLab) -> None:
    await tls.start()
    secure, between = await tls.secure(), await tls.plain()
    await between.ask(between.start_tls())
    async with asyncio.timeout(10):
        _ended, _left, code = await asyncio.gather(
            secure.until_closed(), between.until_closed(), tls.server.stop()
        )
    assert code == 0


# ---- who is let in ------------------------------------------------------------------------------


@BOTH_TLS
async def test_a_client_of_the_authority_is_let_in(tls: TlsLab, version: ssl.TLSVersion) -> None:
    await tls.start()
    assert await tls.is_let_in(tls.certificates.context(tls.certificates.client, version))


@BOTH_TLS
@pytest.mark.parametrize("who", ["nobody", "stranger"])
async def test_a_client_without_a_certificate_of_the_authority_is_not_let_in(
    tls: TlsLab, who: str, version: ssl.TLSVersion
) -> None:
    await tls.start()
    shown = getattr(tls.certificates, who, None)
    assert not await tls.is_let_in(tls.certificates.context(shown, version))
    await tls.until_gone()
    traffic = tls.server.traffic
    assert (traffic.tls_failures["stock"], traffic.tls_connections["stock"]) == (1, 0)


async def test_a_client_of_another_fleet_is_cut_off_behind_its_handshake(tls: TlsLab) -> None:
    await tls.start()
    other = tls.certificates.authority.sign("writer", cluster="other", file="other-writer")
    client = await tls.plain()
    with suppress(OSError):  # who is cut off may hear of it in the handshake
        await client.upgrade(tls.certificates.context(other))
    assert await client.until_closed() == b""


@pytest.mark.parametrize("year", [2020, 2099])
@pytest.mark.parametrize("names", ["", "own", "other", "garbled", "own own2", "own other"])
def test_a_session_that_is_taken_up_again_ends_with_its_certificate_whatever_its_names(
    certificates: Certificates, names: str, year: int
) -> None:
    """Of TLS 1.2, by its id, while its first connection lives: nothing is verified again."""
    port = PortTls(Tls(directory=certificates.bookie.folder))
    own = port.credentials.principal
    assert own is not None
    writer = own.peer(Role.CLIENT, "writer")
    uris = {
        "own": writer.uri, "own2": own.uri, "other": replace(writer, cluster="other").uri,
        "garbled": writer.uri + "/",
    }  # fmt: skip
    certificate = {
        "notAfter": f"Nov 25 00:00:00 {year} GMT",
        "subjectAltName": tuple(("URI", uris[name]) for name in names.split()),
    }
    assert bool(port.why_not(certificate)) is (year == 2020 or names not in ("", "own"))


@pytest.mark.parametrize("who", ["nobody", "client", "stranger"])
@pytest.mark.parametrize("clients", ["optional", "none"])
async def test_certificates_of_clients_may_be_left_out(tls: TlsLab, who: str, clients: str) -> None:
    await tls.start(clients=clients)
    shown = getattr(tls.certificates, who, None)
    is_good = (clients, who) != ("optional", "stranger")
    assert await tls.is_let_in(tls.certificates.context(shown)) is is_good


async def test_a_client_may_stay_without_tls_where_it_is_not_required(tls: TlsLab) -> None:
    ledger = await (await tls.start()).server.ledger()
    client = await tls.plain()
    assert [a.outcome for a in await client.ask(client.add(ledger, 0))] == [OK]


@BOTH_WIRES
@pytest.mark.parametrize("count", [1, 200])
async def test_where_tls_is_required_a_plain_client_gets_nothing(
    tls: TlsLab, kind: type[StockClient], count: int
) -> None:
    ledger = await (await tls.start(mode="Required")).server.ledger()
    client = await tls.plain(kind)
    adds = [client.add(ledger, i, payload=b"x") for i in range(count)]
    answers = await client.ask(*adds, client.read(ledger, 0), client.read(ledger, 0, fence=True))
    assert {a.outcome for a in answers} == {Outcome.UNAUTHORIZED}
    assert tls.server.traffic.refused[Status.UNAUTHORIZED] > 0
    assert await tls.server.held(ledger, 0, count) == []
    assert await tls.server.add(ledger, 0) is Status.OK, "nobody has fenced it"


async def test_where_tls_is_required_every_request_of_version_3_is_refused(tls: TlsLab) -> None:
    await tls.start(mode="Required")
    client = await tls.plain()
    asked = (client.read_lac(1), client.write_lac(1, 0), client.force(1), client.list_entries(1))
    answers = await client.ask(*asked, client.info(), client.poll(1, previous=0))
    assert {a.outcome for a in answers} == {Outcome.UNAUTHORIZED}


@BOTH_WIRES
async def test_where_tls_is_required_a_client_under_tls_is_served(
    tls: TlsLab, kind: type[StockClient]
) -> None:
    ledger = await (await tls.start(mode="Required")).server.ledger()
    client = await tls.secure(kind)
    assert [a.outcome for a in await client.ask(client.add(ledger, 0))] == [OK]


# ---- before the handshake -----------------------------------------------------------------------


async def test_what_comes_with_start_tls_is_no_request(tls: TlsLab) -> None:
    ledger = await (await tls.start()).server.ledger()
    client = await tls.plain()
    client.send(client.start_tls(), client.add(ledger, 0))
    assert await client.until_closed() == b""
    assert tls.server.traffic.tls_failures["stock"] == 1
    assert await tls.server.held(ledger, 0, 0) == []


async def test_the_first_byte_behind_start_tls_ends_the_connection(tls: TlsLab) -> None:
    await tls.start()
    client = await tls.plain()
    frame = client.start_tls()
    client.writer.write(FRAME_LENGTH.pack(len(frame)) + frame + b"\0")
    assert await client.until_closed() == b""
    assert tls.server.traffic.tls_failures["stock"] == 1


async def test_a_plain_request_in_place_of_the_handshake_is_no_request(tls: TlsLab) -> None:
    ledger = await (await tls.start()).server.ledger()
    client = await tls.plain()
    await client.ask(client.start_tls())
    client.send(client.add(ledger, 0))
    await tls.until_failed()
    assert tls.server.traffic.tls_failures["stock"] == 1
    assert await tls.server.held(ledger, 0, 0) == []


async def test_a_handshake_that_does_not_begin_is_given_up(tls: TlsLab) -> None:
    await tls.start(handshakeSeconds=0.05)
    client = await tls.plain()
    await client.ask(client.start_tls())
    await tls.until_failed()
    assert tls.server.traffic.tls_failures["stock"] == 1


async def test_a_client_that_leaves_in_the_handshake_is_forgotten(tls: TlsLab) -> None:
    await tls.start()
    client = await tls.plain()
    await client.ask(client.start_tls())
    await client.close()
    await tls.until_failed()
    assert tls.server.traffic.tls_failures["stock"] == 1


async def test_the_first_byte_behind_the_answer_ends_the_connection(tls: TlsLab) -> None:
    await tls.start()
    client = await tls.plain()
    await client.ask(client.start_tls())
    client.writer.write(b"\0")
    assert await client.until_closed() == b""
    assert tls.server.traffic.tls_failures["stock"] == 1


async def test_a_client_that_leaves_with_half_a_handshake_is_forgotten(tls: TlsLab) -> None:
    await tls.start()
    client = await tls.plain()
    await client.ask(client.start_tls())
    client.writer.write(hello(tls)[:40])
    await client.close()
    await tls.until_failed()
    assert tls.server.traffic.tls_failures["stock"] == 1


async def test_a_handshake_that_does_not_end_is_given_up(tls: TlsLab) -> None:
    await tls.start(handshakeSeconds=0.05)
    client = await tls.plain()
    await client.ask(client.start_tls())
    client.writer.write(hello(tls)[:1])
    await tls.until_failed()
    assert tls.server.traffic.tls_failures["stock"] == 1


async def test_the_time_for_a_handshake_runs_from_the_answer_on(tls: TlsLab) -> None:
    await tls.start(handshakeSeconds=0.5)
    client = await tls.plain()
    await client.ask(client.start_tls())
    with suppress(TimeoutError):
        await asyncio.wait_for(client.reader.read(1), 0.45)
    with warnings_of(stock.log) as said:
        client.writer.write(hello(tls)[:1])
        await tls.until_failed()
    assert re.search(r"longer than 0.0\d+ seconds|no handshake behind START_TLS", said[-1]), said


async def test_a_handshake_may_come_in_pieces(tls: TlsLab) -> None:
    await tls.start()
    client = await tls.plain()
    await client.ask(client.start_tls())
    for byte in hello(tls):
        client.writer.write(bytes([byte]))
        await asyncio.sleep(0)  # a packet of its own
    assert (await client.reader.readexactly(1))[0] == 22


@BOTH_WIRES
async def test_a_plugins_word_behind_the_answer_is_answered_under_tls(
    tls: TlsLab, kind: type[StockClient]
) -> None:
    """Without authentication: a client that has a plugin is to go on."""
    await tls.start(mode="Required")
    client = await tls.plain(kind)
    answered = V3Client(client.reader, client.writer)
    await answered.ask(answered.start_tls())
    client.send(client.auth(b"", plugin="sasl"))
    await client.writer.start_tls(
        tls.certificates.context(tls.certificates.client), server_hostname="localhost"
    )
    assert (await client.answer()).message.authPluginName == AUTH_DISABLED
    [read] = await client.ask(client.read(1, 1))
    assert read.outcome is Outcome.NO_LEDGER


@contextmanager
def warnings_of(log: logging.Logger) -> Iterator[list[str]]:
    """What it says meanwhile; without a fixture, for the stories on uvloop."""
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    log.addHandler(handler)
    try:
        yield said
    finally:
        log.removeHandler(handler)


def hello(tls: TlsLab) -> bytes:
    """The first words of a client's handshake."""
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = tls.certificates.context(tls.certificates.client)
    session = context.wrap_bio(received, sent, server_hostname="localhost")
    with suppress(ssl.SSLWantReadError):
        session.do_handshake()
    return sent.read()


async def test_start_tls_behind_another_request_is_refused_and_the_rest_is_served(
    tls: TlsLab,
) -> None:
    ledger = await (await tls.start()).server.ledger()
    client = await tls.plain()
    await client.ask(client.add(ledger, 0))
    refused, read = await client.ask(client.start_tls(), client.read(ledger, 0))
    assert (refused.outcome, read.outcome) == (Outcome.BAD_REQUEST, OK)


async def test_there_is_no_tls_under_tls(tls: TlsLab) -> None:
    await tls.start()
    client = await tls.secure()
    [answer] = await client.ask(client.start_tls())
    assert answer.outcome is Outcome.BAD_REQUEST


@on_uvloop
@pytest.mark.parametrize(
    "story",
    [
        test_megabytes_go_both_ways_under_tls,
        test_what_comes_with_the_end_of_the_handshake_is_answered_under_tls,
        test_a_connection_under_tls_is_counted_until_it_ends,
        test_a_bookie_stops_with_clients_under_tls_and_in_a_handshake,
        test_what_comes_with_start_tls_is_no_request,
        test_a_plain_request_in_place_of_the_handshake_is_no_request,
        test_a_handshake_that_does_not_begin_is_given_up,
        test_a_client_that_leaves_in_the_handshake_is_forgotten,
        test_the_first_byte_behind_the_answer_ends_the_connection,
        test_a_client_that_leaves_with_half_a_handshake_is_forgotten,
        test_a_handshake_that_does_not_end_is_given_up,
        test_the_time_for_a_handshake_runs_from_the_answer_on,
        test_a_handshake_may_come_in_pieces,
    ],
)
def test_tls_stories_hold_on_uvloop(
    story: Callable[[TlsLab], Awaitable[None]], certificates: Certificates, tmp_path: Path
) -> None:
    """It has a TLS of its own."""

    async def told() -> None:
        server = ServerLab(tmp_path)
        lab = TlsLab(server, certificates)
        try:
            await story(lab)
        finally:
            await lab.close()
            await server.end()

    run_on_uvloop(told())


# ---- files --------------------------------------------------------------------------------------


async def shown_serial(tls: TlsLab) -> str:
    """Of the certificate that the bookie shows now."""
    client = await tls.secure()
    return str(client.writer.get_extra_info("peercert")["serialNumber"])


async def test_a_renewed_certificate_is_shown_to_the_next_client(tls: TlsLab) -> None:
    await tls.start()
    before = await shown_serial(tls)
    tls.renew(tls.certificates.renewed)
    assert before != await shown_serial(tls) == await shown_serial(tls)


async def test_in_the_middle_of_a_renewal_the_old_certificate_is_shown(tls: TlsLab) -> None:
    await tls.start()
    before = await shown_serial(tls)
    shutil.copy(tls.certificates.renewed.key, tls.folder / "tls.key")
    assert await shown_serial(tls) == before
    (tls.folder / "tls.crt").unlink()
    assert await shown_serial(tls) == before
    tls.renew(tls.certificates.renewed)
    assert await shown_serial(tls) != before


# ---- the HTTP port ------------------------------------------------------------------------------


async def test_the_http_port_shows_the_certificate_of_now(tls: TlsLab) -> None:
    await tls.start(http=True)
    before = await shown_on_http(tls)
    assert before == await shown_on_http(tls)
    tls.renew(tls.certificates.renewed)
    assert await shown_on_http(tls) != before


async def shown_on_http(tls: TlsLab) -> bytes | None:
    assert tls.server.bookie is not None
    context, port = tls.certificates.context(None), tls.server.bookie.ports["http"]
    _reader, writer = await asyncio.open_connection(
        loopback(), port, ssl=context, server_hostname="localhost"
    )
    shown: bytes | None = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return shown
