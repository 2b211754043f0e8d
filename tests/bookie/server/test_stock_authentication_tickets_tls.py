"""Tickets of Kerberos beside TLS: a stock client's ticket comes before the handshake, in plain."""

import ssl
from collections.abc import AsyncIterator
from typing import Any

import pytest
from bookie.server.state import AuthFailure
from bookie.testing.certificates import Authority
from bookie.tls.principals import Role
from bookie.wire.stock.framing import FRAME_LENGTH
from bookie.wire.stock.messages import Outcome
from server_lab import ServerLab
from stock_client import StockClient, V2Client, V3Client
from stock_lab import StockLab
from ticket_client import BOOKIE, STRANGER, USER, Tickets, log_in, seal

SOON = 0.05


class Lab(StockLab):
    """A bookie that requires TLS and a ticket, and clients of one version of the wire."""

    def __init__(self, server: ServerLab, kind: type[StockClient], folder: Any) -> None:
        super().__init__(server, kind)
        self.authority = Authority.make(folder, "ours")

    async def start(self, keytab: str, clients: str = USER, **tls: Any) -> None:
        """`clients`: principals that are let in."""
        directory = str(self.authority.sign("bookie-0", Role.BOOKIE).folder)
        self.server.tree["tls"] = {"directory": directory, "clients": "optional"} | tls
        self.server.tree["authentication"] = {
            "mechanisms": ["gssapi"],
            "keytab": keytab,
            "principal": BOOKIE,
            "clientPrincipals": clients,
            "replayCache": str(self.server.root.with_name("replays")),
        }
        await self.server.start()

    @property
    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.authority.own.certificate))


