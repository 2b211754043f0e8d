"""A fleet on this machine, handled as its user handles it: `bookie-operator local`, nothing else.

The operator runs as a process of ours, not detached, so that another manifest can be given to the
next one: a SIGTERM ends it alone, its bookies run on and are adopted.
"""

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import yaml
from judge_java import ROOT

EXAMPLE: Final = ROOT / "examples" / "bookiecluster.yaml"
MODES: Final[Mapping[str, Mapping[str, object]]] = {
    "memory": {"journalWriteData": False, "ack": "memory"},
    "sync": {"journalWriteData": False, "ack": "sync"},
    "journal": {"journalWriteData": True},
}
"""Durability modes, by the fields of the spec that make them."""
TLS_MODES: Final = ("Required", "Off")
"""Of the spec: what a fleet has unless it says otherwise, and everything in plain."""
TLS_VARIABLE: Final = "BOOKIE_TLS__DIRECTORY"
STOCK_CLIENT: Final = "client-client"
"""The folder of credentials for applications, beside that of the person: they can do less."""
CLUSTER: Final = "demo"
"""The example's name."""
API_VERSION: Final = "bookkeeper.bookie-operator.dev/v1alpha1"
BOOKIES: Final = 5
UP_WAIT_S: Final = 180.0
WHOLE_WAIT_S: Final = 300
COMMAND_WAIT_S: Final = 420.0
STOP_WAIT_S: Final = 60.0
POLL_S: Final = 0.5
NO_MORE: Final[Mapping[str, str]] = MappingProxyType({})

Document = dict[str, Any]


class FleetError(Exception):
    """A command failed; the sentence has what it said."""


