"""One broker of Apache Pulsar: a JVM of this machine, asked over its HTTP administration.

Its settings are those of the release, changed by what stands here; its ports stay over restarts.
"""

import json
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bookie.hosts import loopback
from bookie.metadata.embedded import free_port
from bookie.testing.apache import jvm, run_command
from pulsar_release import Release

CLUSTER: Final = "pulsar"
SESSION_S: Final = 6.0
"""So long topics belong to a broker that was killed."""
FLAGS: Final = (
    "-Xms256m",
    "-Xmx512m",
    "-XX:MaxDirectMemorySize=512m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "--add-opens=java.management/sun.management=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.platform=ALL-UNNAMED",
    "--add-opens=jdk.management/com.sun.management.internal=ALL-UNNAMED",
)
SETTINGS: Final = {
    "clusterName": CLUSTER,
    "managedLedgerDefaultEnsembleSize": "3",
    "managedLedgerDefaultWriteQuorum": "3",
    "managedLedgerDefaultAckQuorum": "2",
    "managedLedgerMaxEntriesPerLedger": "200",  # ledgers end often
    "managedLedgerMinLedgerRolloverTimeMinutes": "0",
    "managedLedgerCacheSizeMB": "16",
    "managedLedgerCursorPositionFlushSeconds": "1",
    "retentionCheckIntervalInSeconds": "3",
    "brokerDeleteInactiveTopicsEnabled": "false",
    "loadBalancerEnabled": "false",
    "transactionCoordinatorEnabled": "true",
    "systemTopicEnabled": "true",
    "topicLevelPoliciesEnabled": "true",
    "metadataStoreSessionTimeoutMillis": str(round(SESSION_S * 1000)),
    "bookkeeperNumberOfChannelsPerBookie": "2",
    "numIOThreads": "2",
    "numHttpServerThreads": "4",
    # With more, topics that load at once share one reader of the snapshots of transactions without
    # a lock (4.0.8, TableView.internalReadLatest): all but one wait 30 s for what that one took.
    "numTransactionReplayThreadPoolSize": "1",
    "bookkeeperClientNumWorkerThreads": "2",
}
"""What of broker.conf is not as released."""
SESSION_MORE_S: Final = 2.0
"""ZooKeeper ends sessions at its own ticks."""
START_WAIT_S: Final = 120.0
STOP_WAIT_S: Final = 60.0
ASK_WAIT_S: Final = 60.0
POLL_S: Final = 0.2
LOG_TAIL: Final = 12


class BrokerError(Exception):
    """The broker did not do what it was asked for; the sentence has what it said."""


@dataclass(slots=True)
class Broker:
    """`zookeeper`: host and port; the bookies are registered below /ledgers in it.

    `settings`: beyond those of here. `flags`: of its JVM, and of whatever initialises its cluster.
    """

    release: Release
    folder: Path
    zookeeper: str
    settings: Mapping[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    port: int = field(default_factory=free_port)
    web_port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """For clients."""
        return f"pulsar://{loopback()}:{self.port}"

    @property
    def log(self) -> Path:
        return self.folder / "broker.log"

    def initialise(self) -> None:
        """The metadata of a Pulsar cluster on bookies that are there; once."""
        self.folder.mkdir()
        (self.folder / "broker.conf").write_text(self._settings(), encoding="utf-8")
        words = ["--cluster", CLUSTER, "--metadata-store", f"zk:{self.zookeeper}"]
        words += ["--configuration-metadata-store", f"zk:{self.zookeeper}"]
        ledgers = f"zk+hierarchical://{self.zookeeper}/ledgers"
        words += ["--existing-bk-metadata-service-uri", ledgers]
        words += ["--web-service-url", self._web, "--broker-service-url", self.url]
        main = "org.apache.pulsar.PulsarClusterMetadataSetup"
        run_command(["java", *self._jvm(main, *words)], wait_s=START_WAIT_S)

    def start(self) -> None:
        """Until it says that it is ready."""
        words = ["--broker-conf", str(self.folder / "broker.conf")]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                ["java", *self._jvm("org.apache.pulsar.PulsarBrokerStarter", *words)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        began = time.monotonic()
        while not self._is_ready():
            if self.process.poll() is not None:
                raise BrokerError(f"the broker ended; its log ends:\n{self.last_words}")
            if time.monotonic() - began > START_WAIT_S:
                raise BrokerError(f"the broker is not ready after {START_WAIT_S:.0f} s: {self.log}")
            time.sleep(POLL_S)

    def stop(self) -> None:
        """As an operator does it; SIGKILL where it does not end of that."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """And its session in ZooKeeper ends as well. A broker that is back at its address before
        that takes what its forerunner owned for its own, and loses it with topics half loaded."""
        self._end(signal.SIGKILL)
        time.sleep(SESSION_S + SESSION_MORE_S)

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """The answer to a request of the administration; BrokerError has what it refused."""
        content = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        url = f"{self._web}/admin/v2/{path}"
        request = urllib.request.Request(url, data=content, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=ASK_WAIT_S) as answer:
                said = answer.read()
        except urllib.error.HTTPError as error:
            raise BrokerError(f"{method} {path}: {error.code} {error.read()!r}") from error
        except OSError as error:
            raise BrokerError(f"{method} {path}: {error}") from error
        return json.loads(said) if said else None

    @property
    def last_words(self) -> str:
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-LOG_TAIL:])

    def _is_ready(self) -> bool:
        try:
            self.ask("GET", "namespaces/public")
        except BrokerError:
            return False
        return True

    def _end(self, how: signal.Signals) -> None:
        process, self.process = self.process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(STOP_WAIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise BrokerError(
                f"the broker did not end within {STOP_WAIT_S:.0f} s of {how}"
            ) from None

    @property
    def _web(self) -> str:
        return f"http://{loopback()}:{self.web_port}"

    def _settings(self) -> str:
        """The release's broker.conf; of two lines with one name the last one counts."""
        own = {
            **SETTINGS,
            "metadataStoreUrl": f"zk:{self.zookeeper}",
            "advertisedAddress": loopback(),
            "bindAddress": loopback(),
            "brokerServicePort": str(self.port),
            "webServicePort": str(self.web_port),
            **self.settings,
        }
        released = (self.release.home / "conf" / "broker.conf").read_text(encoding="utf-8")
        return released + "\n" + "".join(f"{name}={value}\n" for name, value in own.items())

    def _jvm(self, main: str, *words: str) -> list[str]:
        flags = (*FLAGS, *self.flags)
        return jvm(self.release.classpath, main, words, folder=self.folder, flags=flags)
