"""Who gets in at the stock port: START_TLS, TLS from the first byte, passwords, certificates; and
what is counted and logged of those who do not."""

import asyncio
import logging
import re
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import pytest
from bookie.hosts import loopback
from bookie.testing.certificates import Authority
from bookie.tls.principals import Role
from sasl_client import challenge, line, response
from server_lab import ServerLab
from stock_changes import Changes, counts, taken_logs
from stock_client import Answer, StockClient, V2Client, V3Client
from syrupy.assertion import SnapshotAssertion
from transcripts import Words

NOBODYS: Final = 999
COUNTED: Final = (
    "connections", "unauthenticated", "garbage", "stock_connections", "tls_connections",
    "tls_failures", "authentication_failures", "refused", "cut_off",
)  # fmt: skip


class Door:
    """One bookie; each line is what a client did, what it heard, or what changed at the bookie."""

    def __init__(
        self, server: ServerLab, authority: Authority, kind: type[StockClient], caplog: Any
    ) -> None:
        self.server, self.authority, self.kind, self.caplog = server, authority, kind, caplog
        self.lines, self.clients = list[str](), list[StockClient]()
        self.users = server.root.with_name("users")
        self.users.write_text(line(), encoding="utf-8")
        self._counted = Changes()

    async def start(self, *mechanisms: str, tls: dict[str, Any] | None = None, **more: Any) -> None:
        if tls is not None:
            folder = str(self.authority.sign("bookie-0", Role.BOOKIE).folder)
            self.server.tree["tls"] = {"directory": folder, "clients": "optional"} | tls
        if mechanisms:
            own = {"mechanisms": list(mechanisms), "usersFile": str(self.users)}
            self.server.tree["authentication"] = own | more
        await self.server.start()
        self.caplog.set_level(logging.DEBUG, logger="bookie.server")
        self.note()

    def context(self, name: str | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.authority.own.certificate))
        if name is not None:
            client = self.authority.sign(name)
            context.load_cert_chain(client.certificate, client.key)
        return context

    async def client(self, words: str, tls: ssl.SSLContext | None = None) -> Any:
        """A new one; under TLS from its first byte on, if there is a context."""
        self.lines.append(f"== {words}")
        assert self.server.bookie is not None
        name = None if tls is None else "localhost"
        streams = await asyncio.open_connection(
            loopback(), self.server.bookie.ports["stock"], ssl=tls, server_hostname=name
        )
        self.clients.append(self.kind(*streams))
        return self.clients[-1]

    async def ask(self, client: Any, words: str, *frames: bytes) -> None:
        self.lines.append(f"> {words}")
        client.send(*frames)
        for _ in frames:
            await self.hear(client)
        await self.settle()

    async def hear(self, client: Any) -> None:
        """One answer; or the end, which is written down."""
        try:
            (size,) = struct.unpack(">i", await client.reader.readexactly(4))
            frame = await client.reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.lines.append("< the end")
            return
        # START_TLS is asked for on version 3, whatever comes afterwards.
        parse = client.parse if frame[0] == 2 or self.kind is V3Client else self._parse_v3
        self.lines.append(f"< {self.said(parse(frame))}")

    @staticmethod
    def _parse_v3(frame: bytes) -> Answer:
        return V3Client(None, None).parse(frame)  # type: ignore[arg-type]

    def said(self, answer: Answer) -> str:
        message = answer.message
        if not hasattr(message, "authPluginName"):
            return f"{answer.outcome.name} {answer.ledger_id}:{answer.entry_id}"
        token = re.sub(rb'nonce="[^"]*"', b"nonce", message.payload)
        token = re.sub(rb"rspauth=.*", b"rspauth", token)
        return f"{answer.outcome.name} {message.authPluginName} {token!r}"

    async def settle(self, *, gone: bool = False) -> None:
        """Until the bookie knows of the end of whoever has left or was cut off."""
        open_now = 0 if gone else sum(not c.reader.at_eof() for c in self.clients)
        await self.server.until(lambda: self.server.traffic.connections <= open_now)
        self.note()

    async def leave(self, client: StockClient) -> None:
        self.lines.append("> leaves")
        self.clients.remove(client)
        await client.close()
        await self.settle()

    def note(self) -> None:
        changed = self._counted.since(counts(self.server.traffic, COUNTED))
        self.lines += ["   " + ", ".join(changed)] if changed else []
        for level, said in taken_logs(self.caplog, logging.INFO):
            self.lines.append(f"   {level.lower()}: {re.sub(r'_ssl.c:.*', '', said)}")

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("doors"), "ours")


