"""Certificates and passwords beside each other: who is authenticated under TLS, and what may come
before the handshake."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from typing import Any

import pytest
from bookie.hosts import loopback
from bookie.protocol.status import Status
from bookie.server.state import AuthFailure
from bookie.testing.certificates import Authority
from bookie.tls.principals import Role
from bookie.wire.stock.framing import FRAME_LENGTH
from bookie.wire.stock.messages import Outcome
from sasl_client import challenge, line, log_in, response
from server_lab import ServerLab
from stock_client import StockClient, V2Client, V3Client, handshake
from stock_lab import StockLab

MIB = 1 << 20
SOON = 0.05
OK, UNAUTHORIZED = Outcome.OK, Outcome.UNAUTHORIZED
BOTH_ORDERS = pytest.mark.parametrize("is_first", [True, False], ids=["before", "with"])


class Lab(StockLab):
    """A bookie with TLS and authentication, and clients of one version of the wire."""

    def __init__(self, server: ServerLab, kind: type[StockClient], authority: Authority) -> None:
        super().__init__(server, kind)
        self.authority = authority
        self.users = server.root.with_name("users")
        self.users.write_text(line(), encoding="utf-8")

    async def start(self, *mechanisms: str, crowd: int = 100, **tls: Any) -> "Lab":
        directory = str(self.authority.sign("bookie-0", Role.BOOKIE).folder)
        own = {"directory": directory, "mode": "Accepted", "clients": "optional"}
        self.server.tree["tls"] = own | tls
        wanted: dict[str, Any] = {"mechanisms": list(mechanisms), "usersFile": str(self.users)}
        wanted["unauthenticatedConnections"] = crowd
        self.server.tree["authentication"] = wanted
        await self.server.start()
        return self

    def context(self, *, has_certificate: bool) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.authority.own.certificate))
        if has_certificate:
            client = self.authority.sign("client")
            context.load_cert_chain(client.certificate, client.key)
        return context

    async def secure(self, *, has_certificate: bool) -> Any:
        client = await self.client()
        await client.upgrade(self.context(has_certificate=has_certificate))
        return client

    async def from_first_byte(self) -> Any:
        """With a certificate, and no START_TLS."""
        assert self.server.bookie is not None
        context, port = self.context(has_certificate=True), self.server.bookie.ports["stock"]
        streams = await asyncio.open_connection(
            loopback(), port, ssl=context, server_hostname="localhost"
        )
        self.clients.append(self.kind(*streams))
        return self.clients[-1]


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("authentication"), "ours")


@pytest.fixture(params=[V2Client, V3Client], ids=["v2", "v3"])
async def lab(
    idle_server: ServerLab, authority: Authority, request: pytest.FixtureRequest
) -> AsyncIterator[Lab]:
    made = Lab(idle_server, request.param, authority)
    yield made
    await made.close()


# ---- which way in -------------------------------------------------------------------------------


async def test_a_verified_certificate_is_a_way_in(lab: Lab) -> None:
    ledger = await (await lab.start("tls")).server.ledger()
    client = await lab.secure(has_certificate=True)
    assert [a.outcome for a in await client.ask(client.add(ledger, 0))] == [OK]
    assert lab.server.traffic.unauthenticated == 0


async def test_who_has_a_certificate_crowds_nobody_out(lab: Lab) -> None:
    await lab.start("tls", "digest-md5", crowd=1)
    first = await lab.client()
    token = response(await challenge(first))
    second = await lab.from_first_byte()
    assert (await second.ask(second.read(1, 1)))[0].outcome is Outcome.NO_LEDGER
    assert (await first.ask(first.auth(token, plugin="sasl")))[0].outcome is OK
    assert not lab.failures


async def test_tls_without_a_certificate_is_none(lab: Lab) -> None:
    ledger = await (await lab.start("tls")).server.ledger()
    for client in (await lab.secure(has_certificate=False), await lab.client()):
        answers = await client.ask(client.add(ledger, 0), client.read(ledger, 0, fence=True))
        assert {a.outcome for a in answers} == {UNAUTHORIZED}
    assert await lab.server.add(ledger, 0) is Status.OK, "nobody has fenced it"


async def test_a_certificate_is_no_way_in_where_a_password_is_asked_for(lab: Lab) -> None:
    await lab.start("digest-md5")
    client = await lab.secure(has_certificate=True)
    [before] = await client.ask(client.read(1, 1))
    await log_in(client)
    [after] = await client.ask(client.read(1, 1))
    assert (before.outcome, after.outcome) == (UNAUTHORIZED, Outcome.NO_LEDGER)


async def test_a_password_is_no_way_in_where_a_certificate_is_asked_for(lab: Lab) -> None:
    client = await (await lab.start("tls")).client()
    client.send(client.auth(b"x", plugin="sasl"))
    await client.until_closed()
    assert lab.failures == {AuthFailure.PLUGIN: 1}


@pytest.mark.parametrize("has_certificate", [True, False])
async def test_with_both_either_is_enough(lab: Lab, has_certificate: bool) -> None:
    await lab.start("tls", "digest-md5")
    client = await lab.secure(has_certificate=has_certificate)
    answer = await log_in_unless(client, has_certificate)
    assert answer.outcome is Outcome.NO_LEDGER


async def log_in_unless(client: Any, is_in: bool) -> Any:
    if not is_in:
        await log_in(client)
    [answer] = await client.ask(client.read(1, 1))
    return answer


async def test_a_plugin_beside_a_certificate_goes_on_as_if_nothing_was_asked(lab: Lab) -> None:
    await lab.start("tls", "digest-md5")
    client = await lab.secure(has_certificate=True)
    [answer] = await client.ask(client.auth(b"", plugin="sasl"))
    assert answer.message.authPluginName == "AuthDisabledPlugin"


async def test_a_certificate_counts_under_tls_from_the_first_byte(lab: Lab) -> None:
    await lab.start("tls")
    client = await lab.from_first_byte()
    [answer] = await client.ask(client.read(1, 1))
    assert answer.outcome is Outcome.NO_LEDGER


# ---- the greeting of a stock client, which does not wait for TLS --------------------------------


@BOTH_ORDERS
@pytest.mark.parametrize("mode", ["Required", "Accepted"])
async def test_a_greeting_beside_start_tls_is_answered_under_tls(
    lab: Lab, is_first: bool, mode: str
) -> None:
    client = await (await lab.start("digest-md5", mode=mode)).client()
    start, greeting = V3Client(None, None).start_tls(), client.auth(b"", plugin="sasl")  # type: ignore[arg-type]
    client.send(*((greeting, start) if is_first else (start, greeting)))
    answered = V3Client(client.reader, client.writer)
    assert (await answered.answer()).outcome is OK, "the first answer is that to START_TLS"
    await client.writer.start_tls(lab.context(has_certificate=False), server_hostname="localhost")
    challenged = await client.answer()
    token = client.auth(response(challenged.message.payload), plugin="sasl")
    _last, read = await client.ask(token, client.read(1, 1))
    assert read.outcome is Outcome.NO_LEDGER


async def test_a_greeting_behind_the_answer_to_start_tls_is_answered_under_tls(lab: Lab) -> None:
    """Of a client that looked up the bookie's name meanwhile."""
    client = await (await lab.start("digest-md5", mode="Required")).client()
    answered = V3Client(client.reader, client.writer)
    await answered.ask(answered.start_tls())
    client.send(client.auth(b"", plugin="sasl"))
    await client.writer.start_tls(lab.context(has_certificate=False), server_hostname="localhost")
    token = response((await client.answer()).message.payload)
    _last, read = await client.ask(client.auth(token, plugin="sasl"), client.read(1, 1))
    assert read.outcome is Outcome.NO_LEDGER


