"""Tickets of Kerberos on the stock port, of a real KDC: whose is taken, whose is not."""

import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from bookie.protocol.status import Status
from bookie.server.state import AuthFailure
from bookie.wire.stock.messages import Outcome
from sasl_client import line
from sasl_client import log_in as log_in_by_password
from server_lab import ServerLab
from stock_client import StockClient, V2Client, V3Client
from stock_lab import StockLab
from ticket_client import (
    BESIDE,
    BOOKIE,
    ELSEWHERE,
    FOREIGNER,
    NO_LAYER,
    OTHER_SERVICE,
    SHORT,
    STRANGER,
    USER,
    Tickets,
    ask,
    log_in,
    seal,
)

OK, UNAUTHORIZED = Outcome.OK, Outcome.UNAUTHORIZED
SOON = 0.05
LOGGER = "bookie.server.stock_authentication"


class TicketLab(StockLab):
    """A bookie that asks for tickets, and clients of one version of the wire."""

    def __init__(self, server: ServerLab, kind: type[StockClient], tickets: Tickets) -> None:
        super().__init__(server, kind)
        self.tickets = tickets

    async def start(self, **settings: Any) -> "TicketLab":
        wanted = {
            "mechanisms": ["gssapi"],
            "keytab": str(self.tickets.keytab),
            "principal": BOOKIE,
            "replayCache": str(self.server.root.with_name("replays")),
        }
        self.server.tree["authentication"] = wanted | settings
        await self.server.start()
        return self

    async def user(self) -> Any:
        """A client that is authenticated."""
        client = await self.client()
        await log_in(client, self.tickets.initiator())
        return client

    async def refused(self, token: bytes) -> None:
        """As a client that says this, and is then cut off."""
        client = await self.client()
        answer = await ask(client, token)
        # Version 2 has no code for it: a token that no mechanism takes for an answer.
        is_refused = answer.outcome is UNAUTHORIZED
        assert is_refused or (self.kind is V2Client and answer.message.payload == b"\0")
        assert await client.until_closed() == b""


@pytest.fixture(params=[V2Client, V3Client], ids=["v2", "v3"])
async def lab(
    idle_server: ServerLab, tickets: Tickets, request: pytest.FixtureRequest
) -> AsyncIterator[TicketLab]:
    made = TicketLab(idle_server, request.param, tickets)
    yield made
    await made.close()


# ---- with the ticket ----------------------------------------------------------------------------


