"""Durable facts about one ledger directory that a boot must know first.

They are in the index, beside rows and records, and change in the same transaction as the state that
they describe. A suspicion is damage that an open has found. It stays until a boot has dealt with
it, because the evidence itself (a torn tail, a hole in the journal) is gone once the open has
finished.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from bookie.bounded import parse_json
from bookie.errors import CorruptError
from bookie.storage.records import Boundary

START: Final = (0, 0)
"""The position before all log files: a scan from here reads everything."""

_POSITION: Final = "indexed_to"
_FENCE: Final = "fence_boundary"
_UNCHECKED: Final = "unchecked_boundary"
_SUSPICIONS: Final = "suspicions"
_NOTED_TO: Final = "noted_to"


class Suspicion(Enum):
    """A kind of damage that an open found; see OpenReport."""

    TORN = "torn"
    JOURNAL_LOST = "journal_lost"
    INDEX_REBUILT = "index_rebuilt"


@dataclass(frozen=True, slots=True)
class DirectoryFacts:
    """Facts about one ledger directory. `indexed_to`: (log file id, offset) up to which the index
    has every frame. `fence`, `unchecked`: its boundaries, None = there is none. `noted_to`: number
    of the journal's record up to which the index has all notes of its ledgers; None = notes may be
    missing. A version that keeps no notes leaves it as it is, and trims the journal beyond it.
    """

    indexed_to: tuple[int, int] = START
    fence: Boundary | None = None
    unchecked: Boundary | None = None
    suspicions: frozenset[Suspicion] = field(default_factory=frozenset)
    noted_to: int | None = None

    def with_position(
        self, indexed_to: tuple[int, int], *, sequence: int | None
    ) -> "DirectoryFacts":
        """These facts after a commit that covers the log up to `indexed_to` and the journal up to
        its record `sequence`; None = a part of the journal that is not known. Notes that are
        missing stay so.
        """
        noted_to = self.noted_to
        if noted_to is not None and sequence is not None:
            noted_to = sequence
        return replace(self, indexed_to=indexed_to, noted_to=noted_to)

    def with_suspicions(self, found: frozenset[Suspicion]) -> "DirectoryFacts":
        return replace(self, suspicions=self.suspicions | found)

    def settled(self, *, sequence: int) -> "DirectoryFacts":
        """These facts once a boot has dealt with the suspicions and with missing notes: from here
        on, behind the journal's record `sequence`, notes are whole.
        """
        return replace(self, suspicions=frozenset(), noted_to=sequence)

    def encode(self) -> dict[str, bytes | None]:
        """The rows of the fact table; None removes a row."""
        return {
            _POSITION: json.dumps(self.indexed_to).encode(),
            _FENCE: self.fence.encode() if self.fence else None,
            _UNCHECKED: self.unchecked.encode() if self.unchecked else None,
            _SUSPICIONS: json.dumps(sorted(s.value for s in self.suspicions)).encode(),
            _NOTED_TO: None if self.noted_to is None else json.dumps(self.noted_to).encode(),
        }

    @classmethod
    def decode(cls, rows: Mapping[str, bytes]) -> "DirectoryFacts":
        """Parse the rows of the fact table; CorruptError when one is malformed."""
        fence, unchecked = rows.get(_FENCE), rows.get(_UNCHECKED)
        try:
            file_id, offset = parse_json(rows.get(_POSITION, b"[0, 0]"))
            found = parse_json(rows.get(_SUSPICIONS, b"[]"))
            noted_to = parse_json(rows.get(_NOTED_TO, b"null"))
            return cls(
                (int(file_id), int(offset)),
                Boundary.decode(fence) if fence is not None else None,
                Boundary.decode(unchecked) if unchecked is not None else None,
                frozenset(map(Suspicion, found)),
                None if noted_to is None else int(noted_to),
            )
        except (ValueError, TypeError) as error:
            raise CorruptError(
                f"a fact of the index is unreadable: {error}; run `bookie index rebuild`"
            ) from error
