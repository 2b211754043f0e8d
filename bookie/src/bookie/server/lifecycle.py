"""One bookie's life: control plane first, boot, data port, registration; and the way back.

Boot: lock -> `storage.boot` -> data port -> register.
Stop: unregister -> data port closed -> flush, sync -> only then the markers go. Whatever fails on
the way leaves the markers, and the next boot is an unclean one.
"""

import asyncio
import contextlib
import json
import logging
import os
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from enum import IntEnum
from pathlib import Path

from bookie.metadata.opening import open_store
from bookie.metadata.store import (
    ADMIN_ENDPOINT,
    BOOT_EPOCH_PROPERTY,
    RUN_ENDPOINT,
    BookieInfo,
    Endpoint,
    MetadataStore,
)
from bookie.protocol.errors import BookieError, BootRefusedError, StorageError, UnavailableError
from bookie.protocol.ids import BookieId
from bookie.server.admin import AdminServer
from bookie.server.connections import RunConnection, RunServer
from bookie.server.control import Control
from bookie.server.housekeeping import Housekeeping
from bookie.server.http import ProbeServer
from bookie.server.marks import Marks
from bookie.server.requests import Bounds, RunService
from bookie.server.settings import BookieSettings
from bookie.server.state import BookieState, Phase
from bookie.storage.boot import Boot, Booted, BootSettings, FixPolicy, finish_clean_stop
from bookie.storage.disk import Disk, RealDisk, write_file
from bookie.storage.engine import StorageSettings
from bookie.storage.lock import FolderLock

log = logging.getLogger(__name__)

STEP_PHASES = {"marking": Phase.MARKING, "awaiting approval": Phase.AWAITING_APPROVAL}
METADATA_RETRY_S = 2.0
"""Pause between attempts to reach the metadata store at boot."""


class ExitCode(IntEnum):
    CLEAN = 0
    ERROR = 1
    SETTINGS = 2
    REFUSED = 3
    DISK_FAILED = 4


