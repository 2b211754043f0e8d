"""The operator as a process on Kubernetes: signals, logging, and the check before an uninstall.

`bookie-operator run` comes here; `handlers` does the work.
"""

import asyncio
import logging
import signal
from collections.abc import Sequence

from bookie_operator.handlers import run
from bookie_operator.platform.kubernetes.api import CLUSTER, NotServedError, Object
from bookie_operator.platform.kubernetes.dynamic_api import ApiServer, DynamicApi

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def serve(*, namespaces: Sequence[str], port: int, verbose: bool) -> None:
    """Until SIGTERM or SIGINT; fleets go on without an operator."""
    logging.basicConfig(level=logging.DEBUG if verbose else logging.INFO, format=LOG_FORMAT)
    for noisy in ("kopf.objects", "aiohttp.access", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    # It warns of every try while the store is away; the status and one event tell that once.
    logging.getLogger("kazoo").setLevel(logging.ERROR)
    asyncio.run(_serve(namespaces, port))


async def _serve(namespaces: Sequence[str], port: int) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await run(namespaces=namespaces, port=port, stop=stop)


def clusters_left(namespaces: Sequence[str]) -> list[str]:
    """`namespace/name` of every BookieCluster; no namespaces = in all of them."""
    return asyncio.run(_clusters_left(namespaces))


async def _clusters_left(namespaces: Sequence[str]) -> list[str]:
    server = await ApiServer.connect()
    try:
        found: list[Object] = []
        for namespace in namespaces or ("",):
            found += await DynamicApi(server, namespace).list(CLUSTER)
    except NotServedError:
        return []
    finally:
        await server.close()
    return sorted(f"{one['metadata']['namespace']}/{one['metadata']['name']}" for one in found)
