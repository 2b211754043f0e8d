"""Logs of DistributedLog on one fleet, and who writes and reads them: a JVM each."""

import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bookie.testing.apache import Build, jvm
from dlog_judge import Noted, Seen
from pulsar_claims import Claims
from pulsar_copies import SMALL_JVM, copies
from pulsar_fleet import Bookies
from pulsar_tls import Secured

HERE: Final = Path(__file__).parent
SHARED: Final = HERE.parent / "pulsar" / "src"
PROGRAMS: Final = (*sorted((HERE / "src").glob("*.java")), SHARED / "Copies.java")
BUILD: Final = Build(
    HERE / "pom.xml",
    (*PROGRAMS, SHARED / "Payload.java"),
    HERE.parents[1] / "build" / "test-dlog",
)
NAMESPACE: Final = "/distributedlog"
LOGS: Final = (
    "plain",
    "batched",
    "again",
    "taken",
    "short",
    "doomed",
    "clock",
    "storm-plain",
    "storm-batched",
)
PROGRAM_WAIT_S: Final = 300.0
SESSION_S: Final = 15
"""So long a log belongs to a writer that was killed."""
COMMON: Final = {
    "bkcEnsembleSize": "3",
    "bkcWriteQuorumSize": "3",
    "bkcAckQuorumSize": "2",
    "bkcReadTimeoutSeconds": "10",
    "bkcWriteTimeoutSeconds": "20",  # a machine that is busy; who is killed breaks its connections
    "bkc.useV2WireProtocol": "false",
    "zkSessionTimeoutSeconds": str(SESSION_S),  # twice that is the time to connect
    "bkcZKSessionTimeoutSeconds": str(SESSION_S),
    "lockTimeoutSeconds": "60",
    "logSegmentRollingMinutes": "0",  # then segments end by their size
    "maxLogSegmentBytes": str(256 * 1024),
    "logSegmentRollingConcurrency": "1000",  # in a minute
    "explicitTruncationByApp": "true",
    "numWorkerThreads": "2",
    "bkcNumWorkerThreads": "2",
    "bkcNumIOThreads": "2",
}
FLAVOURS: Final = {
    "plain": {"writerOutputBufferSize": "0", "enableImmediateFlush": "true"},
    "batched": {"writerOutputBufferSize": "16384", "periodicFlushFrequencyMilliSeconds": "10"},
    "timed": {"logSegmentRollingMinutes": "1", "periodicFlushFrequencyMilliSeconds": "10"},
    "lockless": {"writeLockEnabled": "false", "periodicFlushFrequencyMilliSeconds": "10"},
}
"""How a log is written, by the settings of DistributedLog that differ: the threshold from which a
buffer is transmitted, what ends a segment, whether writers keep each other out by a lock."""


class DlogError(Exception):
    """A program failed where a story cannot go on; the sentence says which."""


@dataclass(frozen=True, slots=True)
class Segment:
    """`last`: its last transaction id, -1 while it is open."""

    ledger: int
    first: int
    last: int
    state: str


