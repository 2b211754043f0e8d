"""One broker on one fleet, and what stories do with it: topics, producers, readers, claims."""

import signal
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bookie.testing.apache import jvm
from pulsar_broker import Broker, BrokerError
from pulsar_claims import Claims, Document
from pulsar_copies import SMALL_JVM, copies
from pulsar_fleet import Bookies
from pulsar_judge import Seen, Written
from pulsar_release import HERE, Release
from pulsar_tls import Secured

PROGRAMS: Final = HERE / "programs"
NAMESPACE: Final = "persistent/public/default"
PROGRAM_WAIT_S: Final = 180.0


@dataclass(slots=True)
class Producer:
    """A producer under way, and where its notes are."""

    process: subprocess.Popen[bytes]
    notes: Path

    def stop(self) -> Written:
        """SIGTERM: it waits for what is under way."""
        self.process.send_signal(signal.SIGTERM)
        return self.finish()

    def finish(self) -> Written:
        try:
            self.process.wait(PROGRAM_WAIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        return self.written()

    def written(self) -> Written:
        return Written.of(self.notes.read_text(encoding="utf-8") if self.notes.exists() else "")


@dataclass(slots=True, kw_only=True)
class World(Claims):
    """`secured`: how JVMs come to bookies and ZooKeeper."""

    release: Release
    fleet: Bookies
    broker: Broker
    folder: Path
    secured: Secured
    name: str = "pulsar"
    _files: int = 0

    # Topics
    def create(self, topic: str, *, partitions: int, subscriptions: Iterable[str] = ()) -> None:
        """`subscriptions` hold what comes from now on."""
        self.broker.ask("PUT", f"{NAMESPACE}/{topic}/partitions", partitions)
        for subscription in subscriptions:
            seen = self.read(topic, subscription, "--only-subscribe")
            if not seen.whole:
                raise BrokerError(f"no subscription {subscription} of {topic}: {self.folder}")

    def stats(self, topic: str, partition: int) -> Document:
        return dict(self.broker.ask("GET", f"{NAMESPACE}/{topic}-partition-{partition}/stats"))

    def ledgers(self, topic: str, partitions: int) -> list[int]:
        """Of all partitions, from first to last."""
        found = []
        for partition in range(partitions):
            path = f"{NAMESPACE}/{topic}-partition-{partition}/internalStats"
            found += [int(one["ledgerId"]) for one in self.broker.ask("GET", path)["ledgers"]]
        return found

    # Programs
    def produce(self, topic: str, *flags: str) -> Producer:
        notes = self._file(topic, "notes")
        words = ["produce.py", *self._common(topic), "--notes", str(notes), *flags]
        return Producer(self._client(words), notes)

    def read(self, topic: str, subscription: str, *flags: str) -> Seen:
        seen = self._file(topic, "seen")
        words = ["consume.py", *self._common(topic), "--subscription", subscription]
        self._done(self._client([*words, "--seen", str(seen), *flags]))
        return Seen.of(seen.read_text(encoding="utf-8") if seen.exists() else "")

    def schemas(self, what: str, topic: str) -> str:
        """Empty, or what it found."""
        return self._done(self._client(["schemas.py", what, *self._common(topic)]))

    def java(self, main: str, *words: str) -> Producer:
        """A program of ours on Pulsar's or BookKeeper's Java client; notes are its last word."""
        flags = (*SMALL_JVM, *self.secured.flags)
        command = jvm(self.release.classpath, main, words, folder=self.folder, flags=flags)
        return Producer(self._started(["java", *command]), Path(words[-1]))

    def copies(self, ledgers: Iterable[int]) -> dict[int, tuple[bool, int]]:
        """Whether ZooKeeper knows it, and how many bookies hold entries of it."""
        return copies(
            ledgers,
            zookeeper=self.fleet.zookeeper,
            classpath=self.release.classpath,
            secured=self.secured,
            folder=self.folder,
        )

    def _common(self, topic: str) -> list[str]:
        return ["--url", self.broker.url, "--topic", topic, "--seed", str(self.seed)]

    def _client(self, words: list[str]) -> subprocess.Popen[bytes]:
        program, *options = words
        return self._started([str(self.release.python), str(PROGRAMS / program), *options])

    def _started(self, words: list[str]) -> subprocess.Popen[bytes]:
        with (self.folder / "programs.log").open("ab") as log:
            return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def _done(self, process: subprocess.Popen[bytes]) -> str:
        try:
            code = process.wait(PROGRAM_WAIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return f"it took longer than {PROGRAM_WAIT_S:.0f} s"
        return f"it ended with {code}: {self.folder}/programs.log" if code else ""

    def _file(self, topic: str, ending: str) -> Path:
        self._files += 1
        return self.folder / f"{topic}-{self._files}.{ending}"
