"""Strangers who begin handshakes with gRPC on many connections at once: its process outlives them.

gRPC frees the credentials that a server replaces while other threads begin handshakes with them. A
server that gave it new ones at each handshake was dead within some thousand connections.
"""

import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from bookie.tls.principals import Role
from tls_fleet import TlsFleet

pytestmark = pytest.mark.process
SERVER = """
import asyncio, pathlib, sys, grpc
from bookie.tls.credentials import CredentialsFolder

async def main():
    server = grpc.aio.server()
    credentials = CredentialsFolder(pathlib.Path(sys.argv[1])).server_credentials()
    print(server.add_secure_port("127.0.0.1:0", credentials), flush=True)
    await server.start()
    await server.wait_for_termination()

asyncio.run(main())
"""
BEGINNING = b"\x16\x03\x01\x02\x00\x01"
"""A TLS record with the first bytes of a handshake."""
STRANGERS, ROUNDS, HELD = 6, 30, 50
WAIT_S = 10.0


@pytest.fixture
def fleet(tmp_path: Path) -> TlsFleet:
    return TlsFleet(tmp_path)


@pytest.fixture
def server(fleet: TlsFleet) -> Iterator[tuple[subprocess.Popen[str], int]]:
    words = [sys.executable, "-c", SERVER, str(fleet.folder(Role.BOOKIE))]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process, int(process.stdout.readline())
        process.kill()


def begin_many(port: int) -> None:
    for _ in range(ROUNDS):
        held = [socket.create_connection(("127.0.0.1", port), WAIT_S) for _ in range(HELD)]
        for one in held:
            one.sendall(BEGINNING)
        for one in held:
            one.close()


@pytest.mark.parametrize("renewals", [0, 4])
def test_whoever_begins_handshakes_at_once_does_not_end_the_server(
    fleet: TlsFleet, server: tuple[subprocess.Popen[str], int], renewals: int
) -> None:
    process, port = server
    with ThreadPoolExecutor(STRANGERS) as strangers:
        tries = [strangers.submit(begin_many, port) for _ in range(STRANGERS)]
        for _ in range(renewals):
            fleet.folder(Role.BOOKIE)
            begin_many(port)
        for one in tries:
            one.result()
    assert process.poll() is None
