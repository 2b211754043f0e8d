"""`make test-apache`: test classes of Apache's own, on bookies outside of their process.

The cluster base of those classes is replaced by one of the same name that asks this runner for
bookies: processes of ours, or Apache's own as the oracle. Every test is reported with what became
of it, and held against expected.toml. Exit codes: 0 all as expected, or SKIPPED where Maven or a
JDK is missing and nobody said --require; 1 anything else.
"""

import argparse
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from apache_expected import APACHE, FILE, OURS, Expected
from apache_fleets import ApacheFleet, Fleet, FreePorts, OurFleet
from apache_page import PAGE, page
from apache_report import Report, counted
from apache_results import FAILED, PASSED, Result, named, read, settled
from bookie.testing.apache import ApacheError, Build, NoToolsError, jvm
from bookie.testing.figures import code_revision, tell
from java_bookies import DURABILITY
from java_control import Control

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
BUILD: Final = ROOT / "build" / "test-apache"
PUBLISHED: Final = ROOT / "docs" / "proof" / "apache-tests.json"
VERSION: Final = "4.18.0"
JUDGE: Final = "outside.Judge"
PACKAGES: Final = ("client", "client.api", "meta", "proto", "replication", "test", "verifier")
"""Of the 15 that have such classes; the others are about the bookie's own parts."""
SHORT: Final = (
    "client.BookKeeperCloseTest",
    "client.ExplicitLacTest",
    "client.LedgerRecoveryTest",
    "client.TestFencing",
    "client.TestParallelRead",
    "client.api.ExplicitLACWithWriteHandleAPITest",
    "replication.TestAutoRecoveryAlongWithBookieServers",
    "test.BookieReadWriteTest",
)
CLASS_WAIT_S: Final = 1200.0
LIST_WAIT_S: Final = 60.0
JVM_FLAGS: Final = (
    "-Xmx1g",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in ("java.lang", "java.util")),
)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests/apache", description=__doc__)
    parser.add_argument("--fleet", choices=[OURS, APACHE], default=OURS, help="whose bookies")
    parser.add_argument(
        "--durability", choices=sorted(DURABILITY), default="memory", help="mode of our bookies"
    )
    parser.add_argument("--only", action="append", default=[], metavar="CLASS")
    parser.add_argument("--short", action="store_true", help="a few classes, some minutes")
    parser.add_argument("--lanes", type=int, default=2, help="classes at once")
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "proof" / "apache-tests.json")
    parser.add_argument(
        "--publish", action="store_true", help="the report and the page of it under docs"
    )
    parser.add_argument("--require", action="store_true", help="fail where tools are missing")
    parser.add_argument("--keep", action="store_true", help="keep folders and logs")
    return parser.parse_args()


@dataclass(slots=True)
class Lane:
    """Runs one class after another on bookies of its own. `kind`: whose bookies."""

    folder: Path
    classpath: str
    kind: str
    fleet: Fleet
    ports: FreePorts
    _process: subprocess.Popen[bytes] | None = None
    _is_stopped: bool = False

    def stop(self) -> None:
        """Whatever runs ends, and nothing begins."""
        self._is_stopped = True
        if self._process is not None:
            self._process.kill()

    def run(self, of_class: str, *, only: Sequence[str] = ()) -> list[Result]:
        """`only`: unique ids of tests; without, all of the class."""
        if self._is_stopped:
            return []
        verbs = {
            "start": self.fleet.start,
            "stop": self.fleet.stop,
            "freeze": self.fleet.freeze,
            "thaw": self.fleet.thaw,
            "read-only": self.fleet.read_only,
            "writable": self.fleet.writable,
            "port": self.ports.next,
        }
        work = self.folder / (named(of_class) + ("-again" if only else ""))
        work.mkdir()
        file = work / "results"
        with Control(verbs) as control, (work / "log").open("ab") as log:
            facts = {"control": control.port, "fleet": self.kind}
            flags = (*JVM_FLAGS, *(f"-Doutside.{name}={fact}" for name, fact in facts.items()))
            words = ["run", str(file), *(only or [of_class])]
            command = ["java", *jvm(self.classpath, JUDGE, words, folder=work, flags=flags)]
            with subprocess.Popen(command, stdout=log, stderr=log) as self._process:
                try:
                    self._process.wait(CLASS_WAIT_S)
                except subprocess.TimeoutExpired:
                    self._process.kill()
        self.fleet.end_all()
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        return read(lines, of_class)


