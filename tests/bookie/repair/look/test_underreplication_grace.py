"""Which marks excuse their ledgers, and which are findings, read one by one or in pages."""

import pytest
from bookie.errors import MetadataFormatError
from bookie.ids import LedgerId
from bookie.metadata.memory import MemoryCluster, MemoryStore, MemoryUnderreplication
from bookie.metadata.underreplication import UnderreplicationMark
from bookie.repair.look import underreplication_grace as module
from bookie.repair.look.underreplication_grace import ONE_BY_ONE_MAX, Grace

NOW_MS, GRACE_MS = 10**9, 100_000
AGES_MS = (0, GRACE_MS - 1, GRACE_MS, 7 * GRACE_MS, 1 - GRACE_MS, -GRACE_MS, None)
"""Ledger after ledger, over and over; negative: in the future; None: it has no mark."""


async def grace_over(ages_ms: list[int | None], *, grace_ms: int = GRACE_MS) -> Grace:
    """Ledgers from 0 on have marks so old."""
    store = MemoryStore(MemoryCluster())
    for ledger_id, age in enumerate(ages_ms):
        if age is not None:
            await store.underreplication.mark(LedgerId(ledger_id), [], now_ms=NOW_MS - age)
    return Grace(store, grace_ms, NOW_MS)


@pytest.mark.parametrize("asked", [0, 1, ONE_BY_ONE_MAX, ONE_BY_ONE_MAX + 1, 4 * ONE_BY_ONE_MAX])
async def test_only_young_marks_excuse_however_many_ledgers_are_asked_for(asked: int) -> None:
    ages = [AGES_MS[number % len(AGES_MS)] for number in range(4 * ONE_BY_ONE_MAX)]
    young = {i for i in range(asked) if (age := ages[i]) is not None and abs(age) < GRACE_MS}
    assert await (await grace_over(ages)).excused(list(map(LedgerId, range(asked)))) == young
    never = await grace_over(ages, grace_ms=0)
    assert await never.excused(list(map(LedgerId, range(asked)))) == set()


@pytest.mark.parametrize("named_max", [1, 2, 5, 100])
@pytest.mark.parametrize("wanted", [None, {0, 2, 4}, set()])
async def test_of_old_marks_the_oldest_are_listed_first_and_all_are_counted(
    monkeypatch: pytest.MonkeyPatch, named_max: int, wanted: set[LedgerId] | None
) -> None:
    monkeypatch.setattr(module, "MARKS_NAMED_MAX", named_max)
    steps: list[int | None] = [3, 9, 5, None, 5, 0, 7, 1, 8]
    grace = await grace_over([None if step is None else step * GRACE_MS for step in steps])
    found = await grace.overdue(wanted)
    old = [(-s, i) for i, s in enumerate(steps) if s and (wanted is None or i in wanted)]
    assert found.count == len(old)
    assert [mark.ledger_id for mark in found.oldest] == [i for _, i in sorted(old)][:named_max]
    ages = [row["age_s"] for row in found.json(NOW_MS)]
    assert ages == [-step * GRACE_MS // 1000 for step, _ in sorted(old)][:named_max]


class OneBroken(MemoryUnderreplication):
    """The mark of ledger 1 has no time."""

    async def read_mark(self, ledger_id: LedgerId) -> UnderreplicationMark | None:
        if ledger_id == 1:
            raise MetadataFormatError("it has no time")
        return await super().read_mark(ledger_id)


class StoreOfOneBroken(MemoryStore):
    @property
    def underreplication(self) -> OneBroken:
        return OneBroken(self)


async def test_a_mark_that_nobody_can_read_excuses_nothing() -> None:
    store = StoreOfOneBroken(MemoryCluster())
    for ledger_id in (LedgerId(0), LedgerId(1)):
        await store.underreplication.mark(ledger_id, [], now_ms=NOW_MS)
    grace = Grace(store, GRACE_MS, NOW_MS)
    assert await grace.excused([LedgerId(0), LedgerId(1)]) == {0}
