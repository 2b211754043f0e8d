"""The bookies that tests ask for: processes of ours, or Apache's beside the tests.

A test names a bookie by its id, and gives a file of Apache's settings. Blocking: it waits for every
step anyway.
"""

import itertools
import multiprocessing
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import IO, Any, Final, Protocol

import yaml
from apache_settings import Place, parsed, translated
from bookie.hosts import loopback
from bookie.testing.apache import jvm

PRELOADED: Final = ["bookie.cli.main", "bookie.cli.serve", "bookie.server.lifecycle"]
BOOT_WAIT_S: Final = 30.0
STOP_WAIT_S: Final = 20.0
COMMAND_WAIT_S: Final = 30.0
POLL_S: Final = 0.02
HOST: Final = "outside.BookieHost"
HOST_FLAGS: Final = ("-Xmx1g", "-XX:+UseSerialGC", "-XX:MaxDirectMemorySize=512m")


PORTS: Final = range(15000, 32000)
"""Below those that systems give to connections."""


class FleetError(Exception):
    """A bookie did not do what it was asked for."""


class Fleet(Protocol):
    """What a test may ask for, as verbs of `java_control`."""

    def start(self, words: list[str]) -> None:
        """`ID HOST PORT FILE`: answered once its port is open."""

    def stop(self, words: list[str]) -> None:
        """`ID`: an orderly end."""

    def freeze(self, words: list[str]) -> None:
        """`ID`: it answers nothing."""

    def thaw(self, words: list[str]) -> None: ...
    def read_only(self, words: list[str]) -> None: ...
    def writable(self, words: list[str]) -> None: ...
    def end_all(self) -> None:
        """Nobody is left of what a class has started."""

    def close(self) -> None: ...


@dataclass(slots=True)
class OurFleet:
    """Each bookie is a process, forked from one that has the modules: it boots sooner."""

    folder: Path
    durability: Mapping[str, Any]
    _processes: dict[str, BaseProcess] = field(default_factory=dict)
    _metadata: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder.mkdir()

    def start(self, words: list[str]) -> None:
        bookie_id, host, port, wanted = words
        place = Place(bookie_id, host, int(port))
        stock = parsed(Path(wanted).read_text(encoding="utf-8"))
        settings = translated(stock, place, self.durability)
        for directory in (settings["journal"], *settings["ledgers"]):
            Path(directory["directory"]).mkdir(parents=True, exist_ok=True)
        name = bookie_id.replace(":", "-")
        file, log = self.folder / f"{name}.yaml", self.folder / f"{name}.log"
        file.write_text(yaml.safe_dump(settings), encoding="utf-8")
        self.stop([bookie_id])
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        process = context.Process(target=serve, args=(file, log), daemon=True)
        process.start()
        self._processes[bookie_id], self._metadata[bookie_id] = process, settings["metadata"]
        _until_open(place, process.is_alive)

    def stop(self, words: list[str]) -> None:
        process = self._processes.pop(words[0], None)
        if process is None:
            return
        self._signal(process, signal.SIGCONT)
        self._signal(process, signal.SIGTERM)
        process.join(STOP_WAIT_S)
        if process.is_alive():
            process.kill()
            process.join()
            raise FleetError(f"{words[0]} did not end within {STOP_WAIT_S:.0f} s")

    def freeze(self, words: list[str]) -> None:
        self._signal(self._processes[words[0]], signal.SIGSTOP)

    def thaw(self, words: list[str]) -> None:
        if (process := self._processes.get(words[0])) is not None:
            self._signal(process, signal.SIGCONT)

    def read_only(self, words: list[str]) -> None:
        self._command("read-only", words[0], "--metadata", self._metadata[words[0]])

    def writable(self, words: list[str]) -> None:
        self._command("read-only", words[0], "--off", "--metadata", self._metadata[words[0]])

    def end_all(self) -> None:
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.join()
        self._processes.clear()

    def close(self) -> None:
        self.end_all()

    @staticmethod
    def _signal(process: BaseProcess, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            assert process.pid is not None
            os.kill(process.pid, number)

    @staticmethod
    def _command(*words: str) -> None:
        command = [sys.executable, "-m", "bookie", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_WAIT_S)
        if done.returncode:
            raise FleetError(f"bookie {' '.join(words)}: {done.stderr.strip()}")


def serve(settings: Path, log: Path) -> None:
    """The process of one of our bookies."""
    from bookie.cli.main import main

    threading.Thread(target=_end_with_the_runner, daemon=True).start()
    os.setsid()
    words = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(words, 1)
    os.dup2(words, 2)
    main(["serve", "--config", str(settings)])


def _end_with_the_runner() -> None:
    """Also where it was killed."""
    runner = multiprocessing.parent_process()
    assert runner is not None
    runner.join()
    os._exit(1)


@dataclass(slots=True)
class ApacheFleet:
    """All bookies are in one JVM, which has warmed up after the first of them."""

    folder: Path
    classpath: str
    _process: subprocess.Popen[str] | None = None
    _log: IO[bytes] | None = None
    _running: set[str] = field(default_factory=set)

    def start(self, words: list[str]) -> None:
        bookie_id, host, port, file = words
        self._ask("start", bookie_id, file)
        self._running.add(bookie_id)
        _until_open(Place(bookie_id, host, int(port)), lambda: True)

    def stop(self, words: list[str]) -> None:
        self._running.discard(words[0])
        self._ask("stop", words[0])

    def freeze(self, words: list[str]) -> None:
        self._ask("freeze", words[0])

    def thaw(self, words: list[str]) -> None:
        if words[0] in self._running:
            self._ask("thaw", words[0])

    def read_only(self, words: list[str]) -> None:
        self._ask("read-only", words[0])

    def writable(self, words: list[str]) -> None:
        self._ask("writable", words[0])

    def end_all(self) -> None:
        """The JVM stays where nothing is left to end."""
        if self._running:
            self.close()

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None
        if self._log is not None:
            self._log.close()
            self._log = None
        self._running.clear()

    def _ask(self, *words: str) -> None:
        process = self._hosting()
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(" ".join(words) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline().strip()
        if answer != "ok":
            raise FleetError(answer or "the JVM of Apache's bookies ended")

    def _hosting(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            self.close()
            self.folder.mkdir(exist_ok=True)
            self._log = (self.folder / "bookies.log").open("ab")
            words = jvm(self.classpath, HOST, [], folder=self.folder, flags=HOST_FLAGS)
            self._process = subprocess.Popen(
                ["java", *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                text=True,
                start_new_session=True,
            )
        return self._process


class FreePorts:
    """Of this lane of `lanes`: none is given twice within thousands. Each run begins elsewhere."""

    def __init__(self, lane: int, lanes: int) -> None:
        own = PORTS[lane::lanes]
        first = random.randrange(len(own))
        self._ports = itertools.cycle([*own[first:], *own[:first]])

    def next(self, _words: list[str]) -> int:
        for port in self._ports:
            with suppress(OSError), socket.socket() as taken:
                taken.bind((loopback(), port))
                return port
        raise AssertionError("a cycle has no end")


def _until_open(place: Place, runs: Callable[[], bool]) -> None:
    deadline = time.monotonic() + BOOT_WAIT_S
    while True:
        with suppress(OSError), socket.create_connection((place.host, place.port), timeout=1):
            return
        if not runs():
            raise FleetError(f"{place.bookie_id} ended at its start")
        if time.monotonic() > deadline:
            raise FleetError(f"{place.bookie_id} does not serve after {BOOT_WAIT_S:.0f} s")
        time.sleep(POLL_S)
