"""Apache's stock client and bookies for `bench_apache`: one JVM each, of jars that Maven gives.

`benchmarks/apache` has the pom and the client program; what is made of them stays in `build/apache`
until one of them changes.
"""

import hashlib
import json
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final

from bookie.metadata.embedded import HOST, free_port

from benchmarks.fleet import BOOKIES
from benchmarks.processes import Process

SOURCES: Final = Path(__file__).with_name("apache")
BUILD: Final = Path(__file__).parents[1] / "build" / "apache"
TOOLS: Final = ("mvn", "javac", "java")
BUILD_WAIT_S: Final = 600.0
COMMAND_WAIT_S: Final = 60.0
TURN_WAIT_S: Final = 150.0
"""Of one turn; the first one waits for the bookies as well."""
ROOT: Final = "apache"
JVM_FLAGS: Final = (
    "-Xms1g",  # this and what follows up to the last as Apache's own start scripts have it
    "-Xmx1g",
    "-XX:MaxDirectMemorySize=2g",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=10",
    "-XX:+ParallelRefProcEnabled",
    "-XX:+DisableExplicitGC",
    "-Djava.net.preferIPv4Stack=true",
    "-Dio.netty.leakDetectionLevel=disabled",
    "-Dio.netty.recycler.maxCapacity.default=1000",
    "-Dio.netty.recycler.linkCapacity=1024",
    "-Dio.netty.tryReflectionSetAccessible=true",
    *(
        f"--add-opens=java.base/{package}=ALL-UNNAMED"
        for package in ("java.io", "java.nio", "java.util.zip", "jdk.internal.misc")
    ),
    f"-Dlog4j2.configurationFile={SOURCES / 'log4j2.properties'}",
)


class ApacheError(Exception):
    """Apache's side is not on this machine, or failed; the sentence says how."""


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
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        raise ApacheError(f"{' and '.join(missing)} not on PATH")
    made_of, wanted = folder / "made-of", _digest()
    if not made_of.exists() or made_of.read_text(encoding="utf-8") != wanted:
        _build(folder)
        made_of.write_text(wanted, encoding="utf-8")
    return f"{folder / 'classes'}:{folder / 'lib'}/*"


def _digest() -> str:
    files = (SOURCES / "pom.xml", SOURCES / "Append.java")
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def _build(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    lib, classes = folder / "lib", folder / "classes"
    classes.mkdir(parents=True)
    copying = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={lib}"]
    _command(["mvn", "-B", "-q", "-f", str(SOURCES / "pom.xml"), *copying], wait_s=BUILD_WAIT_S)
    program = str(SOURCES / "Append.java")
    _command(["javac", "-cp", f"{lib}/*", "-d", str(classes), program], wait_s=BUILD_WAIT_S)


def _command(words: list[str], *, wait_s: float = COMMAND_WAIT_S) -> None:
    """ApacheError has the end of what it printed."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=wait_s)
    except subprocess.TimeoutExpired as error:
        raise ApacheError(f"{words[0]} took longer than {wait_s:.0f} s") from error
    if done.returncode:
        last = (done.stdout + done.stderr).strip().splitlines()[-1:]
        raise ApacheError(f"{words[0]} failed: {' '.join(last)}")


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
        where = f"{self._zookeeper}/{ROOT}"
        return self._java(f"client-{wire}", ["Append", where, *arguments], is_asked=True)

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
        files = [self._configure(number) for number in range(BOOKIES)]
        shell = ["org.apache.bookkeeper.bookie.BookieShell", "-conf", str(files[0])]
        _command(["java", *JVM_FLAGS, "-cp", self._classpath, *shell, "initnewcluster"])
        for number, file in enumerate(files):
            main = ["org.apache.bookkeeper.server.Main", "--conf", str(file)]
            self._bookies.append(self._java(f"bookie-{number}", main))

    def _stop(self) -> None:
        """Bookies after clients: with none left a client would try for long."""
        for process in reversed(self._processes.values()):
            process.stop()

    def _java(self, name: str, words: list[str], *, is_asked: bool = False) -> Process:
        # Netty and RocksDB unpack their native parts there.
        arguments = [*JVM_FLAGS, f"-Djava.io.tmpdir={self._folder}", "-cp", self._classpath, *words]
        log = self._folder / f"{name}.log"
        self._processes[name] = Process(arguments, log=log, program="java", is_asked=is_asked)
        return self._processes[name]

    def _configure(self, number: int) -> Path:
        own = self._folder / f"bookie-{number}"
        own.mkdir()
        settings = {
            "metadataServiceUri": f"zk+hierarchical://{self._zookeeper}/{ROOT}",
            "bookiePort": str(free_port()),
            "allowLoopback": "true",
            "advertisedAddress": HOST,
            "journalDirectories": str(own / "journal"),
            "ledgerDirectories": str(own / "ledger-0"),
            **self._settings,
        }
        file = own / "bookie.properties"
        lines = [f"{name}={value}\n" for name, value in settings.items()]
        file.write_text("".join(lines), encoding="utf-8")
        return file

    def _last_words(self, name: str) -> str:
        """Of a JVM that ended: the last line of its log that is no call of a stack."""
        log = (self._folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")
        lines = [line for line in log.splitlines() if line[:1].strip()]
        code = self._processes[name].child.returncode
        return f"{name} ended with {code}: {lines[-1] if lines else 'no word'}"
