"""Ledgers that no recovery can close, as the status tells of them: what a person needs to decide.

Several bookies' repairs find the same ledger, since several forgot; a person decides about it once.
"""

from collections.abc import Iterable, Sequence
from typing import Annotated, Final

from bookie.ids import LedgerId
from bookie.ledger_selector import TEXT_MAX, LedgerSelector, SelectedLedgers
from pydantic import Field

from bookie_operator.model.base import Count, ShortText, StatusPart

UNDECIDED_MAX: Final = 20
"""Ledgers that the status names."""
NAMED_MAX: Final = 5
"""Ledgers that a sentence names."""
MEMBERS_MAX: Final = 100
"""Bookies that are named together."""


class UndecidedLedger(StatusPart):
    """A ledger whose end no recovery can find: too many bookies may have forgotten an entry."""

    ledger: Count
    """Id of the ledger."""
    entry: Count
    """Id of the first entry of which nobody can say whether it was acknowledged."""
    last_confirmed: Annotated[int, Field(ge=-1)] = -1
    """Entries to this id were acknowledged for certain, and are kept; -1 if none is known to be."""
    forgotten_by: Annotated[tuple[ShortText, ...], Field(max_length=MEMBERS_MAX)] = ()
    """Ids of the bookies that may have forgotten the entry."""

    @property
    def text(self) -> str:
        """`ledger 4 from entry 10 on (to 9 acknowledged; forgotten by bookie-0, bookie-1)`"""
        sure = f"to {self.last_confirmed} acknowledged" if self.last_confirmed >= 0 else ""
        who = f"forgotten by {', '.join(self.forgotten_by)}" if self.forgotten_by else ""
        known = "; ".join(filter(None, (sure, who)))
        return f"ledger {self.ledger} from entry {self.entry} on" + (f" ({known})" if known else "")


class UndecidedStatus(StatusPart):
    """The ledgers that a repair could not close, at its last attempt."""

    ledgers: Count = 0
    """How many wait for a person: every bookie was asked, and none can decide."""
    through: Count | None = None
    """The highest id of these ledgers; absent if there are none."""
    first: Annotated[tuple[UndecidedLedger, ...], Field(max_length=UNDECIDED_MAX)] = ()
    """The first of them, at most 20, by id."""
    waiting: Count = 0
    """How many more wait for bookies that are away."""
    away: Annotated[tuple[ShortText, ...], Field(max_length=MEMBERS_MAX)] = ()
    """Ids of these bookies."""


def for_a_person(found: Iterable[UndecidedStatus | None]) -> list[UndecidedStatus]:
    """Those that have ledgers which only a person can decide about."""
    return [one for one in found if one is not None and one.ledgers]


def named(found: Iterable[UndecidedStatus | None]) -> list[UndecidedLedger]:
    """Each ledger once, by id, as far as the repairs name them."""
    rows: dict[int, UndecidedLedger] = {}
    for row in (row for one in found if one is not None for row in one.first):
        known = rows.get(row.ledger)
        if known is None or row.entry < known.entry:  # of two entries the one that gives up more
            rows[row.ledger] = row
    return [rows[ledger] for ledger in sorted(rows)]


def how_many(found: Iterable[UndecidedStatus | None]) -> int:
    """Of different ledgers; where not all are named, at least so many."""
    known = [one for one in found if one is not None]
    return max([len(named(known)), *(one.ledgers for one in known)])


def in_words(found: Sequence[UndecidedStatus]) -> str:
    """`2 ledgers wait for a person: ledger 4 ...; ledger 7 ...`"""
    total, rows = how_many(found), named(found)[:NAMED_MAX]
    left = total - len(rows)
    noun = "ledger waits" if total == 1 else "ledgers wait"
    parts = [row.text for row in rows] + ([f"and {left} more"] if rows and left else [])
    return f"{total} {noun} for a person" + (f": {'; '.join(parts)}" if parts else "")


def selector(found: Iterable[UndecidedStatus | None]) -> LedgerSelector | None:
    """What a person would select to decide about all of them: each with its entry, or a range if
    there are more than are named; None: there are none."""
    known = for_a_person(found)
    if not known:
        return None
    rows = named(known)
    single = LedgerSelector.of((row.ledger, row.entry) for row in rows)
    if all(one.ledgers == len(one.first) for one in known) and len(str(single)) <= TEXT_MAX:
        return single
    ids = [row.ledger for row in rows] + [one.through or 0 for one in known]
    first = min(ids) if all(one.first for one in known) else 0
    return LedgerSelector((SelectedLedgers(LedgerId(first), LedgerId(max(ids))),))
