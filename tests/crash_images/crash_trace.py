"""Records one run: every change of disk and metadata is a crash point, with what was promised.

The recorder watches a simulated disk and wraps the metadata store. A crash point keeps the state
*before* an operation, hence after everything up to there; "a write of the metadata did happen, its
reply was lost" is the crash point right behind that write.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bookie.boot.takeover import BootSettings
from bookie.ids import BookieId, LedgerId
from bookie.metadata.memory import MemoryCluster, MemoryStore
from bookie.metadata.store import Cookie, StoredBoot, Versioned
from bookie.protocol.ledger import LedgerMetadata
from bookie.testing.inline import InlineDisk
from bookie.testing.volatile import Inode
from crash_promises import Promises

CHANGES: Final = frozenset(
    {"create", "write", "truncate", "rename", "unlink", "mkdir", "sync", "syncdir", "commit"}
)
"""Operations of a disk after which a crash may leave something else than before."""


@dataclass(frozen=True, slots=True)
class CrashPoint:
    """A moment at which everything stops. `settings`: those of the boot that comes next."""

    number: int
    before: str
    disk: InlineDisk
    cluster: MemoryCluster
    promises: Promises
    settings: BootSettings


class Recorder:
    """The trace of one run; `promises` and `settings` are kept up to date by whoever runs it."""

    def __init__(
        self, cluster: MemoryCluster, settings: BootSettings, promises: Promises | None = None
    ) -> None:
        self.cluster = cluster
        self.settings = settings
        self.promises = promises or Promises()
        self.points: list[CrashPoint] = []
        self.operations = 0
        self._interruption: tuple[int, Callable[[], None]] | None = None
        self._disk: InlineDisk | None = None
        self._known: dict[int, tuple[Inode, Inode]] = {}

    def watch(self, disk: InlineDisk) -> None:
        """From now on that disk is the one of the run."""
        if self._disk is not None:
            self._disk.watch(None)
        self._disk = disk
        disk.watch(self._before)

    def _before(self, operation: str, path: Path) -> None:
        # The file of a database changes with its commit, not with the steps before.
        is_step = path.suffix == ".sqlite" and operation in ("write", "sync")
        if operation in CHANGES and not is_step:
            self._interrupt()
            self.operations += 1
            self.cut(f"{operation} {path.parent.name}/{path.name}")

    def interrupt_after(self, operations: int, work: Callable[[], None]) -> None:
        """Something comes in once so many more operations were done, while the next is begun."""
        self._interruption = (self.operations + operations, work)

    def _interrupt(self) -> None:
        if self._interruption is not None and self.operations >= self._interruption[0]:
            _, work = self._interruption
            self._interruption = None
            work()

    def changed_metadata(self, what: str) -> None:
        self.operations += 1
        self.cut(f"the reply to {what}")

    def promise(self, promises: Promises) -> None:
        """Something was told. (The next crash point knows.)"""
        self.promises = promises

    def take_back(self, what: str, change: Callable[[Promises], Promises]) -> None:
        """A promise ends: cut before, while it still holds."""
        self.cut(what)
        self.promises = change(self.promises)

    def cut(self, before: str) -> None:
        """A crash point here."""
        assert self._disk is not None
        self.points.append(
            CrashPoint(
                len(self.points),
                before,
                self._disk.snapshot(self._known),
                copy_of_cluster(self.cluster),
                self.promises,
                self.settings,
            )
        )


def copy_of_cluster(cluster: MemoryCluster) -> MemoryCluster:
    """The same metadata, independent from now on; nobody is registered in it."""
    copy = MemoryCluster()
    copy.instance_id = cluster.instance_id
    following = next(cluster.next_ledger_ids)
    cluster.next_ledger_ids = itertools.count(following)
    copy.next_ledger_ids = itertools.count(following)
    copy.ledgers = dict(cluster.ledgers)
    copy.cookies = dict(cluster.cookies)
    copy.boots = dict(cluster.boots)
    copy.values = dict(cluster.values)
    return copy


class RecordingStore(MemoryStore):
    """A session whose writes are operations of the trace."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(recorder.cluster)
        self._recorder = recorder

    async def initialise(self) -> str:
        found = await super().initialise()
        self._recorder.changed_metadata("initialise")
        return found

    async def new_ledger_id(self) -> LedgerId:
        found = await super().new_ledger_id()
        self._recorder.changed_metadata("new_ledger_id")
        return found

    async def create_ledger(self, metadata: LedgerMetadata) -> Versioned[LedgerMetadata]:
        made = await super().create_ledger(metadata)
        self._recorder.changed_metadata("create_ledger")
        return made

    async def write_ledger(
        self, metadata: LedgerMetadata, *, version: int
    ) -> Versioned[LedgerMetadata]:
        made = await super().write_ledger(metadata, version=version)
        self._recorder.changed_metadata("write_ledger")
        return made

    async def delete_ledger(self, ledger_id: LedgerId, *, version: int | None = None) -> None:
        await super().delete_ledger(ledger_id, version=version)
        self._recorder.changed_metadata("delete_ledger")

    async def create_cookie(self, cookie: Cookie) -> Versioned[Cookie]:
        made = await super().create_cookie(cookie)
        self._recorder.changed_metadata("create_cookie")
        return made

    async def write_cookie(self, cookie: Cookie, *, version: int) -> Versioned[Cookie]:
        made = await super().write_cookie(cookie, version=version)
        self._recorder.changed_metadata("write_cookie")
        return made

    async def write_boot(
        self, bookie_id: BookieId, boot: StoredBoot, *, version: int | None
    ) -> Versioned[StoredBoot]:
        made = await super().write_boot(bookie_id, boot, version=version)
        self._recorder.changed_metadata("write_boot")
        return made
