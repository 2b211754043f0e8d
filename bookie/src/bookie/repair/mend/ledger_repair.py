"""Repair of ledgers, one by one: recover what is in limbo, judge, copy what bookies lack.

The same functions run in process and inside Spark tasks. They may run twice, at once or be cut off
anywhere: recovery is decided by compare-and-set, copies are recovery adds of verified bytes,
presence is asked for anew at each start, and no mark is cleared here.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
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
from bookie.metadata.store import Unreadable
from bookie.protocol.answers import UndecidedError
from bookie.protocol.availability import EMPTY, EntrySet
from bookie.protocol.ledger import LedgerMetadata, LedgerState
from bookie.repair.judge.counts import counts_of
from bookie.repair.judge.expect import members
from bookie.repair.look.audit import Auditor, AuditSettings, Look, read_ledgers
from bookie.repair.look.cluster import Cluster
from bookie.repair.look.digests import DeepLooks, DigestReader, DigestSettings
from bookie.repair.look.pacing import share_of
from bookie.repair.mend.copy import Copied, Copier, CopySettings
from bookie.repair.mend.outcome import Done, LedgerOutcome, LedgerTask

LEDGERS_IN_FLIGHT: Final = 16
"""Ledgers recovered or copied at once in one process."""


@dataclass(frozen=True, slots=True)
class RepairSettings:
    """Bounds of a repair; ledgers are taken `ledgers_per_batch` at a time.

    `digests`: read every copy and replace those whose digest is wrong; None = trust the indexes.
    """

    ledgers_per_batch: int = 500
    audit: AuditSettings = field(default_factory=lambda: AuditSettings(grace_s=0.3, recheck_s=None))
    copy: CopySettings = field(default_factory=CopySettings)
    digests: DigestSettings | None = None

    def shared_by(self, parts: int) -> "RepairSettings":
        """For each of so many processes at once: no bookie gets more than its rate of them all."""
        copy = replace(self.copy, bytes_per_second=share_of(self.copy.bytes_per_second, parts))
        digests = self.digests and self.digests.shared_by(parts)
        return replace(self, copy=copy, digests=digests)


@dataclass(slots=True)
class LedgerRepair:
    """Repairs ledgers of one cluster, at most LEDGERS_IN_FLIGHT at once; `done` is told of each."""

    cluster: Cluster
    settings: RepairSettings = field(default_factory=RepairSettings)
    done: Done = lambda _outcomes: None
    _copier: Copier = field(init=False)
    _auditor: Auditor = field(init=False)
    _reader: DigestReader = field(init=False)
    _slots: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._copier = Copier(self.cluster.peers, self.settings.copy)
        self._auditor = Auditor(self.cluster.store, self.cluster.control, self.settings.audit)
        self._reader = DigestReader(self.cluster.peers, self.settings.digests)
        self._slots = asyncio.Semaphore(LEDGERS_IN_FLIGHT)

    async def repair(self, tasks: Sequence[LedgerTask]) -> list[LedgerOutcome]:
        """One outcome for each task, in order. UnavailableError: the metadata store is away."""
        outcomes: list[LedgerOutcome] = []
        for start in range(0, len(tasks), self.settings.ledgers_per_batch):
            batch = tasks[start : start + self.settings.ledgers_per_batch]
            outcomes += await self._repair_batch(batch)
        return outcomes

    async def _repair_batch(self, tasks: Sequence[LedgerTask]) -> list[LedgerOutcome]:
        unreadable: Unreadable = {}
        found = await read_ledgers(
            self.cluster.store,
            [task.ledger_id for task in tasks],
            unreadable=unreadable,
            in_flight=self.settings.audit.metadata_in_flight,
        )
        states = {i: metadata.value.state.value for i, metadata in found.items()}
        begun = [_begun(task.ledger_id, states, unreadable) for task in tasks]
        recovered = await asyncio.gather(
            *(self._recover(task, outcome) for task, outcome in zip(tasks, begun, strict=True))
        )
        looks = await self._auditor.settled(list(found))
        deep = DeepLooks(self._auditor, self._reader) if self.settings.digests is not None else None

        async def one(outcome: LedgerOutcome) -> LedgerOutcome:
            # Each as soon as it is read: a batch of large ledgers takes hours to read.
            look = looks.get(LedgerId(outcome.ledger_id))
            if look is not None and deep is not None:
                look = await deep.deepen_one(look)
            return await self._copy(outcome, look)

        return await asyncio.gather(*map(one, recovered))

    async def _recover(self, task: LedgerTask, outcome: LedgerOutcome) -> LedgerOutcome:
        """Close a limbo ledger that is still open, and end what somebody began to recover.

        The latter has no writer any more, and while it is IN_RECOVERY no mark on it can go.
        """
        is_limbo = task.limbo and outcome.state_before == LedgerState.OPEN.value
        if not is_limbo and outcome.state_before != LedgerState.IN_RECOVERY.value:
            return outcome
        async with self._slots:
            return await recovered(self.cluster, outcome)

    async def _copy(self, outcome: LedgerOutcome, look: Look | None) -> LedgerOutcome:
        """Bring each reachable member what it lacks and someone holds.

        Also of an open ledger's last fragment, as far as a LAC is known: a live writer got its acks
        for these entries and never sends them again, neither there nor to another ensemble.
        """
        if look is None:
            return self._told(outcome)
        version = look.metadata.version
        outcome = replace(outcome, before=counts_of(look.verdict), version=version)
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
                outcome = _with_copies(outcome, bookie_id, copied)
            if share.corrupt:
                outcome = await self._with_replaced(outcome, metadata, bookie_id, share.corrupt)
        return self._told(outcome)

    def _told(self, outcome: LedgerOutcome) -> LedgerOutcome:
        self.done([outcome])
        return outcome

    async def _reject(self, look: Look, bookie_id: BookieId, corrupt: EntrySet) -> None:
        """Have the bookie let go of wrong copies, as far as somebody has a right one to give.

        It verifies them itself. One that does not know how keeps them, and they are named.
        """
        others = (h.entries for b, h in look.holdings.items() if b != bookie_id)
        given = EMPTY
        for entries in others:
            given |= entries & corrupt
        if given:
            async with self._slots:
                await self.cluster.control.recheck(bookie_id, look.ledger_id, given)

    async def _with_replaced(
        self,
        outcome: LedgerOutcome,
        metadata: LedgerMetadata,
        bookie_id: BookieId,
        corrupt: EntrySet,
    ) -> LedgerOutcome:
        """Read again what was corrupt: a bookie keeps its first copy of an id while it is readable.

        One whose frame is damaged, or that its bookie has rejected, gives way to a recovery add as
        soon as that was taken. What is left then, somebody has to know.
        """
        async with self._slots:
            now = await self._reader.read(metadata, bookie_id, corrupt)
        kept, message, reason = now.suspect, outcome.message, outcome.reason
        if kept and not reason:
            reason = "CorruptKept"
            message = f"{len(kept)} copies on {bookie_id} stay corrupt, the first of {kept.first}"
        return replace(
            outcome,
            corrupt_found=outcome.corrupt_found + len(corrupt),
            corrupt_replaced=outcome.corrupt_replaced + len(now.good),
            reason=reason,
            message=message,
        )


def _begun(
    ledger_id: LedgerId, states: Mapping[LedgerId, str], unreadable: Unreadable
) -> LedgerOutcome:
    if (error := unreadable.get(ledger_id)) is not None:
        return LedgerOutcome(
            ledger_id, "UNREADABLE", reason="MetadataUnreadable", message=str(error)
        )
    return LedgerOutcome(ledger_id, states.get(ledger_id, "DELETED"))


async def recovered(cluster: Cluster, outcome: LedgerOutcome) -> LedgerOutcome:
    """Fence, recover and close one ledger; an outcome that says what came of it, never an error."""
    ledger_id = LedgerId(outcome.ledger_id)
    try:
        metadata = (await cluster.store.read_ledger(ledger_id)).value
        result = await recover(
            cluster.store,
            cluster.peers,
            ledger_id,
            password=metadata.password,
            settings=cluster.recovery,
        )
    except NoSuchLedgerError:
        return replace(outcome, state_before="DELETED")
    except UnavailableError as error:
        return replace(outcome, reason="MetadataUnavailable", message=str(error))
    except UndecidableError as error:
        return undecided(outcome, error)
    except BookieError as error:
        return replace(outcome, reason="RecoveryFailed", message=str(error))
    return replace(
        outcome,
        recovered=not result.adopted,
        entries_recovered=result.recovered,
        corrupt_copies=len(result.corrupt),
        touched=tuple(members(result.metadata.value)),
    )


def undecided(outcome: LedgerOutcome, error: UndecidableError) -> LedgerOutcome:
    """A recovery that could not decide; what it waits for, and where loss is possible (S33)."""
    outcome = replace(outcome, reason="Undecidable", message=str(error))
    if isinstance(error, UndecidedError):
        silent = [bookie for bookie, status in error.answers.items() if not status.is_known]
        return replace(
            outcome, possible_loss_from=error.entry_id, waiting_for=tuple(sorted(silent))
        )
    return outcome


def _with_copies(outcome: LedgerOutcome, target: BookieId, copied: Copied) -> LedgerOutcome:
    message, reason = outcome.message, outcome.reason
    if copied.left and not reason:
        reason = "CopyIncomplete"
        message = f"{len(copied.left)} entries not copied to {target}: {copied.why}"
    touched = {*outcome.touched, target} if copied.entries else {*outcome.touched}
    return replace(
        outcome,
        entries_copied=outcome.entries_copied + len(copied.entries),
        bytes_copied=outcome.bytes_copied + copied.bytes_copied,
        corrupt_copies=outcome.corrupt_copies + len(copied.corrupt),
        reason=reason,
        message=message,
        touched=tuple(sorted(touched)),
    )


def tasks_of(limbo: Iterable[LedgerId], others: Iterable[LedgerId]) -> list[LedgerTask]:
    """Tasks in rising order of ids: limbo ledgers, and others that are only looked after."""
    in_limbo = set(limbo)
    every = sorted(in_limbo | set(others))
    return [LedgerTask(ledger_id, limbo=ledger_id in in_limbo) for ledger_id in every]
