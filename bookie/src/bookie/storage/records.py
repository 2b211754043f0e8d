"""What a bookie remembers of a ledger beside its entries, and the fence boundary of a boot.

A record travels: memory at once -> journal (durable, then it is answered) -> index at the next
checkpoint. After a crash the journal may hold older states than the index and the index older ones
than the journal, so states are *merged*, never overwritten: `merged` is commutative, associative
and idempotent, and no replay order can take back a fence, a tombstone or a newer limbo mark.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from bookie.protocol.entry import Buffer
from bookie.protocol.errors import CorruptError
from bookie.protocol.ids import NO_ENTRY, EntryId, LedgerId

MASTER_KEY_BYTES_MAX: Final = 255

_RECORD: Final = struct.Struct(">BBBqqqq")
_RECORD_VERSION: Final = 1
_FENCED: Final = 1
_LIMBO: Final = 2
_DELETED: Final = 4
_BOUNDARY: Final = struct.Struct(">BqqII")
_BOUNDARY_VERSION: Final = 2
_IDS: Final = np.dtype(">i8")


@dataclass(frozen=True, slots=True)
class LedgerRecord:
    """State of one ledger on this bookie. Epochs are boot epochs, 0 = never."""

    ledger_id: LedgerId
    master_key: bytes | None = None
    """None until the first request that carries one teaches it."""
    fenced: bool = False
    limbo: bool = False
    mark_epoch: int = 0
    """Boot that set the latest limbo mark; stays when the mark is cleared."""
    checked_epoch: int = 0
    """Latest boot whose check of this ledger ended well."""
    explicit_lac: EntryId = NO_ENTRY
    deleted: bool = False

    def merged(self, other: "LedgerRecord") -> "LedgerRecord":
        """The state after both.

        Fence and tombstone stay for ever, epochs and LAC only grow, the first master key stays.
        Limbo is what the later mark says; of the same mark, cleared is the later state.
        """
        assert self.ledger_id == other.ledger_id
        if self.mark_epoch == other.mark_epoch:
            limbo = self.limbo and other.limbo
        else:
            limbo = max(self, other, key=lambda record: record.mark_epoch).limbo
        return LedgerRecord(
            self.ledger_id,
            master_key=self.master_key if self.master_key is not None else other.master_key,
            fenced=self.fenced or other.fenced,
            limbo=limbo,
            mark_epoch=max(self.mark_epoch, other.mark_epoch),
            checked_epoch=max(self.checked_epoch, other.checked_epoch),
            explicit_lac=max(self.explicit_lac, other.explicit_lac),
            deleted=self.deleted or other.deleted,
        )

    def marked(self, epoch: int) -> "LedgerRecord":
        """In limbo and fenced since the boot `epoch`."""
        assert epoch >= self.mark_epoch
        return replace(self, limbo=True, fenced=True, mark_epoch=epoch)

    def encode(self) -> bytes:
        key = self.master_key or b""
        assert len(key) <= MASTER_KEY_BYTES_MAX
        flags = _FENCED * self.fenced | _LIMBO * self.limbo | _DELETED * self.deleted
        head = _RECORD.pack(
            _RECORD_VERSION, flags, len(key), self.ledger_id,
            self.mark_epoch, self.checked_epoch, self.explicit_lac,
        )  # fmt: skip
        return head + key

    @classmethod
    def decode(cls, payload: Buffer) -> "LedgerRecord":
        """The record in a journal payload; CorruptError when it is none."""
        if len(payload) < _RECORD.size or payload[0] != _RECORD_VERSION:
            raise CorruptError(
                f"a ledger record of {len(payload)} bytes starts with {bytes(payload[:1])!r}, "
                f"expected version {_RECORD_VERSION} and {_RECORD.size} bytes or more"
            )
        _v, flags, key_bytes, ledger, mark, checked, lac = _RECORD.unpack_from(payload)
        key = bytes(payload[_RECORD.size :])
        if len(key) != key_bytes:
            raise CorruptError(f"master key of ledger {ledger}: {len(key)} of {key_bytes} bytes")
        return cls(
            LedgerId(ledger),
            master_key=key or None,
            fenced=bool(flags & _FENCED),
            limbo=bool(flags & _LIMBO),
            mark_epoch=mark,
            checked_epoch=checked,
            explicit_lac=EntryId(lac),
            deleted=bool(flags & _DELETED),
        )


@dataclass(frozen=True, slots=True)
class Boundary:
    """Every ledger that existed at an unclean boot: ids up to a limit, and single higher ones.

    `recovering`: those of them that were IN_RECOVERY then (S37). Later boots must not look again:
    a recovery that began after this one may be waiting for what the bookie says (`clear`).
    """

    epoch: int
    last_ledger_id: LedgerId
    extra_ids: frozenset[LedgerId] = field(default_factory=frozenset)
    recovering: frozenset[LedgerId] = field(default_factory=frozenset)

    def covers(self, ledger_id: LedgerId) -> bool:
        return ledger_id <= self.last_ledger_id or ledger_id in self.extra_ids

    def merged(self, other: "Boundary") -> "Boundary":
        """Covers what either covers, with the later epoch.

        A later boot may not list an explicit id that was deleted meanwhile: it stays covered (S40).
        What was being recovered is what the later boot saw: of the others each has ended since.
        """
        last = max(self.last_ledger_id, other.last_ledger_id)
        extra = frozenset(i for i in self.extra_ids | other.extra_ids if i > last)
        later = max(self, other, key=lambda boundary: boundary.epoch)
        return Boundary(later.epoch, last, extra, later.recovering)

    def encode(self) -> bytes:
        counts = len(self.extra_ids), len(self.recovering)
        head = _BOUNDARY.pack(_BOUNDARY_VERSION, self.epoch, self.last_ledger_id, *counts)
        ids = [*sorted(self.extra_ids), *sorted(self.recovering)]
        return head + np.array(ids, _IDS).tobytes()

    @classmethod
    def decode(cls, payload: Buffer) -> "Boundary":
        """The boundary in an index fact; CorruptError when it is none."""
        if len(payload) < _BOUNDARY.size or payload[0] != _BOUNDARY_VERSION:
            raise CorruptError(
                f"a fence boundary of {len(payload)} bytes is not of version {_BOUNDARY_VERSION}"
            )
        _v, epoch, last, extra, recovering = _BOUNDARY.unpack_from(payload)
        count = extra + recovering
        if len(payload) != _BOUNDARY.size + 8 * count:
            raise CorruptError(f"a fence boundary of {count} single ids has {len(payload)} bytes")
        ids = np.frombuffer(payload, _IDS, count, _BOUNDARY.size).tolist()
        return cls(epoch, LedgerId(last), frozenset(ids[:extra]), frozenset(ids[extra:]))


def union(boundaries: Iterable[Boundary | None]) -> Boundary | None:
    """The boundary that covers what any of them covers; None when there is none."""
    found: Boundary | None = None
    for boundary in boundaries:
        if boundary is not None:
            found = boundary if found is None else found.merged(boundary)
    return found
