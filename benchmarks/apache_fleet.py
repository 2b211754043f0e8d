"""Apache's stock client and bookies for `bench_apache`: one JVM each, of jars that Maven gives.

`benchmarks/apache` has the pom and the client program; what is made of them stays in `build/apache`
until one of them changes.
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

    @classmethod
    def from_line(cls, line: str) -> "Turn":
        """FailedTurnError when it says so, ApacheError for anything that is no such line."""
        try:
            found = json.loads(line)
            if "error" in found:
                raise FailedTurnError(found["error"])
            return cls(int(found["entries"]), float(found["seconds"]))
        except (ValueError, KeyError, TypeError) as error:
            raise ApacheError(f"the stock client said {line!r} instead of its figures") from error


def classpath(folder: Path = BUILD) -> str:
    """Of client, bookie and our program, built where needed; ApacheError when it cannot be."""
    build = Build(SOURCES / "pom.xml", (SOURCES / "Append.java",), folder)
    return build.classpath()


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
        self._processes: dict[str, Process] = {}
        self._bookies: list[Process] = []

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

    def client(self, *, wire: str, size: int, count: int, window: int, ledgers: int) -> Process:
        """The client program, for `turn`; it ends with the fleet."""
        arguments = [wire, *map(str, (size, count, window, ledgers))]
        where = [f"{self._zookeeper}/{ROOT}", *arguments]
        words = jvm(self._classpath, "Append", where, folder=self._folder, flags=JVM_FLAGS)
        return self._process(f"client-{wire}", words, is_asked=True)

    def turn(self, client: Process) -> Turn:
        """Blocking. ApacheError when a JVM ended, the client is silent, or the turn failed."""
        line = client.ask("turn", wait_s=TURN_WAIT_S)
        ended = [name for name, process in self._processes.items() if process.has_ended]
        if ended or not line:
            said = "; ".join(map(self._last_words, ended)) or f"no answer in {TURN_WAIT_S:.0f} s"
            raise ApacheError(said)
        return Turn.from_line(line)

    def cpu_s(self) -> float:
        """Of all bookies together."""
        return sum(bookie.cpu_s() for bookie in self._bookies)

    def written_bytes(self) -> int:
        """By all bookies together."""
        return sum(bookie.written_bytes() for bookie in self._bookies)

    def resident_bytes(self) -> int:
        """Of all bookies together."""
        return sum(bookie.resident_bytes() for bookie in self._bookies)

    def _start(self) -> None:
        bookies = [self._stock(number) for number in range(BOOKIES)]
        bookies[0].create_cluster()
        for number, bookie in enumerate(bookies):
            self._bookies.append(self._process(f"bookie-{number}", bookie.serving()))

    def _stop(self) -> None:
        """Bookies after clients: with none left a client would try for long."""
        for process in reversed(self._processes.values()):
            process.stop()

    def _process(self, name: str, words: list[str], *, is_asked: bool = False) -> Process:
        log = self._folder / f"{name}.log"
        self._processes[name] = Process(words, log=log, program="java", is_asked=is_asked)
        return self._processes[name]

    def _stock(self, number: int) -> StockBookie:
        own, root = self._folder / f"bookie-{number}", f"{self._zookeeper}/{ROOT}"
        bookie = StockBookie(own, root, free_port(), self._classpath, JVM_FLAGS)
        bookie.configure(self._settings)
        return bookie

    def _last_words(self, name: str) -> str:
        """Of a JVM that ended: the last line of its log that is no call of a stack."""
        log = (self._folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")
        lines = [line for line in log.splitlines() if line[:1].strip()]
        code = self._processes[name].child.returncode
        return f"{name} ended with {code}: {lines[-1] if lines else 'no word'}"
