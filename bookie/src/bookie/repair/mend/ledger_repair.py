"""Repair of ledgers, one by one: recover what is in limbo, judge, copy what bookies lack.

The same functions run in process and inside Spark tasks. They may run twice, at once or be cut off
anywhere: recovery is decided by compare-and-set, copies are recovery adds of verified bytes,
presence is asked for again at each start, and no mark is cleared here.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from bookie.client.recovery import recover
from bookie.errors import (
    BookieError,
    NoSuchLedgerError,
    UnavailableError,
    UndecidableError,
)
from bookie.ids import BookieId, LedgerId
from bookie.metadata.store import Unreadable, Versioned
from bookie.protocol.answers import UndecidedError
from bookie.protocol.availability import EMPTY, EntrySet
from bookie.protocol.clearing import must_hold
from bookie.protocol.ledger import LedgerMetadata, LedgerState
from bookie.protocol.status import Status
from bookie.repair.judge.counts import counts_of
from bookie.repair.judge.expect import members
from bookie.repair.look.audit import Auditor, AuditSettings, Look, read_ledgers
from bookie.repair.look.cluster import Cluster
from bookie.repair.look.digests import DeepLooks, DigestReader, DigestSettings
from bookie.repair.look.pacing import share_of
from bookie.repair.mend.copy import Copier, CopySettings
from bookie.repair.mend.outcome import Done, LedgerTask, Outcome

LEDGERS_IN_FLIGHT: Final = 16
"""Ledgers recovered or copied at once in one process."""
WRITER_GRACE_S: Final = 2.0
"""A writer that appends once a second moves on within it; each second more is one in which copies
that the crash took are not back."""


@dataclass(frozen=True, slots=True)
class RepairSettings:
    """Bounds of a repair."""

    ledgers_per_batch: int = 500
    """Ledgers that are looked at together."""
    writer_grace_s: float = WRITER_GRACE_S
    """How long writers may take to replace a bookie that holds their ledger in limbo, before the
    ledger is recovered and closed."""
    audit: AuditSettings = field(default_factory=lambda: AuditSettings(grace_s=0.3, recheck_s=None))
    copy: CopySettings = field(default_factory=CopySettings)
    digests: DigestSettings | None = None
    """Read every copy and replace those whose digest is wrong; None = trust the indexes."""

    def shared_by(self, parts: int) -> "RepairSettings":
        """The settings of each process, if this many run at once and together keep to the rate."""
        copy = replace(self.copy, bytes_per_second=share_of(self.copy.bytes_per_second, parts))
        digests = self.digests and self.digests.shared_by(parts)
        return replace(self, copy=copy, digests=digests)


@dataclass(slots=True)
class LedgerRepair:
    """Repairs ledgers of one cluster, at most LEDGERS_IN_FLIGHT at once."""

    cluster: Cluster
    settings: RepairSettings = field(default_factory=RepairSettings)
    done: Done = lambda _outcomes: None
    """Called with each ledger when nothing more is done to it."""
    _copier: Copier = field(init=False)
    _auditor: Auditor = field(init=False)
    _reader: DigestReader = field(init=False)
    _slots: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._copier = Copier(self.cluster.peers, self.settings.copy)
        self._auditor = Auditor(self.cluster.store, self.cluster.control, self.settings.audit)
        self._reader = DigestReader(self.cluster.peers, self.settings.digests)
        self._slots = asyncio.Semaphore(LEDGERS_IN_FLIGHT)

    async def repair(self, tasks: Sequence[LedgerTask]) -> list[Outcome]:
        """One outcome for each task, in order. UnavailableError: the metadata store is away."""
        outcomes: list[Outcome] = []
        for start in range(0, len(tasks), self.settings.ledgers_per_batch):
            batch = tasks[start : start + self.settings.ledgers_per_batch]
            outcomes += await self._repair_batch(batch)
        return outcomes

    async def _repair_batch(self, tasks: Sequence[LedgerTask]) -> list[Outcome]:
        unreadable: Unreadable = {}
        found = await read_ledgers(
            self.cluster.store,
            [task.ledger_id for task in tasks],
            unreadable=unreadable,
            in_flight=self.settings.audit.metadata_in_flight,
        )
        outcomes = [_begun(task.ledger_id, found, unreadable) for task in tasks]
        known = [read.value if (read := found.get(task.ledger_id)) else None for task in tasks]
        await asyncio.gather(*map(self._recover, tasks, known, outcomes))
        looks = await self._auditor.settled(list(found))
        deep = DeepLooks(self._auditor, self._reader) if self.settings.digests is not None else None

        async def one(task: LedgerTask, outcome: Outcome) -> None:
            # Each as soon as it is read: a batch of large ledgers takes hours to read.
            look = looks.get(outcome.ledger_id)
            if look is not None and deep is not None:
                look = await deep.deepen_one(look)
            if look is not None:
                await self._copy(outcome, look)
                await self._end_if_short(task, outcome, look)
                if deep is not None:
                    _block_unread(outcome, look)
            self.done([outcome])

        await asyncio.gather(*map(one, tasks, outcomes))
        return outcomes

    async def _recover(
        self, task: LedgerTask, metadata: LedgerMetadata | None, outcome: Outcome
    ) -> None:
        """Close a limbo ledger that is still written to a bookie that may have forgotten, and end a
        recovery that was begun and left.

        The latter has no writer any more, and while it is IN_RECOVERY no mark on it can go. A
        ledger whose writer has replaced those bookies is left to its writer.
        """
        if metadata is not None and task.needs_recovery(metadata):
            async with self._slots:
                # It may have waited for its turn, and its writer has moved on meanwhile.
                await recover_ledger(self.cluster, outcome, only_if=task.needs_recovery)

    async def _end_if_short(self, task: LedgerTask, outcome: Outcome, look: Look) -> None:
        """Close a ledger that was left to its writer, if a bookie that has a mark on it owes
        entries that are nowhere: only of a CLOSED ledger they can be recorded as lost, and without
        a record that mark never goes.
        """
        metadata = look.metadata.value
        marked = (*task.limbo_on, *task.unchecked_on)
        owed = (must_hold(metadata, bookie_id) for bookie_id in marked)
        if metadata.state is LedgerState.OPEN and any(look.verdict.gone & each for each in owed):
            async with self._slots:
                await recover_ledger(self.cluster, outcome)

    async def _copy(self, outcome: Outcome, look: Look) -> None:
        """Bring each reachable member what it lacks and someone holds.

        Also of an open ledger's last fragment, as far as a LAC is known: a live writer got its acks
        for these entries and never sends them again, neither there nor to another ensemble.
        """
        outcome.before, outcome.version = counts_of(look.verdict), look.metadata.version
        metadata = look.metadata.value
        for bookie_id, share in look.verdict.shares.items():
            wanted = share.lacking - look.verdict.gone
            if wanted & share.corrupt:
                await self._reject(look, bookie_id, wanted & share.corrupt)
            if wanted:
                async with self._slots:
                    copied = await self._copier.copy(
                        metadata, bookie_id, wanted, holdings=look.holdings
                    )
                outcome.add_copied(bookie_id, copied)
            if share.corrupt:
                await self._read_again(outcome, metadata, bookie_id, share.corrupt)

    async def _reject(self, look: Look, bookie_id: BookieId, corrupt: EntrySet) -> None:
        """Have the bookie reject wrong copies, as far as another member has a right one to give.

        It verifies them itself. One that does not know how keeps them, and they are named.
        """
        others = (h.entries for b, h in look.holdings.items() if b != bookie_id)
        given = EMPTY
        for entries in others:
            given |= entries & corrupt
        if given:
            async with self._slots:
                await self.cluster.control.recheck(bookie_id, look.ledger_id, given)

    async def _read_again(
        self, outcome: Outcome, metadata: LedgerMetadata, bookie_id: BookieId, corrupt: EntrySet
    ) -> None:
        """Count the copies that were corrupt and are good now; name those that stay corrupt.

        A bookie keeps its first copy of an id while it is readable. One whose frame is damaged, or
        that its bookie has rejected, gives way to a recovery add as soon as that was taken.
        """
        async with self._slots:
            now = await self._reader.read(metadata, bookie_id, corrupt)
        outcome.corrupt_found += len(corrupt)
        outcome.corrupt_replaced += len(now.good)
        if kept := now.corrupt:
            said = f"{len(kept)} copies on {bookie_id} stay corrupt, the first of {kept.first}"
            outcome.block("CorruptKept", said)
        _block(outcome, bookie_id, now.unread)


def _block_unread(outcome: Outcome, look: Look) -> None:
    """A copy that a deep look did not read is verified by no index: the ledger is not done."""
    for bookie_id, share in look.verdict.shares.items():
        # What is unknown and not lacking: it is listed, or the bookie did not say what it has.
        _block(outcome, bookie_id, share.unknown - share.lacking)


def _block(outcome: Outcome, bookie_id: BookieId, unread: EntrySet) -> None:
    if unread:
        said = f"{len(unread)} copies on {bookie_id} could not be read, the first of {unread.first}"
        outcome.block("CopiesUnread", said)


def _begun(
    ledger_id: LedgerId, found: Mapping[LedgerId, Versioned[LedgerMetadata]], unreadable: Unreadable
) -> Outcome:
    if (error := unreadable.get(ledger_id)) is not None:
        outcome = Outcome(ledger_id, "UNREADABLE")
        outcome.block("MetadataUnreadable", str(error))
        return outcome
    known = found.get(ledger_id)
    return Outcome(ledger_id, known.value.state.value if known is not None else "DELETED")


async def recover_ledger(
    cluster: Cluster,
    outcome: Outcome,
    *,
    only_if: Callable[[LedgerMetadata], bool] = lambda _metadata: True,
) -> None:
    """Fence, recover and close one ledger, `only_if` its metadata of now call for it. What came of
    it is in its outcome; it never raises.
    """
    ledger_id = outcome.ledger_id
    try:
        metadata = (await cluster.store.read_ledger(ledger_id)).value
        if not only_if(metadata):
            return
        result = await recover(
            cluster.store,
            cluster.peers,
            ledger_id,
            password=metadata.password,
            settings=cluster.recovery,
        )
    except NoSuchLedgerError:
        outcome.state_before = "DELETED"
    except UnavailableError as error:
        outcome.block("MetadataUnavailable", str(error))
    except UndecidableError as error:
        note_undecided(outcome, error)
        await _tell_apart(cluster, outcome)
    except BookieError as error:
        outcome.block("RecoveryFailed", str(error))
    else:
        outcome.recovered = not result.adopted
        outcome.entries_recovered = result.recovered
        outcome.corrupt_copies += len(result.corrupt)
        outcome.touched = tuple(sorted({*outcome.touched, *members(result.metadata.value)}))


def note_undecided(outcome: Outcome, error: UndecidableError) -> None:
    """A recovery that could not decide; what it waits for, and where loss is possible (S33)."""
    outcome.block("Undecidable", str(error))
    if isinstance(error, UndecidedError):
        outcome.possible_loss_from, outcome.last_add_confirmed = error.entry_id, error.lac
        forgotten = (b for b, one in error.answers.items() if one is Status.UNKNOWN)
        outcome.forgotten_by = tuple(sorted(forgotten))
        said = {**error.others, **error.answers}
        away = (b for b, one in said.items() if not one.is_known and one is not Status.UNKNOWN)
        outcome.away = tuple(sorted(away))


async def _tell_apart(cluster: Cluster, outcome: Outcome) -> None:
    """Who forgot the entry, and who lists it but cannot return it now, as after a read error: a
    read says *unknown* of both, and only of the first does no later attempt learn more."""
    entry = outcome.possible_loss_from
    holdings = {
        member: (await cluster.control.availability(BookieId(member), [outcome.ledger_id]))[
            outcome.ledger_id
        ]
        for member in outcome.forgotten_by
    }
    unread = {
        member
        for member, holding in holdings.items()
        if entry in holding.entries or not holding.has_searched
    }
    outcome.forgotten_by = tuple(one for one in outcome.forgotten_by if one not in unread)
    outcome.away = tuple(sorted({*outcome.away, *unread}))


Where = Mapping[LedgerId, Sequence[BookieId]]
"""On which bookies ledgers are marked."""


def tasks_of(limbo: Where, unchecked: Where, others: Iterable[LedgerId] = ()) -> list[LedgerTask]:
    """Tasks in rising order of ids: ledgers with a mark, with the bookies where it is, and others
    that are only looked after.
    """
    return [
        LedgerTask(i, tuple(limbo.get(i, ())), tuple(unchecked.get(i, ())))
        for i in sorted({*limbo, *unchecked, *others})
    ]
