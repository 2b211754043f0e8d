"""What a repair that was cut off had done, so that the next one need not ask for it again.

One file per run in a folder, one line per ledger that is done, synced as it grows; only the driver
writes. It saves work and decides nothing: a line counts only while the ledger's metadata is at the
version it was done at and the indexes list all its copies, every ledger is audited in the end
whether or not it was skipped, and the bookies judge each mark by themselves. A run that comes to
its end takes the folder's lines with it.
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bookie.protocol.errors import SettingsError
from bookie.protocol.ids import LedgerId
from bookie.repair.outcome import LedgerOutcome

SCHEMA: Final = 1
AGE_MAX_S: Final = 7 * 24 * 3600.0
"""Older lines do not count: disks rot."""


@dataclass(slots=True)
class Checkpoint:
    """Lines of one cluster in one folder. `digests`: every copy of a ledger was read and verified,
    so that a line without it does for a shallow repair only.
    """

    folder: Path
    instance_id: str
    run_id: str
    digests: bool = False
    clock: Callable[[], float] = time.time
    _seen: list[Path] = field(default_factory=list, init=False)

    def load(self) -> dict[LedgerId, LedgerOutcome]:
        """What earlier runs had done. SettingsError: the folder is another cluster's, or is not
        ours to read.
        """
        found: dict[LedgerId, LedgerOutcome] = {}
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._seen = sorted(self.folder.glob("*.jsonl"))
            for path in self._seen:
                found |= dict(self._lines(path))
        except OSError as error:
            raise SettingsError(f"checkpoint {self.folder}: {error.strerror}") from error
        return found

    def _lines(self, path: Path) -> Iterator[tuple[LedgerId, LedgerOutcome]]:
        # A line without its end was being written when its run was cut off.
        lines = path.read_bytes().split(b"\n")[:-1]
        if not lines:
            return
        try:
            head = json.loads(lines[0])
            self._check(path, head)
            if head["digests"] < self.digests or self.clock() - head["at"] > AGE_MAX_S:
                return
            for line in lines[1:]:
                outcome = LedgerOutcome.from_row(json.loads(line))
                yield LedgerId(outcome.ledger_id), outcome
        except (ValueError, KeyError, TypeError) as error:
            raise SettingsError(
                f"checkpoint {path}: found {error!r}, expected what a repair wrote; remove it"
            ) from error

    def _check(self, path: Path, head: Mapping[str, Any]) -> None:
        if head["schema"] != SCHEMA or head["instance_id"] != self.instance_id:
            raise SettingsError(
                f"checkpoint {path} is of cluster {head['instance_id']} (schema {head['schema']}), "
                f"this one is {self.instance_id} (schema {SCHEMA}): name another folder"
            )

    def add(self, outcomes: Sequence[LedgerOutcome]) -> None:
        """Durable when it returns. What something is in the way of is not done."""
        done = [outcome.row() for outcome in outcomes if not outcome.reason]
        if not done:
            return
        path = self.folder / f"{self.run_id}.jsonl"
        if path not in self._seen:
            self._seen.append(path)
            done.insert(0, self._head())
        with path.open("ab") as file:
            file.write(b"".join(json.dumps(row).encode() + b"\n" for row in done))
            file.flush()
            os.fsync(file.fileno())

    def _head(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "instance_id": self.instance_id,
            "digests": self.digests,
            "at": self.clock(),
        }

    def end(self) -> None:
        """The run came to its end: the next one begins from marks and metadata alone."""
        for path in self._seen:
            path.unlink(missing_ok=True)
