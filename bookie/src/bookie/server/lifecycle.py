"""The life of one bookie process: control plane, boot, data ports, registration, and the stop.

Boot: lock -> `boot.boot` -> open the data ports -> register. If the metadata store is not
reachable, the boot waits for it. Stop: close the data ports -> unregister -> flush and sync -> only
then make the markers say clean. If a step fails, the markers stay dirty and the next boot is an
unclean one.
"""

import asyncio
import contextlib
import logging
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from bookie.boot.boot import Boot, Booted, finish_clean_stop
from bookie.boot.drain_marker import is_draining
from bookie.boot.lock import FolderInUseError, FolderLock
from bookie.boot.takeover import BootSettings, in_thread
from bookie.clock import boot_time
from bookie.errors import BookieError, BootRefusedError, StorageError, UnavailableError
from bookie.hosts import at_port
from bookie.ids import BookieId
from bookie.metadata.opening import open_store
from bookie.metadata.store import MetadataStore
from bookie.server.admin import AdminServer
from bookie.server.advertised import Advertised
from bookie.server.announce import Announcer
from bookie.server.collect import Collector
from bookie.server.connections import DataConnection, DataServer, RunConnection
from bookie.server.control import BookieServices, Control
from bookie.server.drain import Drain
from bookie.server.first_fences import FirstFences, in_store
from bookie.server.housekeeping import Ends, Housekeeping
from bookie.server.http import MakeContext, MeasureGauges, ProbeServer
from bookie.server.lease import Lease
from bookie.server.marks import Marks
from bookie.server.operations import Operations
from bookie.server.pacing import Pacing
from bookie.server.part_settings import (
    boot_settings,
    busy_rates,
    collection_rules,
    reply_limits,
    request_limits,
    zookeeper_settings,
)
from bookie.server.port_tls import PortTls
from bookie.server.rack import Rack
from bookie.server.replies import ReplyRoom
from bookie.server.requests import RunService
from bookie.server.runtime_file import RuntimeFile
from bookie.server.sessions import Sessions
from bookie.server.settings import BookieSettings, Limits
from bookie.server.state import BookieState, Phase, ReadOnlyReason
from bookie.server.stock import StockConnection, StockService
from bookie.server.stock_authentication import StockAuthentication
from bookie.server.tls_front import TlsFronts
from bookie.storage.disk import Disk, RealDisk

log = logging.getLogger(__name__)

STEP_PHASES: Final = {"marking": Phase.MARKING, "awaiting approval": Phase.AWAITING_APPROVAL}
METADATA_RETRY_S: Final = 0.5
"""Seconds between two attempts to reach the metadata store at boot."""
LOCK_RETRY_S: Final = 0.5
"""Seconds between two attempts to lock folders that another process holds."""

Result = TypeVar("Result")
OpenMetadata = Callable[[str], Coroutine[Any, Any, MetadataStore]]


