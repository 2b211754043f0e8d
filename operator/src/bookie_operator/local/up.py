"""`local up`: start a manifest's cluster in a directory and run its operator until a signal.

The operator may be killed at any time: bookies, jobs and ZooKeeper keep running, and the next `up`
on the directory adopts them. SIGINT stops everything gracefully; SIGTERM ends only the operator.
"""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

from aiohttp import web
from bookie.errors import BookieError
from bookie.hosts import at_port, loopback

from bookie_operator.control import GrpcControl
from bookie_operator.errors import LocalError
from bookie_operator.local.down import take_down
from bookie_operator.local.stored import mark_looked, no_look, stored_cluster
from bookie_operator.local.web_page import serve as serve_web_page
from bookie_operator.metrics import OperatorMetrics, serve_http
from bookie_operator.model.cluster import BookieCluster
from bookie_operator.model.condition_types import ConditionType
from bookie_operator.model.manifest import load_cluster, load_task
from bookie_operator.model.refused import REFUSED_REASONS
from bookie_operator.model.status import ClusterStatus
from bookie_operator.model.transition import check_transition
from bookie_operator.observe import Observer
from bookie_operator.plan.actions import Action, Event
from bookie_operator.platform.folders import (
    LocalFolders,
    operator_lock,
    operator_pid,
    replace_file,
)
from bookie_operator.platform.local import LocalPlatform
from bookie_operator.platform.task_files import store_task
from bookie_operator.reconcile import Reconciler

TICK_S: Final = 0.5
NAMESPACE: Final = "local"
"""Namespace label in metrics of a cluster whose manifest names no namespace."""
DETACH_WAIT_S: Final = 180.0
DETACH_POLL_S: Final = 0.1
LOG_TAIL_LINES: Final = 15
HOPELESS: Final = REFUSED_REASONS | {"BookieCrashLoop"}
"""Reasons of Degraded that do not go away by waiting."""


class Screen(Protocol):
    """Shows a person what the operator does."""

    def show_event(self, event: Event, *, at: datetime | None = None) -> None:
        """Show one event. `at`: when it happened; None = now."""

    def show_cluster(self, cluster: BookieCluster) -> None: ...


@dataclass(frozen=True, slots=True)
class Ready:
    """What `--detach` prints once the cluster is Available."""

    metadata_url: str
    status_file: Path


def add_task(folders: LocalFolders, manifest: Path) -> Path:
    """Store a task for the directory's cluster and return its path; LocalError while there is one
    of its name."""
    task = load_task(manifest)
    cluster = stored_cluster(folders)
    if cluster is None or cluster.metadata.name != task.spec.cluster:
        found = cluster.metadata.name if cluster else "none"
        raise LocalError(
            f"{folders.root} holds cluster {found}, the task is for {task.spec.cluster}: "
            "choose --dir"
        )
    return store_task(folders, task)


def prepare(folders: LocalFolders, manifest: BookieCluster) -> BookieCluster:
    """Return the cluster of the manifest, with its generation and its last status.

    ManifestError when the directory's cluster must not change so; LocalError when the directory has
    a cluster of another name.
    """
    before = stored_cluster(folders)
    if before is None:
        return _with(manifest, generation=1, status=ClusterStatus())
    if before.metadata.name != manifest.metadata.name:
        raise LocalError(
            f"{folders.root} holds cluster {before.metadata.name}, found {manifest.metadata.name} "
            "in the manifest: choose another --dir"
        )
    check_transition(before.spec, manifest.spec)
    generation = before.metadata.generation + (before.spec != manifest.spec)
    return _with(manifest, generation=generation, status=before.status)


