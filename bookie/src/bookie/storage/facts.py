"""Durable facts of one ledger directory, beside rows and records: what a boot must know first.

All of them change in the same transactions as what they speak of. Suspicions are what an open found
wrong; they stay until the boot has dealt with them, because the evidence itself (a torn tail, a
hole in the journal) is gone once the open has gone on.
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
"""Position before any log file: scan all there is."""

_POSITION: Final = "indexed_to"
_FENCE: Final = "fence_boundary"
_UNCHECKED: Final = "unchecked_boundary"
_SUSPICIONS: Final = "suspicions"


class Suspicion(Enum):
    """What an open found; see OpenReport."""

    TORN = "torn"
    JOURNAL_LOST = "journal_lost"
    INDEX_REBUILT = "index_rebuilt"


@dataclass(frozen=True, slots=True)
class DirectoryFacts:
    """`indexed_to`: (log file id, offset) up to which the index holds every frame."""

    indexed_to: tuple[int, int] = START
    fence: Boundary | None = None
    unchecked: Boundary | None = None
    suspicions: frozenset[Suspicion] = field(default_factory=frozenset)

    def with_position(self, indexed_to: tuple[int, int]) -> "DirectoryFacts":
        return replace(self, indexed_to=indexed_to)

    def with_suspicions(self, found: frozenset[Suspicion]) -> "DirectoryFacts":
        return replace(self, suspicions=self.suspicions | found)

    def settled(self) -> "DirectoryFacts":
        return replace(self, suspicions=frozenset())

    def encode(self) -> dict[str, bytes | None]:
        """Rows of the fact table; None removes one."""
        return {
            _POSITION: json.dumps(self.indexed_to).encode(),
            _FENCE: self.fence.encode() if self.fence else None,
            _UNCHECKED: self.unchecked.encode() if self.unchecked else None,
            _SUSPICIONS: json.dumps(sorted(s.value for s in self.suspicions)).encode(),
        }

    @classmethod
    def decode(cls, rows: Mapping[str, bytes]) -> "DirectoryFacts":
        """From the rows of the fact table; CorruptError when one makes no sense."""
        fence, unchecked = rows.get(_FENCE), rows.get(_UNCHECKED)
        try:
            file_id, offset = parse_json(rows.get(_POSITION, b"[0, 0]"))
            found = parse_json(rows.get(_SUSPICIONS, b"[]"))
            return cls(
                (int(file_id), int(offset)),
                Boundary.decode(fence) if fence is not None else None,
                Boundary.decode(unchecked) if unchecked is not None else None,
                frozenset(map(Suspicion, found)),
            )
        except (ValueError, TypeError) as error:
            raise CorruptError(
                f"a fact of the index is unreadable: {error}; run `bookie index rebuild`"
            ) from error
