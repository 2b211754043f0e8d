"""Runs the real ZooKeeper server as a child process, for the demo, the local platform and tests.

Its jars are in the pyspark package, so only a Java must be installed besides. It is one server, not
an ensemble: as durable as its folder, and as available as one process. `server` runs the same
server in the foreground.
"""

import fcntl
import importlib.util
import random
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Final

from bookie.errors import SettingsError, UnavailableError
from bookie.hosts import at_port, loopback
from bookie.metadata import renewal
from bookie.metadata.embedded_settings import (
    EmbeddedSettings,
    prepare_stores,
    server_command,
    server_environment,
    stores_of,
    write_configuration,
)
from bookie.metadata.java import find_java
from bookie.monitoring.commands import ask

JARS: Final = (
    "zookeeper-*.jar",
    "slf4j-api-*.jar",
    "log4j-api-*.jar",
    "log4j-core-*.jar",
    "log4j-slf4j2-impl-*.jar",
    "metrics-core-*.jar",
    "snappy-java-*.jar",
    "netty-buffer-*.jar",
    "netty-codec-4*.jar",
    "netty-codec-base-*.jar",
    "netty-common-*.jar",
    "netty-handler-4*.jar",
    "netty-resolver-4*.jar",
    "netty-transport-4*.jar",
    "netty-transport-classes-epoll-*.jar",
    "netty-transport-native-epoll-*-linux-*.jar",
    "netty-transport-native-unix-common-*.jar",
)
START_WAIT_S: Final = 30.0
STOP_WAIT_S: Final = 10.0
PROBE_WAIT_S: Final = 1.0
POLL_S: Final = 0.02
PORT_TRIES_MAX: Final = 5
OUTGOING_PORTS: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
OUTGOING_PORT_DEFAULT: Final = 32768
LISTEN_PORT_MIN: Final = 10_000
"""Well-known servers have lower ports, among them a bookie and ZooKeeper itself."""
LISTEN_PORTS_LEAST: Final = 1000
"""The least number of ports to choose from: with fewer, two fleets on one machine would choose the
same ones."""
LOG_TAIL_BYTES: Final = 2000


