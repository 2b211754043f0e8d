"""Where a recovery would end a ledger now, and what that would give up: asked without a change.

A recovery fences, writes back and may close; a person who only wants to see what a decision would
mean must not set it off. So this judges by what bookies list, as a recovery judges by what it reads
(R4): a copy keeps an entry, enough denials end the ledger before it, anything else is undecidable.
A copy that is listed and cannot be read is seen only by the recovery itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bookie.ids import ENTRY_ID_MAX, BookieId, EntryId, LedgerId
from bookie.protocol.assignment import assigned
from bookie.protocol.availability import EMPTY, EntrySet
from bookie.protocol.ledger import LedgerMetadata
from bookie.protocol.quorum import fence_covers, write_set
from bookie.repair.judge.expect import Holding, known_lac, must_exist_through


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a close of one ledger would mean."""

    ledger_id: LedgerId
    last_add_confirmed: EntryId
    """Entries to this id were acknowledged for certain."""
    closes_at: EntryId
    """The last entry that would be kept; lower where enough members deny an entry above
    `last_add_confirmed` before the one that has a copy answers."""
    forgotten_by: tuple[BookieId, ...]
    """Members that may have forgotten the next entry; none: it was denied, and nothing is lost."""
    away: tuple[BookieId, ...]
    """Members that could not be asked: no close is possible, or decided, before they answer."""

    @property
    def first_in_question(self) -> EntryId | None:
        """None: nothing is."""
        return EntryId(self.closes_at + 1) if self.forgotten_by or self.away else None

    def json(self) -> dict[str, Any]:
        return {
            "ledger_id": self.ledger_id,
            "first_in_question": self.first_in_question,
            "last_add_confirmed": self.last_add_confirmed,
            "closes_at": self.closes_at,
            "forgotten_by": list(self.forgotten_by),
            "away": list(self.away),
        }


def outlook(metadata: LedgerMetadata, holdings: Mapping[BookieId, Holding]) -> Outlook:
    """`holdings`: of each member of the last fragment's ensemble."""
    lac = must_exist_through(metadata, lac=known_lac(holdings.values()))
    listed = EMPTY
    for member, holding in holdings.items():
        if holding.entries:
            owed = assigned(metadata, member, through=holding.entries.last)
            listed |= holding.entries & owed
    entry = (EntrySet.from_ranges([(lac + 1, ENTRY_ID_MAX)]) - listed).first
    ensemble = metadata.last_fragment.ensemble
    members = write_set(entry, ensemble=ensemble, write_quorum=metadata.write_quorum)
    unknown = [member for member in members if not holdings[member].denies_absent]
    away = [member for member in ensemble if not holdings[member].has_searched]
    is_denied = len(members) - len(unknown) > metadata.write_quorum - metadata.ack_quorum
    if is_denied and can_fence(metadata, holdings):
        return Outlook(metadata.ledger_id, lac, EntryId(entry - 1), (), ())
    forgotten_by = [] if is_denied else [one for one in unknown if one not in away]
    return Outlook(
        metadata.ledger_id,
        lac,
        EntryId(entry - 1),
        tuple(sorted(forgotten_by)),
        tuple(sorted(away)),
    )


def can_fence(metadata: LedgerMetadata, holdings: Mapping[BookieId, Holding]) -> bool:
    """Whether those that answer are enough to shut out the old writer: nothing can have been
    acknowledged that none of them holds.
    """
    ensemble = metadata.last_fragment.ensemble
    return fence_covers(
        [position for position, one in enumerate(ensemble) if holdings[one].has_searched],
        ensemble_size=metadata.ensemble_size,
        write_quorum=metadata.write_quorum,
        ack_quorum=metadata.ack_quorum,
    )
