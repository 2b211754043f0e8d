"""20,000 random ledgers: the audit's answer against plain sets, on both engines."""

import os
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import audit_cases
import pytest
from audit_cases import (
    BOOKIES,
    CLASSES,
    Case,
    answer_columns,
    holders_of,
    is_misplaced,
    ledger_columns,
    oracle,
    plain,
    random_case,
    shares,
)
from bookie.ids import BookieId, LedgerId
from bookie.protocol.placement import Racks
from bookie.repair.judge.columns import AnswerColumns, LedgerColumns
from bookie.repair.judge.counts import AuditCounts
from bookie.repair.judge.last_copies import last_copies
from bookie.repair.judge.quorums import Quorums, all_quorums, quorum_of
from bookie.repair.look.cluster import Cluster
from bookie.repair.look.survey import BulkAudit, Scope, survey, total_of
from bookie.repair.spark.engine import survey_in
from bookie.repair.spark.sources import AvailabilitySource
from pyspark.cloudpickle import register_pickle_by_value

RACKS = {bookie_id: f"/rack-{n % 3}" for n, bookie_id in enumerate(BOOKIES[:8])}
"""Of the last one nobody knows where it is."""
CASES = int(os.environ.get("AUDIT_CASES", "20000"))


@dataclass(frozen=True)
class CaseTables:
    """Ledger n is case n; instead of a cluster. `known`: those that were made already."""

    cases: int
    known: dict[int, Case] = field(default_factory=dict)

    async def ledger_ids(self) -> AsyncIterator[LedgerId]:
        for seed in range(self.cases):
            yield LedgerId(seed)

    async def ledgers(self, ledger_ids: Sequence[LedgerId]) -> LedgerColumns:
        return ledger_columns([self.case(seed).metadata for seed in ledger_ids])

    async def answers(self, ledgers: LedgerColumns) -> AnswerColumns:
        cases = [self.case(seed).answers for seed in ledgers.ledger_id.tolist()]
        return answer_columns(ledgers, cases)

    def case(self, seed: int) -> Case:
        if seed not in self.known:
            self.known[seed] = random_case(random.Random(seed), LedgerId(seed))
        return self.known[seed]


class CaseSource(AvailabilitySource):
    """The product's table of answers, over cases; its "URL" is their number."""

    @staticmethod
    def opening(metadata_url: str) -> AbstractAsyncContextManager[Cluster]:
        @asynccontextmanager
        async def opened() -> AsyncIterator[Cluster]:
            tables: Any = CaseTables(int(metadata_url))
            nobody: Any = None
            yield Cluster(tables, nobody, nobody, tables=tables)

        return opened()


@pytest.fixture(scope="module")
def tables() -> CaseTables:
    return CaseTables(CASES)


@pytest.fixture(scope="module")
def expected(tables: CaseTables) -> BulkAudit:
    """What the first look has to come to, by the oracle; every verdict is checked on the way."""
    counts, marked, doubtful = AuditCounts(), 0, []
    quorums = list[Quorums]()
    copies, misplaced = Counter[BookieId](), list[LedgerId]()
    for seed in range(CASES):
        case, wanted = tables.case(seed), oracle(tables.case(seed))
        verdict = case.verdict
        misplaced += [LedgerId(seed)] if is_misplaced(case.metadata, RACKS) else []
        found = {name: plain(getattr(verdict, name)) for name in CLASSES}
        assert found == wanted, f"seed={seed}"
        if len(wanted["ok"]) <= case.through or not case.is_answered:
            doubtful.append(LedgerId(seed))
        else:
            entries = case.through + 1
            quorums.append(quorum_of(case.metadata))
            counts += AuditCounts(ledgers=1, entries=entries, ok=entries)
            marked += any(holding.is_marked for holding in case.holdings.values())
            copies.update({b: len(e) for b, e in shares(case.metadata, entries).items() if e})
    return BulkAudit(
        counts, marked, tuple(doubtful), dict(copies), tuple(misplaced), all_quorums(quorums)
    )


def test_every_verdict_is_that_of_plain_sets(expected: BulkAudit) -> None:
    assert expected.counts.ledgers > CASES // 5 < len(expected.doubtful)
    assert CASES // 50 < len(expected.misplaced) < CASES // 2


@pytest.mark.parametrize("copies_min", [1, 3])
def test_who_holds_last_copies_is_who_does_by_plain_sets(
    tables: CaseTables, copies_min: int
) -> None:
    thin = 0
    for seed in range(CASES // 4):
        case = tables.case(seed)
        found = last_copies(case.metadata, case.verdict, copies_min=copies_min)
        told = {holders: held.entries for holders, held in found.groups.items()}
        assert told == holders_of(case, copies_min), f"seed={seed}"
        thin += bool(told)
    assert thin > CASES // 40


async def test_the_first_look_doubts_just_what_is_not_whole_or_not_apart(
    tables: CaseTables, expected: BulkAudit
) -> None:
    assert await survey(tables, tables.ledger_ids(), racks=Racks(RACKS)) == expected


@pytest.mark.process
def test_spark_comes_to_the_same(spark: Any, expected: BulkAudit) -> None:
    for module in (audit_cases, sys.modules[__name__]):
        register_pickle_by_value(module)  # workers cannot import it
    ran = survey_in(spark, str(CASES), Scope(Racks(RACKS)), CaseSource, lambda _looked_at: None)
    assert total_of(ran.results) == expected
