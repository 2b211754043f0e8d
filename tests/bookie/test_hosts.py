"""Hosts of either family: as text, and as sockets of this machine."""

import asyncio
import errno
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, cast

import grpc
import pytest
from bookie.hosts import at_port, bare, bracketed, is_wildcard, listen_everywhere, loopback
from bookie.server.admin import AdminServer
from bookie.server.connections import DataServer
from bookie.server.http import ProbeServer
from bookie_operator.metrics import OperatorMetrics, serve_http
from ipv6 import needs_ipv6

Start = Callable[[str], AbstractAsyncContextManager[int]]


@pytest.mark.parametrize(
    ("host", "written"),
    [
        ("10.0.0.1", "10.0.0.1:3181"),
        ("bookie-0.bookies", "bookie-0.bookies:3181"),
        ("::1", "[::1]:3181"),
        ("[::1]", "[::1]:3181"),
        ("::ffff:10.0.0.1", "[::ffff:10.0.0.1]:3181"),
    ],
)
def test_only_an_address_of_ip_version_6_gets_brackets_before_a_port(
    host: str, written: str
) -> None:
    assert at_port(host, 3181) == written


@pytest.mark.parametrize("host", ["10.0.0.1", "bookie-0", "fd00::7"])
def test_brackets_come_off_again(host: str) -> None:
    assert bare(bracketed(host)) == host


def test_two_texts_and_no_other_mean_every_address() -> None:
    hosts = ("0.0.0.0", "::", "[::]", "", "127.0.0.1", "::1", "0:0:0:0:0:0:0:0")
    assert [host for host in hosts if is_wildcard(host)] == ["0.0.0.0", "::", "[::]"]


class NoSuchFamily:
    """A machine that lacks a family: nothing can be bound in it."""

    def __init__(self, family: int, why: int) -> None:
        self.family, self.why, self._real = family, why, socket.socket.bind

    def bind(self, of: socket.socket, address: Any) -> None:
        if of.family == self.family:
            raise OSError(self.why, "no such address")
        self._real(of, address)


def lacks_ipv6(monkeypatch: pytest.MonkeyPatch, why: int) -> None:
    """A bind fails like this; 0: the kernel was started without it."""
    machine = NoSuchFamily(socket.AF_INET6, why)
    monkeypatch.setattr(socket.socket, "bind", lambda *words: machine.bind(*words))
    if not why:
        monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)


@pytest.mark.parametrize("why", [0, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT])
def test_without_ipv6_every_address_is_of_ipv4_and_the_log_says_so(
    why: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lacks_ipv6(monkeypatch, why)
    with listen_everywhere(0) as listener:
        assert listener.family is socket.AF_INET
    assert "this machine has no IPv6" in caplog.text


@needs_ipv6
def test_a_port_in_use_is_no_lack_of_ipv6(monkeypatch: pytest.MonkeyPatch) -> None:
    lacks_ipv6(monkeypatch, errno.EADDRINUSE)
    with pytest.raises(OSError, match="no such address"):
        listen_everywhere(0)


def test_the_loopback_is_the_one_of_ipv4_where_there_is_any(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = NoSuchFamily(socket.AF_INET, errno.EADDRNOTAVAIL)
    monkeypatch.setattr(socket.socket, "bind", lambda *words: machine.bind(*words))
    assert loopback() == "::1"


# Whatever listens everywhere
class Goodbye(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


class NoBookie:
    identity = hear_epoch = None


@asynccontextmanager
async def data(host: str) -> AsyncIterator[int]:
    server = DataServer(cast(Any, Goodbye))
    yield await server.start(host, 0)
    server.stop()


@asynccontextmanager
async def probes(host: str) -> AsyncIterator[int]:
    server = ProbeServer(cast(Any, None), cast(Any, None))
    yield await server.start(host, 0)
    await server.stop()


@asynccontextmanager
async def control(host: str) -> AsyncIterator[int]:
    server = AdminServer(cast(Any, NoBookie()))
    yield await server.start(host, 0)
    await server.stop(None)


@asynccontextmanager
async def operator(host: str) -> AsyncIterator[int]:
    runner = await serve_http(OperatorMetrics(), host=host, port=0)
    yield int(runner.addresses[0][1])
    await runner.cleanup()


@needs_ipv6
@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
@pytest.mark.parametrize("start", [data, probes, control, operator])
async def test_every_port_listens_on_both_families_when_it_listens_everywhere(
    start: Start, host: str
) -> None:
    async with start(host) as port:
        for address in ("127.0.0.1", "::1"):
            _reader, writer = await asyncio.open_connection(address, port)
            writer.close()
            await writer.wait_closed()


@needs_ipv6
async def test_a_target_in_brackets_is_reached_over_grpc() -> None:
    async with (
        control("::1") as port,
        grpc.aio.insecure_channel(at_port("::1", port)) as channel,
    ):
        await channel.channel_ready()
