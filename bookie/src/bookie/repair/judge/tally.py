"""Copies by bookie: what each owes, and what became of it. What reports show and plot.

A copy is one entry on one bookie, so that an entry of three replicas counts three times here. The
first look (`bulk`) gives the copies of ledgers that are wholly there, `audit.Look` those of others.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bookie.ids import BookieId
from bookie.repair.judge.expect import Share


@dataclass(frozen=True, slots=True)
class Tally:
    """Copies of one bookie: `owed` = `held` + `missing` + `unknown`.

    `corrupt`: of `missing`, those that are there and no good; only a deep look can tell.
    """

    owed: int = 0
    held: int = 0
    missing: int = 0
    unknown: int = 0
    corrupt: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            self.owed + other.owed,
            self.held + other.held,
            self.missing + other.missing,
            self.unknown + other.unknown,
            self.corrupt + other.corrupt,
        )


Tallies = Mapping[BookieId, Tally]


def tally_of(share: Share) -> Tally:
    """The copies of one bookie of one ledger."""
    return Tally(
        len(share.owed), len(share.present), len(share.missing), len(share.unknown),
        len(share.corrupt),
    )  # fmt: skip


def whole(copies: Mapping[BookieId, int]) -> dict[BookieId, Tally]:
    """Tallies in which every bookie holds all the copies that it owes."""
    return {bookie_id: Tally(owed=count, held=count) for bookie_id, count in copies.items()}


def summed(parts: Iterable[Tallies]) -> dict[BookieId, Tally]:
    """All of them, by bookie."""
    total: dict[BookieId, Tally] = {}
    for part in parts:
        for bookie_id, tally in part.items():
            total[bookie_id] = total.get(bookie_id, Tally()) + tally
    return total
