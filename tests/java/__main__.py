"""`make test-java`: the stock client's conformance suite, run against a fleet of real bookies.

Builds the suite (kept in build/test-java until a source changes), starts ZooKeeper, the bookies and
a JVM with the tests, which asks for kills and restarts over a local socket. Exit codes: 0 all
passed, or SKIPPED where Maven or a JDK is missing and nobody said --require; 1 anything else.
"""

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from bookie.metadata.embedded import EmbeddedSettings, EmbeddedZooKeeper
from bookie.testing.apache import ApacheError, Build, NoToolsError, jvm
from java_bookies import DURABILITY, IDS, KINDS, Bookies, FleetError
from java_control import Control, Verb
from java_marks import PythonMarks
from java_metadata import ROOT, Metadata
from java_peer import PythonPeer
from java_report import Report, complaints
from java_sasl import Users
from java_tickets import NoTicketsError, Tickets
from java_tls import CLIENT, PERSON, ZOOKEEPER, Certificates

HERE: Final = Path(__file__).parent
BUILD: Final = HERE.parents[1] / "build" / "test-java"
LAUNCHER: Final = "org.junit.platform.console.ConsoleLauncher"
PACKAGE: Final = "stock"
APACHE_BREAKS_OFF: Final = "Apache's bookies break off most logins that come under TLS"
RUN_WAIT_S: Final = 1800.0
JVM_FLAGS: Final = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
JUNIT: Final = {
    "junit.jupiter.testclass.order.default": "stock.FewestBookiesFirst",
    "junit.jupiter.execution.timeout.testable.method.default": "60 s",
    "junit.jupiter.execution.timeout.lifecycle.method.default": "90 s",
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests/java", description=__doc__)
    parser.add_argument("--fleet", choices=sorted(KINDS), default="ours", help="whose bookies")
    parser.add_argument(
        "--durability", choices=sorted(DURABILITY), default="memory", help="mode of our bookies"
    )
    parser.add_argument(
        "--tls", action="store_true", help="every connection is under TLS, in every test"
    )
    parser.add_argument(
        "--sasl", action="store_true", help="every client comes with a password, in every test"
    )
    parser.add_argument("--only", action="append", default=[], metavar="CLASS[.METHOD]")
    parser.add_argument("--require", action="store_true", help="fail where tools are missing")
    parser.add_argument("--keep", action="store_true", help="keep folders and logs")
    return parser.parse_args()


def sources() -> tuple[Path, ...]:
    return tuple(sorted((HERE / "src" / "test" / "java").rglob("*.java")))


def selection(only: Sequence[str]) -> list[str]:
    """Of the launcher: everything, or classes and methods by name."""
    if not only:
        return [f"--select-package={PACKAGE}"]
    words = []
    for name in only:
        of_class, _, method = name.partition(".")
        words.append(f"--select-class={PACKAGE}.{of_class}")
        if method:
            words.append(f"--include-methodname=.*\\b{method}.*")
    return words


def verbs(bookies: Bookies, metadata: Metadata, marks: PythonMarks) -> dict[str, Verb]:
    def numbered(act: Callable[[int], None]) -> Verb:
        return lambda words: act(int(words[0]))

    peer = PythonPeer(metadata)
    acts = (bookies.heal, bookies.start, bookies.stop, bookies.kill, bookies.freeze, bookies.thaw)
    return {
        "tls": lambda words: bookies.tls(words[0]),
        "certificates": bookies.certificates.folder,
        "authentication": lambda words: bookies.authentication(words[0]),
        **{act.__name__: numbered(act) for act in acts},
        "write-with-python": peer.write,
        "read-with-python": peer.read,
        "recover-with-python": peer.recover,
        "initialise": peer.initialise,
        "instance-id": peer.instance_id,
        "cookie": peer.cookie,
        "keep-cookie": peer.keep_cookie,
        "restore-cookie": peer.restore_cookie,
        "mark": marks.mark,
        "read-mark": marks.read,
        "list-marks": marks.listed,
        "clear-mark": marks.clear,
        "lock-mark": marks.lock,
        "unlock-mark": marks.unlock,
        "replication-enabled": marks.enable,
        "recovery-delay": marks.delay,
    }


def tickets_of(options: argparse.Namespace, folder: Path, stack: ExitStack) -> Tickets | None:
    """None, and a line that says why, where there can be none."""
    try:
        return Tickets.made(folder, stack) if options.fleet == "ours" else None
    except NoTicketsError as error:
        print(f"SKIPPED: test-java: tickets of Kerberos: {error}")
        return None


def run(options: argparse.Namespace, classpath: str, folder: Path, tickets: Tickets | None) -> int:
    """The launcher's exit code."""
    certificates = Certificates(folder, IDS)
    credentials = certificates.folder() if options.tls else None
    settings = EmbeddedSettings(fsync=False, tls=credentials and credentials / ZOOKEEPER)
    kind, durability = options.fleet, options.durability
    with (
        EmbeddedZooKeeper.start(folder / "zookeeper", settings=settings) as zookeeper,
        Bookies(
            folder,
            metadata := Metadata(zookeeper.address, credentials and credentials / PERSON),
            kind,
            classpath,
            durability,
            certificates,
            users := Users.made(folder, tickets.sections if tickets else ""),
            tickets,
            options.tls,
            options.sasl,
        ) as bookies,
        PythonMarks(metadata) as marks,
        Control(verbs(bookies, metadata, marks)) as control,
        (folder / "client.log").open("ab") as client_log,
    ):
        facts = {
            "fleet.kind": kind,
            "fleet.host": zookeeper.host,
            "fleet.root": f"{zookeeper.address}/{ROOT}",
            "fleet.control": str(control.port),
            "fleet.tls": str(options.tls).lower(),
            "fleet.sasl": str(options.sasl).lower(),
            "fleet.tickets": str(tickets is not None).lower(),
        }
        flags = (
            *JVM_FLAGS,
            users.jvm_flag,
            *((tickets.jvm_flag,) if tickets else ()),
            *(certificates.jvm_flags(CLIENT) if options.tls else ()),
            *(f"-D{name}={value}" for name, value in facts.items()),
        )
        words = ["execute", *selection(options.only)]
        words += ["--disable-banner", "--disable-ansi-colors", "--details=summary"]
        words += [f"--reports-dir={folder / 'reports'}"]
        words += [f"--config={name}={value}" for name, value in JUNIT.items()]
        own = f"{HERE / 'src' / 'test' / 'resources'}:{classpath}"
        command = ["java", *jvm(own, LAUNCHER, words, folder=folder, flags=flags)]
        code = subprocess.run(command, stderr=client_log, timeout=RUN_WAIT_S).returncode
        for member in bookies.members if code else ():
            print(f"--- {member.bookie_id}, its log ends:\n{member.last_words}")
    if code:
        print(f"--- the clients' log has:\n{complaints(folder / 'client.log')}")
    return code


def main() -> int:
    options = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # nobody is left behind
    build = Build(HERE / "pom.xml", sources(), BUILD)
    try:
        classpath = build.classpath()
    except NoToolsError as error:
        print(f"SKIPPED: test-java: {error}")
        return 1 if options.require else 0
    except ApacheError as error:
        print(f"test-java: {error}")
        return 1
    if options.tls and options.sasl and options.fleet != "ours":
        print(f"SKIPPED: test-java: passwords, {options.fleet}: {APACHE_BREAKS_OFF}")
        options.sasl = False
    folder = Path(tempfile.mkdtemp(prefix="test-java-"))
    began = time.monotonic()
    try:
        with ExitStack() as stack:
            code = run(options, classpath, folder, tickets_of(options, folder, stack))
    except (ApacheError, FleetError, subprocess.TimeoutExpired) as error:
        print(f"test-java: {error}")
        code = 1
    report = Report.of(folder / "reports")
    of = [options.fleet, options.durability]
    of += [word for word, is_on in (("TLS", options.tls), ("SASL", options.sasl)) if is_on]
    print(report.summary(", ".join(of), seconds=time.monotonic() - began))
    is_good = not code and report.is_good
    if is_good and not options.keep:
        shutil.rmtree(folder)
    else:
        print(f"test-java: logs are in {folder}")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
