"""One connection of the native port: pieces, order, back-pressure both ways, garbage."""

import asyncio
import random
import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest
from bookie.frames.entry import Buffer
from bookie.protocol.status import Status
from bookie.server.connections import BUFFER_BYTES, DataServer, RunConnection
from bookie.testing.native_messages import message_bytes, parse_envelope
from bookie.wire.identity import Identity
from bookie.wire.native import (
    ENVELOPE,
    ENVELOPE_BYTES,
    MESSAGE_BYTES_MAX,
    Envelope,
    Op,
    envelope_header,
)
from server_lab import ServerLab
from uvloop_story import on_uvloop, run_on_uvloop


def message(request_id: int, body: bytes = b"", op: Op = Op.FORCE) -> bytes:
    return envelope_header(op, 0, request_id, len(body)) + body


class EchoService:
    """Answers each message with its own body; `room` limits how many it takes."""

    def __init__(self) -> None:
        self.taken: list[int] = []
        self.offered = 0
        self.room = 1_000_000
        self.reply: bytes | None = None
        self.connections: set[RunConnection] = set()
        self.was_full = asyncio.Event()
        self.looks: list[int] = []
        """How many messages were offered at each look at the lease."""

    def on_bytes(self) -> None:
        self.looks.append(self.offered)

    def handle(self, envelope: Envelope, connection: RunConnection) -> bool:
        self.offered += 1
        if not self.room:
            self.was_full.set()
            return False
        self.room -= 1
        self.taken.append(envelope.request_id)
        body: Buffer = bytes(envelope.body) if self.reply is None else self.reply
        connection.reply(envelope.op, Status.OK, envelope.request_id, (body,))
        return True

    def opened(self, connection: RunConnection) -> None:
        self.connections.add(connection)

    def closed(self, connection: RunConnection) -> None:
        self.connections.discard(connection)

    def make_room(self, count: int) -> None:
        self.room = count
        for connection in list(self.connections):
            connection.resume()


class Client:
    """The other end, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.writer.write(piece)

    async def receive(self) -> Envelope:
        head = await self.reader.readexactly(ENVELOPE_BYTES)
        body = await self.reader.readexactly(message_bytes(head) - ENVELOPE_BYTES)
        return parse_envelope(head + body)

    async def ended(self) -> bytes:
        """What still comes until the other side hangs up."""
        return await self.reader.read()


class Line(asyncio.Transport):
    """Keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[list[bytes]] = []

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def write(self, data: Buffer) -> None:
        self.writes.append([bytes(data)])

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        self.writes.append(list(map(bytes, list_of_data)))


NARROW_BYTES = 64 * 1024
"""What either socket keeps: by itself it grows, on some machines to more than a reply."""


