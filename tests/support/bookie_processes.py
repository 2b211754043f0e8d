"""Real bookies as child processes on folders of a test, to be killed without a warning."""

import asyncio
import copy
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import yaml
from bookie.ids import BookieId
from bookie.metadata.store import MetadataStore

START_WAIT_S: Final = 20.0
STOP_WAIT_S: Final = 10.0
MEMORY_MODE: Final = {"journalWriteData": False, "ack": "memory", "flushIntervalSeconds": 3600}
SMALL_STORAGE: Final = {"ringBytes": 12 * 2**20, "logFileBytes": 16 * 2**20, "directIo": "off"}


class BookieProcess:
    """`bookie serve` in memory mode with two ledger disks; flushes only when asked.

    `storage`: settings besides those of a small one. `tls`: a folder of credentials; None = plain.
    """

    def __init__(
        self, name: str, folder: Path, metadata_url: str, *, tls: Path | None = None, **storage: Any
    ) -> None:
        self.name, self.folder = name, folder
        self.config = folder / "bookie.yaml"
        self.runtime = folder / "runtime.json"
        self._process: subprocess.Popen[bytes] | None = None
        disks = [{"directory": str(folder / f"ledger-{number}")} for number in range(2)]
        for path in (folder / "journal", *(Path(disk["directory"]) for disk in disks)):
            path.mkdir(parents=True)
        settings = {
            "bookieId": name,
            "metadata": metadata_url,
            "ports": {"run": 0, "stock": 0, "admin": 0, "http": 0},
            "journal": {"directory": str(folder / "journal")},
            "ledgers": disks,
            "durability": MEMORY_MODE,
            "storage": SMALL_STORAGE | storage,
            "runtimeFile": str(self.runtime),
        } | ({"tls": {"directory": str(tls), "mode": "Required"}} if tls else {})
        self.config.write_text(yaml.safe_dump(settings), encoding="utf-8")

    def start(self) -> None:
        """Start it; whether it serves is seen in the metadata store."""
        self.runtime.unlink(missing_ok=True)
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "bookie", "serve", "--config", str(self.config)],
                stderr=log,
                stdout=log,
            )

    def kill(self) -> None:
        """SIGKILL: whatever was in memory is gone."""
        self._end(signal.SIGKILL)

    def stop(self) -> int | None:
        """A clean stop; its exit code, None when it did not run."""
        return None if self._process is None else self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> int:
        process, self._process = self._process, None
        assert process is not None
        os.kill(process.pid, how)
        return process.wait(STOP_WAIT_S)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def rival(self) -> "BookieProcess":
        """Another process for the very same folders, with a runtime file and a log of its own."""
        other = copy.copy(self)
        other.folder = self.folder / "rival"
        other.folder.mkdir()
        other.config, other.runtime = other.folder / "bookie.yaml", other.folder / "runtime.json"
        settings = yaml.safe_load(self.config.read_text(encoding="utf-8"))
        settings["runtimeFile"] = str(other.runtime)
        other.config.write_text(yaml.safe_dump(settings), encoding="utf-8")
        other._process = None
        return other

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def words(self) -> str:
        """The end of its log, for messages of failing tests."""
        return (self.folder / "log").read_text(encoding="utf-8")[-2000:]

    def ports(self) -> dict[str, int]:
        ports: dict[str, int] = json.loads(self.runtime.read_text(encoding="utf-8"))["ports"]
        return ports


Bookies = dict[BookieId, BookieProcess]


@asynccontextmanager
async def started(
    store: MetadataStore,
    names: Iterable[BookieId],
    folder: Path,
    metadata_url: str,
    **storage: Any,
) -> AsyncIterator[Bookies]:
    """Bookies of these names, once all are registered; stopped in the end, if they run then."""
    found = {name: BookieProcess(name, folder / name, metadata_url, **storage) for name in names}
    for bookie in found.values():
        bookie.start()
    await until_there(store, *found)
    yield found
    for bookie in found.values():
        if bookie.is_running:
            bookie.stop()


async def until_there(store: MetadataStore, *names: BookieId) -> None:
    """Just these are registered; one that was killed goes with its session."""
    async with asyncio.timeout(START_WAIT_S):
        while set(await store.bookies()) != set(names):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