def _with(cluster: BookieCluster, *, generation: int, status: ClusterStatus) -> BookieCluster:
    metadata = cluster.metadata.model_copy(update={"generation": generation})
    return cluster.model_copy(update={"metadata": metadata, "status": status})


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports on which the operator serves, on this machine only; None = it does not."""

    metrics: int | None = None
    """Metrics, for Prometheus."""
    page: int | None = None
    """The web page of the fleet."""

    def words(self) -> list[str]:
        """The ports as options of `local up`."""
        given = (("--metrics-port", self.metrics), ("--page-port", self.page))
        return [word for name, port in given if port is not None for word in (name, str(port))]


NOWHERE: Final = Ports()


def up(folders: LocalFolders, manifest: Path, screen: Screen, *, ports: Ports = NOWHERE) -> int:
    """Run the operator in this process until a signal; return the exit code."""
    cluster = load_cluster(manifest)
    folders.make()
    with operator_lock(folders):
        cluster = prepare(folders, cluster)
        replace_file(folders.cluster_file, manifest.read_text(encoding="utf-8"))
        stopped_by = asyncio.run(_serve(folders, cluster, screen, ports))
        if stopped_by is not signal.SIGINT:
            return 0
        clean = take_down(folders, report=lambda line: screen.show_event(Event("Stopping", line)))
        return 0 if clean else 1


async def _serve(
    folders: LocalFolders, cluster: BookieCluster, screen: Screen, ports: Ports
) -> signal.Signals | None:
    metrics = OperatorMetrics()
    http = await _serve_http(folders, metrics, ports)
    platform = LocalPlatform(
        folders,
        grace_s=cluster.spec.grace_period_seconds,
        on_event=screen.show_event,
        on_publish=screen.show_cluster,
    )
    control = GrpcControl(lambda: platform.credentials)
    observer = Observer(platform, control)
    loop = asyncio.get_running_loop()
    stopped: asyncio.Future[signal.Signals] = loop.create_future()

    def on_signal(number: signal.Signals) -> None:
        if not stopped.done():
            stopped.set_result(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal, number)
    platform.adopt()
    work = Work(platform, observer, control, folders=folders, cluster=cluster, metrics=metrics)
    working = asyncio.create_task(work.run())
    try:
        waiting: list[asyncio.Future[Any]] = [stopped, working]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()  # it never ends by itself: raise what ended it
        return stopped.result() if stopped.done() else None
    finally:
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working
        for runner in http:
            await runner.cleanup()
        await observer.close()
        await control.close()
        await platform.close()


async def _serve_http(
    folders: LocalFolders, metrics: OperatorMetrics, ports: Ports
) -> list[web.AppRunner]:
    """Serve metrics and page; LocalError when a port cannot be used, and then neither is served."""
    figures = await _serve_figures(metrics, ports.metrics)
    try:
        page = await serve_web_page(folders, ports.page)
    except LocalError:
        if figures is not None:
            await figures.cleanup()
        raise
    return [runner for runner in (figures, page) if runner is not None]


async def _serve_figures(metrics: OperatorMetrics, port: int | None) -> web.AppRunner | None:
    """Serve the metrics, if a port is given; LocalError when the port cannot be used."""
    if port is None:
        return None
    try:
        return await serve_http(metrics, host=loopback(), port=port)
    except OSError as error:
        raise LocalError(
            f"cannot listen on {at_port(loopback(), port)}: {error}; choose another --metrics-port"
        ) from error


class Work:
    """Runs one pass over the directory's cluster after another, and counts them in metrics."""

    def __init__(
        self,
        platform: LocalPlatform,
        observer: Observer,
        control: GrpcControl,
        *,
        folders: LocalFolders,
        cluster: BookieCluster,
        metrics: OperatorMetrics,
    ) -> None:
        self._folders = folders
        self._metrics = metrics
        self._platform = platform
        self._cluster = cluster
        self._where = (cluster.metadata.namespace or NAMESPACE, cluster.metadata.name)
        """Labels of the cluster's metrics: namespace and name."""
        self._reconciler = Reconciler(platform, observer, control, on_done=self._count)

    async def run(self) -> None:
        """Run passes until the task is cancelled."""
        while True:
            try:
                await self.run_pass()
            except (
                BookieError,
                OSError,
            ) as error:  # the next pass tries again, and reports what is still wrong
                self._metrics.passed(*self._where, is_failed=True)
                await self._platform.record(Event("PassFailed", str(error), type="Warning"))
            await self._platform.wait(TICK_S)

    async def run_pass(self) -> None:
        """One pass. A status file that somebody has moved away is written again."""
        began_s = time.time()
        status = await self._reconciler.run_pass(self._cluster)
        self._cluster = self._cluster.model_copy(update={"status": status})
        could_look, mark = self._reconciler.could_look, partial(mark_looked, self._folders)
        if could_look and not await asyncio.to_thread(mark, began_s=began_s):
            await self._platform.publish(self._cluster)
        self._metrics.passed(*self._where, is_failed=not self._reconciler.could_look)
        self._metrics.show(*self._where, status)

    def _count(self, action: Action) -> None:
        self._metrics.acted(*self._where, type(action).__name__)


