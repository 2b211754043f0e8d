"""The process and its lease: whoever ends gives it back, whoever lost it ends; and what it is given
reaches its work."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from bookie.errors import BookieError
from bookie.hosts import is_wildcard, loopback
from bookie.metadata.embedded import free_port
from bookie_operator import handlers, serve
from bookie_operator.__main__ import main
from bookie_operator.metrics import OperatorMetrics
from bookie_operator.platform.kubernetes import lease
from bookie_operator.platform.kubernetes.api import CLUSTER, LEASE, TASK
from bookie_operator.serve import NAMES_VARIABLE, run
from click.testing import CliRunner
from fake_api import FakeApi
from fake_api_server import Asked, FakeApiServer, as_kubeconfig

WAIT_S = 60.0


class Operator:
    """One process over a server in memory, as soon as it watches."""

    def __init__(self, leases: FakeApi, metrics: OperatorMetrics) -> None:
        self.leases = leases
        self.metrics = metrics
        self.stop = asyncio.Event()
        self.work = asyncio.ensure_future(
            run(namespaces=(), port=0, stop=self.stop, lease_path="ops/operators")
        )

    @property
    def holder(self) -> str:
        """Whom the lease names."""
        return str(self.leases.the(LEASE, "operators")["spec"]["holderIdentity"])

    @property
    def says_that_it_leads(self) -> bool:
        """By the figure that an alert asks for."""
        return self.metrics.registry.get_sample_value("bookie_operator_leads") == 1

    async def ended(self) -> None:
        async with asyncio.timeout(WAIT_S):
            await self.work


Begun = AbstractAsyncContextManager[Operator]


@pytest.fixture
def operator(monkeypatch: pytest.MonkeyPatch) -> Begun:
    """To be entered by a test itself: kopf waits for tasks that began after it."""
    return operating(monkeypatch)


@asynccontextmanager
async def operating(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Operator]:
    monkeypatch.setattr(lease, "MARGIN_S", lease.DURATION_S - 3)
    monkeypatch.setattr(lease, "RENEW_S", 0.1)
    monkeypatch.setenv("POD_NAME", "operator-a")
    server, is_watching = FakeApiServer(), asyncio.Event()
    leases = server.namespace("ops")
    leases.put(LEASE, {"metadata": {"name": "operators"}})

    def hear(asked: Asked) -> None:
        if asked.verb == "watch" and asked.target.kind == CLUSTER:
            is_watching.set()

    metrics = OperatorMetrics()
    monkeypatch.setattr(serve, "OperatorMetrics", lambda: metrics)
    server.hear = hear
    async with server.serving():
        with as_kubeconfig(server.url):
            one = Operator(leases, metrics)
            async with asyncio.timeout(WAIT_S):
                await is_watching.wait()
            try:
                yield one
            finally:
                one.work.cancel()
                await asyncio.wait([one.work])


async def test_who_ends_gives_the_lease_to_the_next_one_at_once(operator: Begun) -> None:
    async with operator as one:
        assert one.holder == "operator-a" and one.says_that_it_leads
        one.stop.set()
        await one.ended()
        assert one.holder == "" and not one.says_that_it_leads


async def test_who_lost_the_lease_ends_with_an_error_and_gives_nothing_away(
    operator: Begun,
) -> None:
    """What it began may be under way: others have to wait until the lease is over."""
    async with operator as one:
        one.leases.refuse("patch", LEASE, "a webhook is away")
        with pytest.raises(BookieError, match="lease of the operators was lost"):
            await one.ended()
        one.leases.allow_all()
        assert one.holder == "operator-a" and one.stop.is_set()
        assert not one.says_that_it_leads


# What it is given


class Start:
    """What the work of one process begins with, which is over at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.server = FakeApiServer()
        self.server.namespace("ops").put(LEASE, {"metadata": {"name": "operators"}})
        self.port, self.page_port = free_port(), free_port()
        monkeypatch.setattr(serve, "operate", self._operate)

    async def run(self, **given: Any) -> None:
        ports = {"port": self.port, "page_port": self.page_port}
        async with self.server.serving():
            with as_kubeconfig(self.server.url):
                await run(**{"namespaces": (), "stop": asyncio.Event(), **ports, **given})

    async def _operate(
        self, operator: handlers.Operator, namespaces: Sequence[str], stop: asyncio.Event
    ) -> None:
        self.operator, self.namespaces, self.stop = operator, namespaces, stop
        async with aiohttp.ClientSession() as person:
            for path in (f"{self.port}/healthz", f"{self.page_port}/content"):
                async with person.get(f"http://localhost:{path}") as answer:
                    assert answer.status == 200


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Start:
    return Start(monkeypatch)


