"""Last copies: who holds what is known of the entries that have too few copies.

Whoever takes a bookie away (a disk, a pod, a bookie that leaves) has to know whether it holds the
last known copy of anything. Copies that are unknown are no known ones, and yet may be the only ones
that are left. Bounded; what was cut is counted, so that nobody takes a part for the whole.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from bookie.ids import BookieId, LedgerId
from bookie.protocol.assignment import assigned
from bookie.protocol.availability import EntrySet
from bookie.protocol.ledger import LedgerMetadata
from bookie.repair.judge.expect import Verdict, at_least

COPIES_MIN: Final = 2
"""An entry of a closed ledger with fewer known copies has too few, if it was to have more."""
GROUPS_MAX: Final = 1000
"""Groups of entries that are kept while an audit runs."""
ROWS_MAX: Final = 32
"""Groups in a result."""
LEDGERS_NAMED: Final = 5


class Holders(NamedTuple):
    """Who has copies of a group of entries: by their index `known`, and `perhaps` those that were
    not heard, or whose copy is unknown."""

    known: tuple[BookieId, ...]
    perhaps: tuple[BookieId, ...]


@dataclass(frozen=True, slots=True)
class Held:
    """Of one group: how many entries, of how many ledgers, and the first of these."""

    entries: int
    ledgers: int
    first_ledgers: tuple[LedgerId, ...]

    def __add__(self, other: "Held") -> "Held":
        first = sorted({*self.first_ledgers, *other.first_ledgers})[:LEDGERS_NAMED]
        return Held(self.entries + other.entries, self.ledgers + other.ledgers, tuple(first))


@dataclass(frozen=True, slots=True)
class LastCopies:
    """Entries with too few known copies, grouped by who holds them.

    `left_out`: entries of groups beyond GROUPS_MAX, of which nobody knows any more who holds them.
    """

    groups: Mapping[Holders, Held] = field(default_factory=dict)
    left_out: int = 0

    def __add__(self, other: "LastCopies") -> "LastCopies":
        if not other.groups:
            return LastCopies(self.groups, self.left_out + other.left_out)
        groups, left_out = dict(self.groups), self.left_out + other.left_out
        for holders, held in other.groups.items():
            if holders in groups:
                groups[holders] += held
            elif len(groups) < GROUPS_MAX:
                groups[holders] = held
            else:
                left_out += held.entries
        return LastCopies(groups, left_out)

    def json(self) -> dict[str, Any]:
        """Complete exactly when `held_by` has all `groups` and `entries_left_out` is 0."""
        rows = sorted(self.groups.items(), key=_urgency)
        return {
            "entries": sum(held.entries for held in self.groups.values()) + self.left_out,
            "groups": len(rows),
            "entries_left_out": self.left_out,
            "held_by": [
                {
                    "known": list(holders.known),
                    "perhaps": list(holders.perhaps),
                    "entries": held.entries,
                    "ledgers": held.ledgers,
                    "first_ledgers": list(held.first_ledgers),
                }
                for holders, held in rows[:ROWS_MAX]
            ],
        }


NOTHING: Final = LastCopies()


def _urgency(item: tuple[Holders, Held]) -> tuple[int, int, Holders]:
    holders, held = item
    return len(holders.known), -held.entries, holders


def last_copies(
    metadata: LedgerMetadata, verdict: Verdict, *, copies_min: int = COPIES_MIN
) -> LastCopies:
    """Of one ledger's entries up to `verdict.through`: those with fewer known copies than the ack
    quorum; of a CLOSED one, whose copies are all known of, those with fewer than `copies_min`, too.

    What nobody has a copy of any more is left out: there is nothing that could be kept.
    """
    enough = metadata.ack_quorum
    if metadata.is_closed:
        enough = max(enough, min(copies_min, metadata.write_quorum))
    lacking = {b: s for b, s in verdict.shares.items() if s.missing or s.unknown}
    # However the holes lie, an entry lacks at most one copy for each member with holes.
    if len(lacking) <= metadata.write_quorum - enough or verdict.through < 0:
        return NOTHING
    present, unknown = {}, {}
    for bookie_id, share in verdict.shares.items():
        owed = assigned(metadata, bookie_id, through=verdict.through)
        present[bookie_id] = owed - share.missing - share.unknown if bookie_id in lacking else owed
        unknown[bookie_id] = share.unknown
    every = EntrySet.from_ranges([(0, verdict.through)])
    thin = every - at_least(enough, list(present.values())) - verdict.lost
    return _grouped(verdict.ledger_id, thin, present, unknown)


def _grouped(
    ledger_id: LedgerId,
    thin: EntrySet,
    present: Mapping[BookieId, EntrySet],
    unknown: Mapping[BookieId, EntrySet],
) -> LastCopies:
    parts: list[tuple[EntrySet, Holders]] = [(thin, Holders((), ()))] if thin else []
    left_out = 0
    for bookie_id in sorted(present):
        split: list[tuple[EntrySet, Holders]] = []
        for entries, holders in parts:
            here, maybe = entries & present[bookie_id], entries & unknown[bookie_id]
            known, perhaps = (*holders.known, bookie_id), (*holders.perhaps, bookie_id)
            split += [
                (here, Holders(known, holders.perhaps)),
                (maybe, Holders(holders.known, perhaps)),
                (entries - here - maybe if here or maybe else entries, holders),
            ]
        parts = [part for part in split if part[0]]
        left_out += sum(len(entries) for entries, _ in parts[GROUPS_MAX:])
        parts = parts[:GROUPS_MAX]
    return sum_of(
        LastCopies({holders: Held(len(entries), 1, (ledger_id,))})
        for entries, holders in parts
        if holders != Holders((), ())
    ) + LastCopies(left_out=left_out)


def sum_of(parts: Iterable[LastCopies]) -> LastCopies:
    """All of them together."""
    total = NOTHING
    for part in parts:
        total += part
    return total
