"""Ledgers whose every copy is read, as columns: what each member holds that is good, and what not.

What Spark's table `bookie_entries` is made of. One look and one reading: whatever is not wholly
good is left to others, who read it again with fresh metadata and a fresh list (`digests`). The sets
of an answer are intervals, so that memory holds as little of a long ledger as of a short one.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from bookie.ids import BookieId, EntryId, LedgerId
from bookie.metadata.store import Versioned
from bookie.protocol.ledger import LedgerMetadata
from bookie.protocol.status import Status
from bookie.repair.judge.columns import (
    NOBODY,
    Answer,
    AnswerColumns,
    Intervals,
    LedgerColumns,
    ReadColumns,
    answer_of,
    ids_of,
    stand_ins,
)
from bookie.repair.judge.expect import Holding, judge, no_answer
from bookie.repair.look.audit import Auditor, Look
from bookie.repair.look.cluster import Cluster
from bookie.repair.look.digests import CopiesRead, DeepLooks, DigestReader, DigestSettings

NOTHING_READ = CopiesRead()


class EntryColumns(NamedTuple):
    """Ledgers, answers whose `entries` are the copies that were read and are good, and the rest."""

    ledgers: LedgerColumns
    answers: AnswerColumns
    reads: ReadColumns


class EntryTables:
    """Reads ledgers of one cluster; the bounds hold for all that is read through it together."""

    def __init__(self, cluster: Cluster, settings: DigestSettings) -> None:
        self._auditor = Auditor(cluster.store, cluster.control)
        self._looks = DeepLooks(self._auditor, DigestReader(cluster.peers, settings))

    async def read(self, ledger_ids: Sequence[LedgerId]) -> EntryColumns:
        """Read the ledgers that exist. UnavailableError: no metadata store; a failing bookie is no
        error."""
        found = await self._auditor.look(ledger_ids)
        looks = list(found.values())
        read = await asyncio.gather(*map(self._looks.read_listed, looks))
        unreadable = stand_ins(i for i in ledger_ids if i in self._auditor.unreadable)
        looks += map(_unanswered, unreadable.values())
        return columns_of_looks(looks, [*read, *({} for _ in unreadable)])


def _unanswered(metadata: Versioned[LedgerMetadata]) -> Look:
    """A look at a stand-in: no answer came."""
    nobody = {NOBODY: no_answer(NOBODY, metadata.value.ledger_id, Status.UNREACHABLE)}
    return Look(metadata, nobody, judge(metadata.value, nobody, through=EntryId(0)))


def columns_of_looks(
    looks: Sequence[Look], read: Sequence[Mapping[BookieId, CopiesRead]]
) -> EntryColumns:
    """One row for each look, and one for each of its members, with what was read there."""
    ledgers = LedgerColumns.of({look.ledger_id: look.metadata for look in looks})
    codes = {bookie_id: code for code, bookie_id in enumerate(ledgers.bookies)}
    answers: list[list[tuple[int, Answer]]] = []
    copies: list[CopiesRead] = []
    for look, of_look in zip(looks, read, strict=True):
        found = {b: of_look.get(b, NOTHING_READ) for b in look.holdings}
        answers.append([(codes[b], _answer(look.holdings[b], one)) for b, one in found.items()])
        copies += found.values()
    reads = ReadColumns(
        corrupt=Intervals.of([one.corrupt for one in copies]),
        unread=Intervals.of([one.unread for one in copies]),
        bytes_read=ids_of(one.bytes_read for one in copies),
    )
    return EntryColumns(ledgers, AnswerColumns.of(answers), reads)


def _answer(holding: Holding, read: CopiesRead) -> Answer:
    said = answer_of(replace(holding, entries=read.good))
    return said if holding.has_searched else said._replace(entries=b"")
