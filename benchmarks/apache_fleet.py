"""Apache's stock client and bookies for `bench_apache`, `bench_java` and `bench_crash`: a JVM each.

`benchmarks/apache` has the pom and the client programs; what is made of them stays in
`build/apache` until one of them changes.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final

from bookie.metadata.embedded import free_port
from bookie.testing.apache import ApacheError, Build, StockBookie, jvm

from benchmarks.fleet import BOOKIES
from benchmarks.processes import Process

SOURCES: Final = Path(__file__).with_name("apache")
PROGRAMS: Final = ("Append.java", "Crash.java")
BUILD: Final = Path(__file__).parents[1] / "build" / "apache"
TURN_WAIT_S: Final = 150.0
"""Of one turn; the first one waits for the bookies as well."""
ROOT: Final = "apache"
JVM_FLAGS: Final = (  # as Apache's own start scripts have them
    "-Xms1g",
    "-Xmx1g",
    "-XX:MaxDirectMemorySize=2g",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=10",
)


class FailedTurnError(ApacheError):
    """The stock client could not add an entry; its next turn may succeed."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What the client program says of one turn."""

    entries: int
    seconds: float
    p50_us: float
    """Of one add, from the call to its acknowledgement."""

    @classmethod
    def from_line(cls, line: str) -> "Turn":
        """FailedTurnError when it says so, ApacheError for anything that is no such line."""
        try:
            found = json.loads(line)
            if "error" in found:
                raise FailedTurnError(found["error"])
            return cls(int(found["entries"]), float(found["seconds"]), float(found["p50_us"]))
        except (ValueError, KeyError, TypeError) as error:
            raise ApacheError(f"the stock client said {line!r} instead of its figures") from error


def classpath(folder: Path = BUILD) -> str:
    """Of client, bookie and our programs, built where needed; ApacheError when it cannot be."""
    build = Build(SOURCES / "pom.xml", tuple(SOURCES / name for name in PROGRAMS), folder)
    return build.classpath()


@dataclass(frozen=True, slots=True)
class Load:
    """One turn's: entries of `size` bytes to so many ledgers, `window` of them open at most."""

    size: int
    count: int
    window: int
    ledgers: int


class StockProgram:
    """A client program, asked line by line. `main`: its class, `root`: ZooKeeper's address and a
    cluster's path, `more`: its arguments beyond root and wire."""

    def __init__(
        self, main: str, root: str, *more: str, wire: str, classpath: str, folder: Path
    ) -> None:
        words = jvm(classpath, main, [root, wire, *more], folder=folder, flags=JVM_FLAGS)
        self._log = folder / f"client-{wire}.log"
        self._process = Process(words, log=self._log, program="java", is_asked=True)

    def ask(self, words: str) -> str:
        """The line that it answers with. Blocking. ApacheError when it ended, or is silent."""
        line = self._process.ask(words, wait_s=TURN_WAIT_S)
        if self._process.has_ended:
            raise ApacheError(f"the client ended: {last_words(self._log)}")
        if not line:
            raise ApacheError(f"the client gave no answer in {TURN_WAIT_S:.0f} s")
        return line

    def cpu_s(self) -> float:
        return self._process.cpu_s()

    def stop(self) -> None:
        self._process.stop()


class StockClient(StockProgram):
    """The program that appends, asked turn by turn."""

    def __init__(self, root: str, *, wire: str, classpath: str, folder: Path) -> None:
        super().__init__("Append", root, wire=wire, classpath=classpath, folder=folder)

    def turn(self, load: Load) -> Turn:
        """Blocking. ApacheError when it ended, is silent, or the turn failed."""
        return Turn.from_line(self.ask(f"{load.size} {load.count} {load.window} {load.ledgers}"))


class ApacheFleet:
    """Stock bookies with one journal and one ledger directory each; a context manager.

    `settings`: what they have beyond addresses and folders, by Apache's names.
    """

    def __init__(
        self, folder: Path, *, zookeeper: str, classpath: str, settings: Mapping[str, str]
    ) -> None:
        self._folder = folder / ROOT
        self._classpath = classpath
        self._settings = settings
        self._zookeeper = zookeeper
        self._bookies: dict[str, Process] = {}
        self._clients: list[StockClient] = []

    def __enter__(self) -> "ApacheFleet":
        self._folder.mkdir()
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    @property
    def root(self) -> str:
        """For clients: ZooKeeper's address and the path of the cluster in it."""
        return f"{self._zookeeper}/{ROOT}"

    def client(self, *, wire: str) -> StockClient:
        """The client program on these bookies; it ends with the fleet."""
        client = StockClient(self.root, wire=wire, classpath=self._classpath, folder=self._folder)
        self._clients.append(client)
        return client

    def check(self) -> None:
        """ApacheError when a bookie ended."""
        ended = [name for name, process in self._bookies.items() if process.has_ended]
        if ended:
            said = [f"{name} ended: {last_words(self._folder / f'{name}.log')}" for name in ended]
            raise ApacheError("; ".join(said))

    def cpu_s(self) -> float:
        """Of all bookies together."""
        return sum(bookie.cpu_s() for bookie in self._bookies.values())

    def written_bytes(self) -> int:
        """By all bookies together."""
        return sum(bookie.written_bytes() for bookie in self._bookies.values())

    def resident_bytes(self) -> int:
        """Of all bookies together."""
        return sum(bookie.resident_bytes() for bookie in self._bookies.values())

    def _start(self) -> None:
        bookies = [self._stock(number) for number in range(BOOKIES)]
        bookies[0].create_cluster()
        for number, bookie in enumerate(bookies):
            name = f"bookie-{number}"
            log = self._folder / f"{name}.log"
            self._bookies[name] = Process(bookie.serving(), log=log, program="java")

    def _stop(self) -> None:
        """Bookies after clients: with none left a client would try for long."""
        for client in self._clients:
            client.stop()
        for bookie in self._bookies.values():
            bookie.stop()

    def _stock(self, number: int) -> StockBookie:
        own = self._folder / f"bookie-{number}"
        bookie = StockBookie(own, self.root, free_port(), self._classpath, JVM_FLAGS)
        bookie.configure(self._settings)
        return bookie


def last_words(log: Path) -> str:
    """Of a JVM that ended: the last line of its log that is no call of a stack."""
    said = log.read_text(encoding="utf-8", errors="replace")
    lines = [line for line in said.splitlines() if line[:1].strip()]
    return lines[-1] if lines else "no word"