class NarrowConnection(RunConnection):
    """Its socket takes little at a time."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        own = transport.get_extra_info("socket")
        own.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, NARROW_BYTES)
        super().connection_made(transport)


@asynccontextmanager
async def connected(service: EchoService) -> AsyncIterator[Client]:
    server = DataServer(lambda: NarrowConnection(service))
    port = await server.start("127.0.0.1", 0)
    own = socket.socket()
    own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, NARROW_BYTES)
    own.setblocking(False)
    await asyncio.get_running_loop().sock_connect(own, ("127.0.0.1", port))
    client = Client(*await asyncio.open_connection(sock=own))
    try:
        yield client
    finally:
        server.stop()
        client.writer.close()
        for connection in list(service.connections):
            connection.abort()
        await asyncio.sleep(0)


async def test_a_message_in_pieces_is_one_message() -> None:
    async with connected(EchoService()) as client:
        for at, byte in enumerate(message(7, b"body")):
            client.send(bytes([byte]))
            if at % 5 == 0:
                await asyncio.sleep(0)
        answer = await client.receive()
        assert (answer.request_id, bytes(answer.body)) == (7, b"body")


async def test_many_messages_in_one_piece_are_answered_in_order() -> None:
    async with connected(EchoService()) as client:
        client.send(b"".join(message(i, bytes(i)) for i in range(300)))
        assert [(await client.receive()).request_id for _ in range(300)] == list(range(300))


async def test_replies_leave_in_one_write_before_the_loop_turns() -> None:
    line, connection = Line(), RunConnection(EchoService())
    connection.connection_made(line)
    stream = message(1, b"a") + message(2, b"b")
    connection.get_buffer(-1)[: len(stream)] = stream
    connection.buffer_updated(len(stream))
    assert [write[1::2] for write in line.writes] == [[b"a", b"b"]]


def greeted(service: EchoService) -> tuple[Line, RunConnection]:
    line, connection = Line(), RunConnection(service)
    connection.connection_made(line)
    connection.is_greeted = True
    return line, connection


def hear(connection: RunConnection, stream: bytes) -> None:
    connection.get_buffer(-1)[: len(stream)] = stream
    connection.buffer_updated(len(stream))
    connection._check()


async def test_a_message_is_answered_in_the_call_that_brought_it() -> None:
    line, connection = greeted(service := EchoService())
    hear(connection, message(1, b"now"))
    assert [write[1] for write in line.writes] == [b"now"]
    assert (service.taken, connection.bytes_held) == ([1], 0)


async def test_half_a_message_waits_for_the_rest() -> None:
    line, connection = greeted(service := EchoService())
    whole = message(1, b"now")
    hear(connection, whole[:5])
    assert not line.writes
    hear(connection, whole[5:])
    assert service.taken == [1]


async def test_a_message_is_late_by_its_client_only_while_more_of_it_is_read() -> None:
    _line, connection = greeted(service := EchoService())
    hear(connection, message(1, b"now")[:5])
    assert connection.unfinished_since is not None
    connection.pause_writing()
    assert connection.unfinished_since is None, "the socket is not read"
    connection.resume_writing()
    assert connection.unfinished_since is not None
    service.room = 0
    hear(connection, message(1, b"now")[5:])
    assert connection.unfinished_since is None, "it is there, and there is no room"
    service.make_room(1)
    assert connection.unfinished_since is None and service.taken == [1]


class Untaken(Line):
    """A client that takes nothing by itself."""

    untaken = 0

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        super().writelines(list_of_data)
        self.untaken += sum(map(len, self.writes[-1]))

    def get_write_buffer_size(self) -> int:
        return self.untaken


class OwedService(EchoService):
    """Whose replies hold room until they have left."""

    freed = 0

    def left(self, _connection: RunConnection, size: int) -> None:
        self.freed += size


@pytest.mark.parametrize("replies", [1, 3])
async def test_a_reply_holds_its_room_until_its_client_has_taken_it(replies: int) -> None:
    line, connection = Untaken(), RunConnection(service := OwedService())
    connection.connection_made(line)
    for number in range(replies):
        connection.owe(100)
        connection.reply(Op.READ, Status.OK, number, (bytes(100),))
        connection.has_left_unread(0.0, 1.0)
        assert service.freed == 0, "it is not even written"
    await asyncio.sleep(0)
    connection.has_left_unread(0.0, 1.0)
    assert line.untaken and service.freed == 0
    line.untaken = 0
    connection.has_left_unread(0.0, 1.0)
    assert service.freed == 100 * replies
    connection._check()


async def test_nothing_overtakes_what_found_no_room() -> None:
    line, connection = greeted(service := EchoService())
    service.room = 0
    hear(connection, message(1, b"waits"))
    hear(connection, message(2, b"at once"))
    assert not line.writes
    service.room = 2
    connection.resume()
    assert service.taken == [1, 2]


async def test_a_message_that_waited_for_room_is_taken_after_a_new_look_at_the_lease() -> None:
    _line, connection = greeted(service := EchoService())
    service.room = 0
    hear(connection, message(1))
    looks, service.room = len(service.looks), 1
    connection.resume()
    assert service.taken == [1]
    assert service.looks[looks:] == [1], "looked before it was offered again"


async def test_messages_larger_than_the_buffer_come_whole() -> None:
    async with connected(EchoService()) as client:
        bodies = [bytes([i]) * size for i, size in enumerate((BUFFER_BYTES + 5, MESSAGE_BYTES_MAX))]
        for i, body in enumerate(bodies):
            client.send(message(i, body))
        assert [bytes((await client.receive()).body) for _ in bodies] == bodies


class Recorder:
    """Keeps what it is handed."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    def on_bytes(self) -> None:
        """Nothing here depends on a lease."""

    def handle(self, envelope: Envelope, connection: RunConnection) -> bool:
        self.bodies.append(bytes(envelope.body))
        return True

    def opened(self, connection: RunConnection) -> None: ...

    def closed(self, connection: RunConnection) -> None: ...


