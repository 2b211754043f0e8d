"""Ledgers that BookKeeper's marks call under-replicated, and the time they are given.

Somebody knows of such a ledger already: what it lacks is said only when its mark has stood for
longer than the grace period (BP-34), and then the mark itself is a finding as well. A ledger with a
younger mark that is wholly there counts as that. Marks are read in pages, never singly for many.
"""

import heapq
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Final

from bookie.errors import MetadataFormatError
from bookie.ids import LedgerId
from bookie.metadata.store import MetadataStore, UnderreplicationMark

MARKS_NAMED_MAX: Final = 1000
"""Old marks listed, the oldest first; the rest is counted."""
ONE_BY_ONE_MAX: Final = 64


@dataclass(slots=True)
class Overdue:
    """Marks older than the grace period: how many, and the oldest of them."""

    count: int = 0
    """All there are, listed or not."""
    oldest: list[UnderreplicationMark] = field(default_factory=list)
    """Sorted, the oldest first; a bounded number of them."""

    def json(self, now_ms: int) -> list[dict[str, Any]]:
        return [
            {
                "ledger_id": mark.ledger_id,
                "marked_at_ms": mark.ctime_ms,
                "age_s": (now_ms - mark.ctime_ms) // 1000,
                "message": f"marked for {', '.join(mark.missing) or 'no bookie'}",
            }
            for mark in self.oldest
        ]


@dataclass(frozen=True, slots=True)
class Grace:
    """`grace_ms`: so long a mark excuses its ledger; 0 = not at all."""

    store: MetadataStore
    grace_ms: int
    now_ms: int

    def is_young(self, mark: UnderreplicationMark) -> bool:
        # A little in the future: clocks differ. Far in it: set by a clock that was wrong.
        return abs(self.now_ms - mark.ctime_ms) < self.grace_ms

    async def excused(self, ledger_ids: Collection[LedgerId]) -> set[LedgerId]:
        """The ledgers whose mark, read again now, is younger than the grace period."""
        if not self.grace_ms or not ledger_ids:
            return set()
        if len(ledger_ids) <= ONE_BY_ONE_MAX:
            return {i for i in ledger_ids if await self._is_young(i)}
        wanted = frozenset(ledger_ids)
        marks = self.store.underreplication.marks()
        return {m.ledger_id async for m in marks if m.ledger_id in wanted and self.is_young(m)}

    async def _is_young(self, ledger_id: LedgerId) -> bool:
        try:
            mark = await self.store.underreplication.read_mark(ledger_id)
        except MetadataFormatError:
            return False  # a mark without a time excuses nothing
        return mark is not None and self.is_young(mark)

    async def overdue(self, wanted: Collection[LedgerId] | None) -> Overdue:
        """All marks that are not young; of these ledgers, None = of all."""
        count, oldest = 0, list[tuple[int, int, UnderreplicationMark]]()
        async for mark in self.store.underreplication.marks():
            if self.is_young(mark) or (wanted is not None and mark.ledger_id not in wanted):
                continue
            count += 1
            item = (-mark.ctime_ms, -mark.ledger_id, mark)
            if len(oldest) < MARKS_NAMED_MAX:
                heapq.heappush(oldest, item)
            else:
                heapq.heappushpop(oldest, item)
        return Overdue(count, [mark for _at, _id, mark in sorted(oldest, reverse=True)])
