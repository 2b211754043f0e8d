"""One fleet of this machine, handled by the programs of two releases in turn.

Whose programs serve is read from the processes and their status, and what clients see from command
lines: nothing of either release is imported.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from judge_fleet import COMMAND_WAIT_S, Document, Fleet, until

ROLL_WAIT_S: Final = 180.0
AS_JSON: Final = ("--output", "json")
SCHEDULES: Final = ("@every 2h", "@every 1h")
"""Of audits: both are longer than the story."""
ON_DISKS: Final = (
    "disk", "boot_epoch", "ledgers", "limbo", "fenced", "losses", "fence_boundary",
    "unchecked_boundary", "suspicions",
)  # fmt: skip
"""Of `bookie inspect`: what both releases must find alike."""
IMAGE: Final = "bookie-operator/bookie"
"""On this machine an image is only a name: another one makes the operator restart each bookie, with
the programs that the operator itself runs on."""


@dataclass(frozen=True, slots=True)
class Side:
    """One release: its version, and the fleet as its programs handle it."""

    version: str
    fleet: Fleet

    @property
    def image(self) -> str:
        return f"{IMAGE}:{self.version}"

    def ledger(self, *words: str, given: str = "") -> Any:
        """What `bookie ledger ...` of this release prints for a person."""
        words = ("ledger", *words, *AS_JSON)
        return json.loads(self.fleet.bookie(*words, given=given, more=self.fleet.variables()))

    def inspected(self, bookie: str) -> list[Document]:
        """What `bookie inspect` of this release finds on each disk of a bookie that is stopped."""
        folders = sorted((self.fleet.cluster / "volumes" / bookie).iterdir())
        rows = json.loads(self.fleet.bookie("inspect", *map(str, folders), *AS_JSON))
        return [{fact: row.get(fact) for fact in ON_DISKS} for row in rows]

    @contextmanager
    def begun(self) -> Iterator[tuple[int, subprocess.Popen[str]]]:
        """A ledger with one entry, and its writer, which waits for lines: `bookie ledger write`."""
        before = self._own_ledgers()
        with subprocess.Popen(
            self.fleet.bookie_words("ledger", "write", "--lines", *AS_JSON),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**self.fleet.environment, **self.fleet.variables()},
        ) as process:
            try:
                assert process.stdin is not None
                process.stdin.write("its first entry\n")
                process.stdin.flush()
                until("a ledger to be begun", lambda: self._own_ledgers() > before, COMMAND_WAIT_S)
                [ledger_id] = self._own_ledgers() - before
                yield ledger_id, process
            finally:
                process.kill()

    def _own_ledgers(self) -> set[int]:
        """Those of native clients here: the judge's have a password."""
        return {one["ledger_id"] for one in self.ledger("list") if not one["has_password"]}

    def takes_over(self, before: "Side") -> None:
        """Its operator in place of the other one's; returns once it has looked at the bookies.

        Another schedule of audits restarts nobody, and only this operator can have observed it.
        """
        before.fleet.end_operator()
        self.fleet.spec = dict(before.fleet.spec)
        first, second = ({"schedule": one} for one in SCHEDULES)
        self.fleet.up(audit=second if self.fleet.spec.get("audit") == first else first)

    def roll(self) -> None:
        """Every bookie restarts with this release's programs, one at a time."""
        self.fleet.up(image=self.image)
        until("every bookie to have restarted", self._is_rolled, ROLL_WAIT_S)
        self.fleet.wait()

    def _is_rolled(self) -> bool:
        bookies = self.bookies().values()
        return all(one["isUpdated"] and one["version"] == self.version for one in bookies)

    def bookies(self) -> dict[str, Document]:
        """Of the status, by name."""
        return {one["id"]: one for one in self.status()["bookies"]}

    def status(self) -> Document:
        path = self.fleet.save_status("now")
        found: Document = json.loads(path.read_text(encoding="utf-8"))["status"]
        return found

    def serves(self, bookie: str) -> bool:
        """The bookie's process runs the programs of this release, and says so."""
        command = Path(f"/proc/{self.pid(bookie)}/cmdline").read_bytes().split(b"\0")
        says = self.bookies()[bookie]["version"]
        return os.fsdecode(command[0]) == self.fleet.python and says == self.version

    def pid(self, bookie: str) -> int:
        record = self.fleet.cluster / "bookies" / bookie / "process.json"
        return int(json.loads(record.read_text(encoding="utf-8"))["process"]["pid"])