@dataclass(slots=True)
class Fleet:
    """One cluster in `folder`. `environment`: of the operator and all that it starts; `python`: who
    runs them, and so whose programs they are."""

    folder: Path
    mode: str
    tls: str = TLS_MODES[0]
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    spec: Document = field(default_factory=dict)
    operator: subprocess.Popen[bytes] | None = None
    python: str = sys.executable
    audits: int = 0

    def up(self, **changes: object) -> None:
        """With the example's spec, the mode, and `changes` of now and before; until Available."""
        self.spec |= changes
        manifest = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
        # No Spark: four JVMs on two cores would be what is measured.
        manifest["spec"] |= {"replicas": BOOKIES, "repair": {"engine": "inline"}}
        if self.tls != TLS_MODES[0]:
            manifest["spec"]["tls"] = {"mode": self.tls}
        manifest["spec"] |= {**MODES[self.mode], **self.spec}
        path = self.folder / "manifest.yaml"
        path.write_text(yaml.safe_dump(manifest), encoding="utf-8")
        self.end_operator()
        before = self._generation()
        with (self.folder / "operator.log").open("ab") as log:
            self.operator = subprocess.Popen(
                self._words("up", str(path)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=dict(self.environment),
            )
        self._until_available(later_than=before if changes else before - 1)

    def down(self) -> None:
        """Everything, gracefully; the disks stay."""
        self._run("down")
        self.end_operator()

    def end_operator(self) -> None:
        """Of the operator alone: bookies and ZooKeeper run on, and the next one adopts them."""
        if self.operator is not None:
            self.operator.terminate()
            self.operator.wait(STOP_WAIT_S)
            self.operator = None

    def kill(self, bookie: str) -> None:
        self._run("kill", bookie)

    def replace_disk(self, bookie: str, disk: str) -> None:
        self._run("replace-disk", bookie, disk)

    def wait(self, *, timeout_s: int = WHOLE_WAIT_S) -> None:
        """Until the product says that all is whole."""
        self._run("wait", "--timeout", str(timeout_s))

    def audit(self) -> None:
        """One that a person asks for, until it has ended: what the status says afterwards is of
        entries that were acknowledged before this call, too."""
        self.audits += 1
        name = f"audit-{self.audits}"
        task = {"apiVersion": API_VERSION, "kind": "BookieTask", "metadata": {"name": name}}
        path = self.folder / f"{name}.yaml"
        path.write_text(yaml.safe_dump({**task, "spec": {"cluster": CLUSTER, "type": "audit"}}))
        self._run("task", str(path))
        told = self.cluster / "tasks" / f"{name}.status.json"
        until(f"an audit that ended: see {told}", lambda: _has_succeeded(told), WHOLE_WAIT_S)

    def metadata(self) -> str:
        return self._run("metadata").strip()

    def credentials(self) -> Path | None:
        """Those of a stock client, where `local env` says that they are needed."""
        person = self.variables().get(TLS_VARIABLE)
        return None if person is None else Path(person).with_name(STOCK_CLIENT)

    def variables(self) -> dict[str, str]:
        """What `local env` exports for a person's shell: an address and credentials."""
        lines = (shlex.split(line) for line in self._run("env").splitlines())
        return dict(word.split("=", 1) for _export, word in lines)

    def save_status(self, name: str) -> Path:
        """The status of now, as a file for the judge."""
        path = self.folder / f"{name}.json"
        path.write_text(self._run("status", "--output", "json"), encoding="utf-8")
        return path

    def rebuild_index(self, disk: Path) -> None:
        """Of a bookie that is stopped."""
        self.bookie("index", "rebuild", "--yes", str(disk))

    def disks(self, bookie: str) -> list[Path]:
        """Its ledger directories."""
        return sorted((self.cluster / "volumes" / bookie).glob("ledger-*"))

    @property
    def cluster(self) -> Path:
        return self.folder / "cluster"

    def _words(self, *words: str) -> list[str]:
        local = [self.python, "-m", "bookie_operator", "local", *words]
        return [*local, "--dir", str(self.cluster)]

    def _run(self, *words: str) -> str:
        return self._done(self._words(*words))

    def bookie(self, *words: str, given: str = "", more: Mapping[str, str] = NO_MORE) -> str:
        """What `bookie ...` prints. `given`: its input; `more`: variables of its environment."""
        environment = {**self.environment, **more}
        return self._done(self.bookie_words(*words), given=given, environment=environment)

    def bookie_words(self, *words: str) -> list[str]:
        """The command line of `bookie ...`."""
        return [self.python, "-m", "bookie", *words]

    def _done(
        self, words: list[str], *, given: str = "", environment: Mapping[str, str] | None = None
    ) -> str:
        done = subprocess.run(
            words,
            input=given,
            capture_output=True,
            text=True,
            timeout=COMMAND_WAIT_S,
            env=dict(self.environment if environment is None else environment),
            check=False,
        )
        if done.returncode:
            said = (done.stderr or done.stdout).strip()
            raise FleetError(f"{' '.join(words[2:])} ended with {done.returncode}: {said}")
        return done.stdout

    def _seen(self) -> Document:
        try:
            found: Document = json.loads(self._run("status", "--output", "json"))
        except (FleetError, json.JSONDecodeError):
            return {}  # no operator yet
        return found

    def _generation(self) -> int:
        path = self.cluster / "status.json"
        if not path.exists():
            return 0
        return int(json.loads(path.read_text(encoding="utf-8"))["metadata"]["generation"])

    def _until_available(self, *, later_than: int) -> None:
        def is_available() -> bool:
            seen = self._seen()
            status = seen.get("status", {})
            generation = seen.get("metadata", {}).get("generation", later_than)
            conditions = {one["type"]: one["status"] for one in status.get("conditions", ())}
            is_of_now = later_than < generation == status.get("observedGeneration")
            if is_of_now and conditions.get("Available") == "True":
                return True
            if self.operator is None or self.operator.poll() is not None:
                raise FleetError(f"the operator ended: see {self.folder}/operator.log")
            return False

        until(f"Available: see {self.folder}/operator.log", is_available, UP_WAIT_S)


def _has_succeeded(told: Path) -> bool:
    """What the operator's file says of a task. FleetError: it ended in another way."""
    phase = json.loads(told.read_text(encoding="utf-8"))["phase"] if told.exists() else ""
    if phase == "Failed":
        raise FleetError(f"the audit failed: see {told}")
    return bool(phase == "Succeeded")


def until(what: str, is_so: Callable[[], bool], seconds: float) -> None:
    """Polls other processes. FleetError: it is not so in that time."""
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            raise FleetError(f"waited {seconds:.0f} s for {what}")
        time.sleep(POLL_S)
