"""A tiny server of the native port for tests of the client's connections: answers as scripted."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from bookie.frames.entry import Buffer
from bookie.hosts import loopback
from bookie.ids import BookieId
from bookie.metadata.store import (
    BOOT_EPOCH_PROPERTY,
    RUN_ENDPOINT,
    BookieInfo,
    Endpoint,
    MetadataStore,
)
from bookie.protocol.status import Status
from bookie.testing.native_messages import message_bytes, parse_envelope
from bookie.wire.identity import Identity
from bookie.wire.native import ENVELOPE_BYTES, Envelope, Op, envelope_header

Script = Callable[[Envelope], Sequence[Buffer] | None]
"""The buffers of a whole reply message, None to stay silent."""


def reply_to(request: Envelope, status: int = Status.OK, *body: Buffer) -> list[Buffer]:
    size = sum(map(len, body))
    return [envelope_header(request.op, status, request.request_id, size), *body]


def greeted(request: Envelope) -> list[Buffer]:
    """As the very bookie that is meant."""
    meant = Identity.decode(request.body)
    return reply_to(request, Status.OK, replace(meant, epoch=max(meant.epoch, 1)).encode())


@dataclass(slots=True)
class RunServer:
    """Records requests; `script` answers them. `writers`: the connections it has now.

    `greet` answers the HELLO of each connection, which is not recorded.
    """

    script: Script = reply_to
    greet: Callable[[Envelope], Sequence[Buffer]] = greeted
    requests: list[tuple[Op, bytes]] = field(default_factory=list)
    writers: list[asyncio.StreamWriter] = field(default_factory=list)
    connections: int = 0
    tasks: list["asyncio.Task[None] | None"] = field(default_factory=list)
    server: asyncio.Server | None = None

    async def start(self, port: int = 0) -> int:
        self.server = await asyncio.start_server(self._serve, loopback(), port)
        return int(self.server.sockets[0].getsockname()[1])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.tasks.append(asyncio.current_task())
        self.writers.append(writer)
        try:
            while True:
                head = await reader.readexactly(ENVELOPE_BYTES)
                rest = await reader.readexactly(message_bytes(head) - ENVELOPE_BYTES)
                request = parse_envelope(head + rest)
                if request.op is Op.HELLO:
                    writer.writelines(self.greet(request))
                    continue
                self.requests.append((request.op, rest))
                for buffer in self.script(request) or ():
                    writer.write(buffer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def cut(self) -> None:
        """Reset every connection."""
        for writer in self.writers:
            writer.transport.abort()
        self.writers.clear()

    async def stop(self) -> None:
        self.cut()
        if self.server is not None:
            self.server.close()
            await self.server.wait_closed()
            await asyncio.gather(*filter(None, self.tasks), return_exceptions=True)


async def register(store: MetadataStore, bookie_id: str, port: int, *, boot_epoch: int = 1) -> None:
    await store.initialise()
    endpoint = Endpoint(RUN_ENDPOINT, loopback(), port, "bookie-run")
    properties = {BOOT_EPOCH_PROPERTY: str(boot_epoch)}
    await store.register(BookieInfo(BookieId(bookie_id), (endpoint,), properties))
