"""One look at very many ledgers, a batch at a time: asked for as columns, judged at once, counted.

What comes out wholly ok is only counted; the rest is `doubtful` and left to `audit.Auditor`, which
looks at each such ledger again, with fresh metadata and answers. Spark does the same in its tasks
(`spark`), so that memory holds one batch and the doubtful ids on either engine.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np

from bookie.ids import BookieId, LedgerId
from bookie.metadata.store import MetadataStore, Unreadable
from bookie.protocol.placement import NO_RACKS, SOFT_RACKS, Adherence, Racks
from bookie.repair.judge.adherence import adherence_of
from bookie.repair.judge.bulk import judge_bulk
from bookie.repair.judge.columns import (
    NO_ANSWER,
    Answer,
    AnswerColumns,
    LedgerColumns,
    rows_of,
    stand_ins,
)
from bookie.repair.judge.counts import AuditCounts
from bookie.repair.judge.quorums import Quorums, all_quorums, quorums_of
from bookie.repair.look.audit import batches_of, read_ledgers
from bookie.repair.look.bookie_control import BookieControl
from bookie.repair.look.digests import DigestSettings

LEDGERS_PER_BATCH: Final = 2000
Looked = Callable[[int], None]
"""Called with how many ledgers were looked at so far (0 = it begins), in one thread at a time."""


class Tables(Protocol):
    """A source of ledgers and answers as columns."""

    async def ledgers(self, ledger_ids: Sequence[LedgerId]) -> LedgerColumns:
        """Columns of the ledgers that exist, with stand-ins for those with unreadable metadata.

        UnavailableError: no metadata store.
        """

    async def answers(self, ledgers: LedgerColumns) -> AnswerColumns:
        """What each member answers about each ledger; never an exception for a bad bookie."""


@dataclass(frozen=True, slots=True)
class ClusterTables:
    """Reads columns from a real cluster: its metadata store and control planes."""

    store: MetadataStore
    control: BookieControl

    async def ledgers(self, ledger_ids: Sequence[LedgerId]) -> LedgerColumns:
        unreadable: Unreadable = {}
        found = await read_ledgers(self.store, ledger_ids, unreadable=unreadable)
        return LedgerColumns.of(found | stand_ins(unreadable))

    async def answers(self, ledgers: LedgerColumns) -> AnswerColumns:
        asked = _asked(ledgers)
        said = await asyncio.gather(
            *(
                self.control.answers(ledgers.bookies[bookie], ledgers.ledger_id[rows].tolist())
                for bookie, rows in asked.items()
            )
        )
        of_ledger: list[list[tuple[int, Answer]]] = [[] for _ in range(len(ledgers))]
        for (bookie, rows), answers in zip(asked.items(), said, strict=True):
            for row, ledger_id in zip(rows, ledgers.ledger_id[rows].tolist(), strict=True):
                of_ledger[row].append((bookie, answers.get(ledger_id, NO_ANSWER)))
        return AnswerColumns.of(of_ledger)


def _asked(ledgers: LedgerColumns) -> dict[int, list[int]]:
    """For each bookie, by index, the rows of ledgers that name it."""
    of_fragment = rows_of(ledgers.fragments)
    of_member = np.repeat(of_fragment, ledgers.ensemble_size[of_fragment])
    pairs = np.unique(np.stack((ledgers.members, of_member), axis=1), axis=0)
    asked: dict[int, list[int]] = {}
    for bookie, row in pairs.tolist():
        asked.setdefault(bookie, []).append(row)
    return asked


@dataclass(frozen=True, slots=True)
class Scope:
    """What a survey covers."""

    racks: Racks = NO_RACKS
    """Racks of the bookies, and how many racks copies must span."""
    instance_id: str = ""
    """Instance id that the cluster must have; "" = any."""
    digests: DigestSettings | None = None
    """How to read every copy as well; None = by indexes."""
    chosen: Sequence[LedgerId] | None = None
    """Only these ledgers; None = all."""


@dataclass(frozen=True, slots=True)
class BulkAudit:
    """The result of one look at ledgers: wholly ok ones are counted, the others listed."""

    counts: AuditCounts = field(default_factory=AuditCounts)
    """Of those that are ok."""
    marked: int = 0
    """How many of the ok ledgers some bookie holds in limbo or unchecked."""
    doubtful: tuple[LedgerId, ...] | None = ()
    """Ledgers to look at again; None = all, since none was judged."""
    copies: Mapping[BookieId, int] = field(default_factory=dict)
    """Copies on each bookie, of the ok ledgers."""
    misplaced: tuple[LedgerId, ...] = ()
    """Whether ok or not: they do not keep their copies apart (`judge.adherence`)."""
    quorums: Quorums = field(default_factory=dict)
    """Of those that are ok."""
    bytes_read: int = 0
    """Bytes that a deep look has read."""

    @property
    def looked_at(self) -> int:
        """Ledgers that were judged."""
        return self.counts.ledgers + len(self.doubtful or ())


def total_of(found: Sequence[BulkAudit]) -> BulkAudit:
    """The sum of these looks at different ledgers."""
    copies = Counter[BookieId]()
    for one in found:
        copies.update(one.copies)
    return BulkAudit(
        counts=sum((one.counts for one in found), AuditCounts()),
        marked=sum(one.marked for one in found),
        doubtful=tuple(sorted(i for one in found for i in one.doubtful or ())),
        copies=dict(copies),
        misplaced=tuple(sorted(i for one in found for i in one.misplaced)),
        quorums=all_quorums(one.quorums for one in found),
        bytes_read=sum(one.bytes_read for one in found),
    )


def tallied(ledgers: LedgerColumns, answers: AnswerColumns, racks: Racks) -> BulkAudit:
    """Counts of what is wholly ok, and the ids of the rest."""
    judged = judge_bulk(ledgers, answers)
    fine = ~judged.is_doubtful
    entries = int((judged.through[fine] + 1).sum())
    return BulkAudit(
        counts=AuditCounts(ledgers=int(fine.sum()), entries=entries, ok=entries),
        marked=int((judged.is_marked & fine).sum()),
        doubtful=tuple(map(LedgerId, ledgers.ledger_id[judged.is_doubtful].tolist())),
        copies={ledgers.bookies[i]: int(judged.copies[i]) for i in np.flatnonzero(judged.copies)},
        misplaced=_misplaced(ledgers, racks),
        quorums=quorums_of(ledgers, fine),
    )


def _misplaced(ledgers: LedgerColumns, racks: Racks) -> tuple[LedgerId, ...]:
    wrong = adherence_of(ledgers, racks) < Adherence.MEETS_STRICT
    return tuple(map(LedgerId, ledgers.ledger_id[wrong].tolist()))


async def survey(
    tables: Tables,
    ledger_ids: AsyncIterator[LedgerId] | Iterable[LedgerId],
    *,
    racks: Racks = NO_RACKS,
    progress: Looked = lambda _ledgers: None,
) -> BulkAudit:
    """One look at each of these ledgers in this process. UnavailableError: no metadata store."""
    found, looked_at = list[BulkAudit](), 0
    async for batch in batches_of(ledger_ids, LEDGERS_PER_BATCH):
        ledgers = await tables.ledgers(batch)
        found.append(tallied(ledgers, await tables.answers(ledgers), racks))
        looked_at += len(ledgers)
        progress(looked_at)
    return total_of(found)


async def badly_placed(
    tables: Tables, ledger_ids: AsyncIterator[LedgerId] | Iterable[LedgerId], racks: Racks
) -> tuple[LedgerId, ...]:
    """Placement alone: metadata is read, and no bookie asked."""
    if racks.count < SOFT_RACKS:
        return ()
    found: list[LedgerId] = []
    async for batch in batches_of(ledger_ids, LEDGERS_PER_BATCH):
        found += _misplaced(await tables.ledgers(batch), racks)
    return tuple(found)