async def test_a_principal_with_a_ticket_is_served(
    lab: TicketLab, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", LOGGER)
    ledger = await (await lab.start()).server.ledger()
    client = await lab.client()
    assert await log_in(client, lab.tickets.initiator()) == NO_LAYER, "there is no layer"
    added = await client.ask(*[client.add(ledger, i) for i in range(100)])
    assert {a.outcome for a in added} == {OK}
    assert (lab.server.traffic.unauthenticated, lab.failures) == (0, {})
    assert f"authenticated by the ticket of '{USER}'" in caplog.text


async def test_what_comes_behind_the_last_word_is_served(lab: TicketLab) -> None:
    ledger = await (await lab.start()).server.ledger()
    client, initiator = await lab.client(), lab.tickets.initiator()
    await ask(client, initiator.step())
    last = client.auth(seal(initiator, USER), plugin="sasl")
    client.send(last)
    assert [a.outcome for a in await client.ask(client.add(ledger, 0))] == [OK]


async def test_a_client_that_wants_to_know_who_the_bookie_is_is_shown(lab: TicketLab) -> None:
    client, initiator = await (await lab.start()).client(), lab.tickets.initiator(wants_answer=True)
    answer = await ask(client, initiator.step())
    initiator.step(answer.message.payload)
    offer = await ask(client, b"")
    assert initiator.unwrap(offer.message.payload).message == NO_LAYER
    client.send(client.auth(seal(initiator, ""), plugin="sasl"))
    [read] = await client.ask(client.read(1, 1))
    assert read.outcome is Outcome.NO_LEDGER


@pytest.mark.parametrize("allowed", [".*", "eve@FLEET[.]TEST"])
async def test_a_principal_that_the_settings_allow_comes_in(lab: TicketLab, allowed: str) -> None:
    client = await (await lab.start(clientPrincipals=allowed)).client()
    await log_in(client, lab.tickets.initiator(STRANGER), STRANGER)
    [read] = await client.ask(client.read(1, 1))
    assert read.outcome is Outcome.NO_LEDGER


async def test_a_ticket_to_the_same_service_at_the_clients_host_lets_in(lab: TicketLab) -> None:
    client = await (await lab.start()).client()
    await log_in(client, lab.tickets.initiator(service=BESIDE))
    [read] = await client.ask(client.read(1, 1))
    assert read.outcome is Outcome.NO_LEDGER


async def test_passwords_and_tickets_are_ways_in_beside_each_other(
    lab: TicketLab, tmp_path: Path
) -> None:
    users = tmp_path / "users"
    users.write_text(line(), encoding="utf-8")
    await lab.start(mechanisms=["digest-md5", "gssapi"], usersFile=str(users))
    by_password, by_ticket = await lab.client(), await lab.user()
    await log_in_by_password(by_password)
    for client in (by_password, by_ticket):
        [read] = await client.ask(client.read(1, 1))
        assert read.outcome is Outcome.NO_LEDGER


# ---- without it ---------------------------------------------------------------------------------


async def test_nothing_is_answered_before_the_last_word(lab: TicketLab) -> None:
    ledger = await (await lab.start()).server.ledger()
    client = await lab.client()
    await ask(client, lab.tickets.initiator().step())
    asked = [client.add(ledger, 0), client.read(ledger, 0, fence=True)]
    assert {a.outcome for a in await client.ask(*asked)} == {UNAUTHORIZED}
    assert await lab.server.add(ledger, 0) is Status.OK, "nobody has fenced it"


@pytest.mark.parametrize(
    ("principal", "service", "why"),
    [
        (STRANGER, BOOKIE, f"as '{STRANGER}': not authenticated: no match of"),
        (FOREIGNER, BOOKIE, f"as '{FOREIGNER}': not authenticated: no match of"),
        (USER, ELSEWHERE, f"{ELSEWHERE} not found in keytab"),
        (USER, OTHER_SERVICE, f"found a ticket to '{OTHER_SERVICE}', expected one to this service"),
    ],
    ids=["stranger", "another-realm", "no-key-of-it", "another-service"],
)
async def test_a_ticket_that_is_no_way_in_here_is_refused(
    lab: TicketLab, caplog: pytest.LogCaptureFixture, principal: str, service: str, why: str
) -> None:
    await lab.start()
    await lab.refused(lab.tickets.initiator(principal, service).step())
    assert why in caplog.text and lab.failures == {AuthFailure.CREDENTIALS: 1}


async def test_a_ticket_that_has_run_out_is_refused(
    lab: TicketLab, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("KRB5_CONFIG", str(lab.tickets.kdc.strict(1)))
    made_at = lab.tickets.caches[SHORT].stat().st_mtime
    await lab.start()
    await lab.server.until(lambda: time.time() > made_at + 3)
    await lab.refused(lab.tickets.initiator(SHORT).step())
    assert "Ticket expired" in caplog.text and lab.failures == {AuthFailure.CREDENTIALS: 1}


async def test_a_client_whose_clock_is_off_is_refused(
    lab: TicketLab, caplog: pytest.LogCaptureFixture
) -> None:
    await lab.start()
    await lab.refused(lab.tickets.ahead(600).initiator().step())
    assert "Clock skew too great" in caplog.text and lab.failures == {AuthFailure.CREDENTIALS: 1}


async def test_nobody_comes_in_by_repeating_what_was_heard(
    lab: TicketLab, caplog: pytest.LogCaptureFixture
) -> None:
    client, initiator = await (await lab.start()).client(), lab.tickets.initiator()
    token = initiator.step()
    await ask(client, token)
    await lab.refused(token)
    await lab.server.restart()
    await lab.refused(token)
    assert caplog.text.count("Request is a replay") == 2


async def test_a_login_in_plain_can_be_repeated_at_bookies_with_that_key_and_another_cache(
    lab: TicketLab,
) -> None:
    """A limit of what stock clients do, not a wish: docs/operating.md says what to do."""
    client, initiator = await (await lab.start()).client(), lab.tickets.initiator(service=BESIDE)
    offer = await ask(client, ticket := initiator.step())
    initiator.unwrap(offer.message.payload)
    heard = [ticket, seal(initiator, USER)]
    lab.server.tree["authentication"]["replayCache"] += "-elsewhere"
    await lab.server.restart()
    listener = await lab.client()
    await ask(listener, heard[0])
    listener.send(listener.auth(heard[1], plugin="sasl"))
    [read] = await listener.ask(listener.read(1, 1))
    assert read.outcome is not UNAUTHORIZED


async def test_the_log_has_no_name_as_a_stranger_made_it_up(
    lab: TicketLab, caplog: pytest.LogCaptureFixture
) -> None:
    await lab.start()
    token = lab.tickets.initiator(USER, ELSEWHERE).step()
    assert token.count(b"other") == 1
    for name, said in ((b"\x1b[2J\x07", "?[2J?/"), (b"\xff\xfe\xff\xfe\xff", "can't decode byte")):
        await lab.refused(token.replace(b"other", name))
        assert said in caplog.text and "\x1b" not in caplog.text


@pytest.mark.parametrize("token", [b"x", b"\x60\x82\xff\xff", b"\x60" * 65537])
async def test_garbage_is_refused(lab: TicketLab, token: bytes) -> None:
    await lab.start()
    await lab.refused(token)
    assert lab.failures == {AuthFailure.CREDENTIALS: 1}


@pytest.mark.parametrize(
    ("choice", "name"),
    [(NO_LAYER, STRANGER), (b"\4\0\xff\xff", USER), (b"\1", "")],
    ids=["for-another", "a-layer", "short"],
)
async def test_another_last_word_is_refused(lab: TicketLab, choice: bytes, name: str) -> None:
    client, initiator = await (await lab.start()).client(), lab.tickets.initiator()
    await ask(client, initiator.step())
    client.send(client.auth(seal(initiator, name, choice), plugin="sasl"), client.read(1, 1))
    await client.until_closed()
    assert lab.failures == {AuthFailure.CREDENTIALS: 1}


async def test_a_ticket_is_of_no_use_without_its_key(lab: TicketLab) -> None:
    """Somebody has listened, and is faster than its owner."""
    client, owner = await (await lab.start()).client(), lab.tickets.initiator()
    thief = lab.tickets.initiator()
    thief.step()
    await ask(client, owner.step())
    client.send(client.auth(seal(thief, USER), plugin="sasl"), client.read(1, 1))
    await client.until_closed()
    assert lab.failures == {AuthFailure.CREDENTIALS: 1}


async def test_a_password_is_no_way_in_where_tickets_are_asked_for(lab: TicketLab) -> None:
    client = await (await lab.start()).client()
    client.send(client.auth(b"", plugin="sasl"))
    await client.until_closed()
    assert lab.failures == {AuthFailure.PLUGIN: 1}


# ---- the thread ---------------------------------------------------------------------------------


@pytest.fixture
async def busy(lab: TicketLab) -> AsyncIterator[threading.Event]:
    """The thread that reads tickets has something else to do, until it is set."""
    await lab.start(loginSeconds=20 * SOON)
    assert lab.server.bookie is not None
    kerberos: Any = lab.server.bookie._authentication._kerberos  # type: ignore[union-attr]
    end = threading.Event()
    kerberos._thread.submit(end.wait)
    yield end
    end.set()


async def test_others_are_served_while_a_ticket_is_read(
    lab: TicketLab, busy: threading.Event
) -> None:
    client, other = await lab.client(), await lab.client()
    client.send(client.auth(lab.tickets.initiator().step(), plugin="sasl"), client.read(1, 1))
    [answer] = await other.ask(other.read(1, 1))
    assert answer.outcome is UNAUTHORIZED
    busy.set()
    offer, read = await client.answer(), await client.answer()
    assert offer.message.payload and read.outcome is UNAUTHORIZED, "in this order"


async def test_who_is_judged_for_too_long_is_cut_off(lab: TicketLab, busy: threading.Event) -> None:
    client = await lab.client()
    client.send(client.auth(lab.tickets.initiator().step(), plugin="sasl"))
    assert await client.until_closed() == b""
    assert lab.failures == {AuthFailure.SILENCE: 1}


async def test_who_leaves_meanwhile_is_forgotten(lab: TicketLab, busy: threading.Event) -> None:
    client = await lab.client()
    client.send(client.auth(lab.tickets.initiator().step(), plugin="sasl"))
    await lab.server.until(lambda: lab.server.traffic.unauthenticated == 1)
    client.writer.transport.abort()
    busy.set()
    await lab.server.until(lambda: lab.server.traffic.connections == 0)
    assert lab.server.traffic.unauthenticated == 0 and AuthFailure.CREDENTIALS not in lab.failures
