"""The process and its lease: whoever ends gives it back, whoever lost it ends."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
from bookie.errors import BookieError
from bookie_operator import serve
from bookie_operator.metrics import OperatorMetrics
from bookie_operator.platform.kubernetes import lease
from bookie_operator.platform.kubernetes.api import CLUSTER, LEASE
from bookie_operator.serve import run
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