@pytest.fixture(params=["", "ops/operators"], ids=["alone", "under a lease"])
def lease_path(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize(("credentials", "proved"), [(Path("keys"), "true"), (None, "false")])
async def test_what_a_process_is_given_reaches_its_operator(
    start: Start,
    monkeypatch: pytest.MonkeyPatch,
    lease_path: str,
    credentials: Path | None,
    proved: str,
) -> None:
    monkeypatch.setenv(NAMES_VARIABLE, proved)
    stop = asyncio.Event()
    await start.run(lease_path=lease_path, credentials=credentials, stop=stop)
    assert start.operator.own_namespace == lease_path.partition("/")[0]
    assert start.operator.credentials == credentials
    assert start.operator.names_proved is (proved == "true")
    assert start.stop is stop
    api = start.operator.open_api("fleet")
    assert api.namespace == "fleet" and isinstance(api, lease.LeaseGuard) is bool(lease_path)


@pytest.mark.parametrize("namespaces", [(), ("fleet",), ("fleet", "other")])
async def test_a_process_asks_for_clusters_of_its_own_namespaces_alone(
    start: Start, lease_path: str, namespaces: Sequence[str]
) -> None:
    """It may have no rights elsewhere, and its page shows nothing of others."""
    await start.run(lease_path=lease_path, namespaces=namespaces)
    by_page = list(namespaces) or [""]
    lists = {
        kind: [one.target.namespace for one in start.server.asked if one.target.kind == kind]
        for kind in (CLUSTER, TASK)
    }
    assert lists == {CLUSTER: [by_page[0], *by_page], TASK: by_page[:1]}
    assert start.namespaces == namespaces


async def test_its_figures_are_for_everybody_and_its_page_for_its_own_machine(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kubelet and Prometheus ask from outside of the pod."""
    hosts, real = dict[int, str](), socket.socket.bind

    def bind(of: socket.socket, address: Any) -> None:
        hosts[address[1]] = address[0]
        real(of, address)

    monkeypatch.setattr(socket.socket, "bind", bind)
    await start.run()
    assert is_wildcard(hosts[start.port]) and hosts[start.page_port] == loopback()


@pytest.fixture
def levels() -> Iterator[None]:
    """A process sets those of others' loggers, which here belong to all tests."""
    names = ("kopf.objects", "aiohttp.access", "asyncio", "kazoo")
    before = {name: logging.getLogger(name).level for name in names}
    yield
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


@pytest.mark.usefixtures("levels")
def test_what_the_command_line_says_reaches_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: dict[str, Any] = {}

    async def run(**facts: Any) -> None:
        given.update(facts)

    monkeypatch.setattr(serve, "run", run)
    words = "run --namespace a --namespace b --port 1 --page-port 2 --lease o/l --credentials keys"
    done = CliRunner().invoke(main, words.split())
    assert done.exit_code == 0 and not given.pop("stop").is_set(), done.output
    expected = {"namespaces": ("a", "b"), "port": 1, "page_port": 2, "lease_path": "o/l"}
    assert given == {**expected, "credentials": Path("keys")}


@pytest.mark.parametrize(
    ("words", "left"),
    [
        ((), "fleet/a, fleet/b, other/a"),
        (("--namespace", "fleet"), "fleet/a, fleet/b"),
        (("--namespace", "none"), ""),
        (("--namespace", "none", "--namespace", "other"), "other/a"),
    ],
)
async def test_an_uninstall_is_checked_against_every_cluster_that_is_left(
    words: tuple[str, ...], left: str
) -> None:
    server = FakeApiServer()
    for namespace, name in (("other", "a"), ("fleet", "b"), ("fleet", "a")):
        server.namespace(namespace).put(CLUSTER, {"metadata": {"name": name}})
    async with server.serving():
        with as_kubeconfig(server.url):
            check = ["uninstall-check", *words]
            done = await asyncio.to_thread(CliRunner().invoke, main, check)
    assert (done.exit_code, done.stdout) == (int(bool(left)), "")
    assert done.stderr.startswith(f"error: found BookieCluster {left}, exp") is bool(left)
