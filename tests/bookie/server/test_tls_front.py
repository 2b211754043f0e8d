"""The front of a data port by itself: whatever goes wrong before a handshake, nothing stays."""

import asyncio
import ssl
from contextlib import suppress
from pathlib import Path

from bookie.hosts import loopback
from bookie.server.connections import DataConnection
from bookie.server.port_tls import PortTls
from bookie.server.settings import Tls
from bookie.server.state import Traffic
from bookie.server.tls_front import TlsFronts
from bookie.testing.certificates import Authority
from bookie.tls.principals import Role


class Nobody(DataConnection):
    """Takes whatever comes."""

    def __init__(self) -> None:
        super().__init__(lambda: None)

    def _opened(self) -> None: ...

    def _closed(self) -> None: ...

    def _left(self, size: int) -> None: ...

    def _take_next(self, view: memoryview) -> int:
        return len(view)


class Unusable(PortTls):
    """Its credentials are of no use at a handshake, for a reason that nobody thought of."""

    def context(self) -> ssl.SSLContext:
        raise ValueError("what is this?")


async def listening(fronts: TlsFronts) -> tuple[asyncio.Server, tuple[str, int]]:
    server = await asyncio.get_running_loop().create_server(fronts.front, loopback(), 0)
    return server, server.sockets[0].getsockname()[:2]


async def test_a_connection_whose_handshake_cannot_begin_is_closed_and_counted(
    tmp_path: Path,
) -> None:
    folder = Authority.make(tmp_path, "ours").sign("bookie-0", Role.BOOKIE).folder
    tls, traffic = Unusable(Tls(directory=folder, mode="Required")), Traffic()
    fronts = TlsFronts(tls, Nobody, port="run", traffic=traffic, waiting_max=1)
    server, address = await listening(fronts)
    for _ in range(2):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"\x16\x03\x01")
        assert await reader.read() == b""
        writer.close()
    assert traffic.tls_failures["run"] == 2 and not fronts._waiting
    server.close()


async def test_who_has_waited_longest_for_a_handshake_makes_room(tmp_path: Path) -> None:
    folder = Authority.make(tmp_path, "ours").sign("bookie-0", Role.BOOKIE).folder
    tls, traffic = PortTls(Tls(directory=folder, mode="Required")), Traffic()
    fronts = TlsFronts(tls, Nobody, port="run", traffic=traffic, waiting_max=2)
    server, address = await listening(fronts)
    first, *others = [await asyncio.open_connection(*address) for _ in range(3)]
    with suppress(ConnectionResetError):
        assert await first[0].read() == b""
    assert traffic.tls_failures["run"] == 1 and len(fronts._waiting) == 2
    for _reader, writer in (first, *others):
        writer.close()
    server.close()