def classes(classpath: str, options: argparse.Namespace, folder: Path) -> list[str]:
    """Those that are wanted."""
    command = ["java", *jvm(classpath, JUDGE, ["list"], folder=folder, flags=JVM_FLAGS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIST_WAIT_S, check=True)
    every = {named(of_class): of_class for of_class in done.stdout.split()}
    wanted = options.only or (SHORT if options.short else ())
    if unknown := sorted(set(wanted) - set(every)):
        raise ApacheError(f"no class {unknown[0]}, expected one such as client.TestFencing")
    if not wanted:
        wanted = [name for name in every if name.rpartition(".")[0] in PACKAGES]
    return [every[name] for name in sorted(wanted)]


def lane(options: argparse.Namespace, classpath: str, folder: Path, number: int) -> Lane:
    own = folder / f"bookies-{number}"
    fleet: Fleet = (
        ApacheFleet(own, classpath)
        if options.fleet == APACHE
        else OurFleet(own, DURABILITY[options.durability])
    )
    return Lane(folder, classpath, options.fleet, fleet, FreePorts(number, options.lanes))


def run(options: argparse.Namespace, classpath: str, folder: Path) -> list[Result]:
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    wanted = classes(classpath, options, folder)
    for of_class in wanted:
        waiting.put(of_class)
    lanes = [lane(options, classpath, folder, number) for number in range(options.lanes)]
    results: dict[str, list[Result]] = {}
    turn = threading.Lock()

    def work(own: Lane) -> None:
        while True:
            try:
                of_class = waiting.get_nowait()
            except queue.Empty:
                return
            began = time.monotonic()
            found = own.run(of_class)
            with turn:
                results[of_class] = found
                say(of_class, found, time.monotonic() - began, len(wanted) - len(results))

    def end(*_: object) -> None:
        for own in lanes:
            own.stop()
        sys.exit(1)

    signal.signal(signal.SIGTERM, end)  # nobody is left behind
    try:
        with ThreadPoolExecutor(options.lanes) as pool:
            list(pool.map(work, lanes))
        for of_class, found in sorted(results.items()):
            failed = [result.unique_id for result in found if result.outcome == FAILED]
            if failed:
                began = time.monotonic()
                again = lanes[0].run(of_class, only=failed)
                say(f"{of_class}, again", again, time.monotonic() - began, 0)
                results[of_class] = settled(found, again)
    finally:
        for own in lanes:
            own.stop()
            own.fleet.close()
    return [result for _, found in sorted(results.items()) for result in found]


def say(of_class: str, found: Sequence[Result], seconds: float, left: int) -> None:
    counts = counted(found).items()
    told = ", ".join(f"{count} {outcome}" for outcome, count in counts if count) or "no test"
    print(f"  {named(of_class):44} {told}; {seconds:.0f} s, {left} left", flush=True)


def main() -> int:
    options = arguments()
    expected = Expected.of(FILE.read_text(encoding="utf-8"))
    programs = tuple(sorted((HERE / "src").rglob("*.java")))
    try:
        classpath = Build(HERE / "pom.xml", programs, BUILD).classpath()
    except NoToolsError as error:
        print(f"SKIPPED: test-apache: {error}")
        return 1 if options.require else 0
    except ApacheError as error:
        print(f"test-apache: {error}")
        return 1
    folder = Path(tempfile.mkdtemp(prefix="test-apache-"))
    began = time.monotonic()
    try:
        results = run(options, classpath, folder)
    except ApacheError as error:
        shutil.rmtree(folder)
        print(f"test-apache: {error}")
        return 1
    seconds = round(time.monotonic() - began)
    is_whole = not options.only and not options.short
    surprises = expected.surprises(results, options.fleet, is_whole=is_whole)
    file = PUBLISHED if options.publish else options.json
    report = Report.of(file)
    facts = {
        "date": datetime.now(UTC).date().isoformat(),
        "revision": code_revision(),
        "seconds": seconds,
        **({"durability": options.durability} if options.fleet == OURS else {}),
    }
    report.renew(options.fleet, facts, results, is_whole=is_whole)
    counts = counted(results)
    words = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    line = f"test-apache: {options.fleet}: {words} in {seconds} s"
    tell("make test-apache", {"bookkeeper": VERSION, **report.content}, path=file, line=line)
    if options.publish:
        PAGE.write_text(page(report, expected), encoding="utf-8")
    for words in surprises:
        print(f"  {words}")
    is_good = bool(counts[PASSED]) and not surprises
    if is_good and not options.keep:
        shutil.rmtree(folder)
    else:
        print(f"test-apache: logs are in {folder}")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