async def test_a_response_in_plain_ends_the_connection_once_tls_is_asked_for(lab: Lab) -> None:
    client = await (await lab.start("digest-md5")).client()
    answered = V3Client(client.reader, client.writer)
    await answered.ask(answered.start_tls())
    client.send(client.auth(b"username=", plugin="sasl"))
    assert await client.until_closed() == b""
    assert lab.server.traffic.tls_failures["stock"] == 1


async def test_a_greeting_without_start_tls_is_answered_where_plain_is_accepted(lab: Lab) -> None:
    client = await (await lab.start("digest-md5")).client()
    assert (await log_in(client)).outcome is OK
    [answer] = await client.ask(client.read(1, 1))
    assert answer.outcome is Outcome.NO_LEDGER


async def test_no_password_is_taken_in_plain_where_tls_is_required(lab: Lab) -> None:
    client = await (await lab.start("digest-md5", mode="Required")).client()
    client.send(client.auth(b"", plugin="sasl"))
    said = await client.until_closed()
    assert b"nonce" not in said and lab.failures == {AuthFailure.PLAIN: 1}
    late = await lab.client()
    late.send(late.auth(b"a token", plugin="sasl"))
    assert b"nonce" not in await late.until_closed()


async def test_a_greeting_is_not_answered_in_the_middle_of_a_handshake(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bookie.server.stock.GREETING_WAIT_S", SOON)
    client = await (await lab.start("digest-md5")).client()
    client.send(client.auth(b"", plugin="sasl"))
    await lab.server.until(lambda: lab.server.traffic.unauthenticated == 1)
    answered = V3Client(client.reader, client.writer)
    assert [a.outcome for a in await answered.ask(answered.start_tls())] == [OK]
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(4 * SOON):
            await client.answer()
    await client.writer.start_tls(lab.context(has_certificate=False), server_hostname="localhost")
    assert (await client.answer()).message.payload.startswith(b"realm=")
    assert lab.server.traffic.tls_connections["stock"] == 1


async def test_other_requests_behind_a_greeting_come_behind_its_answer(lab: Lab) -> None:
    client = await (await lab.start("digest-md5")).client()
    greeting, read = client.auth(b"", plugin="sasl"), client.read(1, 1)
    first, second = await client.ask(greeting, read)
    assert first.message.payload.startswith(b"realm=") and second.outcome is UNAUTHORIZED


async def test_a_certificate_counts_for_what_comes_with_the_end_of_the_handshake(lab: Lab) -> None:
    client = await (await lab.start("tls")).client()
    answered = V3Client(client.reader, client.writer)
    await answered.ask(answered.start_tls())
    received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = lab.context(has_certificate=True)
    session = context.wrap_bio(received, sent, server_hostname="localhost")
    await handshake(client, session, received, sent)
    request = client.read(1, 1)
    session.write(FRAME_LENGTH.pack(len(request)) + request)
    client.writer.write(sent.read())  # the last of the handshake, and the request
    received.write(await client.reader.read(MIB))
    assert client.parse(session.read()[4:]).outcome is Outcome.NO_LEDGER
