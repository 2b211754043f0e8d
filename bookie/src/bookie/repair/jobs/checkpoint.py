"""What a repair that was cut off had done, so that the next one need not ask for it again.

It saves work and decides nothing: a ledger counts as done only while its metadata is at the version
it was done at and the indexes list all its copies, every ledger is audited in the end whether or
not it was skipped, and the bookies judge each mark by themselves. A run that comes to its end takes
it away. Here it is a folder: one file per run, one line per ledger that is done, synced as it
grows; `resume` keeps it in the metadata store. Only the driver writes.
"""

import json
import os
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence, Set
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from bookie.errors import SettingsError
from bookie.ids import BookieId, LedgerId
from bookie.repair.mend.outcome import LedgerOutcome

SCHEMA: Final = 1
AGE_MAX_S: Final = 7 * 24 * 3600.0
"""What was done earlier does not count: disks rot."""
LINES_AT_ONCE: Final = 2000
METADATA: Final = "metadata"
"""Instead of a folder: in the metadata store, under the cluster's own values."""


def is_done(outcome: LedgerOutcome, *, digests: bool) -> bool:
    """Nothing is in the way of it, and of a deep look: no copy was left unread."""
    return not (outcome.reason or (digests and outcome.before.unknown))


class Checkpoint(Protocol):
    """What a repair asks of one. `touched`: bookies that earlier runs wrote to, and must sync."""

    @property
    def touched(self) -> Collection[BookieId]: ...

    async def claimed(self, wanted: Sequence[LedgerId]) -> list[Sequence[LedgerId]]:
        """Those of `wanted` (in rising order) that it says were done, in groups."""

    def same(self, group: Sequence[LedgerId], versions: Mapping[LedgerId, int]) -> list[LedgerId]:
        """Of one such group, as their metadata is now, those that this word still holds of."""

    def go_on(self, done: Set[LedgerId]) -> None:
        """These need not be done again by this run, and stay on record."""

    def kept(self) -> AbstractAsyncContextManager[None]:
        """Around the work: what is added is on record, at the latest some seconds later."""

    def add(self, outcomes: Sequence[LedgerOutcome]) -> None:
        """What was looked after; what something is in the way of is not done."""

    async def end(self) -> None:
        """The run came to its end: the next one begins from marks and metadata alone."""


@dataclass(slots=True)
class FolderCheckpoint:
    """Lines of one cluster in one folder. `digests`: every copy of a ledger was read and verified,
    so that a line without it does for a shallow repair only.
    """

    folder: Path
    instance_id: str
    run_id: str
    digests: bool = False
    clock: Callable[[], float] = time.time
    touched: set[BookieId] = field(default_factory=set, init=False)
    _seen: list[Path] = field(default_factory=list, init=False)
    _lines_of: dict[LedgerId, LedgerOutcome] = field(default_factory=dict, init=False)

    async def claimed(self, wanted: Sequence[LedgerId]) -> list[Sequence[LedgerId]]:
        self._lines_of = self.load()
        known = [ledger_id for ledger_id in wanted if ledger_id in self._lines_of]
        return [known[at : at + LINES_AT_ONCE] for at in range(0, len(known), LINES_AT_ONCE)]

    def same(self, group: Sequence[LedgerId], versions: Mapping[LedgerId, int]) -> list[LedgerId]:
        lines = self._lines_of
        return [i for i in group if i in versions and versions[i] == lines[i].version]

    def go_on(self, done: Set[LedgerId]) -> None:
        self.touched |= {BookieId(b) for i in done for b in self._lines_of[i].touched}
        self._lines_of = {}

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        yield  # each line is synced when it is added

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
        """Durable when it returns."""
        done = [o.row() for o in outcomes if is_done(o, digests=self.digests)]
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

    async def end(self) -> None:
        for path in self._seen:
            path.unlink(missing_ok=True)