@pytest.mark.parametrize("seed", range(8))
async def test_bytes_keep_their_order_however_they_are_cut(seed: int) -> None:
    rng = random.Random(seed)
    bodies = [rng.randbytes(rng.choice((0, 100, 700_000, BUFFER_BYTES + 9))) for _ in range(12)]
    stream = memoryview(b"".join(message(i, body) for i, body in enumerate(bodies)))
    service = Recorder()
    connection = RunConnection(service)
    while stream:
        room = connection.get_buffer(-1)
        count = min(rng.choice((1, 5000, 300_000, BUFFER_BYTES)), len(room), len(stream))
        room[:count] = stream[:count]
        stream = stream[count:]
        connection.buffer_updated(count)
    assert service.bodies == bodies


async def test_without_room_a_message_waits_and_nothing_overtakes_it() -> None:
    service = EchoService()
    service.room = 2
    async with connected(service) as client:
        client.send(*(message(i) for i in range(5)))
        await service.was_full.wait()
        assert service.taken == [0, 1]
        for room in (1, 0, 2):
            service.make_room(room)
        assert [(await client.receive()).request_id for _ in range(5)] == list(range(5))


async def test_while_there_is_no_room_the_socket_is_not_read() -> None:
    service = EchoService()
    service.room = 0
    async with connected(service) as client:
        client.send(*(message(i, bytes(100_000)) for i in range(200)))
        await service.was_full.wait()
        await a_while()
        (connection,) = service.connections
        assert connection.bytes_held <= 2 * BUFFER_BYTES
        assert service.offered < 5
        service.make_room(1000)
        assert [(await client.receive()).request_id for _ in range(200)] == list(range(200))


async def a_while() -> None:
    """Time for what must not happen to happen."""
    for _ in range(20):
        await asyncio.sleep(0.001)


async def test_room_for_messages_is_no_room_for_replies() -> None:
    service = EchoService()
    service.room, service.reply = 1, bytes(4_000_000)
    async with connected(service) as client:
        client.send(b"".join(message(i) for i in range(4)))
        await service.was_full.wait()
        await a_while()  # the first reply is on its way, and nobody takes it
        service.make_room(100)
        assert service.taken == [0]
        assert [(await client.receive()).request_id for _ in range(4)] == list(range(4))


async def test_a_client_that_takes_no_replies_gets_no_more_of_its_messages_handled() -> None:
    service = EchoService()
    service.reply = bytes(4_000_000)
    async with connected(service) as client:
        client.send(*(message(i) for i in range(50)))
        await a_while()
        assert len(service.taken) < 50
        sizes = [len((await client.receive()).body) for _ in range(50)]
        assert sizes == [4_000_000] * 50


@pytest.mark.parametrize(
    "garbage",
    [
        ENVELOPE.pack(MESSAGE_BYTES_MAX + 1, Op.FORCE, 0, 0, 1),
        ENVELOPE.pack(2**32 - 1, Op.FORCE, 0, 0, 1),
        ENVELOPE.pack(0, 99, 0, 0, 1),
        b"GET / HTTP/1.1\r\nHost: bookie\r\n\r\n",
    ],
    ids=["oversize", "4 GiB", "unknown op", "http"],
)
async def test_bytes_out_of_step_end_the_connection_after_the_answers(garbage: bytes) -> None:
    service = EchoService()
    async with connected(service) as client:
        client.send(message(1, b"good"), garbage, message(2))
        answers = await client.ended()
        assert answers == message(1, b"good")
        assert service.taken == [1]


async def test_a_closed_connection_takes_nothing_more() -> None:
    service = EchoService()

    def close_at_two(envelope: Envelope, connection: RunConnection) -> bool:
        service.taken.append(envelope.request_id)
        if envelope.request_id == 2:
            connection.reply(envelope.op, Status.BAD_REQUEST, envelope.request_id, (b"enough",))
            connection.close()
        return True

    service.handle = close_at_two  # type: ignore[method-assign]
    async with connected(service) as client:
        client.send(b"".join(message(i) for i in range(5)))
        assert (await client.ended()).endswith(b"enough")
        assert service.taken == [0, 1, 2]


async def test_a_reply_to_a_client_that_is_gone_is_dropped() -> None:
    service = EchoService()
    async with connected(service) as client:
        client.send(message(1))
        await client.receive()
        (connection,) = service.connections
        client.writer.transport.abort()
        while service.connections:  # noqa: ASYNC110
            await asyncio.sleep(0)
        connection.reply(Op.FORCE, Status.OK, 2)
        connection.resume()
        connection.close()


async def received(client: Client, count: int) -> list[bytes]:
    return [bytes((await client.receive()).body) for _ in range(count)]


