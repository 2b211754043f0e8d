"""A fleet in memory served over the real wires: native runs by TCP, control planes by gRPC.

For tests whose other side is another process, such as a Spark task: what happens there is seen in
the `FakeFleet` here. Bookies that are down close their connections.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from bookie.frames.entry import Buffer
from bookie.metadata.store import ADMIN_ENDPOINT, RUN_ENDPOINT, BookieInfo, Endpoint
from bookie.protocol.status import Status
from bookie.testing.admin_service import served_control
from bookie.testing.control import FakeControl
from bookie.testing.fake_bookie import FakeBookie
from bookie.testing.native_messages import message_bytes, parse_envelope
from bookie.wire.identity import Identity, refusal
from bookie.wire.native import (
    ENVELOPE_BYTES,
    FLAG_FENCE,
    MASTER_KEY_BYTES,
    Envelope,
    LacRequest,
    Op,
    ReadRequest,
    envelope_header,
)

Before = Callable[[], Awaitable[None]]


async def at_once() -> None:
    """Answer at once: wait for nothing."""


@asynccontextmanager
async def served_fleet(control: FakeControl, before: Before = at_once) -> AsyncIterator[None]:
    """Serve every bookie of the fleet and register it with both its endpoints.

    `before`: what happens before each answer on the native port.
    """
    servers: list[asyncio.Server] = []
    connections: set[asyncio.Task[None]] = set()
    cluster = await control.store.initialise()
    async with served_control(control) as admin_ports:
        for bookie_id, bookie in control.fleet.bookies.items():
            server = await asyncio.start_server(
                _serving(bookie, cluster, connections, before), "127.0.0.1", 0
            )
            servers.append(server)
            run_port = server.sockets[0].getsockname()[1]
            endpoints = (
                Endpoint(RUN_ENDPOINT, "127.0.0.1", run_port, RUN_ENDPOINT),
                Endpoint(ADMIN_ENDPOINT, "127.0.0.1", admin_ports[bookie_id], "grpc"),
            )
            await control.store.register(BookieInfo(bookie_id, endpoints, bookie.properties))
        try:
            yield
        finally:
            for server in servers:
                server.close()
            for connection in connections:
                connection.cancel()
            await asyncio.gather(*connections, return_exceptions=True)


def _serving(
    bookie: FakeBookie, cluster: str, connections: "set[asyncio.Task[None]]", before: Before
) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while not bookie.down:
                head = await reader.readexactly(ENVELOPE_BYTES)
                body = await reader.readexactly(message_bytes(head) - ENVELOPE_BYTES)
                await before()
                request = parse_envelope(head + body)
                status, answer = _act(bookie, cluster, request)
                size = sum(map(len, answer))
                head = envelope_header(request.op, status, request.request_id, size)
                writer.writelines([head, *answer])
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client is gone
        finally:
            writer.close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(serve(reader, writer))
        connections.add(task)
        task.add_done_callback(connections.discard)

    return accept


def _act(bookie: FakeBookie, cluster: str, request: Envelope) -> tuple[Status, list[Buffer]]:
    body, fence = request.body, bool(request.code & FLAG_FENCE)
    if request.op is Op.HELLO:
        own = bookie.identity(cluster)
        why = refusal(Identity.decode(body), own)
        return (Status.BAD_REQUEST, [why.encode()]) if why else (Status.OK, [own.encode()])
    if request.op is Op.ADD_RUN:
        return bookie.add_run(bytes(body[:MASTER_KEY_BYTES]), bytes(body[MASTER_KEY_BYTES:])), []
    if request.op is Op.READ:
        status, read = bookie.read(ReadRequest.decode(body), fence=fence)
        return status, read.encode() if read is not None else []
    if request.op is Op.WRITE_LAC:
        return bookie.write_lac(LacRequest.decode(body)), []
    if request.op is Op.FORCE:
        return bookie.force(LacRequest.decode(body)), []
    status, lac = bookie.read_lac(LacRequest.decode(body), fence=fence)
    return status, [lac.encode()] if lac is not None else []
