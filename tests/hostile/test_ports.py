"""Every port of a bookie, and clients that mean it no good: each is ended, named and counted, and
others are served meanwhile.
"""

import asyncio
import os
import random
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from bookie.protocol.status import Status
from bookie.server.admin_requests import RANGES_MAX, REQUEST_BYTES_MAX
from bookie.server.state import CutOff
from bookie.testing.certificates import Authority, Identity
from bookie.tls.client_tls import ClientTls
from bookie.tls.credentials import CredentialsFolder
from bookie.tls.principals import Role
from bookie.wire.admin import bookie_admin_pb2 as pb
from hostile_bytes import mutated
from hostile_targets import seeds_of
from server_lab import ServerLab

CODES = grpc.StatusCode
OF_OURS = {CODES.OK, CODES.INVALID_ARGUMENT, CODES.FAILED_PRECONDITION, CODES.ABORTED}
SERVICE = pb.DESCRIPTOR.services_by_name["BookieAdmin"]
EDGES = (0, 1, -1, 2**63 - 1, -(2**63))
HANDSHAKE = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(32)


OPENED: list[asyncio.StreamWriter] = []
"""By this test; they are closed at its end."""


@pytest.fixture
async def limited(idle_server: ServerLab) -> AsyncIterator[ServerLab]:
    """A bookie with small limits; the test starts it, and leaves no error that nobody caught."""
    faults: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, said: faults.append(said))
    idle_server.tree["limits"] |= {
        "connections": 8, "requestSeconds": 0.2, "requestBytes": 16 * 2**20,
        "httpConnections": 4, "httpSeconds": 0.2, "controlCalls": 8,
    }  # fmt: skip
    yield idle_server
    for writer in OPENED:
        writer.transport.abort()
    await asyncio.gather(*(writer.wait_closed() for writer in OPENED), return_exceptions=True)
    OPENED.clear()
    assert not faults


async def connect(lab: ServerLab, port: str, first: bytes = b"") -> Any:
    assert lab.bookie is not None
    reader, writer = await asyncio.open_connection("127.0.0.1", lab.bookie.ports[port])
    OPENED.append(writer)
    writer.write(first)
    return reader, writer


async def is_ended(reader: asyncio.StreamReader) -> bool:
    try:
        async with asyncio.timeout(10):
            while await reader.read(1 << 16):
                pass
    except ConnectionError:
        return True
    return True


# ---- the control plane --------------------------------------------------------------------------


async def code_of(lab: ServerLab, method: str, raw: bytes) -> grpc.StatusCode:
    assert lab.bookie is not None
    target = f"127.0.0.1:{lab.bookie.ports['admin']}"
    async with grpc.aio.insecure_channel(target) as channel:
        call = channel.unary_unary(f"/{SERVICE.full_name}/{method}")
        who = lab.bookie.control.identity().to_metadata()
        try:
            await call(raw, metadata=who, timeout=10)  # type: ignore[misc]
        except grpc.aio.AioRpcError as error:
            return error.code()
    return CODES.OK


def filled(method: Any, number: int) -> bytes:
    """A request with this number in every field that takes one."""
    request = pb.DESCRIPTOR.message_types_by_name[method.input_type.name]._concrete_class()
    for field in method.input_type.fields:
        if field.message_type is not None:
            getattr(request, field.name).add(first=number, last=number)
        elif field.cpp_type == field.CPPTYPE_INT64:
            if field.is_repeated:
                getattr(request, field.name).extend([number] * 3)
            else:
                setattr(request, field.name, number)
    return bytes(request.SerializeToString())


@pytest.mark.parametrize("name", sorted(SERVICE.methods_by_name))
async def test_no_bytes_are_an_error_that_is_not_ours(server: ServerLab, name: str) -> None:
    chance, method = random.Random(name), SERVICE.methods_by_name[name]
    seeds = [filled(method, number) for number in EDGES]
    tried = [*seeds, b"", *(mutated(seeds, chance, is_json=False) for _ in range(25))]
    assert {await code_of(server, name, raw) for raw in tried} <= OF_OURS
    assert await code_of(server, "GetHealth", b"") is CODES.OK


