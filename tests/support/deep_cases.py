"""Random ledgers whose copies can be read, some of them spoilt: a cluster for the table of entries.

What is wholly good is found by plain sets (`audit_cases`), with the spoilt copies taken out.
"""

import random
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from audit_cases import Case, entries, is_misplaced, named, oracle, plain, random_case, shares
from bookie.frames.build import build_run
from bookie.frames.entry import EntryCodec
from bookie.ids import NO_ENTRY, BookieId, EntryId, LedgerId
from bookie.metadata.store import Unreadable, Versioned
from bookie.protocol.ledger import LedgerMetadata
from bookie.protocol.status import Status
from bookie.repair.judge.columns import Answer
from bookie.repair.judge.counts import AuditCounts
from bookie.repair.judge.quorums import Quorums, all_quorums, quorum_of
from bookie.repair.look.cluster import Cluster
from bookie.repair.look.survey import BulkAudit
from bookie.repair.spark.sources import EntriesSource
from bookie.wire.native import ReadReply, ReadRequest

FRAME_ENTRIES: Final = 7


@dataclass(frozen=True, slots=True)
class DeepCase:
    """One ledger, and for each bookie the copies it lists that are no good when they are read.

    `wrong`: their digest is; `unreadable`: by the bookie's own word; `silent`: it answers no read.
    """

    case: Case
    wrong: Mapping[BookieId, set[int]]
    unreadable: Mapping[BookieId, set[int]]
    silent: frozenset[BookieId]

    def bad(self, bookie_id: BookieId) -> set[int]:
        held = self.listed(bookie_id)
        of_bookie = self.wrong[bookie_id] | self.unreadable[bookie_id]
        return held if bookie_id in self.silent else held & of_bookie

    def listed(self, bookie_id: BookieId) -> set[int]:
        holding = self.case.holdings.get(bookie_id)
        return plain(holding.entries) if holding is not None else set()

    @property
    def good(self) -> Case:
        """The ledger as plain sets are to judge it."""
        holdings = self.case.holdings.items()
        kept = (replace(h, entries=entries(plain(h.entries) - self.bad(b))) for b, h in holdings)
        return Case.of(self.case.metadata, kept)


def deep_case(seed: int) -> DeepCase:
    """Copies of every tenth ledger or so are spoilt."""
    case, rng = random_case(random.Random(seed), LedgerId(seed)), random.Random(-seed)
    chance = 0.2 if rng.random() < 0.1 else 0.0

    def some() -> dict[BookieId, set[int]]:
        return {b: {e for e in range(60) if rng.random() < chance} for b in named(case.metadata)}

    silent = frozenset(b for b in named(case.metadata) if rng.random() < chance / 4)
    return DeepCase(case, some(), some(), silent)


def expected(seeds: Iterable[int], racks: Mapping[BookieId, str]) -> BulkAudit:
    """What the first look has to come to."""
    counts, marked, doubtful, misplaced = AuditCounts(), 0, list[LedgerId](), list[LedgerId]()
    quorums = list[Quorums]()
    copies = Counter[BookieId]()
    for seed in seeds:
        case = deep_case(seed).good
        misplaced += [LedgerId(seed)] if is_misplaced(case.metadata, racks) else []
        have_all_answered = case.is_answered and len(case.holdings) == len(named(case.metadata))
        if len(oracle(case)["ok"]) <= case.through or not have_all_answered:
            doubtful.append(LedgerId(seed))
            continue
        count = case.through + 1
        quorums.append(quorum_of(case.metadata))
        counts += AuditCounts(ledgers=1, entries=count, ok=count)
        marked += any(holding.is_marked for holding in case.holdings.values())
        copies.update({b: len(e) for b, e in shares(case.metadata, count).items() if e})
    return BulkAudit(
        counts, marked, tuple(doubtful), dict(copies), tuple(misplaced), all_quorums(quorums)
    )


# A cluster
@dataclass(frozen=True)
class DeepCases:
    """Metadata store, control planes and bookies at once, of this many ledgers."""

    cases: int
    known: dict[int, DeepCase] = field(default_factory=dict)

    def of(self, ledger_id: LedgerId) -> DeepCase:
        if ledger_id not in self.known:
            self.known[ledger_id] = deep_case(ledger_id)
        return self.known[ledger_id]

    async def ledger_ids(self) -> AsyncIterator[LedgerId]:
        for seed in range(self.cases):
            yield LedgerId(seed)

    async def read_ledgers(
        self, ledger_ids: Sequence[LedgerId], *, unreadable: Unreadable
    ) -> dict[LedgerId, Versioned[LedgerMetadata]]:
        return {i: Versioned(self.of(i).case.metadata, 0) for i in ledger_ids}

    async def answers(
        self, bookie_id: BookieId, ledger_ids: Sequence[LedgerId]
    ) -> dict[LedgerId, Answer]:
        said = {i: _said(self.of(i).case, bookie_id) for i in ledger_ids}
        return {ledger_id: answer for ledger_id, answer in said.items() if answer is not None}

    async def read(
        self, bookie_id: BookieId, request: ReadRequest, *, fence: bool = False
    ) -> tuple[Status, ReadReply | None]:
        deep = self.of(request.ledger_id)
        if bookie_id in deep.silent:
            return Status.UNREACHABLE, None
        return Status.OK, _reply(deep, bookie_id, request)


def _said(case: Case, bookie_id: BookieId) -> Answer | None:
    return dict(zip(named(case.metadata), case.answers, strict=True))[bookie_id]


def _reply(deep: DeepCase, bookie_id: BookieId, request: ReadRequest) -> ReadReply:
    """Some runs of it at a time."""
    unreadable, wrong = deep.unreadable[bookie_id], deep.wrong[bookie_id]
    held = deep.case.holdings[bookie_id].entries.clip(request.first, request.last)
    ids = sorted(plain(held))[:FRAME_ENTRIES]
    through = ids[-1] if len(ids) == FRAME_ENTRIES else request.last
    codec = EntryCodec(request.ledger_id, deep.case.metadata.digest_type, b"")
    runs = [
        build_run(request.ledger_id, EntryId(i), [_entry(codec, i, i in wrong)], lac=NO_ENTRY)
        for i in ids
        if i not in unreadable
    ]
    unknown = tuple((i, i) for i in ids if i in unreadable)
    return ReadReply(
        NO_ENTRY, NO_ENTRY, EntryId(through), Status.NO_SUCH_ENTRY, unknown, tuple(runs)
    )


def _entry(codec: EntryCodec, entry_id: int, is_wrong: bool) -> bytes:
    entry = bytearray(codec.encode(EntryId(entry_id), b"payload", lac=NO_ENTRY, length=7))
    entry[-1] ^= is_wrong
    return bytes(entry)


class DeepCaseSource(EntriesSource):
    """The product's table of entries, over cases; its "URL" is their number."""

    @staticmethod
    def opening(metadata_url: str) -> AbstractAsyncContextManager[Cluster]:
        @asynccontextmanager
        async def opened() -> AsyncIterator[Cluster]:
            cases: Any = DeepCases(int(metadata_url))
            yield Cluster(cases, cases, cases)

        return opened()