@pytest.fixture(params=[V2Client, V3Client], ids=["v2", "v3"])
async def door(
    idle_server: ServerLab,
    authority: Authority,
    caplog: pytest.LogCaptureFixture,
    request: pytest.FixtureRequest,
) -> AsyncIterator[Door]:
    idle_server.tree["lease"] = {"seconds": 36000, "confirmSeconds": 3600}
    made = Door(idle_server, authority, request.param, caplog)
    yield made
    for client in made.clients:
        await client.close()


def start_tls() -> bytes:
    return V3Client(None, None).start_tls()  # type: ignore[arg-type]


async def upgrade(door: Door, client: Any, context: ssl.SSLContext) -> None:
    try:
        await client.writer.start_tls(context, server_hostname="localhost")
        door.lines.append("> the handshake")
    except (ssl.SSLError, ConnectionError) as error:
        door.lines.append(f"> the handshake fails: {type(error).__name__}")


@pytest.mark.parametrize("mode", ["Required", "Accepted"])
async def test_ways_into_tls(door: Door, mode: str, snapshot: SnapshotAssertion) -> None:
    await door.start(tls={"mode": mode})
    client = await door.client("START_TLS first, and once more under TLS")
    read = client.read(NOBODYS, -1)
    await door.ask(client, "START_TLS", start_tls())
    await upgrade(door, client, door.context())
    await door.ask(client, "a read and an add", read, client.add(7, 0))
    await door.ask(client, "START_TLS", start_tls() if door.kind is V3Client else read)
    await door.leave(client)
    client = await door.client("from the first byte on", door.context())
    await door.ask(client, "a read", read)
    client = await door.client("in plain")
    await door.ask(client, "a read, an add, AUTH", read, client.add(7, 1), client.auth())
    if door.kind is V3Client:
        await door.ask(client, "START_TLS, afterwards", start_tls())
    client = await door.client("with a certificate", door.context("client"))
    await door.ask(client, "a read", read)
    assert snapshot(extension_class=Words) == door.text


GARBAGE: Final[dict[str, Callable[[Any], list[bytes]]]] = {
    "a read behind START_TLS": lambda c: [start_tls(), c.read(NOBODYS, -1)],
    "START_TLS twice": lambda c: [start_tls(), start_tls()],
    "a greeting with a token": lambda c: [start_tls(), c.auth(b"x" * 99)],
    "two greetings": lambda c: [start_tls(), c.auth(b""), c.auth(b"")],
    "a greeting too long": lambda c: [start_tls(), c.auth(b"", plugin="x" * 1100)],
}


@pytest.mark.parametrize("mechanism", ["", "digest-md5"])
async def test_what_spoils_a_handshake(
    door: Door, mechanism: str, snapshot: SnapshotAssertion
) -> None:
    """What comes too early, what is none, and who leaves instead."""
    await door.start(*([mechanism] if mechanism else []), tls={"mode": "Accepted"})
    for words, make in GARBAGE.items():
        client = await door.client(words)
        client.send(*make(client))
        door.lines.append("> sent")
        await client.reader.read()
        door.clients.remove(client)
        await client.close()
        await door.settle(gone=True)
    for words, tail in (
        ("a hello that is none", b"\x16\x03\x01\0\5hello"),
        ("no hello", b"\0\0\0\1x"),
    ):
        client = await door.client(words)
        await door.ask(client, "START_TLS", start_tls())
        client.writer.write(tail)
        await door.hear(client)
        door.clients.remove(client)
        await client.close()
        await door.settle(gone=True)
    client = await door.client("who leaves behind START_TLS")
    await door.ask(client, "START_TLS", start_tls())
    await door.leave(client)
    assert snapshot(extension_class=Words) == door.text


