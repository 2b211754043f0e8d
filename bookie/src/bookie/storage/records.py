"""The record that a bookie keeps of a ledger beside its entries, and the fence boundary of a boot.

A changed record is in memory at once, then in the journal (once it is durable there, the bookie
answers), then in the index at the next checkpoint. After a crash the journal may hold older states
than the index, or newer ones, so states are *merged*, never overwritten. `merged` is commutative,
associative and idempotent, and no replay order can take back a fence, a newer limbo mark, a
tombstone, a note, or the fact that the metadata store named the ledger again after it was
collected.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from bookie.errors import BadRequestError, CorruptError
from bookie.frames.entry import Buffer
from bookie.ids import NO_ENTRY, EntryId, LedgerId

MASTER_KEY_BYTES_MAX: Final = 255
LAC_BODY_BYTES_MAX: Final = 1024
"""The longest body of an explicit LAC from a stock client that is stored; a real one has 16 bytes
and a digest."""

_RECORD: Final = struct.Struct(">BBBqqqq")
_RECORD_VERSION: Final = 1
_RECORD_VERSION_LAC: Final = 2
"""The version of records with a LAC body behind the key. Records without one keep the version that
older programs read."""
_LAC_BODY: Final = struct.Struct(">qq")
_FENCED: Final = 1
_LIMBO: Final = 2
_DELETED: Final = 4
_RETURNS_SHIFT: Final = 3
"""The bits of the flags from here on count returns; older versions ignore them."""
RETURNS_MAX: Final = 31
"""After so many returns a tombstone of this ledger stays."""
RETURNS_BY_DOUBT_MAX: Final = 15
"""How many returns retractions of loss records may use; the others are for collected ledgers that
exist again."""
_BOUNDARY: Final = struct.Struct(">BqqII")
_BOUNDARY_VERSION: Final = 2
_IDS: Final = np.dtype(">i8")


@dataclass(frozen=True, slots=True)
class LedgerRecord:
    """The state of one ledger on this bookie. Epochs are boot epochs, 0 = never."""

    ledger_id: LedgerId
    master_key: bytes | None = field(default=None, repr=False)
    """The key of the first request that carried one; None until then."""
    fenced: bool = False
    limbo: bool = False
    mark_epoch: int = 0
    """The boot that set the latest limbo mark; it stays when the mark is cleared."""
    checked_epoch: int = 0
    """The latest boot whose check of this ledger succeeded."""
    explicit_lac: EntryId = NO_ENTRY
    deleted: bool = False
    """The ledger was collected: only this tombstone is left."""
    returns: int = 0
    """How often a new limbo mark replaced the state: because the metadata store named the ledger
    again after it was collected, or because a loss record was taken back."""
    lac_body: bytes = b""
    """The highest explicit LAC as a stock client signed it: ledger id, LAC, digest; empty = none.
    The bookie returns it verbatim. Native clients do not sign theirs, so `explicit_lac` may be
    higher."""
    noted: bool = False
    """The ledger has a note: entries of it may be here that no disk has yet. Journal and index keep
    notes beside the encoded record, where older versions pass over them."""

    def merged(self, other: "LedgerRecord") -> "LedgerRecord":
        """The state that results from both records.

        A fence stays permanently, epochs and LAC only grow, the first master key stays. A tombstone
        stays until the next return. Limbo comes from the record with more returns, then from the
        one with the later mark; of the same mark, cleared is the later state. A tombstone has no
        LAC body. A note stays: only `Ledgers.take_back_note` ends it.
        """
        assert self.ledger_id == other.ledger_id
        newer = max(self, other, key=_mark_rank)
        latest = [each for each in (self, other) if each.returns == newer.returns]
        deleted = any(each.deleted for each in latest)
        bodies = [each.lac_body for each in latest]
        return LedgerRecord(
            self.ledger_id,
            master_key=self.master_key if self.master_key is not None else other.master_key,
            fenced=self.fenced or other.fenced,
            limbo=newer.limbo,
            mark_epoch=newer.mark_epoch,
            checked_epoch=max(self.checked_epoch, other.checked_epoch),
            explicit_lac=max(self.explicit_lac, other.explicit_lac),
            deleted=deleted,
            returns=newer.returns,
            lac_body=b"" if deleted else max(bodies, key=_lac_rank),
            noted=self.noted or other.noted,
        )

    def marked(self, epoch: int) -> "LedgerRecord":
        """This record in limbo, by a mark of the boot `epoch`. A tombstone gives way to it: the
        caller has seen that the metadata store names the ledger.

        A mark is no fence. The bookie sets one for a client that fences, and answers when it is
        durable (R9); one that was set on the way to something else would be answered too early.
        """
        assert epoch >= self.mark_epoch
        returns = self.returns + self.deleted
        if returns > RETURNS_MAX:
            return self
        return replace(self, limbo=True, mark_epoch=epoch, deleted=False, returns=returns)

    def doubted(self, epoch: int) -> "LedgerRecord":
        """This record marked by the boot `epoch`, with one return more: so the mark wins in a merge
        over every earlier state, also one in the journal, whatever was cleared before.
        BadRequestError after RETURNS_BY_DOUBT_MAX returns.
        """
        if self.returns >= RETURNS_BY_DOUBT_MAX:
            raise BadRequestError(
                f"ledger {self.ledger_id} was marked again {self.returns} times here, expected "
                f"fewer than {RETURNS_BY_DOUBT_MAX}: replace the disk that it is on, which marks it"
            )
        return replace(self.marked(epoch), returns=self.returns + 1)

    def encode(self) -> bytes:
        key = self.master_key or b""
        assert len(key) <= MASTER_KEY_BYTES_MAX and len(self.lac_body) <= LAC_BODY_BYTES_MAX
        flags = _FENCED * self.fenced | _LIMBO * self.limbo | _DELETED * self.deleted
        flags |= self.returns << _RETURNS_SHIFT
        version = _RECORD_VERSION_LAC if self.lac_body else _RECORD_VERSION
        head = _RECORD.pack(
            version, flags, len(key), self.ledger_id,
            self.mark_epoch, self.checked_epoch, self.explicit_lac,
        )  # fmt: skip
        return head + key + self.lac_body

    @classmethod
    def decode(cls, payload: Buffer) -> "LedgerRecord":
        """Parse the record in a journal payload; CorruptError when it is malformed."""
        known = (_RECORD_VERSION, _RECORD_VERSION_LAC)
        if len(payload) < _RECORD.size or payload[0] not in known:
            raise CorruptError(
                f"a ledger record of {len(payload)} bytes starts with {bytes(payload[:1])!r}, "
                f"expected version {' or '.join(map(str, known))} and {_RECORD.size} bytes or more"
            )
        version, flags, key_bytes, ledger, mark, checked, lac = _RECORD.unpack_from(payload)
        rest = bytes(payload[_RECORD.size :])
        key, lac_body = rest[:key_bytes], rest[key_bytes:]
        if len(key) != key_bytes or bool(lac_body) != (version == _RECORD_VERSION_LAC):
            raise CorruptError(
                f"record of ledger {ledger}: {len(rest)} bytes follow, its key has {key_bytes}"
            )
        return cls(
            LedgerId(ledger),
            master_key=key or None,
            fenced=bool(flags & _FENCED),
            limbo=bool(flags & _LIMBO),
            mark_epoch=mark,
            checked_epoch=checked,
            explicit_lac=EntryId(lac),
            deleted=bool(flags & _DELETED),
            returns=flags >> _RETURNS_SHIFT,
            lac_body=lac_body,
        )


def _mark_rank(record: LedgerRecord) -> tuple[int, int, bool]:
    return record.returns, record.mark_epoch, not record.limbo


def _lac_rank(body: bytes) -> tuple[int, bytes]:
    """Orders LAC bodies by their LAC, then by their bytes, so that of any two one is the newer."""
    lac = _LAC_BODY.unpack_from(body)[1] if len(body) >= _LAC_BODY.size else NO_ENTRY - 1
    return lac, body


@dataclass(frozen=True, slots=True)
class Boundary:
    """Every ledger that existed at an unclean boot: all ids up to a limit, and single higher ones.

    `recovering`: those of them that were IN_RECOVERY at that boot (S37). A later boot must not add
    to it: a recovery that began after this boot may be waiting for this bookie's answer
    (`protocol.clearing`).
    """

    epoch: int
    last_ledger_id: LedgerId
    extra_ids: frozenset[LedgerId] = field(default_factory=frozenset)
    recovering: frozenset[LedgerId] = field(default_factory=frozenset)

    def covers(self, ledger_id: LedgerId) -> bool:
        return ledger_id <= self.last_ledger_id or ledger_id in self.extra_ids

    def merged(self, other: "Boundary") -> "Boundary":
        """The boundary that covers what either covers, with the later epoch.

        An id of `extra_ids` stays covered even if its ledger was deleted before the later boot
        (S40). `recovering` is the later boot's: a recovery that it did not see has ended. With the
        same epoch one boot looked twice, and both lists are joined. Then a recovery that ended
        between the two looks may be in it; clearing checks whether a recovery is still going on.
        """
        last = max(self.last_ledger_id, other.last_ledger_id)
        extra = frozenset(i for i in self.extra_ids | other.extra_ids if i > last)
        newer = max(self, other, key=lambda boundary: boundary.epoch)
        is_same = self.epoch == other.epoch
        recovering = self.recovering | other.recovering if is_same else newer.recovering
        return Boundary(newer.epoch, last, extra, recovering)

    def encode(self) -> bytes:
        counts = len(self.extra_ids), len(self.recovering)
        head = _BOUNDARY.pack(_BOUNDARY_VERSION, self.epoch, self.last_ledger_id, *counts)
        ids = [*sorted(self.extra_ids), *sorted(self.recovering)]
        return head + np.array(ids, _IDS).tobytes()

    @classmethod
    def decode(cls, payload: Buffer) -> "Boundary":
        """Parse the boundary in an index fact; CorruptError when it is malformed."""
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