def up_detached(
    folders: LocalFolders,
    manifest: Path,
    *,
    ports: Ports = NOWHERE,
    command: Callable[[], list[str]] | None = None,
) -> Ready:
    """Start the operator in the background and wait until the cluster is Available.

    LocalError when it ends or is not Available in time; in the latter case it keeps running.
    """
    load_cluster(manifest)  # mistakes are shown here, not in a log
    folders.make()
    if operator_pid(folders) is not None:
        with operator_lock(folders):  # raises an error that names the other operator
            pass
    argv = (
        command()
        if command
        else [
            *(sys.executable, "-m", "bookie_operator", "local", "up", str(manifest.absolute())),
            *("--dir", str(folders.root)),
            *ports.words(),
        ]
    )
    with folders.operator_log.open("ab") as log:
        operator = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return asyncio.run(_until_available(folders, operator))


async def _until_available(folders: LocalFolders, operator: subprocess.Popen[bytes]) -> Ready:
    try:
        async with asyncio.timeout(DETACH_WAIT_S):
            while True:
                if operator.poll() is not None:
                    raise LocalError(
                        f"the operator ended with exit code {operator.returncode}:\n"
                        f"{_log_tail(folders)}"
                    )
                ready = _ready(folders, operator.pid)
                if ready is not None:
                    return ready
                await asyncio.sleep(DETACH_POLL_S)
    except asyncio.CancelledError:
        print(
            f"\nthe operator (process {operator.pid}) keeps running in the background: "
            f"{folders.command('down')} stops it",
            file=sys.stderr,
        )
        raise
    except TimeoutError as error:
        raise LocalError(
            f"not Available after {DETACH_WAIT_S:.0f} s; the operator (process {operator.pid}) "
            f"keeps running: see {folders.command('status')}\n"
            f"{_log_tail(folders)}"
        ) from error
    finally:
        if operator.poll() is None:
            operator.returncode = 0  # keeps Popen from warning: the operator outlives this process


def _ready(folders: LocalFolders, pid: int) -> Ready | None:
    """Return the answer once the operator `pid` itself has published an Available status.

    A status from an earlier operator does not count. LocalError when waiting cannot help.
    """
    if operator_pid(folders) != pid or not folders.status_file.exists():
        return None
    if folders.status_file.stat().st_mtime_ns < folders.lock_file.stat().st_mtime_ns:
        return None
    if no_look(folders):  # in the future: of before the clock was set back
        return None
    cluster = stored_cluster(folders)
    if cluster is None or cluster.status.observed_generation != cluster.metadata.generation:
        return None
    degraded = cluster.status.condition(ConditionType.DEGRADED)
    if degraded is not None and degraded.reason in HOPELESS:
        raise LocalError(
            f"{degraded.reason}: {degraded.message}; see {folders.bookies}/*/log.txt "
            f"(the operator, process {pid}, keeps running and trying)"
        )
    if not cluster.status.is_true(ConditionType.AVAILABLE):
        return None
    return Ready(cluster.status.metadata.url, folders.status_file)


def _log_tail(folders: LocalFolders) -> str:
    try:
        text = folders.operator_log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-LOG_TAIL_LINES:])
