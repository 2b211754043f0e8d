"""The operator in a cluster full of other people's objects: it asks for none of them."""

import asyncio
from pathlib import Path

import pytest
import yaml
from bookie_operator.handlers import KEPT, PARTS
from bookie_operator.platform.kubernetes.api import CLUSTER, PAGE_MAX, POD, TASK, Object
from bookie_operator.platform.kubernetes.names import CLUSTER_LABEL
from bookie_operator.serve import run
from crowded_server import CrowdedServer, kubeconfig
from kubernetes.aio.config import kube_config

FOREIGN, OWN = 10_000, 3
WAIT_S = 60.0


def pod(number: int, **labels: str) -> Object:
    name = f"pod-{number}"
    metadata = {"name": name, "namespace": "others", "uid": name, "resourceVersion": "1"}
    return {"metadata": metadata | {"labels": labels}, "spec": {"containers": ["x" * 1000]}}


@pytest.fixture
async def crowd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CrowdedServer:
    """What a server was asked that has 10,000 pods of others, until all watches stood."""
    server = CrowdedServer((CLUSTER, TASK, *PARTS, *KEPT))
    server.objects[POD] = [pod(n, app="web") for n in range(FOREIGN)]
    server.objects[POD] += [pod(FOREIGN + n, **{CLUSTER_LABEL: "demo"}) for n in range(OWN)]
    async with server.serving():
        file = tmp_path / "kubeconfig"
        file.write_text(yaml.safe_dump(kubeconfig(server.url)))
        monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(file))
        stop = asyncio.Event()
        running = asyncio.ensure_future(run(namespaces=(), port=0, stop=stop))
        async with asyncio.timeout(WAIT_S):
            await server.is_watched.wait()
            stop.set()
            server.is_over.set()
            await running
    return server


async def test_d2_ten_thousand_pods_of_others_are_never_sent(crowd: CrowdedServer) -> None:
    assert crowd.sent == OWN
    for kind, query in [*crowd.lists, *crowd.watches.items()]:
        is_own = kind in (CLUSTER, TASK)
        assert query.get("labelSelector") == (None if is_own else CLUSTER_LABEL), kind
    assert {query.get("limit") for _kind, query in crowd.lists} == {str(PAGE_MAX)}