class EmbeddedZooKeeper:
    """One running server. Use `start` and `stop`; it is also a context manager."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        *,
        directory: Path,
        port: int,
        credentials: Path | None = None,
    ) -> None:
        self._process = process
        self.directory = directory
        self.host = loopback()
        self.port = port
        self.credentials = credentials
        """The folder with the server's certificate; None = no TLS."""
        self._renewal = (
            None
            if credentials is None
            else renewal.start(credentials.absolute(), stores_of(directory), of=process.pid)
        )
        """The process that gives the server renewed certificates; it ends with the server."""

    @classmethod
    def start(
        cls, directory: Path, *, port: int = 0, settings: EmbeddedSettings | None = None
    ) -> "EmbeddedZooKeeper":
        """Start a server on this folder and wait until it answers; blocking.

        `port` 0 means any free port. Raises SettingsError without a Java >= 17 or pyspark's jars,
        and for credentials that cannot be used; UnavailableError when the server does not start or
        the folder is in use.
        """
        settings = settings or EmbeddedSettings()
        java, jars = find_java(), find_jars()
        directory = directory.absolute()
        directory.mkdir(parents=True, exist_ok=True)
        with (directory / "lock").open("wb") as lock:
            lock_folder(lock, directory)
            prepare_stores(directory, settings)
            for _ in range(1 if port else PORT_TRIES_MAX):
                chosen = port or free_port()
                write_configuration(directory, port=chosen, settings=settings)
                command = server_command(java, jars, directory=directory, settings=settings)
                process = _spawn(command, directory, lock)
                server = cls(process, directory=directory, port=chosen, credentials=settings.tls)
                if server._answers_in_time():
                    return server
                # Another process may have taken the port meanwhile. Any other failure repeats, and
                # is then reported with the server's own log.
                server.stop()
        raise UnavailableError(
            f"the embedded ZooKeeper on {directory} did not start on port {chosen}; its log ends "
            f"with: {_log_tail(directory)}"
        )

    @property
    def address(self) -> str:
        """`host:port` for clients."""
        return at_port(self.host, self.port)

    @property
    def url(self) -> str:
        """The metadata URL with the usual root on this server."""
        return f"{'zk' if self.credentials is None else 'zks'}://{self.address}/ledgers"

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> None:
        """Stop the server, by force if needed. Its files stay."""
        if self.is_running:
            self._process.terminate()
        try:
            self._process.wait(STOP_WAIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._renewal is not None:
            self._renewal.terminate()
            self._renewal.wait()
            self._renewal = None

    def __enter__(self) -> "EmbeddedZooKeeper":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _answers_in_time(self) -> bool:
        deadline = time.monotonic() + START_WAIT_S
        while self.is_running and time.monotonic() < deadline:
            if self._answers():
                return True
            time.sleep(POLL_S)
        return False

    def _answers(self) -> bool:
        """True when this server answers; another server on the port would name another folder."""
        with suppress(UnavailableError):
            answer = ask(
                (self.host, self.port), b"conf", credentials=self.credentials, wait_s=PROBE_WAIT_S
            )
            return f"dataDir={self.directory / 'data'}/" in answer
        return False


def find_jars() -> list[Path]:
    """Find the server's jars in the pyspark package, without importing it."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise SettingsError(
            "the embedded ZooKeeper needs the jars of the Python package pyspark, which is not "
            "installed: install bookie-operator[repair], or name a ZooKeeper of your own"
        )
    folder = Path(spec.submodule_search_locations[0], "jars")
    found = [sorted(folder.glob(pattern)) for pattern in JARS]
    missing = [pattern for pattern, jars in zip(JARS, found, strict=True) if not jars]
    if missing:
        raise SettingsError(f"{folder} has no {', '.join(missing)}: install pyspark 4.1 or newer")
    return [jar for jars in found for jar in jars]


def lock_folder(lock: IO[bytes], directory: Path) -> None:
    """Lock the folder. The server inherits the lock, so it lasts exactly as long as the server
    runs.
    """
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise UnavailableError(
            f"a ZooKeeper already runs on {directory}: stop it, or use another folder"
        ) from error


def free_port() -> int:
    """Find a local port on which nobody listens now; another process may still take it.

    It is below the range from which the kernel takes ports for outgoing connections: in that range
    any connection could take the port of a server that is down for a moment.
    """
    lowest, host = _lowest_outgoing_port(), loopback()
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for port in random.sample(range(LISTEN_PORT_MIN, lowest), PORT_TRIES_MAX):
        with socket.socket(family) as probe, suppress(OSError):
            # As servers do: the port counts as free while old connections to it are still closing.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
            return port
    raise UnavailableError(
        f"{PORT_TRIES_MAX} ports between {LISTEN_PORT_MIN} and {lowest - 1} were tried, and all "
        f"are in use: name a free port"
    )


def _lowest_outgoing_port() -> int:
    """The lowest port of Linux' `net.ipv4.ip_local_port_range`; its default when that is not
    usable.
    """
    with suppress(OSError, ValueError):
        lowest = int(OUTGOING_PORTS.read_text().split()[0])
        if lowest >= LISTEN_PORT_MIN + LISTEN_PORTS_LEAST:
            return lowest
    return OUTGOING_PORT_DEFAULT


def _spawn(command: list[str], directory: Path, lock: IO[bytes]) -> subprocess.Popen[bytes]:
    with (directory / "zookeeper.log").open("ab") as log:
        return subprocess.Popen(
            command,
            cwd=directory,
            env=server_environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            pass_fds=(lock.fileno(),),
            # A Ctrl-C in the terminal must not stop the server before the bookies, which need it
            # for a clean stop.
            start_new_session=True,
        )


def _log_tail(directory: Path) -> str:
    with suppress(OSError):
        raw = (directory / "zookeeper.log").read_bytes()[-LOG_TAIL_BYTES:]
        return raw.decode(errors="replace").strip() or "nothing"
    return "no log"
