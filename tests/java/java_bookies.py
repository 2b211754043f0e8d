"""The bookies of the suite: real processes of ours and of Apache's, in one cluster.

Both kinds keep their names, ports and folders over restarts. Blocking: the tests of the suite wait
for every step anyway.
"""

import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import yaml
from bookie.hosts import loopback
from bookie.metadata.embedded import free_port
from bookie.testing.apache import StockBookie
from java_metadata import ROOT, Metadata
from java_sasl import Users
from java_tickets import Tickets
from java_tls import Certificates
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

BOOKIES: Final = 5
IDS: Final = [f"bookie-{number}" for number in range(BOOKIES)]
KINDS: Final[Mapping[str, str]] = {"ours": "ooooo", "apache": "aaaaa", "mixed": "ooaoa"}
"""Whose bookie each of the five is. Those with low numbers run first: in a mixed cluster a ledger
on three bookies is on two of ours and one of Apache's."""
DURABILITY: Final[Mapping[str, Mapping[str, Any]]] = {
    "memory": {"journalWriteData": False, "ack": "memory"},
    "sync": {"journalWriteData": False, "ack": "sync"},
    "journal": {"journalWriteData": True},
}
BOOT_WAIT_S: Final = 60.0
STOP_WAIT_S: Final = 30.0
LOG_TAIL: Final = 12
SMALL_JVM: Final = (
    "-Xms64m",
    "-Xmx256m",
    "-XX:MaxDirectMemorySize=256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xss512k",
)
MIB: Final = 1 << 20
APACHE_SETTINGS: Final = {
    "zkTimeout": "4000",
    "gcWaitTime": "1000",  # deleted ledgers go soon
    "journalPreAllocSizeMB": "4",
    "diskUsageThreshold": "0.99",
    "diskUsageWarnThreshold": "0.98",
    "numReadWorkerThreads": "2",
    "serverNumIOThreads": "2",
}


class FleetError(Exception):
    """A bookie did not do what it was told; the sentence has the end of its log."""


