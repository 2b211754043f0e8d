"""Four bookies that a user stands on: ours, kept by our own operator, or Apache's as the oracle.

Both are struck and waited for by the same words. Apache's are those on the class path.
"""

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urlsplit

from bookie.hosts import loopback
from bookie.metadata.embedded import EmbeddedSettings, EmbeddedZooKeeper, free_port
from bookie.testing.apache import StockBookie
from judge_fleet import Fleet

OURS, APACHE = FLEETS = ("ours", "apache")
BOOKIES: Final = 4
SPEC: Final = {
    "replicas": BOOKIES,
    "collectGraceSeconds": 1,
    "collectShareMax": 1,  # a topic's ledgers end together, and they are most of what is here
}
JVM_FLAGS: Final = (
    "-Xms64m",
    "-Xmx256m",
    "-XX:MaxDirectMemorySize=256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
)
APACHE_SETTINGS: Final = {
    "zkTimeout": "6000",
    "gcWaitTime": "2000",
    "gcOverreplicatedLedgerWaitTime": "100000000",
    "journalPreAllocSizeMB": "4",
    "diskUsageThreshold": "0.99",
    "diskUsageWarnThreshold": "0.98",
    "numReadWorkerThreads": "2",
    "serverNumIOThreads": "2",
}
BOOT_WAIT_S: Final = 90.0
STOP_WAIT_S: Final = 30.0
POLL_S: Final = 0.2


class NotHereError(Exception):
    """These bookies have no such thing; the sentence says which."""


class Bookies(Protocol):
    """What a story may ask of a fleet. `zookeeper`: host and port, once it is up."""

    collects_soon: bool
    """What is of deleted ledgers leaves their disks within minutes."""

    @property
    def forgets(self) -> bool:
        """One that is killed may forget what it acknowledged: no two may be at once."""

    @property
    def zookeeper(self) -> str: ...
    def credentials(self) -> Path | None:
        """The folder of an application's, where the fleet is under TLS."""

    def up(self) -> None: ...
    def down(self) -> None: ...
    def kill(self, number: int) -> None:
        """SIGKILL; somebody starts it again."""

    def replace_disk(self, number: int) -> None:
        """A new, empty disk in place of one that was written to."""

    def wait(self) -> None:
        """Until whoever keeps the fleet says that it is whole."""


@dataclass(slots=True)
class OurBookies:
    """Kept, started again and repaired by `bookie-operator local`, and by nothing else."""

    fleet: Fleet
    collects_soon: bool = True

    @classmethod
    def made(
        cls, folder: Path, *, mode: str, tls: str, environment: Mapping[str, str] | None
    ) -> "OurBookies":
        folder.mkdir()
        fleet = Fleet(folder, mode, tls)
        if environment is not None:
            fleet.environment = environment
        return cls(fleet)

    @property
    def forgets(self) -> bool:
        return self.fleet.mode == "memory"

    @property
    def zookeeper(self) -> str:
        return urlsplit(self.fleet.metadata()).netloc

    def credentials(self) -> Path | None:
        return self.fleet.credentials()

    def up(self) -> None:
        self.fleet.up(**SPEC)

    def down(self) -> None:
        self.fleet.down()

    def kill(self, number: int) -> None:
        self.fleet.kill(f"bookie-{number}")

    def replace_disk(self, number: int) -> None:
        self.fleet.replace_disk(f"bookie-{number}", "ledger-0")

    def wait(self) -> None:
        self.fleet.wait()


@dataclass(slots=True)
class ApacheBookies:
    """Started again at once; nobody repairs them."""

    folder: Path
    classpath: str
    collects_soon: bool = False
    forgets: bool = False
    _zookeeper: EmbeddedZooKeeper | None = None
    _bookies: list[StockBookie] = field(default_factory=list)
    _processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def zookeeper(self) -> str:
        assert self._zookeeper is not None
        return self._zookeeper.address

    def credentials(self) -> Path | None:
        return None

    def up(self) -> None:
        self.folder.mkdir()
        settings = EmbeddedSettings(fsync=False)
        self._zookeeper = EmbeddedZooKeeper.start(self.folder / "zookeeper", settings=settings)
        root, path = f"{self.zookeeper}/ledgers", self.classpath
        for number in range(BOOKIES):
            own = self.folder / f"bookie-{number}"
            bookie = StockBookie(own, root, free_port(), path, JVM_FLAGS)
            bookie.configure(APACHE_SETTINGS)
            self._bookies.append(bookie)
        self._bookies[0].create_cluster()
        self._processes = [self._started(bookie) for bookie in self._bookies]
        self.wait()

    def down(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(STOP_WAIT_S)
            process.kill()
            process.wait()
        if self._zookeeper is not None:
            self._zookeeper.stop()

    def kill(self, number: int) -> None:
        self._processes[number].kill()
        self._processes[number].wait()
        self._processes[number] = self._started(self._bookies[number])

    def replace_disk(self, number: int) -> None:
        raise NotHereError("Apache's bookies refuse an empty disk, by the cookie in ZooKeeper")

    def wait(self) -> None:
        began = time.monotonic()
        for bookie in self._bookies:
            while not _accepts(bookie.port):
                assert time.monotonic() - began < BOOT_WAIT_S, f"{bookie.folder} does not serve"
                time.sleep(POLL_S)

    def _started(self, bookie: StockBookie) -> subprocess.Popen[bytes]:
        with bookie.folder.with_suffix(".log").open("ab") as log:
            return subprocess.Popen(
                ["java", *bookie.serving()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )


def _accepts(port: int) -> bool:
    with suppress(OSError), socket.create_connection((loopback(), port), timeout=1):
        return True
    return False


def fleet_of(
    whose: str,
    folder: Path,
    classpath: str,
    *,
    mode: str,
    tls: str,
    environment: Mapping[str, str] | None = None,
) -> Bookies:
    """`classpath`: of Apache's; the rest is of ours. `environment`: of all their processes."""
    if whose == APACHE:
        return ApacheBookies(folder, classpath)
    return OurBookies.made(folder, mode=mode, tls=tls, environment=environment)


def end(*_: object) -> None:
    """Everything is stopped on the way out; a second SIGTERM must not cut that short."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(1)
