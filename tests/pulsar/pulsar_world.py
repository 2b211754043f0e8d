"""One broker on one fleet, and what stories do with it: topics, producers, readers, claims."""

import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bookie.testing.apache import jvm
from pulsar_broker import Broker, BrokerError
from pulsar_fleet import BOOKIES, Bookies
from pulsar_judge import Seen, Written
from pulsar_release import HERE, Release
from pulsar_tls import Secured

PROGRAMS: Final = HERE / "programs"
NAMESPACE: Final = "persistent/public/default"
PROGRAM_WAIT_S: Final = 180.0
POLL_S: Final = 0.5
SMALL_JVM: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Claim:
    """`detail`: what was found where it does not hold."""

    words: str
    holds: bool
    detail: str = ""


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


@dataclass(slots=True)
class World:
    """`secured`: how JVMs come to bookies and ZooKeeper."""

    release: Release
    fleet: Bookies
    broker: Broker
    folder: Path
    seed: int
    secured: Secured
    claims: list[Claim] = field(default_factory=list)
    figures: dict[str, Document] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)
    _files: int = 0

    # What came of it
    def say(self, words: str) -> None:
        print(f"pulsar {time.monotonic() - self.began:4.0f} s: {words}", flush=True)

    def claim(self, words: str, found: Iterable[str] | str | bool = ()) -> None:
        """It holds where nothing is found against it; a truth value stands for itself."""
        if isinstance(found, bool):
            self.claims.append(Claim(words, found))
        else:
            detail = found if isinstance(found, str) else "; ".join(found)
            self.claims.append(Claim(words, not detail, detail))
        last = self.claims[-1]
        self.say(f"{'holds' if last.holds else 'FAILED'}: {words} {last.detail}".rstrip())

    def drawn(self, what: str) -> random.Random:
        """A source of choices that the seed and this name decide."""
        return random.Random(f"{what} {self.seed}")

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
        """Whether ZooKeeper knows it, and how many bookies hold entries of it. BrokerError unless
        every bookie answered of every ledger."""
        settings = self.folder / "client.properties"
        uri = f"zk+hierarchical://{self.fleet.zookeeper}/ledgers"
        every = {"metadataServiceUri": uri, **self.secured.client}
        settings.write_text("".join(f"{k}={v}\n" for k, v in every.items()), encoding="utf-8")
        words = [str(settings), *(str(ledger) for ledger in ledgers)]
        flags = (*SMALL_JVM, *self.secured.flags)
        command = jvm(self.release.classpath, "Copies", words, folder=self.folder, flags=flags)
        with (self.folder / "programs.log").open("ab") as log:
            done = subprocess.run(
                ["java", *command], stdout=subprocess.PIPE, stderr=log, timeout=PROGRAM_WAIT_S
            )
        lines = [line.split() for line in done.stdout.decode().splitlines()]
        answered = [line for line in lines if line[-1] == str(BOOKIES)]
        if done.returncode or len(answered) < len(words) - 1:
            raise BrokerError(
                f"{len(answered)} of {len(words) - 1} ledgers were answered for by all {BOOKIES} "
                f"bookies: {self.folder}/programs.log"
            )
        return {int(ledger): (state == "known", int(held)) for ledger, state, held, _ in lines}

    def until(self, lacking: Callable[[], str], *, seconds: float) -> str:
        """Empty once nothing is lacking; else what is, after so many seconds."""
        began = time.monotonic()
        while missing := lacking():
            if time.monotonic() - began > seconds:
                return f"after {seconds:.0f} s: {missing}"
            time.sleep(POLL_S)
        return ""

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
