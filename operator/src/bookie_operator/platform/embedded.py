"""The cluster's own ZooKeeper on the local platform: started when needed, adopted when it runs.

It never changes its port, since the bookies' settings name it, nor whether it uses TLS: one that
was started without TLS stays so. Starting takes a second or two, so a thread does it; until it has
ended, callers get an UnavailableError.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bookie.errors import UnavailableError
from bookie.hosts import at_port, loopback
from bookie.metadata.embedded import EmbeddedZooKeeper
from bookie.metadata.embedded_settings import EmbeddedSettings

from bookie_operator.platform.folders import LocalFolders, read_json, write_json
from bookie_operator.platform.processes import ProcessId, identify, is_alive, stop

PATIENCE_S: Final = 3.0
"""How long one question waits for a start that is under way."""
STOP_GRACE_S: Final = 15.0


class EmbeddedStore:
    """One ZooKeeper process in the directory."""

    def __init__(
        self, folders: LocalFolders, credentials: Callable[[], Path | None] = lambda: None
    ) -> None:
        """`credentials`: the folder with the server's own; None: it has none yet."""
        self._folders = folders
        self._credentials = credentials
        self._server: EmbeddedZooKeeper | None = None
        """The running server; None while none runs."""
        self._starting: asyncio.Task[str] | None = None
        """The start under way, which nobody waits for; None: none is."""

    async def url(self, *, wants_tls: bool = False) -> str:
        """Its address; starts it if it does not run. UnavailableError while it starts.

        `wants_tls`: whether one that has never run should use TLS.
        """
        found = await asyncio.to_thread(self._running)
        if found is not None:
            return found
        if self._starting is None:
            self._starting = asyncio.create_task(asyncio.to_thread(self._start, wants_tls))
        starting = self._starting
        try:
            return await asyncio.wait_for(asyncio.shield(starting), PATIENCE_S)
        except TimeoutError as error:
            raise UnavailableError("the embedded ZooKeeper is starting") from error
        finally:
            if starting.done():
                self._starting = None

    async def close(self) -> None:
        """Let a start that is under way come to its end; the server itself goes on."""
        if self._starting is not None:
            await asyncio.wait([self._starting])
            self._starting.exception()
            self._starting = None

    def stop(self) -> None:
        """End the server; its files stay. Blocking."""
        if self._server is not None:
            self._server.stop()
            self._server = None
            return
        process, _ = self._recorded()
        if process is not None and is_alive(process):
            stop(process, grace_s=STOP_GRACE_S)

    def _running(self) -> str | None:
        if self._server is not None:
            return self._server.url if self._server.is_running else None
        process, port = self._recorded()
        if process is not None and is_alive(process):
            return f"{'zks' if self._has_tls() else 'zk'}://{at_port(loopback(), port)}/ledgers"
        return None

    def _start(self, wants_tls: bool) -> str:
        """Its address once it listens. Blocking."""
        process, port = self._recorded()
        has_tls = wants_tls if process is None else self._has_tls()
        tls = self._credentials() if has_tls else None
        if has_tls and tls is None:
            raise UnavailableError("the embedded ZooKeeper waits for its certificate")
        settings = EmbeddedSettings(tls=tls)
        server = EmbeddedZooKeeper.start(self._folders.zookeeper, port=port, settings=settings)
        process = identify(server.pid)
        if process is None:
            raise UnavailableError("the embedded ZooKeeper ended as soon as it had started")
        write_json(
            self._folders.zookeeper_file,
            process.as_dict() | {"port": server.port, "host": server.host, "tls": tls is not None},
        )
        self._server = server
        return server.url

    def _has_tls(self) -> bool:
        """As it was started the first time. Blocking."""
        return bool((read_json(self._folders.zookeeper_file) or {}).get("tls"))

    def _recorded(self) -> tuple[ProcessId | None, int]:
        """The process and port on record; port 0 = none yet. Blocking."""
        tree = read_json(self._folders.zookeeper_file)
        return (ProcessId.of(tree), int(tree["port"])) if tree else (None, 0)
