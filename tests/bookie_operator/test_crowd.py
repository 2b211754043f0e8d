"""The operator in a cluster full of other people's objects: it asks for none of them."""

import asyncio

import pytest
from bookie_operator.handlers import KEPT, PARTS
from bookie_operator.platform.kubernetes.api import CLUSTER, PAGE_MAX, POD, TASK, Object
from bookie_operator.platform.kubernetes.names import CLUSTER_LABEL
from bookie_operator.serve import run
from fake_api_server import Asked, FakeApiServer, as_kubeconfig

FOREIGN, OWN = 10_000, 3
WATCHED = {CLUSTER, TASK, *PARTS, *KEPT}
WAIT_S = 60.0


def pod(number: int, **labels: str) -> Object:
    metadata = {"name": f"pod-{number}", "labels": labels}
    return {"metadata": metadata, "spec": {"containers": ["x" * 1000]}}


@pytest.fixture
async def crowd() -> list[Asked]:
    """What a server was asked that has 10,000 pods of others, until all watches stood."""
    server, is_watched = FakeApiServer(), asyncio.Event()
    others = server.namespace("others")
    for number in range(FOREIGN):
        others.put(POD, pod(number, app="web"))
    for number in range(FOREIGN, FOREIGN + OWN):
        others.put(POD, pod(number, **{CLUSTER_LABEL: "demo"}))

    def hear(_asked: Asked) -> None:
        if {one.target.kind for one in server.asked if one.verb == "watch"} == WATCHED:
            is_watched.set()

    server.hear = hear
    async with server.serving():
        with as_kubeconfig(server.url):
            stop = asyncio.Event()
            running = asyncio.ensure_future(run(namespaces=(), port=0, stop=stop))
            async with asyncio.timeout(WAIT_S):
                await is_watched.wait()
                stop.set()
                await running
    return server.asked


async def test_d2_ten_thousand_pods_of_others_are_never_sent(crowd: list[Asked]) -> None:
    assert sum(one.objects for one in crowd) == OWN
    for one in crowd:
        is_own = one.target.kind in (CLUSTER, TASK)
        assert one.query.get("labelSelector") == (None if is_own else CLUSTER_LABEL), one
    assert {one.query.get("limit") for one in crowd if one.verb == "list"} == {str(PAGE_MAX)}