class Bookie:
    """A bookie process's whole life; `run` returns its exit code."""

    def __init__(self, settings: BookieSettings, *, disk: Disk | None = None) -> None:
        self._settings = settings
        self._disk = disk or RealDisk()
        self._state = BookieState(settings.bookie_id)
        self._stop = asyncio.Event()
        self._failure: StorageError | None = None
        self._loop = asyncio.get_running_loop()
        self.control = Control(settings, self._state)
        self.ports: dict[str, int] = {}

    def stop(self) -> None:
        """Begin the clean stop; safe to call again."""
        self._stop.set()

    async def run(self) -> ExitCode:
        """Until `stop` is called or the bookie must not go on."""
        async with self._control_plane():
            try:
                with FolderLock(await self._prepare_folders()):
                    return await self._live()
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
        host, ports = self._settings.bind_host, self._settings.ports
        admin = AdminServer(self.control, bookie_id=self._settings.bookie_id)
        probes = ProbeServer(self._state, self.control.gauges)
        try:
            self.ports["admin"] = await admin.start(host, ports.admin)
            self.ports["http"] = await probes.start(host, ports.http)
            self._write_runtime()
            yield
        finally:
            await admin.stop()
            await probes.stop()

    def _write_runtime(self) -> None:
        if self._settings.runtime_file is not None:
            write_runtime_file(self._settings.runtime_file, self._runtime())

    def _runtime(self) -> dict[str, object]:
        return {
            "pid": os.getpid(),
            "bookieId": self._settings.bookie_id,
            "ports": self.ports,
            "startedAtMs": self.control.started_at_ms,
        }

    async def _stay_refused(self, error: BootRefusedError) -> ExitCode:
        """Alive so that people can read why, not serving, until told to stop."""
        log.critical("boot refused: %s", error)
        self._state.phase, self._state.message = Phase.REFUSED, str(error)
        await self._stop.wait()
        return ExitCode.REFUSED

    # Boot
    async def _prepare_folders(self) -> list[Path]:
        directories = [
            self._settings.journal.directory,
            *(disk.directory for disk in self._settings.ledgers),
        ]
        for directory in directories:
            await asyncio.to_thread(self._disk.make_directory, directory)
        return directories

    async def _live(self) -> ExitCode:
        store = await self._open_store()
        if store is None:
            return ExitCode.CLEAN
        try:
            booted = await self._boot(store)
            return ExitCode.CLEAN if booted is None else await self._serve(store, booted)
        finally:
            with contextlib.suppress(UnavailableError):
                await store.close()

    async def _open_store(self) -> MetadataStore | None:
        """Keep trying: a bookie may start before its metadata store. None = stopped meanwhile."""
        while not self._stop.is_set():
            try:
                return await open_store(self._settings.metadata)
            except UnavailableError as error:
                self._state.message = f"waiting for the metadata store: {error}"
                log.warning("%s", self._state.message)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), METADATA_RETRY_S)
        return None

    async def _boot(self, store: MetadataStore) -> Booted | None:
        """The boot, or None when a stop came first; then no marker was touched (S26)."""
        boot = Boot(
            boot_settings(self._settings),
            store,
            disk=self._disk,
            call_soon=self._call_soon,
            started_at_ms=self.control.started_at_ms,
            on_step=self._on_step,
        )
        self.control.boot = boot
        booting = asyncio.create_task(boot.run())
        stopping = asyncio.create_task(self._stop.wait())
        await asyncio.wait({booting, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not booting.done():
            booting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await booting
            return None
        return booting.result()

    def _call_soon(self, callback: Callable[[], None]) -> None:
        # After the loop has ended nobody waits for an answer any more.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback)

    def _on_step(self, step: str) -> None:
        log.info("boot: %s", step)
        self._state.phase = STEP_PHASES.get(step, Phase.BOOTING)
        self._state.message = step

    # Serving
    async def _serve(self, store: MetadataStore, booted: Booted) -> ExitCode:
        limits = self._settings.limits
        reader = ThreadPoolExecutor(limits.read_threads, thread_name_prefix="read")
        bounds = Bounds(limits.connections, limits.reads_in_flight)
        service = RunService(booted.storage, self._state, reader=reader, bounds=bounds)
        service.on_storage_failure = self._fail
        marks = Marks(
            booted.storage,
            store,
            bookie_id=BookieId(self._settings.bookie_id),
            state=self._state,
            unchecked=booted.unchecked,
        )
        server = RunServer(lambda: RunConnection(service))
        self.control.serve(booted, marks, reregister=lambda: self._register(store))
        self.ports["run"] = await server.start(self._settings.bind_host, self._settings.ports.run)
        self._write_runtime()
        self._state.phase, self._state.message = Phase.SERVING, ""
        await self._register(store)
        log.info("serving: epoch %d, %s", booted.record.boot_epoch, booted.record.reason)
        housekeeping = Housekeeping(
            self._settings, booted.storage, store, marks=marks, state=self._state
        )
        async with housekeeping.running(self._fail, lambda: self._register(store)):
            await self._stop.wait()
        await self._stop_serving(store, server, service)
        reader.shutdown()
        return await self._end(booted)

    async def _register(self, store: MetadataStore) -> None:
        """Announce the bookie as it is now, writable or read-only."""
        host = self._settings.host
        endpoints = (
            Endpoint(RUN_ENDPOINT, host, self.ports["run"], "bookie-run"),
            Endpoint(ADMIN_ENDPOINT, host, self.ports["admin"], "grpc"),
        )
        info = BookieInfo(
            BookieId(self._settings.bookie_id),
            endpoints,
            properties={BOOT_EPOCH_PROPERTY: str(self.control.boot_epoch)},
            read_only=not self._state.is_writable,
        )
        await store.register(info)

    def _fail(self, error: StorageError) -> None:
        """A disk failed: answer nothing more, keep the markers, let the platform restart us."""
        if self._failure is None:
            log.critical("stop serving: %s", error)
            self._failure = error
            self._stop.set()

    async def _stop_serving(
        self, store: MetadataStore, server: RunServer, service: RunService
    ) -> None:
        self._state.phase, self._state.message = Phase.STOPPING, "flushing"
        with contextlib.suppress(UnavailableError):
            await store.unregister(BookieId(self._settings.bookie_id))
        service.close_connections()
        await server.stop()

    async def _end(self, booted: Booted) -> ExitCode:
        directories = boot_settings(self._settings).directories
        if self._failure is None:
            await asyncio.to_thread(finish_clean_stop, booted.storage, self._disk, directories)
            log.info("stopped cleanly")
            return ExitCode.CLEAN
        with contextlib.suppress(StorageError):
            await asyncio.to_thread(booted.storage.close)
        return ExitCode.DISK_FAILED


def boot_settings(settings: BookieSettings) -> BootSettings:
    """What the boot needs of the settings."""
    storage = StorageSettings(
        journal_dir=settings.journal.directory,
        ledger_dirs=tuple(disk.directory for disk in settings.ledgers),
        mode=settings.durability.mode,
        flush_interval_s=settings.durability.flush_interval_seconds,
        ring_bytes=settings.storage.ring_bytes,
        log_file_bytes=settings.storage.log_file_bytes,
        direct_io=settings.storage.direct_io,
    )
    return BootSettings(
        BookieId(settings.bookie_id),
        storage,
        FixPolicy(settings.cookie_fix.policy),
        volume_uids=(settings.journal.volume_uid, *(disk.volume_uid for disk in settings.ledgers)),
    )


def write_runtime_file(path: Path, content: dict[str, object]) -> None:
    """Atomically: a reader sees the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(RealDisk(), path, (json.dumps(content) + "\n").encode())
