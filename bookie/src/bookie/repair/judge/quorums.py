"""Which quorums ledgers have: how many copies of their entries one may count on.

A cluster's spec names an ack quorum, and any client may create ledgers with a lower one. How many
bookies may be away at once is up to the lowest: of a ledger that is written only its ack quorum of
copies is certain; of a CLOSED one all are there that its write quorum names, or an audit says which
are not (`last_copies`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from bookie.ids import LedgerId
from bookie.protocol.ledger import LedgerMetadata
from bookie.repair.judge.columns import Flags, LedgerColumns

LEDGERS_NAMED: Final = 5
LOW: Final = "low_ack_quorum"
"""The class of ledgers with a lower ack quorum than is asked for."""
ROWS_MAX: Final = 16
"""Rows of a result; ledgers of the others are counted."""


class Shape(NamedTuple):
    """`copies`: of each entry that one may count on."""

    copies: int
    ack_quorum: int


@dataclass(frozen=True, slots=True)
class Ledgers:
    """How many there are of a shape, and those with the lowest ids."""

    count: int
    first: tuple[LedgerId, ...]

    def __add__(self, other: "Ledgers") -> "Ledgers":
        first = sorted({*self.first, *other.first})[:LEDGERS_NAMED]
        return Ledgers(self.count + other.count, tuple(first))


Quorums = Mapping[Shape, Ledgers]


def quorum_of(metadata: LedgerMetadata) -> Quorums:
    """Counts one ledger under the quorums that it has."""
    copies = metadata.write_quorum if metadata.is_closed else metadata.ack_quorum
    return {Shape(copies, metadata.ack_quorum): Ledgers(1, (metadata.ledger_id,))}


def quorums_of(ledgers: LedgerColumns, chosen: Flags) -> Quorums:
    """Of many ledgers: the `chosen` rows."""
    ack, ids = ledgers.ack_quorum[chosen], ledgers.ledger_id[chosen]
    copies = np.where(ledgers.is_closed[chosen], ledgers.write_quorum[chosen], ack)
    # Both as one number, since np.unique over rows of two columns is slow.
    shapes = copies << 32 | ack
    found: dict[Shape, Ledgers] = {}
    for shape in np.unique(shapes).tolist():
        alike = ids[shapes == shape]
        first = tuple(map(LedgerId, np.sort(alike)[:LEDGERS_NAMED].tolist()))
        found[Shape(shape >> 32, shape & 0xFFFFFFFF)] = Ledgers(len(alike), first)
    return found


def all_quorums(parts: Iterable[Quorums]) -> Quorums:
    """All of them together."""
    total: dict[Shape, Ledgers] = {}
    for part in parts:
        for shape, ledgers in part.items():
            total[shape] = total[shape] + ledgers if shape in total else ledgers
    return total


def quorums_json(quorums: Quorums, asked: int | None) -> dict[str, Any]:
    """`asked`: the ack quorum that every ledger should have; None = any."""
    copies_lowest = min((shape.copies for shape in quorums), default=None)
    lowest = all_quorums(
        {Shape(0, 0): ledgers} for s, ledgers in quorums.items() if s.copies == copies_lowest
    )
    by_ack = _by_ack(quorums)
    return {
        "ack_asked": asked,
        "ack_lowest": min(by_ack, default=None),
        "copies_lowest": copies_lowest,
        "ledgers_lowest": list(lowest[Shape(0, 0)].first) if lowest else [],
        "ledgers_by_ack": {str(ack): by_ack[ack].count for ack in sorted(by_ack)[:ROWS_MAX]},
    }


def low_json(quorums: Quorums, asked: int | None) -> list[dict[str, Any]]:
    """Ledgers with a lower ack quorum than is asked for, as findings, the lowest first."""
    by_ack = _by_ack(quorums)
    return [
        {
            "class": LOW,
            "ack_quorum": ack,
            "expected": asked,
            "ledgers": by_ack[ack].count,
            "first_ledgers": list(by_ack[ack].first),
            "message": _message(ack, by_ack[ack]),
        }
        for ack in sorted(by_ack)[:ROWS_MAX]
        if asked is not None and ack < asked
    ]


def low_count(quorums: Quorums, asked: int | None) -> int:
    """How many ledgers have a lower ack quorum than is asked for."""
    return sum(
        one.count for s, one in quorums.items() if asked is not None and s.ack_quorum < asked
    )


def _by_ack(quorums: Quorums) -> dict[int, Ledgers]:
    by_ack: dict[int, Ledgers] = {}
    for shape, ledgers in quorums.items():
        ack = shape.ack_quorum
        by_ack[ack] = by_ack[ack] + ledgers if ack in by_ack else ledgers
    return by_ack


def _message(ack: int, ledgers: Ledgers) -> str:
    more = ", ..." if ledgers.count > len(ledgers.first) else ""
    where = f"{', '.join(map(str, ledgers.first))}{more}: an entry may be on {ack} bookies only"
    if ack == 1:
        return f"{where}, so that one crash loses it where acks come from memory"
    return where