@dataclass(slots=True)
class Member:
    """One bookie over all its processes."""

    bookie_id: str
    program: str
    words: Sequence[str]
    port: int
    log: Path
    is_apache: bool
    settings: Path
    process: subprocess.Popen[bytes] | None = None
    is_frozen: bool = False
    news: threading.Event = field(default_factory=threading.Event)
    """Set when it says something, when it ends, and by whoever watches its registration."""
    _follower: threading.Thread | None = None

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def spawn(self) -> None:
        self.process = subprocess.Popen(
            [self.program, *self.words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._follower = threading.Thread(target=self._follow, args=(self.process,), daemon=True)
        self._follower.start()

    def _follow(self, process: subprocess.Popen[bytes]) -> None:
        """Its words into its log, up to its end."""
        assert process.stdout is not None
        with self.log.open("ab", buffering=0) as log, process.stdout as words:
            for line in words:
                log.write(line)
                self.news.set()
        process.wait()
        self.news.set()

    def send(self, number: signal.Signals) -> None:
        if self.process is not None and self.runs:
            self.process.send_signal(number)

    def end(self, how: signal.Signals) -> None:
        """SIGKILL where it does not end of a SIGTERM."""
        if self.process is None:
            return
        self.thaw()
        self.send(how)
        try:
            self.process.wait(STOP_WAIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def freeze(self) -> None:
        self.send(signal.SIGSTOP)
        self.is_frozen = True

    def thaw(self) -> None:
        if self.is_frozen:
            self.send(signal.SIGCONT)
            self.is_frozen = False

    @property
    def accepts(self) -> bool:
        """Its port is open: Apache's bookies register before, and then say that they started."""
        with suppress(OSError), socket.create_connection((loopback(), self.port), timeout=1):
            return True
        return False

    @property
    def last_words(self) -> str:
        if self._follower is not None and not self.runs:
            self._follower.join(STOP_WAIT_S)
        with suppress(OSError):
            lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
            return "\n".join(lines[-LOG_TAIL:])
        return "no log"


@dataclass(slots=True)
class Bookies:
    """All members and what may be done to them by number; a context manager, at first all down."""

    folder: Path
    metadata: Metadata
    kind: str
    classpath: str
    durability: str
    certificates: Certificates
    users: Users
    tickets: Tickets | None
    """None: no bookie can be asked to take any."""
    always_tls: bool
    """Also in tests that say nothing of it."""
    always_sasl: bool
    """The same of passwords."""
    members: list[Member] = field(default_factory=list)
    _session: KazooClient | None = None
    _texts: dict[Path, str] = field(default_factory=dict)
    """Files of settings as they were made."""
    _has_tls: bool = False
    _way_in: str = ""
    """What bookies ask of clients from their next start on: TLS, a mechanism of authentication."""

    def __enter__(self) -> "Bookies":
        self._session = self.metadata.connect()
        self._has_tls, self._way_in = self.always_tls, self._usual_way_in
        letters = KINDS[self.kind]
        stock = {n: self._stock(n) for n, letter in enumerate(letters) if letter == "a"}
        if stock:
            next(iter(stock.values())).create_cluster()
        for number in range(BOOKIES):
            if number in stock:
                self.members.append(self._apache(number, stock[number]))
            else:
                self.members.append(self._ours(number))
        self._configure()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for member in self.members:
            member.thaw()
            member.send(signal.SIGTERM)
        for member in self.members:
            member.end(signal.SIGTERM)
        if self._session is not None:
            self._session.stop()
            self._session.close()

    # What a test may ask for
    def heal(self, count: int) -> None:
        """The first `count` serve, nobody else."""
        for member in self.members[count:]:
            member.end(signal.SIGTERM)
            self._forget(member)
        self._start(self.members[:count])

    def start(self, number: int) -> None:
        """Answered once it serves."""
        self._start([self.members[number]])

    def stop(self, number: int) -> None:
        self.members[number].end(signal.SIGTERM)
        self._forget(self.members[number])

    def kill(self, number: int) -> None:
        """Its registration stays until its session ends, as after a crash."""
        self.members[number].end(signal.SIGKILL)

    def freeze(self, number: int) -> None:
        self.members[number].freeze()

    def thaw(self, number: int) -> None:
        self.members[number].thaw()

    def tls(self, mode: str) -> None:
        """`required`, or `usual` as in all other tests; from the next start of each on, all end."""
        self._has_tls = mode == "required" or self.always_tls
        self._configure()

    def authentication(self, way_in: str) -> None:
        """`digest-md5`, `gssapi`, `tls`, or `usual` as in all other tests; from the next start of
        each on, all end."""
        self._way_in = self._usual_way_in if way_in == "usual" else way_in
        self._configure()

    # How
    @property
    def _usual_way_in(self) -> str:
        return "digest-md5" if self.always_sasl else ""

    def _configure(self) -> None:
        """Ends all: what they ask of clients is in their settings."""
        for member in self.members:
            member.end(signal.SIGTERM)
            self._forget(member)
            text = self._texts.setdefault(member.settings, member.settings.read_text())
            if self._has_tls:
                made, name = self.certificates, member.bookie_id
                text += made.for_apache(name) if member.is_apache else made.for_ours(name)
            if self._way_in:
                text += self._authentication(member)
            member.settings.write_text(text)

    def _authentication(self, member: Member) -> str:
        if member.is_apache:
            return self.users.for_apache()
        if self._way_in == "gssapi":
            assert self.tickets is not None  # else the tests are skipped
            return self.tickets.for_ours()
        return self.users.for_ours(self._way_in)

    def _start(self, members: Sequence[Member]) -> None:
        for member in members:
            member.thaw()
        down = [member for member in members if not member.runs]
        before = {}
        for member in down:
            if member.is_apache:
                self._forget(member)  # it would wait for the end of its own old session
            before[member.bookie_id] = self._registered(member)
            member.spawn()
        for member in down:
            self._until_it_serves(member, before[member.bookie_id])

    def _until_it_serves(self, member: Member, before: int | None) -> None:
        """`before`: its registration that was there before it began."""
        deadline = time.monotonic() + BOOT_WAIT_S
        while True:
            member.news.clear()
            if self._registered(member) not in (None, before) and member.accepts:
                return
            left = deadline - time.monotonic()
            if not member.runs or left <= 0:
                why = f"does not serve after {BOOT_WAIT_S:.0f} s" if member.runs else "ended"
                raise FleetError(f"{member.bookie_id} {why}; its log ends:\n{member.last_words}")
            member.news.wait(left)

    def _registered(self, member: Member) -> int | None:
        """Of which transaction its registration is; its next change is news."""
        assert self._session is not None
        path = self._registration(member)
        stat = self._session.exists(path, watch=lambda _event: member.news.set())
        return None if stat is None else int(stat.czxid)

    def _forget(self, member: Member) -> None:
        assert self._session is not None
        with suppress(NoNodeError):
            self._session.delete(self._registration(member))

    @staticmethod
    def _registration(member: Member) -> str:
        return f"/{ROOT}/available/{member.bookie_id}"

    def _stock(self, number: int) -> StockBookie:
        bookie_id = IDS[number]
        own, root = self.folder / bookie_id, f"{self.metadata.address}/{ROOT}"
        flags = (*SMALL_JVM, self.users.jvm_flag)
        if self.always_tls:
            flags += self.certificates.jvm_flags(bookie_id)
        stock = StockBookie(own, root, free_port(), self.classpath, flags)
        stock.configure({**APACHE_SETTINGS, "bookieId": bookie_id})
        return stock

    def _apache(self, number: int, stock: StockBookie) -> Member:
        bookie_id = IDS[number]
        log = self.folder / f"{bookie_id}.log"
        return Member(
            bookie_id, "java", stock.serving(), stock.port, log,
            is_apache=True, settings=stock.file,
        )  # fmt: skip

    def _ours(self, number: int) -> Member:
        bookie_id, port = IDS[number], free_port()
        own = self.folder / bookie_id
        for name in ("journal", "ledger-0"):
            (own / name).mkdir(parents=True)
        settings = {
            "bookieId": bookie_id,
            "metadata": self.metadata.url(),
            "ports": {"stock": port, "run": 0, "admin": 0, "http": 0},
            "journal": {"directory": str(own / "journal")},
            "ledgers": [{"directory": str(own / "ledger-0")}],
            "durability": dict(DURABILITY[self.durability]),
            "storage": {
                "ringBytes": 12 * MIB,
                "logFileBytes": 16 * MIB,
                "collectIntervalSeconds": 1,
                "collectGraceSeconds": 1,
            },
        }
        file = own / "bookie.yaml"
        file.write_text(yaml.safe_dump(settings), encoding="utf-8")
        words = ["-m", "bookie", "serve", "--config", str(file)]
        log = self.folder / f"{bookie_id}.log"
        return Member(bookie_id, sys.executable, words, port, log, is_apache=False, settings=file)