async def test_a_handshake_that_does_not_come(door: Door, snapshot: SnapshotAssertion) -> None:
    """Silence from the first byte on, and behind START_TLS."""
    await door.start(tls={"mode": "Accepted", "handshakeSeconds": 1.0})
    client = await door.client("who says nothing")
    await door.hear(client)
    await door.settle()
    client = await door.client("who says nothing more")
    await door.ask(client, "START_TLS", start_tls())
    await door.hear(client)
    await door.settle()
    assert snapshot(extension_class=Words) == door.text


async def test_passwords(door: Door, snapshot: SnapshotAssertion) -> None:
    """The right one, a wrong one, another plugin, no challenge, and all over again."""
    await door.start("digest-md5")
    client = await door.client("the right password")
    await door.ask(client, "an add and two reads before", client.add(7, 0),
                   client.read(NOBODYS, 1), client.read(NOBODYS, 2))  # fmt: skip
    token = response(await challenge(client))
    await door.ask(client, "the response", client.auth(token, plugin="sasl"))
    await door.ask(client, "what it could not before", client.read(NOBODYS, -1), client.add(7, 0))
    await door.ask(client, "an empty token behind it", client.auth(b"", plugin="sasl"))
    await door.ask(client, "the response again", client.auth(token, plugin="sasl"))
    for words, user, password in (("a wrong password", "hd", "no"), ("no such user", "eve", "no")):
        client = await door.client(words)
        token = response(await challenge(client), user, password)
        await door.ask(client, "the response", client.auth(token, plugin="sasl"))
        await door.hear(client)
        await door.settle()
    for words, token, plugin in (("another plugin", b"", "theirs"), ("no plugin", b"", ""),
                                 ("a ticket", b"x", "sasl")):  # fmt: skip
        client = await door.client(words)
        await door.ask(client, "AUTH", client.auth(token, plugin=plugin))
        await door.hear(client)
        await door.settle()
    await door.leave(door.clients[0])
    assert snapshot(extension_class=Words) == door.text


async def test_who_may_ask_where_both_are_enough(door: Door, snapshot: SnapshotAssertion) -> None:
    """A certificate, a password under TLS, neither; and a password in plain, which is refused."""
    await door.start("tls", "digest-md5", tls={"mode": "Required"})
    for words, context in (("a certificate", door.context("client")), ("none", door.context())):
        client = await door.client(words, context)
        await door.ask(client, "a read", client.read(NOBODYS, -1))
        await door.ask(client, "a greeting", client.auth(b"", plugin="sasl"))
        await door.ask(client, "a read", client.read(NOBODYS, -1))
    client = await door.client("a certificate behind START_TLS")
    await door.ask(client, "START_TLS", start_tls())
    await upgrade(door, client, door.context("client"))
    await door.ask(client, "a read", client.read(NOBODYS, -1))
    client = await door.client("a password in plain")
    await door.ask(
        client, "a read and a greeting", client.read(NOBODYS, -1), client.auth(b"", plugin="sasl")
    )
    await door.hear(client)
    await door.settle()
    assert snapshot(extension_class=Words) == door.text


async def test_a_crowd_of_strangers(door: Door, snapshot: SnapshotAssertion) -> None:
    """The third that is not authenticated costs the first its place; a user does not count."""
    await door.start("digest-md5", unauthenticatedConnections=2)
    user = await door.client("a user")
    token = response(await challenge(user))
    await door.ask(user, "the response", user.auth(token, plugin="sasl"))
    strangers = []
    for words in ("first", "second", "third"):
        strangers.append(await door.client(f"the {words} stranger"))
        if len(strangers) < 3:
            await door.ask(strangers[-1], "a read", user.read(NOBODYS, -1))
    await door.hear(strangers[0])
    await door.settle()
    for client in (strangers[1], strangers[2], user):
        await door.ask(client, "a read", user.read(NOBODYS, -1))
    await door.leave(strangers[1])
    assert snapshot(extension_class=Words) == door.text
