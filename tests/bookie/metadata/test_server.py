"""ZooKeeper in the foreground: what becomes of the process that is asked to be it."""

import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from bookie.errors import UnavailableError
from bookie.metadata import embedded, java
from bookie.metadata.embedded import EmbeddedSettings, free_port, write_configuration
from bookie.metadata.server import main
from click.testing import CliRunner

NAME = "bookie.metadata.server"


@contextmanager
def server(directory: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    words = (sys.executable, "-m", NAME, "--directory", str(directory), "--port", str(port))
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def answer(port: int, process: subprocess.Popen[bytes]) -> bytes:
    """What it says about its health, as soon as it says something."""
    while process.poll() is None:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=5) as probe:
                probe.sendall(b"ruok")
                return probe.recv(16)
        except ConnectionRefusedError:
            os.sched_yield()
    raise AssertionError(process.communicate()[1].decode())


@pytest.mark.process
def test_it_is_the_server_itself_that_gets_the_signal(tmp_path: Path) -> None:
    with server(tmp_path, port := free_port()) as process:
        assert answer(port, process) == b"imok"
        assert b"QuorumPeerMain" in Path(f"/proc/{process.pid}/cmdline").read_bytes()
        process.terminate()
        assert process.wait(30) == 128 + signal.SIGTERM


def test_a_free_port_is_none_that_the_kernel_gives_to_outgoing_connections() -> None:
    lowest = int(embedded.OUTGOING_PORTS.read_text().split()[0])
    ports = {embedded.free_port() for _ in range(200)}
    assert embedded.LISTEN_PORT_MIN <= min(ports) <= max(ports) < lowest


def test_a_port_in_use_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        used = server.getsockname()[1]
        monkeypatch.setattr(random, "sample", lambda _ports, tries: [used] * tries)
        with pytest.raises(UnavailableError, match="are in use: name a free port"):
            embedded.free_port()


@pytest.mark.process
def test_a_second_server_on_the_folder_is_refused(tmp_path: Path) -> None:
    with server(tmp_path, port := free_port()) as first:
        answer(port, first)
        with server(tmp_path, free_port()) as second:
            assert b"a ZooKeeper already runs on" in second.communicate(timeout=30)[1]
            assert second.returncode == 1


def test_it_listens_where_it_is_told_to(tmp_path: Path) -> None:
    write_configuration(tmp_path, port=2181, settings=EmbeddedSettings(bind="0.0.0.0"))
    lines = (tmp_path / "zoo.cfg").read_text().splitlines()
    assert {"clientPortAddress=0.0.0.0", "clientPort=2181", "admin.enableServer=false"} <= {*lines}


def test_without_java_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(java, "WHEEL", "no_such_wheel")
    ended = CliRunner().invoke(main, ["--directory", str(tmp_path / "zk")])
    assert (ended.exit_code, "set JAVA_HOME" in ended.output) == (2, True)
