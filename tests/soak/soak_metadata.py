"""The soak's own ZooKeeper, to be paused and to be killed and started again on its folder."""

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Final

from bookie.metadata.embedded import EmbeddedSettings, EmbeddedZooKeeper
from bookie.metadata.opening import open_store

SETTINGS: Final = EmbeddedSettings(
    tick_ms=100,  # sessions last 60 ticks at most: a killed bookie comes back after six seconds
    heap_mb=256,
    fsync=False,  # the machine stays up, and the disks of other people on it are spared
)


class SoakMetadata:
    """One server over all its processes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._server: EmbeddedZooKeeper | None = None

    @property
    def url(self) -> str:
        assert self._server is not None
        return self._server.url

    async def start(self) -> None:
        """A new server with an empty cluster on it."""
        self._server = await asyncio.to_thread(
            EmbeddedZooKeeper.start, self._folder, settings=SETTINGS
        )
        store = await open_store(self.url)
        await store.initialise()
        await store.close()

    def signal(self, number: signal.Signals) -> None:
        if self._server is not None:
            with suppress(ProcessLookupError):
                os.kill(self._server.pid, number)

    async def kill(self, *, down_s: float) -> None:
        """SIGKILL; it is started again after so long, with what it had written."""
        assert self._server is not None
        port = self._server.port
        self.signal(signal.SIGKILL)
        await asyncio.to_thread(self._server.stop)
        await asyncio.sleep(down_s)
        self._server = await asyncio.to_thread(
            EmbeddedZooKeeper.start, self._folder, port=port, settings=SETTINGS
        )

    def stop(self) -> None:
        self.signal(signal.SIGCONT)  # one that is paused hears nothing
        if self._server is not None:
            self._server.stop()