class Listener(Protocol):
    """A port of the control plane."""

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port, also when 0 asked for any."""

    async def stop(self) -> None: ...


class HeldLock(Protocol):
    """The interface of boot.lock.FolderLock."""

    def acquire(self) -> None: ...

    def release(self) -> None: ...

    def holders(self) -> tuple[str, ...]: ...


def _admin_server(control: Control) -> Listener:
    return AdminServer(control, tls=control.tls, limits=control.limits)


@dataclass(frozen=True, slots=True)
class Host:
    """The parts that a bookie gets from its environment, beside its disks; tests replace them."""

    open_metadata: OpenMetadata | None = None
    """Opens the metadata store; None = as the settings say."""
    admin: Callable[[Control], Listener] = _admin_server
    probes: Callable[[BookieState, MeasureGauges, MakeContext | None, Limits], Listener] = (
        ProbeServer
    )
    lock: Callable[[Sequence[Path]], HeldLock] = FolderLock
    clock: Callable[[], float] = boot_time


class ExitCode(IntEnum):
    """Exit codes of `bookie serve`; other commands have those of `exit_codes`."""

    CLEAN = 0
    ERROR = 1
    SETTINGS = 2
    REFUSED = 3
    DISK_FAILED = 4


class Bookie:
    """The whole life of a bookie process; `run` returns its exit code."""

    def __init__(
        self,
        settings: BookieSettings,
        *,
        disk: Disk | None = None,
        host: Host | None = None,
        boot: BootSettings | None = None,
    ) -> None:
        """`boot`: settings of the boot; None = made from `settings`. Tests pass in smaller files.

        SettingsError when a file that the settings name cannot be used.
        """
        self._settings = settings
        self._tls = None if settings.tls is None else PortTls(settings.tls)
        """None = the ports are plain."""
        self._boot_settings = boot or boot_settings(settings)
        self._disk = disk or RealDisk()
        self._host = host or Host()
        self._open_metadata = self._host.open_metadata or partial(
            open_store, settings=zookeeper_settings(settings)
        )
        """Opens the metadata store with a given URL."""
        self.state = BookieState(settings.bookie_id, clock=self._host.clock)
        asked = settings.authentication
        self._authentication = (
            None if asked is None else StockAuthentication(asked, self.state.traffic)
        )
        """None = stock clients need no authentication."""
        self._nonce = uuid.uuid4().hex
        """Identifies this process in the claim, over all its attempts to boot."""
        self._stop = asyncio.Event()
        """Set when the process must end: by a signal, a failed disk or a rival. Never cleared."""
        self._failure: StorageError | None = None
        """The first failure of a disk; then nothing is flushed at the end and the markers stay
        dirty."""
        self._exit_code = ExitCode.CLEAN
        """The exit code of an orderly stop; ERROR when no person or platform asked for it."""
        self._loop = asyncio.get_running_loop()
        self.control = Control(settings, self.state, self._disk, self._tls)
        self.ports: dict[str, int] = {}
        """The ports on which it listens, by name: `admin`, `http`, `run`, `stock`."""
        self._rack = Rack(settings.rack, settings.rack_file)
        self._advertised = Advertised(settings.advertised, settings.advertised_file)
        self._runtime = RuntimeFile(
            settings.runtime_file, settings.bookie_id, self.control.started_at_ms, self.ports
        )

    def stop(self) -> None:
        """Begin the clean stop; may be called again."""
        self._stop.set()

    async def run(self) -> ExitCode:
        """Run until `stop` is called or the bookie must not go on."""
        try:
            async with self._control_plane():
                try:
                    return await self._run_locked()
                except BootRefusedError as error:
                    return await self._stay_refused(error)
        except StorageError as error:
            log.critical("a disk failed: %s", error)
            return ExitCode.DISK_FAILED
        except BookieError as error:
            log.critical("%s", error)
            return ExitCode.ERROR

    # Control plane
    @contextlib.asynccontextmanager
    async def _control_plane(self) -> AsyncIterator[None]:
        ports = self._settings.ports
        admin = self._host.admin(self.control)
        is_on_http = self._tls is not None and self._tls.is_on_http
        tls = self._tls.http_context if self._tls is not None and is_on_http else None
        probes = self._host.probes(self.state, self.control.gauges, tls, self._settings.limits)
        try:
            await self._listen("admin", admin.start, ports.admin)
            await self._listen("http", probes.start, ports.http)
            await self._write_runtime(self._runtime.write_unless_taken)
            yield
        finally:
            await admin.stop()
            await probes.stop()

    async def _write_runtime(self, write: Callable[[], None]) -> None:
        """Write the runtime file in a thread, if the settings ask for one."""
        if self._runtime.path is not None:
            await asyncio.to_thread(write)

    async def _listen(
        self, name: str, start: Callable[[str, int], Awaitable[int]], port: int
    ) -> None:
        host = self._settings.bind_host
        try:
            self.ports[name] = await start(host, port)
        except (OSError, RuntimeError) as error:
            raise UnavailableError(
                f"cannot listen on {at_port(host, port)} ({error}): free it, or set ports.{name} "
                "to another port or to 0 for any"
            ) from error

    async def _stay_refused(self, error: BootRefusedError) -> ExitCode:
        """Stay alive until a stop, without serving, so that people can read why the boot was
        refused.
        """
        log.critical("boot refused: %s", error)
        self.state.phase, self.state.message = Phase.REFUSED, str(error)
        await self._stop.wait()
        return ExitCode.REFUSED

    # Boot
    async def _run_locked(self) -> ExitCode:
        directories = self._boot_settings.directories
        for directory in directories:
            await asyncio.to_thread(self._disk.make_directory, directory)
        async with self._locked(directories) as lock:
            if lock is None:
                is_refused = self.state.phase is Phase.REFUSED
                return ExitCode.REFUSED if is_refused else ExitCode.CLEAN
            await self._write_runtime(self._runtime.write)
            if await asyncio.to_thread(is_draining, self._disk, directories):
                log.info("the bookie goes on draining, as before its restart")
                self.state.switch_read_only(ReadOnlyReason.DRAIN, True)
            store = await self._patiently(lambda: self._open_metadata(self._settings.metadata))
            if store is None:
                return ExitCode.CLEAN
            try:
                holders = await in_thread(lock.holders)
                booted = await self._patiently(lambda: self._boot(store, holders))
                return ExitCode.CLEAN if booted is None else await self._live(store, booted)
            finally:
                with contextlib.suppress(UnavailableError):
                    await store.close()

    @contextlib.asynccontextmanager
    async def _locked(self, directories: Sequence[Path]) -> AsyncIterator[HeldLock | None]:
        """Hold the lock of the folders during the context; yields None when a stop came first.

        A pod that was deleted by force may still be stopping while its successor starts: the phase
        is REFUSED as long as the former process lives, and no longer.
        """
        lock = self._host.lock(directories)
        try:
            yield lock if await self._acquire(lock) else None
        finally:
            # Release also a lock that a thread acquired while this was cancelled; there is no await
            # here to cancel.
            lock.release()

    async def _acquire(self, lock: HeldLock) -> bool:
        """Try until no other process holds the folders; False when a stop came first."""
        while not self._stop.is_set():
            try:
                # When this returns or is cancelled, no thread works on the lock any more.
                await in_thread(lock.acquire)
            except FolderInUseError as error:
                if self.state.phase is not Phase.REFUSED:
                    log.critical("boot refused: %s", error)
                self.state.phase, self.state.message = Phase.REFUSED, str(error)
            else:
                self.state.phase, self.state.message = Phase.BOOTING, ""
                return True
            await self._unless_stopped(asyncio.sleep(LOCK_RETRY_S))
        return False

    async def _boot(self, store: MetadataStore, holders: Sequence[str]) -> Booted:
        before = self.control.boot
        boot = self.control.boot = Boot(
            self._boot_settings,
            store,
            disk=self._disk,
            call_soon=self._call_soon,
            started_at_ms=self.control.started_at_ms,
            on_step=self._on_step,
            approved_plan=before.approved_plan if before else "",
            approval=before.approval if before else None,
            nonce=self._nonce,
            holders=holders,
        )
        return await boot.run()

    async def _patiently(self, begin: Callable[[], Coroutine[Any, Any, Result]]) -> Result | None:
        """Run the work, and repeat it while the metadata store is not reachable; None when a stop
        came first.
        """
        while not self._stop.is_set():
            try:
                return await self._unless_stopped(begin())
            except UnavailableError as error:
                self.state.phase = Phase.BOOTING
                self.state.message = f"waiting for the metadata store: {error}"
                log.warning("%s", self.state.message)
            await self._unless_stopped(asyncio.sleep(METADATA_RETRY_S))
        return None

    async def _unless_stopped(self, work: Coroutine[Any, Any, Result]) -> Result | None:
        """Run the work and return its result; None when a stop came first, after the work has been
        cancelled and has ended.
        """
        working = asyncio.create_task(work)
        stopping = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            if not working.done():
                working.cancel()
                await asyncio.wait({working})
        return None if working.cancelled() else working.result()

    def _call_soon(self, callback: Callable[[], None]) -> None:
        # After the loop has ended no client waits for an answer any more.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback)

    def _on_step(self, step: str) -> None:
        log.info("boot: %s", step)
        self.state.phase = STEP_PHASES.get(step, Phase.BOOTING)
        self.state.message = step

    # Serving
    async def _live(self, store: MetadataStore, booted: Booted) -> ExitCode:
        reader = ThreadPoolExecutor(self._settings.limits.read_threads, thread_name_prefix="read")
        try:
            await self._serve(store, booted, reader)
            # Wait for the reads under way before the storage is closed.
            await asyncio.to_thread(reader.shutdown)
            return await self._end(booted)
        finally:
            reader.shutdown(wait=False)
            # After a clean end this does nothing; after an error the markers still say dirty.
            with contextlib.suppress(StorageError):
                await asyncio.to_thread(booted.storage.close)

    async def _serve(self, store: MetadataStore, booted: Booted, reader: Executor) -> None:
        limits, state = self._settings.limits, self.state
        state.instance_id, state.boot_epoch = booted.instance_id, booted.record.boot_epoch
        pacing = Pacing(busy_rates(self._settings), clock=self._loop.time)
        first_fences = FirstFences(in_store(store))
        room = ReplyRoom(reply_limits(limits), state.traffic)
        operations = Operations(
            booted.storage, state, reader=reader, reads_in_flight_max=limits.reads_in_flight,
            pacing=pacing, first_fences=first_fences, room=room,
        )  # fmt: skip
        operations.on_storage_failure = self._fail
        sessions = Sessions(
            state.traffic, connections_max=limits.connections, room=room,
            requests=request_limits(limits),
        )  # fmt: skip
        marks = Marks(
            booted.storage,
            store,
            bookie_id=BookieId(state.bookie_id),
            state=state,
            unchecked=booted.unchecked,
        )
        lease = Lease(booted, state, seconds=self._settings.lease.seconds)
        if await self._patiently(lease.confirm) is None:
            return
        servers = await self._open_data_ports(operations, sessions)
        announcer = Announcer(
            store, state, host=self._settings.host, ports=self.ports,
            boot_epoch=state.boot_epoch, rack=self._rack.read, advertised=self._advertised.read,
            has_tls=self._tls is not None,
        )  # fmt: skip
        drain = Drain(
            store, state, marks=marks, announcer=announcer,
            disk=self._disk, directories=self._boot_settings.directories,
        )  # fmt: skip
        collector = Collector(
            store, booted.storage, state=state, rules=collection_rules(self._settings),
            clock=self._loop.time, first_fences=first_fences,
        )  # fmt: skip
        housekeeping = Housekeeping(
            self._settings, booted.storage.maintenance,
            marks=marks, state=state, announcer=announcer, drain=drain, collector=collector,
            pacing=pacing, lease=lease,
        )  # fmt: skip
        self.control.serve(BookieServices(booted, marks, announcer, drain, collector))
        state.phase, state.message = Phase.SERVING, ""
        state.settle_phase()
        log.info("serving: epoch %d, %s", state.boot_epoch, booted.record.reason)
        try:
            async with housekeeping.running(Ends(self._fail, self._leave)):
                await self._unless_stopped(announcer.announce())
                await self._stop.wait()
        finally:
            state.phase, state.message = Phase.STOPPING, "flushing"
            for server in servers:
                server.stop()
            await announcer.withdraw()
            operations.end()
            await sessions.end()

    async def _open_data_ports(
        self, operations: Operations, sessions: Sessions
    ) -> Sequence[DataServer]:
        """Open the native port, and BookKeeper's unless it is switched off: both or none."""
        is_required = self._tls is not None and self._tls.is_required
        runs = RunService(operations, sessions, tls_is_required=is_required)
        stock = StockService(operations, sessions, self._tls, self._authentication)
        ports, servers = self._settings.ports, []
        try:
            servers.append(self._data_server("run", lambda: RunConnection(runs)))
            await self._listen("run", servers[-1].start, ports.run)
            if ports.stock is not None:
                servers.append(self._data_server("stock", lambda: StockConnection(stock)))
                await self._listen("stock", servers[-1].start, ports.stock)
            await self._write_runtime(self._runtime.write)
        except BaseException:
            for server in servers:
                server.stop()
            raise
        return servers

    def _data_server(self, port: str, make: Callable[[], DataConnection]) -> DataServer:
        if self._tls is None:
            return DataServer(make)
        fronts = TlsFronts(
            self._tls, make, port=port, traffic=self.state.traffic,
            waiting_max=self._settings.limits.connections,
        )  # fmt: skip
        return DataServer(fronts.front)

    def _fail(self, error: StorageError) -> None:
        """A disk has failed: answer nothing more, keep the markers dirty, let the platform restart
        us.
        """
        if self._failure is None:
            log.critical("stop serving: %s", error)
            self._failure = error
            self._stop.set()

    def _leave(self, reason: str) -> None:
        """Stop in order, since the disks are fine, but with exit code ERROR, since nobody asked for
        the stop.
        """
        log.critical("stop serving: %s", reason)
        self._exit_code = ExitCode.ERROR
        self._stop.set()

    async def _end(self, booted: Booted) -> ExitCode:
        if self._failure is not None:
            return ExitCode.DISK_FAILED
        await asyncio.to_thread(finish_clean_stop, booted.storage, booted.markers)
        log.info("stopped cleanly")
        return self._exit_code
