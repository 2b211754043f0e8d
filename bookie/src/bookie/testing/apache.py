"""Apache's own bookies as processes of this machine, of jars that Maven gives.

What benchmarks and the suite of stock clients have in common: a build that is made once for one
state of its sources, the command line of a JVM, a bookie's file of settings. They start and end
the processes themselves.
"""

import hashlib
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bookie.hosts import loopback

TOOLS: Final = ("mvn", "javac", "java")
BUILD_WAIT_S: Final = 600.0
COMMAND_WAIT_S: Final = 60.0
LOG_SETTINGS: Final = Path(__file__).with_name("apache-log4j2.properties")
JVM_FLAGS: Final = (
    "-XX:+ParallelRefProcEnabled",  # these up to the last as Apache's own start scripts have them
    "-XX:+DisableExplicitGC",
    "-Dio.netty.leakDetectionLevel=disabled",
    "-Dio.netty.recycler.maxCapacity.default=1000",
    "-Dio.netty.recycler.linkCapacity=1024",
    "-Dio.netty.tryReflectionSetAccessible=true",
    *(
        f"--add-opens=java.base/{package}=ALL-UNNAMED"
        for package in ("java.io", "java.nio", "java.util.zip", "jdk.internal.misc")
    ),
    f"-Dlog4j2.configurationFile={LOG_SETTINGS}",
)


class ApacheError(Exception):
    """Apache's side is not on this machine, or failed; the sentence says how."""


class NoToolsError(ApacheError):
    """Maven or a JDK is missing, or Maven cannot get at the jars."""


@dataclass(frozen=True, slots=True)
class Build:
    """Jars that a pom names and classes of programs beside it, kept in `folder`."""

    pom: Path
    programs: tuple[Path, ...]
    folder: Path

    def classpath(self) -> str:
        """Built where needed; NoToolsError, or ApacheError when it cannot be."""
        missing = [tool for tool in TOOLS if shutil.which(tool) is None]
        if missing:
            raise NoToolsError(f"{' and '.join(missing)} not on PATH")
        made_of, wanted = self.folder / "made-of", self._digest(self.pom, *self.programs)
        if not made_of.exists() or made_of.read_text(encoding="utf-8") != wanted:
            self._compile()
            made_of.write_text(wanted, encoding="utf-8")
        return f"{self.classes}:{self._jars()}/*"

    @property
    def classes(self) -> Path:
        return self.folder / "classes"

    def _compile(self) -> None:
        shutil.rmtree(self.classes, ignore_errors=True)
        self.classes.mkdir(parents=True)
        programs = [str(program) for program in self.programs]
        options = ["--release", "17", "-cp", f"{self._jars()}/*", "-d", str(self.classes)]
        run_command(["javac", *options, *programs], wait_s=BUILD_WAIT_S)

    def _jars(self) -> Path:
        """Maven is asked again only for another pom."""
        jars, made_of = self.folder / "lib", self.folder / "lib-made-of"
        wanted = self._digest(self.pom)
        if not made_of.exists() or made_of.read_text(encoding="utf-8") != wanted:
            shutil.rmtree(jars, ignore_errors=True)
            goal = ["dependency:copy-dependencies", "-DincludeScope=test"]
            words = ["mvn", "-B", "-q", "-f", str(self.pom), *goal, f"-DoutputDirectory={jars}"]
            try:
                run_command(words, wait_s=BUILD_WAIT_S)
            except ApacheError as error:
                raise NoToolsError(f"the jars cannot be had: {error}") from error
            made_of.write_text(wanted, encoding="utf-8")
        return jars

    @staticmethod
    def _digest(*files: Path) -> str:
        return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def run_command(words: list[str], *, wait_s: float = COMMAND_WAIT_S) -> None:
    """ApacheError has the end of what it printed."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=wait_s)
    except subprocess.TimeoutExpired as error:
        raise ApacheError(f"{words[0]} took longer than {wait_s:.0f} s") from error
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines()
        last = next((line for line in said if ": error:" in line), said[-1] if said else "no word")
        raise ApacheError(f"{words[0]} failed: {last}")


def jvm(
    classpath: str, main: str, arguments: Iterable[str], *, folder: Path, flags: Iterable[str]
) -> list[str]:
    """The words after `java`. `folder`: where Netty and RocksDB unpack their native parts."""
    # With IPv4 as theirs have it as well; it would keep a JVM off a machine that has IPv6 only.
    ipv4 = f"-Djava.net.preferIPv4Stack={str(':' not in loopback()).lower()}"
    own = [*JVM_FLAGS, ipv4, f"-Djava.io.tmpdir={folder}", "-cp", classpath]
    return [*flags, *own, main, *arguments]


@dataclass(frozen=True, slots=True)
class StockBookie:
    """Settings and commands of one of Apache's bookies: one journal, one ledger directory.

    `root`: ZooKeeper's address and the path of the cluster in it.
    """

    folder: Path
    root: str
    port: int
    classpath: str
    flags: tuple[str, ...]

    def configure(self, settings: Mapping[str, str]) -> None:
        """Write its settings file. `settings`: more settings than addresses and folders, by
        Apache's names."""
        self.folder.mkdir()
        every = {
            "metadataServiceUri": f"zk+hierarchical://{self.root}",
            "bookiePort": str(self.port),
            "allowLoopback": "true",
            "advertisedAddress": loopback(),
            "journalDirectories": str(self.folder / "journal"),
            "ledgerDirectories": str(self.folder / "ledger-0"),
            **settings,
        }
        lines = [f"{name}={value}\n" for name, value in every.items()]
        self.file.write_text("".join(lines), encoding="utf-8")

    def create_cluster(self) -> None:
        """Write the cluster's layout to ZooKeeper; call it once, before the first bookie starts."""
        words = ["-conf", str(self.file), "initnewcluster"]
        run_command(["java", *self._words("org.apache.bookkeeper.bookie.BookieShell", words)])

    def serving(self) -> list[str]:
        """The words after `java` of the bookie itself."""
        return self._words("org.apache.bookkeeper.server.Main", ["--conf", str(self.file)])

    def _words(self, main: str, arguments: list[str]) -> list[str]:
        folder = self.folder.parent
        return jvm(self.classpath, main, arguments, folder=folder, flags=self.flags)

    @property
    def file(self) -> Path:
        """Its settings file."""
        return self.folder / "bookie.properties"
