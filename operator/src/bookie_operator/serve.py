"""The operator as a process on Kubernetes: signals, logging, its lease, and the uninstall check.

`bookie-operator run` comes here; `handlers` does the work.
"""

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bookie.errors import BookieError

from bookie_operator.handlers import Operator, check_installed, operate
from bookie_operator.metrics import OperatorMetrics, serve_http
from bookie_operator.page.serving import serve_page
from bookie_operator.page.shown import Shown, shown
from bookie_operator.platform.kubernetes.api import CLUSTER, Api, NotServedError, Object
from bookie_operator.platform.kubernetes.dynamic_api import ApiServer, DynamicApi
from bookie_operator.platform.kubernetes.lease import Lease, LeaseGuard, acquire, keep

HTTP_HOST: Final = "0.0.0.0"
LOGGER: Final = logging.getLogger(__name__)
LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
NAMES_VARIABLE: Final = "BOOKIE_OPERATOR_NAMES_PROVED"


def serve(
    *,
    namespaces: Sequence[str],
    port: int,
    verbose: bool,
    lease_path: str = "",
    credentials: Path | None = None,
    page_port: int = 0,
) -> None:
    """Run the operator until SIGTERM or SIGINT; bookies keep running without it. `credentials`:
    folder for its own credentials; None = a temporary one. `page_port`: port of the web page,
    reachable only in this pod; 0 = no page.
    """
    logging.basicConfig(level=logging.DEBUG if verbose else logging.INFO, format=LOG_FORMAT)
    for noisy in ("kopf.objects", "aiohttp.access", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    # It warns of every try while the store is away; the status and one event tell that once.
    logging.getLogger("kazoo").setLevel(logging.ERROR)
    with TemporaryDirectory(prefix="bookie-operator-") as scratch:
        own = credentials or Path(scratch)
        asyncio.run(_serve(namespaces, port, lease_path, own, page_port))


async def _serve(
    namespaces: Sequence[str], port: int, lease_path: str, credentials: Path, page_port: int
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await run(
        namespaces=namespaces,
        port=port,
        stop=stop,
        lease_path=lease_path,
        credentials=credentials,
        page_port=page_port,
    )


async def run(
    *,
    namespaces: Sequence[str],
    port: int,
    stop: asyncio.Event,
    lease_path: str = "",
    credentials: Path | None = None,
    page_port: int = 0,
) -> None:
    """Serve until `stop` is set. No namespaces = all of them.

    `lease_path`: NAMESPACE/NAME of the Lease without which nothing is done. BookieError when it was
    lost: another process may act now, and this one has to begin again.
    """
    server = await ApiServer.connect()
    metrics = OperatorMetrics()
    http = [await serve_http(metrics, host=HTTP_HOST, port=port)]
    make = partial(
        Operator,
        metrics=metrics,
        credentials=credentials,
        names_proved=are_names_proved(os.environ),
    )
    try:
        if page_port:
            source = partial(_clusters, server, namespaces)
            http.append(await serve_page(source, port=page_port))
        await check_installed(DynamicApi(server, next(iter(namespaces), "")))
        if lease_path:
            namespace, _slash, name = lease_path.partition("/")
            lease = Lease(DynamicApi(server, namespace), name, identity=identity_of(os.environ))
            make = partial(make, own_namespace=namespace)
            await _lead(server, lease, metrics, namespaces, stop, make=make)
        else:
            operator = make(lambda namespace: DynamicApi(server, namespace))
            await operate(operator, namespaces, stop)
    finally:
        for runner in http:
            await runner.cleanup()
        await server.close()


async def _clusters(server: ApiServer, namespaces: Sequence[str]) -> list[Shown]:
    """All that the operator looks after, or stands by to."""
    return [shown(body) for body in await _listed(server, namespaces)]


async def _lead(
    server: ApiServer,
    lease: Lease,
    metrics: OperatorMetrics,
    namespaces: Sequence[str],
    stop: asyncio.Event,
    *,
    make: Callable[[Callable[[str], Api]], Operator],
) -> None:
    """Wait for the lease, act as long as it is held, and give it back."""
    metrics.lead(False)
    if not await acquire(lease, stop=stop):
        return
    metrics.lead(True)
    LOGGER.info("this operator holds the lease")
    is_over = asyncio.Event()

    async def watch() -> None:
        await keep(lease, stop=is_over)
        metrics.lead(False)
        stop.set()

    watching = asyncio.create_task(watch())
    try:
        operator = make(lambda namespace: LeaseGuard(DynamicApi(server, namespace), lease))
        await operate(operator, namespaces, stop)
    finally:
        is_lost = not lease.held_s
        is_over.set()
        await watching
        if not is_lost:
            await lease.release()
    if is_lost:
        raise BookieError("the lease of the operators was lost: another one may act now")


def are_names_proved(environ: Mapping[str, str]) -> bool:
    """The chart says so where it has installed its admission policy."""
    return environ.get(NAMES_VARIABLE) == "true"


def identity_of(environ: Mapping[str, str]) -> str:
    """The identity of this operator; no two that may run at the same time have the same.

    A container that is started again in its pod goes on where the one before it ended, since that
    one has ended; a new pod has to wait until the lease is over.
    """
    return environ.get("POD_NAME") or f"{socket.gethostname()}_{os.getpid()}"


def clusters_left(namespaces: Sequence[str]) -> list[str]:
    """`namespace/name` of every BookieCluster; no namespaces = in all of them."""
    return asyncio.run(_clusters_left(namespaces))


async def _clusters_left(namespaces: Sequence[str]) -> list[str]:
    server = await ApiServer.connect()
    try:
        found = await _listed(server, namespaces)
    except NotServedError:
        return []
    finally:
        await server.close()
    return sorted(f"{one['metadata']['namespace']}/{one['metadata']['name']}" for one in found)


async def _listed(server: ApiServer, namespaces: Sequence[str]) -> list[Object]:
    """Every BookieCluster; no namespaces = in all of them."""
    found: list[Object] = []
    for namespace in namespaces or ("",):
        found += await DynamicApi(server, namespace).list(CLUSTER)
    return found