@dataclass(slots=True)
class Program:
    """A writer or a reader under way, and where its notes are."""

    process: subprocess.Popen[bytes]
    notes: Path

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """By the end of its standard input; it waits for what is under way."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.finish()

    def finish(self) -> None:
        try:
            self.process.wait(PROGRAM_WAIT_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def said(self) -> str:
        return self.notes.read_text(encoding="utf-8") if self.notes.exists() else ""


@dataclass(slots=True)
class Writer(Program):
    """`first`: its first number."""

    first: int

    def noted(self) -> Noted:
        return Noted.of(self.said(), first=self.first)


@dataclass(slots=True)
class Reader(Program):
    def seen(self) -> Seen:
        return Seen.of(self.said())


@dataclass(slots=True, kw_only=True)
class World(Claims):
    """`zookeeper`: its host and port. `secured`: how JVMs come to bookies and ZooKeeper.
    `is_long`: the whole form of a run."""

    classpath: str
    fleet: Bookies
    zookeeper: str
    folder: Path
    secured: Secured
    is_long: bool = False
    name: str = "dlog"
    _files: int = 0
    _processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def end(self) -> None:
        """Nobody is left behind."""
        for process in self._processes:
            process.kill()
            process.wait()

    # Logs
    def bind(self) -> None:
        """The namespace with its logs, and the settings of each flavour."""
        for flavour, own in FLAVOURS.items():
            tls = {f"bkc.{name}": value for name, value in self.secured.client.items()}
            every = {**COMMON, **own, **tls}
            text = "".join(f"{name}={value}\n" for name, value in every.items())
            self._settings(flavour).write_text(text, encoding="utf-8")
        self.admin("bind", self.zookeeper, "/ledgers", *LOGS)

    def admin(self, *words: str) -> str:
        """What it printed; DlogError where it failed."""
        command = self._command("DlogAdmin", [str(self._settings("plain")), self._uri, *words])
        with (self.folder / "programs.log").open("ab") as log:
            done = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=log, timeout=PROGRAM_WAIT_S
            )
        said = done.stdout.decode()
        if done.returncode:
            raise DlogError(f"{' '.join(words)} failed: {self.folder}/programs.log")
        return said

    def segments(self, log: str) -> list[Segment]:
        lines = [line.split() for line in self.admin("segments", log).splitlines()]
        found = [line for line in lines if len(line) == 4 and line[0].isdigit()]
        return [Segment(int(ledger), int(a), int(b), state) for ledger, a, b, state in found]

    def copies(self, ledgers: Iterable[int]) -> dict[int, tuple[bool, int]]:
        """Whether ZooKeeper knows it, and how many bookies hold entries of it."""
        return copies(
            ledgers,
            zookeeper=self.zookeeper,
            classpath=self.classpath,
            secured=self.secured,
            folder=self.folder,
        )

    # Programs
    def write(
        self,
        log: str,
        flavour: str,
        *,
        first: int = 1,
        count: int = 1 << 40,
        rate: float = 1e9,
        stops: bool = False,
    ) -> Writer:
        notes = self._file(log, "notes")
        words = [*self._common(log, flavour), str(notes), str(first), str(count), str(rate)]
        process = self._started("DlogWrite", [*words, "stops" if stops else "goes-on"])
        return Writer(process, notes, first)

    def begin_read(
        self,
        log: str,
        flavour: str,
        *,
        start: str = "head",
        kind: str = "async",
        until: str = "end",
    ) -> Reader:
        seen = self._file(log, "seen")
        words = [*self._common(log, flavour), str(seen), start, kind, until]
        return Reader(self._started("DlogRead", words), seen)

    def read(
        self,
        log: str,
        flavour: str,
        *,
        start: str = "head",
        kind: str = "async",
        until: str = "end",
    ) -> Seen:
        reader = self.begin_read(log, flavour, start=start, kind=kind, until=until)
        reader.finish()
        return reader.seen()

    @property
    def _uri(self) -> str:
        return f"distributedlog://{self.zookeeper}{NAMESPACE}"

    def _settings(self, flavour: str) -> Path:
        return self.folder / f"{flavour}.properties"

    def _common(self, log: str, flavour: str) -> list[str]:
        return [str(self._settings(flavour)), self._uri, log, str(self.seed)]

    def _command(self, main: str, words: Iterable[str]) -> list[str]:
        flags = (*SMALL_JVM, *self.secured.flags)
        return ["java", *jvm(self.classpath, main, words, folder=self.folder, flags=flags)]

    def _started(self, main: str, words: list[str]) -> subprocess.Popen[bytes]:
        with (self.folder / "programs.log").open("ab") as log:
            process = subprocess.Popen(
                self._command(main, words), stdin=subprocess.PIPE, stdout=log, stderr=log
            )
        self._processes.append(process)
        return process

    def _file(self, log: str, ending: str) -> Path:
        self._files += 1
        return self.folder / f"{log}-{self._files}.{ending}"