async def test_a_call_without_a_message_is_refused(server: ServerLab) -> None:
    assert server.bookie is not None
    who = server.bookie.control.identity().to_metadata()
    target = f"127.0.0.1:{server.bookie.ports['admin']}"
    async with grpc.aio.insecure_channel(target) as channel:
        call = channel.stream_unary(f"/{SERVICE.full_name}/Flush")(metadata=who, timeout=10)
        await call.done_writing()
        with pytest.raises(grpc.aio.AioRpcError, match="without a message"):
            await call


async def test_giant_lists_are_refused_by_a_short_sentence(server: ServerLab) -> None:
    many = pb.RecheckEntriesRequest(ledger_id=1, ranges=[pb.EntryRange()] * (RANGES_MAX + 1))
    assert await code_of(server, "RecheckEntries", many.SerializeToString()) is (
        CODES.INVALID_ARGUMENT
    )
    wrong = pb.RecheckEntriesRequest(ledger_id=1, ranges=[pb.EntryRange(first=-1)] * 9999)
    assert await code_of(server, "RecheckEntries", wrong.SerializeToString()) is (
        CODES.INVALID_ARGUMENT
    )
    giant = bytes(REQUEST_BYTES_MAX + 1)
    assert await code_of(server, "Flush", giant) is CODES.RESOURCE_EXHAUSTED


# ---- the HTTP port ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "first",
    [b"GET /metrics HTTP/1.1\r\nHost: x\r\nX: ", b"GET", b"\0" * 100, HANDSHAKE,
     b"GET /" + b"x" * 9000,
     b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\nx",
     b"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfffffffff\r\n"],
)  # fmt: skip
async def test_whoever_does_not_end_a_request_is_ended(limited: ServerLab, first: bytes) -> None:
    await limited.start()
    reader, _writer = await connect(limited, "http", first)
    assert await is_ended(reader)


async def test_the_http_port_takes_so_many_and_then_again(limited: ServerLab) -> None:
    await limited.start()
    held = [await connect(limited, "http", b"GET") for _ in range(4)]
    assert await is_ended((await connect(limited, "http"))[0])
    assert limited.traffic.cut_off[CutOff.HTTP] >= 1
    assert all([await is_ended(reader) for reader, _writer in held])
    reader, _writer = await connect(limited, "http", b"GET /healthz HTTP/1.0\r\n\r\n")
    assert (await reader.readline()).startswith(b"HTTP/1.0 200")


async def test_who_does_not_take_its_answers_is_cut_off(limited: ServerLab) -> None:
    """Closing would wait for what it does not take, and its place would never be free again."""
    bookie = await limited.start()
    small = socket.socket()
    small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    small.connect(("127.0.0.1", bookie.ports["http"]))
    _reader, writer = await asyncio.open_connection(sock=small, limit=1)
    OPENED.append(writer)
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 1500)
    await limited.until(lambda: limited.traffic.cut_off[CutOff.HTTP] == 1)


# ---- the data ports -----------------------------------------------------------------------------


@pytest.mark.parametrize("port", ["run", "stock"])
async def test_who_has_never_asked_makes_room_for_who_does(limited: ServerLab, port: str) -> None:
    await limited.start()
    held = [await connect(limited, port) for _ in range(8)]
    await limited.until(lambda: limited.traffic.connections == 8)
    assert await limited.add(await limited.ledger(), 0) is Status.OK
    assert limited.traffic.cut_off[CutOff.SILENT] == 1
    assert await is_ended(held[0][0])


@pytest.mark.parametrize(
    ("port", "first"), [("run", b"\0\x10\0\0\x02" + bytes(11)), ("stock", b"\0\x10\0\0\x08")]
)
async def test_who_does_not_end_a_message_is_cut_off(
    limited: ServerLab, port: str, first: bytes
) -> None:
    await limited.start()
    reader, _writer = await connect(limited, port, first)
    assert await is_ended(reader)
    assert limited.traffic.cut_off[CutOff.UNFINISHED] == 1


async def test_incomplete_messages_hold_so_much_memory_and_no_more(limited: ServerLab) -> None:
    limited.tree["limits"] |= {"connections": 100, "requestSeconds": 60}
    await limited.start()
    part = b"\0\x30\0\0\x02" + bytes(3 * 2**20 - 5 - 1000)
    for _ in range(10):
        await connect(limited, "run", part)
    await limited.until(lambda: limited.traffic.cut_off[CutOff.MEMORY] >= 5)
    assert await limited.add(await limited.ledger(), 0) is Status.OK
    assert limited.traffic.connections >= 5, "as many as there is room for stay"


