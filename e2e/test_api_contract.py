"""A real API server keeps the claims that tests of the operator rely on its fake for.

Runs only against a kubeconfig whose context starts with `kind-`, in a namespace of its own.
"""

import asyncio
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest
from api_claims import ApiClaims
from bookie_operator.errors import PreconditionError
from bookie_operator.platform.kubernetes.api import (
    CLAIM,
    CONFIG_MAP,
    EVENT,
    POD,
    STATEFUL_SET,
    TASK,
    Api,
)
from bookie_operator.platform.kubernetes.dynamic_api import ApiServer, DynamicApi

pytestmark = pytest.mark.usefixtures("cluster")

CRDS: Final = Path(__file__).parents[1] / "crds"
NAMESPACE: Final = "platform"
KINDS: Final = (STATEFUL_SET, POD, CLAIM, CONFIG_MAP, EVENT, TASK)
OWN_CERTIFICATE: Final = "kube-root-ca.crt"
"""A ConfigMap that every namespace has."""
POLL_S: Final = 0.1
POLLS: Final = 600


def kubectl(*words: str) -> str:
    command = ("kubectl", *words)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module", autouse=True)
def namespace() -> Iterator[None]:
    try:
        context = kubectl("config", "current-context")
    except (OSError, AssertionError) as error:
        pytest.skip(f"no cluster: {error}")
    if not context.startswith("kind-"):
        pytest.skip(f"the context is {context!r}, expected one that starts with kind-")
    names = kubectl("get", "--ignore-not-found", "-o", "name", "-f", str(CRDS)).split()
    kubectl("apply", "--server-side", "--force-conflicts", "-f", str(CRDS))
    kubectl("wait", "--for=condition=Established", "--timeout=30s", "-f", str(CRDS))
    kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found")
    kubectl("create", "namespace", NAMESPACE)
    yield
    kubectl("delete", "namespace", NAMESPACE, "--timeout=60s")
    if not names:  # a chart that is installed later could not make them its own
        kubectl("delete", "-f", str(CRDS), "--timeout=60s")


class TestRealApi(ApiClaims):
    @pytest.fixture
    async def api(self) -> AsyncIterator[Api]:
        server = await ApiServer.connect()
        try:
            api = DynamicApi(server, NAMESPACE)
            yield api
            await empty(api)
        finally:
            await server.close()


async def empty(api: Api) -> None:
    """Takes away what a claim left, and waits until it is gone."""
    for _ in range(POLLS):
        left = [(kind, one) for kind in KINDS for one in await api.list(kind)]
        left = [(kind, one) for kind, one in left if one["metadata"]["name"] != OWN_CERTIFICATE]
        if not left:
            return
        for kind, one in left:
            with suppress(PreconditionError):  # a controller was quicker
                await api.delete(kind, one)
        await asyncio.sleep(POLL_S)
    raise AssertionError(f"{NAMESPACE} does not become empty: {left}")
