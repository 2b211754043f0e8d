"""The placement check: which ledgers do not keep their copies apart, thousands at once.

Metadata alone decides, so that a finding is a fact of one version of it; the audit reads that again
before it says so. The rule is `protocol.placement`'s, here over columns: racks become numbers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from bookie.errors import SettingsError
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.metadata.store import BookieInfo
from bookie.protocol.availability import Ids
from bookie.protocol.ledger import LedgerMetadata
from bookie.protocol.placement import Adherence, Racks, adherence
from bookie.repair.judge.columns import Flags, LedgerColumns, bounds_of, rows_of
from bookie.yaml_text import parse_yaml

CELLS_MAX: Final = 1 << 22
"""Cells of write sets that are judged at once."""
STRICT, SOFT = "placement_strict", "placement_soft"
CLASS_OF: Final = {Adherence.MEETS_SOFT: STRICT, Adherence.FAIL: SOFT}
"""A finding is named after the rule it breaks; who breaks the soft one breaks both."""


def racks_of(infos: Mapping[BookieId, BookieInfo], overrides: Mapping[BookieId, str]) -> Racks:
    """The racks that registered bookies report; `overrides` by a person come first."""
    return Racks({b: info.rack for b, info in infos.items()} | dict(overrides))


def read_racks(path: Path) -> dict[BookieId, str]:
    """A YAML mapping from bookie id to rack. SettingsError when it is none."""
    try:
        documents = parse_yaml(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SettingsError(f"cannot read racks from {path}: {error}") from error
    found = documents[0] if len(documents) == 1 else None
    if not isinstance(found, dict):
        raise SettingsError(f"{path} is no mapping from bookies to racks")
    for bookie_id, rack in found.items():
        if not isinstance(rack, str) or not rack.startswith("/"):
            raise SettingsError(f"{path}: the rack of {bookie_id} is {rack!r:.60}, expected /rack")
    return {BookieId(str(bookie_id)): rack for bookie_id, rack in found.items()}


def adherence_of(ledgers: LedgerColumns, racks: Racks) -> Ids:
    """For each ledger the worst `Adherence` of its fragments that hold, or may hold, entries."""
    worst = np.full(len(ledgers), Adherence.MEETS_STRICT, np.int64)
    if min(racks.count, racks.min_racks) < 2:
        return worst
    codes = _codes(ledgers.bookies, racks)
    of_fragment = rows_of(ledgers.fragments)
    sizes, quorums = ledgers.ensemble_size[of_fragment], ledgers.write_quorum[of_fragment]
    starts = bounds_of(sizes, len(sizes))[:-1]
    # Both as one number, since np.unique over rows of two columns is slow.
    shapes = np.where(_is_empty(ledgers, of_fragment), 0, sizes << 32 | quorums)
    for shape in np.unique(shapes[shapes > 0]).tolist():
        size, quorum = shape >> 32, shape & 0xFFFFFFFF
        rows = np.flatnonzero(shapes == shape)
        for part in np.array_split(rows, -(-len(rows) * size * quorum // CELLS_MAX)):
            members = codes[ledgers.members[starts[part][:, None] + np.arange(size)]]
            level = _levels(_least_span(members, quorum), racks.needed(quorum))
            np.minimum.at(worst, of_fragment[part], level)
    return worst


def _codes(bookies: Sequence[BookieId], racks: Racks) -> Ids:
    """A number for each bookie's rack; those of unknown racks have one of their own."""
    numbers: dict[str, int] = {}
    places = (racks.place(bookie_id) for bookie_id in bookies)
    return np.array([numbers.setdefault(place, len(numbers)) for place in places], np.int64)


def _is_empty(ledgers: LedgerColumns, of_fragment: Ids) -> Flags:
    """Last fragments of closed ledgers that end before they begin: nothing is misplaced there."""
    is_last = np.zeros(len(of_fragment), np.bool_)
    is_last[ledgers.fragments[1:] - 1] = True
    ends = ledgers.last_entry_id[of_fragment] < ledgers.first_entry_id
    empty: Flags = is_last & ledgers.is_closed[of_fragment] & ends
    return empty


def _least_span(members: Ids, quorum: int) -> Ids:
    """For each row of rack numbers, the smallest number of racks that one of its write sets
    spans."""
    size = members.shape[1]
    if quorum == size:
        sets = members[:, None, :]
    else:
        sets = members[:, (np.arange(size)[:, None] + np.arange(quorum)) % size]
    ordered = np.sort(sets, axis=2)
    spans: Ids = (np.diff(ordered, axis=2) != 0).sum(axis=2).min(axis=1) + 1
    return spans


def _levels(spans: Ids, needed: tuple[int, int]) -> Ids:
    strict, soft = needed
    kept = np.where(spans < strict, Adherence.MEETS_SOFT, Adherence.MEETS_STRICT)
    return np.where(spans < soft, Adherence.FAIL, kept)


@dataclass(frozen=True, slots=True)
class Misplaced:
    """One ledger that does not keep to the rule: its class, and the fragments that do not."""

    ledger_id: LedgerId
    name: str
    fragments: tuple[tuple[EntryId, tuple[BookieId, ...]], ...]


def misplaced(metadata: LedgerMetadata, racks: Racks) -> Misplaced | None:
    """The finding on one ledger; None when it keeps to the strict rule."""
    found: list[tuple[EntryId, tuple[BookieId, ...]]] = []
    worst = Adherence.MEETS_STRICT
    for fragment in metadata.fragments:
        is_last = fragment is metadata.last_fragment
        if is_last and metadata.is_closed and metadata.last_entry_id < fragment.first_entry_id:
            continue
        kept = adherence(fragment.ensemble, write_quorum=metadata.write_quorum, racks=racks)
        if kept is not Adherence.MEETS_STRICT:
            found.append((fragment.first_entry_id, fragment.ensemble))
            worst = min(worst, kept)
    return Misplaced(metadata.ledger_id, CLASS_OF[worst], tuple(found)) if found else None


def misplaced_json(found: Misplaced, racks: Racks) -> dict[str, Any]:
    """The finding as JSON, with the racks for people."""
    lines = [
        f"from entry {first}: " + ", ".join(f"{b} in {racks.of.get(b, '?')}" for b in ensemble)
        for first, ensemble in found.fragments[:FRAGMENTS_SHOWN]
    ]
    left = len(found.fragments) - len(lines)
    more = [f"and {left} more fragments"] if left else []
    return {
        "class": found.name,
        "ledger_id": found.ledger_id,
        "fragments": len(found.fragments),
        "message": "; ".join([*lines, *more]),
    }


FRAGMENTS_SHOWN: Final = 5