@on_uvloop
def test_works_on_uvloop() -> None:
    async def story() -> None:
        service = EchoService()
        service.room = 3
        async with connected(service) as client:
            bodies = [bytes([i]) * 700_000 for i in range(12)]
            # Read from the beginning: who leaves answers lying is not listened to, and never full.
            receiving = asyncio.create_task(received(client, len(bodies)))
            client.send(*(message(i, body) for i, body in enumerate(bodies)))
            await service.was_full.wait()
            service.make_room(100)
            assert await receiving == bodies

    run_on_uvloop(story())


# ---- greetings ----------------------------------------------------------------------------------


@asynccontextmanager
async def raw(lab: ServerLab) -> AsyncIterator[Client]:
    assert lab.bookie is not None
    port = lab.bookie.ports["run"]
    client = Client(*await asyncio.open_connection("127.0.0.1", port))
    try:
        yield client
    finally:
        client.writer.close()
        with suppress(OSError):
            await client.writer.wait_closed()


async def test_a_greeting_of_its_own_name_is_answered(server: ServerLab) -> None:
    async with raw(server) as client:
        client.send(message(0, own(server).encode(), Op.HELLO))
        answer = await client.receive()
        assert (answer.op, answer.code) == (Op.HELLO, Status.OK)
        assert Identity.decode(answer.body) == own(server)


def own(lab: ServerLab) -> Identity:
    assert lab.bookie is not None and lab.bookie.state.identity.is_confirmed
    return lab.bookie.state.identity


async def sent_away(lab: ServerLab, hello: bytes) -> str:
    """With which words; what came behind the greeting is not answered, and has done nothing."""
    fence = message(1, lab.lac_request(3).encode(), Op.READ_LAC)
    async with raw(lab) as client:
        client.send(message(0, hello, Op.HELLO) + fence)
        answer = await client.receive()
        assert (answer.op, answer.code) == (Op.HELLO, Status.BAD_REQUEST)
        assert await client.ended() == b""
    assert lab.traffic.fences == 0
    return bytes(answer.body).decode()


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"bookie": "bookie-1"}, "this is bookie bookie-0, not bookie-1"),
        ({"cluster": "another"}, "not of another"),
        ({"epoch": 9}, "its boot 9 is known"),
    ],
)
async def test_a1_whoever_means_another_process_is_sent_away(
    server: ServerLab, other: dict[str, Any], words: str
) -> None:
    assert words in await sent_away(server, replace(own(server), **other).encode())


@pytest.mark.parametrize("body", [b"bookie-0", b"", b"\xff\xfe", b"x" * 5000, b"[" * 4096])
async def test_who_greets_in_the_old_form_is_told_to_upgrade(
    server: ServerLab, body: bytes
) -> None:
    assert "of an older version, upgrade it" in await sent_away(server, body)


async def test_a2_a_bookie_that_hears_of_a_later_boot_of_itself_looks_into_it(
    server: ServerLab,
) -> None:
    state, looks = server.bookie.state if server.bookie else None, list[int]()
    assert state is not None
    state.on_newer_epoch = lambda: looks.append(state.epoch_heard)
    await sent_away(server, replace(own(server), epoch=9).encode())
    await sent_away(server, replace(own(server), epoch=10, cluster="another").encode())
    assert looks == [9]


async def test_who_does_not_say_whom_it_means_is_sent_away(server: ServerLab) -> None:
    async with raw(server) as client:
        client.send(message(1, server.lac_request(3).encode(), Op.READ_LAC))
        answer = await client.receive()
        assert answer.code == Status.BAD_REQUEST and b"must be HELLO" in bytes(answer.body)
        assert await client.ended() == b""


@pytest.mark.parametrize("op", [op for op in Op if op is not Op.HELLO])
async def test_no_other_message_greets_whatever_it_holds(server: ServerLab, op: Op) -> None:
    async with raw(server) as client:
        client.send(message(1, own(server).encode(), op))
        answer = await client.receive()
        assert answer.code == Status.BAD_REQUEST and b"must be HELLO" in bytes(answer.body)
        assert await client.ended() == b""


async def test_connections_beyond_the_limit_are_closed(idle_server: ServerLab) -> None:
    idle_server.tree["limits"] = {"connections": 1}
    await idle_server.start()
    async with raw(idle_server) as first:
        first.send(message(0, own(idle_server).encode(), Op.HELLO))
        await first.receive()
        async with raw(idle_server) as second:
            assert await second.ended() == b""
