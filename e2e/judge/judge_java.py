"""The judge's JVM: built of `pom.xml` and `src`, run as a process beside the fleet that it judges.

Nothing here judges: what is written, read and compared is Java, on Apache's own client.
"""

import json
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bookie.testing.apache import Build, jvm

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
FOLDER: Final = ROOT / "build" / "judge"
"""`classes` and `lib`: all that a JRE needs to run it, `java -cp 'classes:lib/*' judge.Main`."""
MAIN: Final = "judge.Main"
UNIT_TESTS: Final = "org.junit.platform.console.ConsoleLauncher"
JVM_FLAGS: Final = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
STOP_WAIT_S: Final = 90.0
CHECK_S: Final = 900
CHECK_WAIT_S: Final = CHECK_S + 120.0

WHOLE: Final = 0
ENTRY_LOST: Final = 3
COPY_MISSING: Final = 4
NOT_JUDGED: Final = 5
CONTRADICTED: Final = 6

Document = dict[str, Any]


def build() -> Build:
    """Of the programs and their unit tests."""
    return Build(HERE / "pom.xml", tuple(sorted((HERE / "src").rglob("*.java"))), FOLDER)


def unit_tests(classpath: str, folder: Path) -> int:
    """The launcher's exit code."""
    words = ["execute", f"--scan-classpath={FOLDER / 'classes'}", "--disable-banner"]
    words += ["--disable-ansi-colors", "--details=tree", "--fail-if-no-tests"]
    command = ["java", *jvm(classpath, UNIT_TESTS, words, folder=folder, flags=JVM_FLAGS)]
    return subprocess.run(command, check=False).returncode


@dataclass(frozen=True, slots=True)
class Judge:
    """Commands of the judge; notes, verdicts and logs lie in `folder`.

    `tls`: the folder of credentials that it comes with; None: in plain.
    """

    classpath: str
    folder: Path
    metadata: str
    tls: Path | None = None

    def write(self, *, seconds: float, seed: int, options: Mapping[str, object]) -> "Writer":
        """Starts to write; at most so long, and until it is stopped."""
        words = ["--seconds", str(round(seconds)), "--seed", str(seed)]
        words += [word for name, value in options.items() for word in (f"--{name}", str(value))]
        words += ["--json", str(self.written)]
        return Writer(self._start(["write", *words]), self)

    def check(self, *, notes: Path | None = None, status: Path, faults: int, name: str) -> Document:
        """The verdict; its `exitCode` is that of the process, whatever stands in the file."""
        verdict = self.folder / f"{name}.json"
        verdict.unlink(missing_ok=True)
        words = ["--seconds", str(CHECK_S), "--json", str(verdict)]
        words += ["--status", str(status), "--faults", str(faults)]
        process = self._start(["check", *words], notes=notes)
        code = process.wait(CHECK_WAIT_S)
        if not verdict.exists():
            return {"exitCode": code or NOT_JUDGED}
        found: Document = json.loads(verdict.read_text(encoding="utf-8"))
        return {**found, "exitCode": code}

    @property
    def notes(self) -> Path:
        return self.folder / "notes"

    @property
    def written(self) -> Path:
        """What the writer says at its end."""
        return self.folder / "write.json"

    def _start(self, words: Sequence[str], *, notes: Path | None = None) -> subprocess.Popen[bytes]:
        command, *options = words
        options += ["--metadata", self.metadata, "--notes", str(notes or self.notes)]
        options += [] if self.tls is None else ["--tls", str(self.tls)]
        java = jvm(self.classpath, MAIN, [command, *options], folder=self.folder, flags=JVM_FLAGS)
        with (self.folder / "judge.log").open("ab") as log:
            return subprocess.Popen(["java", *java], stderr=log)


@dataclass(frozen=True, slots=True)
class Writer:
    """A judge that writes."""

    process: subprocess.Popen[bytes]
    judge: Judge

    def stop(self) -> Document:
        """SIGTERM: it waits for what is under way; what it did."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(STOP_WAIT_S)
        finally:
            self.process.kill()
        assert code == 0, f"the writer ended with {code}, see {self.judge.folder}/judge.log"
        found: Document = json.loads(self.judge.written.read_text(encoding="utf-8"))
        return found
