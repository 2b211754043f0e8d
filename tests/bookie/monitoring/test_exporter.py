"""The figures of a real ZooKeeper under `/metrics`, and what is answered while it is away."""

import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pytest
from bookie.metadata.embedded import EmbeddedSettings, EmbeddedZooKeeper, free_port
from bookie.monitoring.commands import ANSWER_BYTES_MAX, Address
from bookie.monitoring.exporter import Exporter
from bookie.monitoring.exporter import _Scrape as Scrape
from bookie.monitoring.exporter import main as exporter
from bookie.tls.principals import Role
from click.testing import CliRunner
from ipv6 import needs_ipv6
from prometheus_client.parser import text_string_to_metric_families
from prometheus_server import zookeeper_figures
from tls_fleet import TlsFleet

NOBODY: Final[Address] = ("127.0.0.1", 1)
ENTRY_POINT: Final = Path(__file__).parents[3] / "bookie" / "repair-entrypoint.sh"
PATH: Final = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
"""The entry point asks for `python`: that of these tests."""


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def figures(text: str) -> dict[str, float]:
    families = text_string_to_metric_families(text)
    return {one.name: one.value for family in families for one in family.samples}


def test_a_scrape_has_latencies_queues_connections_znodes_and_syncs(
    zookeeper_server: EmbeddedZooKeeper,
) -> None:
    with zookeeper_figures(("127.0.0.1", zookeeper_server.port)) as port:
        status, text = get(f"http://127.0.0.1:{port}/metrics?of=prometheus")
    found = figures(text)
    wanted = {"avg_latency", "readlatency_sum", "updatelatency", "outstanding_requests"}
    wanted |= {"num_alive_connections", "fsynctime_sum", "fsynctime_count", "packets_received"}
    assert status == 200 and wanted <= found.keys()
    assert found["znode_count"] >= 5


@pytest.mark.process
def test_a_zookeeper_under_tls_is_asked_with_a_certificate(tmp_path: Path) -> None:
    credentials = TlsFleet(tmp_path).folder(Role.ZOOKEEPER)
    settings = EmbeddedSettings(fsync=False, tls=credentials)
    with (
        EmbeddedZooKeeper.start(tmp_path / "zookeeper", settings=settings) as server,
        zookeeper_figures((server.host, server.port), credentials) as port,
    ):
        status, text = get(f"http://127.0.0.1:{port}/metrics")
    assert status == 200 and figures(text)["num_alive_connections"] == 1


def test_a_zookeeper_that_is_away_is_an_error_with_its_reason() -> None:
    with zookeeper_figures(NOBODY) as port:
        status, text = get(f"http://127.0.0.1:{port}/metrics")
        assert (status, get(f"http://127.0.0.1:{port}/")[0]) == (503, 404)
    assert "ZooKeeper at 127.0.0.1:1 does not answer" in text


@contextmanager
def talking(answer: bytes) -> Iterator[Address]:
    """A server that answers anything so, once."""

    def talk() -> None:
        connection, _peer = listener.accept()
        with connection, suppress(OSError):
            connection.recv(4)
            connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=talk)
        thread.start()
        yield listener.getsockname()
        thread.join()


def test_an_answer_without_end_is_not_read_to_the_end() -> None:
    with talking(b"x" * (ANSWER_BYTES_MAX + 1)) as address, zookeeper_figures(address) as port:
        status, text = get(f"http://127.0.0.1:{port}/metrics")
    assert status == 503 and "is that a ZooKeeper?" in text


def test_who_connects_and_asks_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Scrape.timeout is not None, "a thread for each, for ever"
    monkeypatch.setattr(Scrape, "timeout", min(Scrape.timeout, 0.05))
    with zookeeper_figures(NOBODY) as port, socket.create_connection(("127.0.0.1", port)) as silent:
        silent.sendall(b"GET /metrics")
        silent.settimeout(30)
        assert silent.recv(1) == b""


@pytest.mark.process
@pytest.mark.parametrize("bind", ["127.0.0.1", pytest.param("::1", marks=needs_ipv6)])
def test_the_program_says_where_it_listens_and_ends_when_it_is_asked_to(bind: str) -> None:
    options = (f"--bind={bind}", "--port=0", "--zookeeper=127.0.0.1:1")
    words = (sys.executable, "-m", "bookie.monitoring.exporter", *options)
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, bufsize=1) as child:
        assert child.stdout is not None
        url = child.stdout.readline().split()[-1]
        status, _text = get(url)
        child.terminate()
    assert (urlsplit(url).hostname, status, child.returncode) == (bind, 503, 0)


@pytest.mark.process
def test_the_repair_image_serves_them_on_the_port_of_its_variable() -> None:
    port = free_port()
    more = {"BOOKIE_ZOOKEEPER_METRICS_PORT": str(port), "PATH": PATH}
    words = ("sh", ENTRY_POINT, "cat")  # it is at work until its input ends
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, env=os.environ | more, start_new_session=True
    ) as child:
        try:
            assert first_answer(port, child) == (404, "there is /metrics only, found /\n")
        finally:
            os.killpg(child.pid, signal.SIGKILL)


def first_answer(port: int, child: "subprocess.Popen[bytes]") -> tuple[int, str]:
    """What is at `/`, as soon as it listens."""
    while child.poll() is None:
        try:
            return get(f"http://127.0.0.1:{port}/")
        except urllib.error.URLError:
            os.sched_yield()
    raise AssertionError("the entry point ended before its command")


@pytest.mark.parametrize(
    ("bind", "host"), [("127.0.0.1", "127.0.0.1"), pytest.param("::1", "[::1]", marks=needs_ipv6)]
)
def test_an_address_in_use_is_said(bind: str, host: str) -> None:
    family = socket.AF_INET6 if ":" in bind else socket.AF_INET
    with socket.create_server((bind, 0), family=family) as taken:
        port = taken.getsockname()[1]
        ended = CliRunner().invoke(exporter, ["--bind", bind, "--port", str(port)])
    assert ended.exit_code == 1 and f"error: {host}:{port} cannot be listened on" in ended.output


@pytest.mark.process
@needs_ipv6
def test_it_listens_on_an_address_of_ipv6() -> None:
    with Exporter(("::1", 0), NOBODY) as server:
        assert server.socket.getsockname()[0] == "::1"


def test_the_brackets_of_an_address_are_no_part_of_its_host() -> None:
    asked = exporter.make_context("exporter", ["--zookeeper", "[::1]:7"])
    assert asked.params["zookeeper"] == ("::1", 7)


def test_an_address_without_a_port_is_refused() -> None:
    ended = CliRunner().invoke(exporter, ["--zookeeper", "zk.example"])
    assert (ended.exit_code, "expected HOST:PORT" in ended.output) == (2, True)
