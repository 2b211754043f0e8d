"""Which bookie takes over which part of a ledger when one leaves: pure arithmetic on metadata.

Only what is finished moves: every fragment of a CLOSED ledger, and of an OPEN one those before the
last, whose entries were all acknowledged before the last began. The writer's own changes touch the
last fragment alone, and compare-and-set keeps the two apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from zlib import crc32

from bookie.errors import NotEnoughBookiesError
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.protocol.assignment import held_by_position
from bookie.protocol.availability import EMPTY, EntrySet
from bookie.protocol.ledger import LedgerMetadata, LedgerState
from bookie.protocol.placement import NO_RACKS, Racks, choose


@dataclass(frozen=True, slots=True)
class Move:
    """One position of one fragment changes hands. `owed`: the entries that belong to it."""

    fragment: int
    position: int
    target: BookieId
    owed: EntrySet


def plan_moves(
    metadata: LedgerMetadata,
    leaving: BookieId,
    candidates: Sequence[BookieId],
    *,
    racks: Racks = NO_RACKS,
) -> tuple[Move, ...]:
    """A move for each finished fragment that names `leaving`; empty when none does.

    NotEnoughBookiesError when every candidate is in the ensemble already. The choice depends on
    nothing but the ledger, the candidates and their racks, so that a second run goes on with the
    first one's.
    """
    preferred = in_order_of_preference(metadata.ledger_id, candidates)
    return tuple(
        Move(
            number,
            position := fragment.ensemble.index(leaving),
            _target(metadata, fragment.ensemble, position, preferred, racks),
            _owed(metadata, number, position),
        )
        for number, fragment in enumerate(metadata.fragments[: finished(metadata)])
        if leaving in fragment.ensemble
    )


def finished(metadata: LedgerMetadata) -> int:
    """How many fragments no writer and no recoverer can touch any more."""
    if metadata.is_closed:
        return len(metadata.fragments)
    return len(metadata.fragments) - 1 if metadata.state is LedgerState.OPEN else 0


def in_order_of_preference(
    ledger_id: LedgerId, candidates: Sequence[BookieId]
) -> tuple[BookieId, ...]:
    """Another order for each ledger, the same at each run: load spreads, and copies are found."""
    return tuple(sorted(candidates, key=lambda b: (crc32(f"{ledger_id} {b}".encode()), b)))


def _target(
    metadata: LedgerMetadata,
    ensemble: Sequence[BookieId],
    position: int,
    preferred: Sequence[BookieId],
    racks: Racks,
) -> BookieId:
    quorum = metadata.write_quorum
    target = choose(ensemble, position, preferred, write_quorum=quorum, racks=racks)
    if target is not None:
        return target
    raise NotEnoughBookiesError(
        f"ledger {metadata.ledger_id}: no writable bookie outside {', '.join(ensemble)} can take "
        f"its place ({', '.join(sorted(preferred)) or 'none'} could be asked): start one more"
    )


def _owed(metadata: LedgerMetadata, number: int, position: int) -> EntrySet:
    first = metadata.fragments[number].first_entry_id
    last = _last_of(metadata, number)
    if last < first:
        return EMPTY
    return held_by_position(
        position,
        first=first,
        last=last,
        ensemble_size=metadata.ensemble_size,
        write_quorum=metadata.write_quorum,
    )


def _last_of(metadata: LedgerMetadata, number: int) -> EntryId:
    ends = [metadata.last_entry_id] if metadata.is_closed else []
    if number + 1 < len(metadata.fragments):
        ends.append(EntryId(metadata.fragments[number + 1].first_entry_id - 1))
    return min(ends)


def are_made(metadata: LedgerMetadata, moves: Sequence[Move]) -> bool:
    """True when the ledger names every target where it was to be named, whoever wrote that."""
    fragments = metadata.fragments
    return all(
        move.fragment < len(fragments)
        and fragments[move.fragment].ensemble[move.position] == move.target
        for move in moves
    )


def owed_by_target(moves: Sequence[Move]) -> dict[BookieId, EntrySet]:
    """All that each target has to hold before the ledger may name it."""
    owed: dict[BookieId, EntrySet] = {}
    for move in moves:
        owed[move.target] = owed.get(move.target, EMPTY) | move.owed
    return owed


def moved(metadata: LedgerMetadata, moves: Sequence[Move]) -> LedgerMetadata:
    """The value to compare-and-set once every target holds what it owes."""
    fragments = list(metadata.fragments)
    for move in moves:
        fragment = fragments[move.fragment]
        ensemble = list(fragment.ensemble)
        ensemble[move.position] = move.target
        assert len(set(ensemble)) == len(set(fragment.ensemble))
        fragments[move.fragment] = replace(fragment, ensemble=tuple(ensemble))
    return metadata.with_fragments(fragments)