# ---- ports under TLS ----------------------------------------------------------------------------


class SecurePorts:
    """A bookie under TLS, and certificates to come with."""

    def __init__(self, lab: ServerLab, folder: Path) -> None:
        self.lab = lab
        self.authority = Authority.make(folder, "ours")
        bookie = self.authority.sign("bookie-0", Role.BOOKIE)
        self.client: Identity = self.authority.sign("client")
        lab.tree["tls"] = {"directory": str(bookie.folder), "handshakeSeconds": 0.5}
        lab.pool = lab.new_pool(ClientTls(CredentialsFolder(self.client.folder)))

    @property
    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.authority.own.certificate))
        context.load_cert_chain(self.client.certificate, self.client.key)
        return context

    async def session(self, port: str, first: bytes) -> Any:
        assert self.lab.bookie is not None
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.lab.bookie.ports[port], ssl=self.context
        )
        OPENED.append(writer)
        writer.write(first)
        return reader, writer


@pytest.fixture
async def secure(limited: ServerLab, tmp_path: Path) -> AsyncIterator[SecurePorts]:
    ports = SecurePorts(limited, tmp_path / "certificates")
    await limited.start()
    yield ports


def hostile(name: str, count: int) -> list[bytes]:
    chance = random.Random(name)
    return [mutated(seeds_of(name), chance, is_json=False) for _ in range(count)]


@pytest.mark.parametrize("port", ["run", "stock"])
async def test_whatever_comes_first_to_a_port_under_tls_honest_ones_are_served(
    secure: SecurePorts, port: str
) -> None:
    name = "native" if port == "run" else "opening"
    half = [HANDSHAKE[:size] for size in (1, 3, 6, len(HANDSHAKE))]
    for first in [*half, HANDSHAKE * 9, b"\x16" * 20_000, *hostile(name, 20), *seeds_of(name)]:
        reader, writer = await connect(secure.lab, port, first)
        if first:
            writer.write_eof()
        assert await is_ended(reader), first
        writer.close()
    assert await secure.lab.add(await secure.lab.ledger(), 0) is Status.OK


@pytest.mark.parametrize("port", ["run", "stock"])
async def test_whatever_comes_within_tls_honest_ones_are_served(
    secure: SecurePorts, port: str
) -> None:
    name = "native" if port == "run" else "stock"
    for first in [*hostile(name, 25), HANDSHAKE, b"\xff" * 40]:
        reader, writer = await secure.session(port, first)
        async with asyncio.timeout(10):
            await writer.drain()
            writer.close()
            while await reader.read(1 << 16):
                pass
    assert await secure.lab.add(await secure.lab.ledger(), 0) is Status.OK


async def test_bytes_that_are_no_record_end_a_session(secure: SecurePorts) -> None:
    _reader, writer = await secure.session("run", b"")
    below = os.dup(writer.get_extra_info("socket").fileno())
    os.write(below, b"\x17\x03\x03\xff\xff" + b"x" * 100)
    os.close(below)
    await secure.lab.until(lambda: secure.lab.traffic.connections == 0)


async def test_handshakes_that_do_not_end_make_room(secure: SecurePorts) -> None:
    held = [await connect(secure.lab, "run", HANDSHAKE[:40]) for _ in range(30)]
    assert await secure.lab.add(await secure.lab.ledger(), 0) is Status.OK
    assert secure.lab.traffic.tls_failures["run"] >= 22
    assert all([await is_ended(reader) for reader, _writer in held])


@pytest.mark.parametrize("bind", [None, "0.0.0.0"], ids=["one address", "every address"])
async def test_a_handshake_with_the_http_port_that_does_not_end_is_ended(
    limited: ServerLab, tmp_path: Path, bind: str | None
) -> None:
    SecurePorts(limited, tmp_path / "certificates")
    limited.tree["tls"]["http"] = True
    limited.tree["bind"] = bind
    await limited.start()
    for first in (b"", HANDSHAKE[:40]):
        reader, _writer = await connect(limited, "http", first)
        assert await is_ended(reader), first
