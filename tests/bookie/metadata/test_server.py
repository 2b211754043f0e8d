"""ZooKeeper in the foreground: what becomes of the process that is asked to be it."""

import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from bookie.errors import UnavailableError
from bookie.hosts import loopback
from bookie.metadata import embedded, java
from bookie.metadata.embedded import EmbeddedSettings, free_port
from bookie.metadata.embedded_settings import write_configuration
from bookie.metadata.server import main
from bookie.monitoring.commands import ask
from bookie.tls.principals import Role
from click.testing import CliRunner
from tls_fleet import TlsFleet

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
            with socket.create_connection((loopback(), port), timeout=5) as probe:
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


@pytest.mark.process
def test_as_a_container_it_takes_renewed_credentials_from_the_mounted_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = TlsFleet(tmp_path / "tls")
    monkeypatch.setenv("BOOKIE_TLS__DIRECTORY", str(fleet.folder(Role.ZOOKEEPER)))
    monkeypatch.setenv("BOOKIE_ZOOKEEPER_RENEWAL_S", "0.05")
    with server(tmp_path / "data", port := free_port()) as process:
        assert secured_answer(port, process, fleet.folder(Role.BOOKIE)) == "imok"
        after = fleet.new_authority()
        both = fleet.authority.pem + after.pem
        fleet.folder(Role.ZOOKEEPER, signed_by=after, trusting=both)
        new = fleet.folder(Role.BOOKIE, "new", signed_by=after, trusting=both)
        assert secured_answer(port, process, new) == "imok"


def secured_answer(port: int, process: subprocess.Popen[bytes], credentials: Path) -> str:
    while process.poll() is None:
        with suppress(UnavailableError):
            return ask((loopback(), port), b"ruok", credentials=credentials, wait_s=5)
    raise AssertionError(process.communicate()[1].decode())


def test_a_free_port_is_none_that_the_kernel_gives_to_outgoing_connections() -> None:
    lowest = int(embedded.OUTGOING_PORTS.read_text().split()[0])
    ports = {embedded.free_port() for _ in range(200)}
    assert embedded.LISTEN_PORT_MIN <= min(ports) <= max(ports) < lowest


def test_a_port_in_use_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    family = socket.AF_INET6 if ":" in loopback() else socket.AF_INET
    with socket.create_server((loopback(), 0), family=family) as server:
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
        assert str(port) in (tmp_path / "zoo.cfg").read_text()


def configured(tmp_path: Path, bind: str | None) -> set[str]:
    write_configuration(tmp_path, port=2181, settings=EmbeddedSettings(bind=bind))
    return {*(tmp_path / "zoo.cfg").read_text().splitlines()}


@pytest.mark.parametrize(
    ("bind", "address"), [("10.0.0.7", "10.0.0.7"), ("[fd00::7]", "fd00::7"), (None, loopback())]
)
def test_it_listens_where_it_is_told_to(tmp_path: Path, bind: str | None, address: str) -> None:
    lines = configured(tmp_path, bind)
    assert {f"clientPortAddress={address}", "clientPort=2181", "admin.enableServer=false"} <= lines


def test_it_takes_any_number_of_connections_of_one_address(tmp_path: Path) -> None:
    """A local fleet has one address; by itself a ZooKeeper takes 60."""
    assert "maxClientCnxns=0" in configured(tmp_path, None)


@pytest.mark.parametrize("bind", ["0.0.0.0", "::", "[::]"])
def test_told_to_listen_everywhere_it_listens_on_both_families(tmp_path: Path, bind: str) -> None:
    assert not [line for line in configured(tmp_path, bind) if "clientPortAddress" in line]


def test_without_java_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(java, "WHEEL", "no_such_wheel")
    ended = CliRunner().invoke(main, ["--directory", str(tmp_path / "zk")])
    assert (ended.exit_code, "set JAVA_HOME" in ended.output) == (2, True)