@pytest.fixture(params=[V2Client, V3Client], ids=["v2", "v3"])
async def lab(
    idle_server: ServerLab,
    tickets: Tickets,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> AsyncIterator[Lab]:
    made = Lab(idle_server, request.param, tmp_path_factory.mktemp("tickets-tls"))
    yield made
    await made.close()


async def under_tls(lab: Lab, client: Any, initiator: Any) -> Outcome:
    """The rest of the login, under TLS, and a read."""
    await client.writer.start_tls(lab.context, server_hostname="localhost")
    offer = await client.answer()
    initiator.unwrap(offer.message.payload)
    client.send(client.auth(seal(initiator, USER), plugin="sasl"))
    [read] = await client.ask(client.read(1, 1))
    return read.outcome  # type: ignore[no-any-return]


@pytest.mark.parametrize("is_first", [True, False], ids=["before", "with"])
@pytest.mark.parametrize("mode", ["Required", "Accepted"])
async def test_a_ticket_beside_start_tls_is_answered_under_tls(
    lab: Lab, tickets: Tickets, is_first: bool, mode: str
) -> None:
    await lab.start(str(tickets.keytab), mode=mode)
    client, initiator = await lab.client(), tickets.initiator()
    answered = V3Client(client.reader, client.writer)
    start, greeting = answered.start_tls(), client.auth(initiator.step(), plugin="sasl")
    client.send(*((greeting, start) if is_first else (start, greeting)))
    assert (await answered.answer()).outcome is Outcome.OK, "the first answer is that to START_TLS"
    assert await under_tls(lab, client, initiator) is Outcome.NO_LEDGER


async def test_a_ticket_that_had_to_be_fetched_comes_behind_the_answer_to_start_tls(
    lab: Lab, tickets: Tickets
) -> None:
    await lab.start(str(tickets.keytab))
    client, initiator = await lab.client(), tickets.initiator()
    answered = V3Client(client.reader, client.writer)
    await answered.ask(answered.start_tls())
    client.send(client.auth(initiator.step(), plugin="sasl"))
    assert await under_tls(lab, client, initiator) is Outcome.NO_LEDGER


@pytest.mark.parametrize("cut", [1, 7, 400])
async def test_a_ticket_comes_in_pieces(lab: Lab, tickets: Tickets, cut: int) -> None:
    await lab.start(str(tickets.keytab))
    client, initiator = await lab.client(), tickets.initiator()
    answered = V3Client(client.reader, client.writer)
    start, greeting = answered.start_tls(), client.auth(initiator.step(), plugin="sasl")
    said = b"".join(FRAME_LENGTH.pack(len(frame)) + frame for frame in (start, greeting))
    cut += FRAME_LENGTH.size + len(start)
    client.writer.write(said[:cut])
    await answered.answer()
    client.writer.write(said[cut:])
    assert await under_tls(lab, client, initiator) is Outcome.NO_LEDGER


async def test_somebody_elses_ticket_before_the_handshake_lets_nobody_in(
    lab: Lab, tickets: Tickets
) -> None:
    """Whoever is in between puts a good one of his own there, in place of the client's."""
    await lab.start(str(tickets.keytab), clients=".*")
    client, own, other = await lab.client(), tickets.initiator(), tickets.initiator(STRANGER)
    own.step()
    answered = V3Client(client.reader, client.writer)
    await answered.ask(answered.start_tls())
    client.send(client.auth(other.step(), plugin="sasl"))
    await client.writer.start_tls(lab.context, server_hostname="localhost")
    await client.answer()
    client.send(client.auth(seal(own, USER), plugin="sasl"), client.read(1, 1))
    await client.until_closed()
    assert lab.server.traffic.authentication_failures == {AuthFailure.CREDENTIALS: 1}


async def test_a_ticket_alone_lets_nobody_in(lab: Lab, tickets: Tickets) -> None:
    await lab.start(str(tickets.keytab))
    client, initiator = await lab.client(), tickets.initiator()
    answered = V3Client(client.reader, client.writer)
    client.send(client.auth(initiator.step(), plugin="sasl"))
    await answered.ask(answered.start_tls())
    await client.writer.start_tls(lab.context, server_hostname="localhost")
    await client.answer()
    [read] = await client.ask(client.read(1, 1))
    assert read.outcome is Outcome.UNAUTHORIZED and lab.server.traffic.unauthenticated == 1


async def test_a_ticket_under_tls_is_taken(lab: Lab, tickets: Tickets) -> None:
    await lab.start(str(tickets.keytab))
    client = await lab.client()
    await client.upgrade(lab.context)
    await log_in(client, tickets.initiator())
    [read] = await client.ask(client.read(1, 1))
    assert read.outcome is Outcome.NO_LEDGER


async def test_no_ticket_is_taken_in_plain_where_tls_is_required(
    lab: Lab, tickets: Tickets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bookie.server.stock.GREETING_WAIT_S", SOON)
    await lab.start(str(tickets.keytab))
    client = await lab.client()
    client.send(client.auth(tickets.initiator().step(), plugin="sasl"))
    assert len(await client.until_closed()) < 40, "a refusal, no offer"
    assert lab.server.traffic.authentication_failures == {AuthFailure.PLAIN: 1}


async def test_another_request_behind_the_answer_to_start_tls_ends_the_connection(
    lab: Lab, tickets: Tickets
) -> None:
    await lab.start(str(tickets.keytab))
    client = await lab.client()
    answered = V3Client(client.reader, client.writer)
    await answered.ask(answered.start_tls())
    client.send(client.read(1, 1))
    assert await client.until_closed() == b""
    assert lab.server.traffic.tls_failures["stock"] == 1


async def test_who_asks_for_tls_and_does_not_begin_it_is_cut_off(
    lab: Lab, tickets: Tickets
) -> None:
    await lab.start(str(tickets.keytab), handshakeSeconds=SOON)
    client = await lab.client()
    answered = V3Client(client.reader, client.writer)
    await answered.ask(answered.start_tls())
    assert await client.until_closed() == b""
    assert lab.server.traffic.tls_failures["stock"] == 1
