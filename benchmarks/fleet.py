"""Child processes of a benchmark: embedded ZooKeeper and real bookies, and the probe's sinks."""

import asyncio
import json
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import psutil
import yaml
from bookie.metadata.embedded import EmbeddedSettings, EmbeddedZooKeeper
from bookie.metadata.store import MetadataStore

BOOKIES: Final = 3
START_WAIT_S: Final = 60.0
STOP_WAIT_S: Final = 20.0
POLL_S: Final = 0.1


class Process:
    """A child that is ended with SIGTERM, and with SIGKILL when it does not listen."""

    def __init__(self, arguments: list[str], *, log: Path) -> None:
        with log.open("ab") as words:
            self.child = subprocess.Popen(
                [sys.executable, *arguments], stdout=subprocess.PIPE, stderr=words
            )

    def stop(self) -> None:
        self.child.terminate()
        try:
            self.child.wait(STOP_WAIT_S)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
        assert self.child.stdout is not None
        self.child.stdout.close()

    def cpu_s(self) -> float:
        """User and system seconds so far, of all threads."""
        times = psutil.Process(self.child.pid).cpu_times()
        return float(times.user + times.system)


class Sinks:
    """The probe's receivers, one process each."""

    def __init__(self, folder: Path, *, count: int) -> None:
        self._processes: list[Process] = []
        self.ports: list[int] = []
        for number in range(count):
            own = folder / f"sink-{number}"
            own.mkdir()
            process = Process(["-m", "benchmarks.sink", str(own)], log=folder / "sinks.log")
            self._processes.append(process)
            assert process.child.stdout is not None
            self.ports.append(int(process.child.stdout.readline()))

    def stop(self) -> None:
        for process in self._processes:
            process.stop()


class Fleet:
    """Bookies in memory mode with one journal and one ledger directory each; a context manager."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self.bookies: list[Process] = []
        self.url = ""

    def __enter__(self) -> "Fleet":
        settings = EmbeddedSettings(fsync=False)
        zookeeper = EmbeddedZooKeeper.start(self._folder / "zookeeper", settings=settings)
        self._stack.callback(zookeeper.stop)
        self.url = zookeeper.url
        for number in range(BOOKIES):
            config = self._configure(number)
            log = self._folder / f"bookie-{number}.log"
            bookie = Process(["-m", "bookie", "serve", "--config", str(config)], log=log)
            self._stack.callback(bookie.stop)
            self.bookies.append(bookie)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def cpu_s(self) -> float:
        """Of all bookies together."""
        return sum(bookie.cpu_s() for bookie in self.bookies)

    async def until_registered(self, store: MetadataStore) -> None:
        """Wait until every bookie serves."""
        async with asyncio.timeout(START_WAIT_S):
            while len(await store.bookies()) < BOOKIES:
                ended = [one for one in self.bookies if one.child.poll() is not None]
                if ended:
                    raise SystemExit(f"a bookie did not start, see its log in {self._folder}")
                await asyncio.sleep(POLL_S)

    def _configure(self, number: int) -> Path:
        own = self._folder / f"bookie-{number}"
        own.mkdir()
        settings: dict[str, Any] = {
            "bookieId": f"bookie-{number}",
            "metadata": self.url,
            "ports": {"run": 0, "admin": 0, "http": 0},
            "journal": {"directory": str(own / "journal")},
            "ledgers": [{"directory": str(own / "ledger-0")}],
            "durability": {"journalWriteData": False, "ack": "memory"},
        }
        for name in ("journal", "ledger-0"):
            (own / name).mkdir()
        path = own / "bookie.yaml"
        path.write_text(yaml.safe_dump(settings), encoding="utf-8")
        return path


def as_json(path: Path, results: Any) -> None:
    """Write results where the next run overwrites them."""
    path.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
