"""What must be there, what is there, and the verdict on one ledger: pure interval arithmetic.

The audit and the repair feed it metadata and the answers of bookies; it feeds reports and copies.
An answer that is not definite is *unknown* and never counted as missing. Intersections are
compared, never counts: an entry too many on one bookie must not hide a hole on another.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from bookie.ids import NO_ENTRY, BookieId, EntryId, LedgerId
from bookie.protocol.assignment import assigned, entries_max
from bookie.protocol.availability import EMPTY, EntrySet
from bookie.protocol.ledger import LedgerMetadata, LedgerState
from bookie.protocol.status import Status


@dataclass(frozen=True, slots=True)
class Holding:
    """What one bookie answered about one ledger."""

    bookie_id: BookieId
    ledger_id: LedgerId
    status: Status
    entries: EntrySet = EMPTY
    """What it holds; after a deep look only the good copies."""
    limbo: bool = False
    """An absent entry is unknown here, not missing."""
    unchecked: bool = False
    """An absent entry is unknown here, too, though the ledger needs no recovery."""
    lac: EntryId = NO_ENTRY
    """The highest LAC it knows."""
    lost: EntrySet = EMPTY
    """Entries in its durable loss record."""
    corrupt: EntrySet = EMPTY
    """Copies that are there and useless, by a deep look; none is in `entries`."""
    unread: EntrySet = EMPTY
    """Copies of which a deep look learnt nothing; none is in `entries`."""

    @property
    def is_marked(self) -> bool:
        return self.limbo or self.unchecked

    @property
    def denies_absent(self) -> bool:
        """True when an entry that is not listed was, with authority, never kept (R7)."""
        return self.status in (Status.OK, Status.NO_SUCH_LEDGER) and not self.is_marked

    @property
    def has_searched(self) -> bool:
        """True when the bookie looked through all its disks: what is not listed is not on them.

        In limbo this is weaker than a denial (it may have forgotten), yet enough to know that no
        copy can be read there, and that one may be written.
        """
        searched = (Status.OK, Status.NO_SUCH_LEDGER)
        return self.status in searched or (self.status is Status.UNKNOWN and self.is_marked)


def no_answer(bookie_id: BookieId, ledger_id: LedgerId, status: Status) -> Holding:
    """What is known of a bookie that did not answer: nothing."""
    assert not status.is_known
    return Holding(bookie_id, ledger_id, status)


@dataclass(frozen=True, slots=True)
class Share:
    """One bookie's part of a ledger: `owed` = `present` + `missing` + `unknown`."""

    owed: EntrySet
    present: EntrySet
    missing: EntrySet
    """Entries that a bookie denies with authority (R7)."""
    unknown: EntrySet
    lacking: EntrySet
    """Searched for and not there, so that a copy may be written: `missing`, or what a bookie in
    limbo does not hold."""
    corrupt: EntrySet = EMPTY
    """Entries of `missing` whose copy exists but has a wrong digest."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement on entries 0..`through` of one ledger, as entry intervals.

    Each entry is in exactly one of `ok`, `missing`, `unknown` and `lost`. `below_write_quorum`
    includes `below_ack_quorum`, and that `no_copy`; they count unknown copies as present, so they
    are definite.
    """

    ledger_id: LedgerId
    through: EntryId
    state: LedgerState
    shares: Mapping[BookieId, Share] = field(repr=False)
    """The share of each member."""
    ok: EntrySet
    """Every copy is present."""
    missing: EntrySet
    """A copy is definitely not there."""
    unknown: EntrySet
    """No copy is known to be missing, and one is not known to be present."""
    lost: EntrySet
    """Entries in a loss record that have no copy."""
    below_write_quorum: EntrySet
    below_ack_quorum: EntrySet
    no_copy: EntrySet
    gone: EntrySet
    """No bookie of any fragment has a copy, and all of the write set have searched their disks."""
    unrecorded: EntrySet = EMPTY
    """Entries of `gone` that a bookie which should hold them has not recorded as lost."""
    corrupt: EntrySet = EMPTY
    """A copy's digest is wrong; only a deep look finds these."""

    @property
    def is_ok(self) -> bool:
        return not (self.missing or self.unknown or self.lost)

    @property
    def is_suspect(self) -> bool:
        """True when something seems to be wrong, which deserves a second look."""
        return bool(self.missing)

    @property
    def entries(self) -> int:
        return self.through + 1


def known_lac(holdings: Iterable[Holding]) -> EntryId:
    """The highest LAC any answer carried: all up to it was acknowledged."""
    return max((holding.lac for holding in holdings), default=NO_ENTRY)


def must_exist_through(metadata: LedgerMetadata, *, lac: EntryId) -> EntryId:
    """The last entry that must exist: the end of a CLOSED ledger; of others, what is certain.

    A fragment that has a successor is complete, and what the highest known LAC covers was
    acknowledged; beyond that an open ledger owes nothing yet. A LAC is what a client wrote: one
    that no ledger can have reached says nothing.
    """
    if metadata.is_closed:
        return metadata.last_entry_id
    if lac >= entries_max(metadata):
        lac = NO_ENTRY
    return EntryId(max(metadata.last_fragment.first_entry_id - 1, lac))


def members(metadata: LedgerMetadata) -> list[BookieId]:
    """Every bookie that a fragment names, in order of appearance."""
    return list(dict.fromkeys(b for fragment in metadata.fragments for b in fragment.ensemble))


def judge(
    metadata: LedgerMetadata, holdings: Mapping[BookieId, Holding], *, through: EntryId
) -> Verdict:
    """Compare what must be there with what the bookies answered; no answer = unknown."""
    whole = _judge_whole(metadata, holdings, through)
    if whole is not None:
        return whole
    shares = {
        bookie_id: _share(assigned(metadata, bookie_id, through=through), holdings.get(bookie_id))
        for bookie_id in members(metadata)
    }
    every = EntrySet.from_ranges([(0, through)]) if through >= 0 else EMPTY
    sides = list(shares.values())
    missing, unknown = _union(s.missing for s in sides), _union(s.unknown for s in sides)
    lost = _recorded_losses(shares, holdings, [share.present for share in sides])
    gone = _gone(metadata, every, sides)
    no_copy = _short_of(1, metadata, every, sides) - lost
    if gone or no_copy:  # whoever was asked and has a copy may give it, whoever owes it
        held = _union(holding.entries for holding in holdings.values())
        gone, no_copy = gone - held, no_copy - held
    return Verdict(
        ledger_id=metadata.ledger_id,
        through=through,
        state=metadata.state,
        shares=shares,
        ok=every - _union((missing, unknown)),
        missing=missing - lost,
        unknown=unknown - missing - lost,
        lost=lost,
        below_write_quorum=missing - lost,
        below_ack_quorum=_short_of(metadata.ack_quorum, metadata, every, sides) - lost,
        no_copy=no_copy,
        gone=gone,
        unrecorded=_unrecorded(gone, shares, holdings),
        corrupt=_union(share.corrupt for share in sides),
    )


def _judge_whole(
    metadata: LedgerMetadata, holdings: Mapping[BookieId, Holding], through: EntryId
) -> Verdict | None:
    """The verdict on a ledger that is wholly there, by far the most common; None for others.

    For ledgers of one fragment without striping: the answers are compared as they came.
    """
    if len(metadata.fragments) != 1 or metadata.write_quorum != metadata.ensemble_size:
        return None
    ensemble = metadata.last_fragment.ensemble
    for bookie_id in ensemble if through >= 0 else ():
        holding = holdings.get(bookie_id)
        if holding is None or not holding.entries.covers(0, through):
            return None
    every = EntrySet.from_ranges([(0, through)]) if through >= 0 else EMPTY
    share = Share(owed=every, present=every, missing=EMPTY, unknown=EMPTY, lacking=EMPTY)
    return Verdict(
        ledger_id=metadata.ledger_id,
        through=through,
        state=metadata.state,
        shares=dict.fromkeys(ensemble, share),
        ok=every,
        missing=EMPTY,
        unknown=EMPTY,
        lost=EMPTY,
        below_write_quorum=EMPTY,
        below_ack_quorum=EMPTY,
        no_copy=EMPTY,
        gone=EMPTY,
    )


def _share(owed: EntrySet, holding: Holding | None) -> Share:
    if holding is None:
        return Share(owed, EMPTY, EMPTY, owed, EMPTY)
    present = owed & holding.entries
    if present == owed:
        return Share(owed, owed, EMPTY, EMPTY, EMPTY)
    absent = owed - present
    corrupt, unread = absent & holding.corrupt, absent & holding.unread
    # A wrong digest is definite whatever else is not: that copy is none.
    missing = absent - unread if holding.denies_absent else corrupt
    return Share(
        owed=owed,
        present=present,
        missing=missing,
        unknown=absent - missing,
        lacking=absent - unread if holding.has_searched else EMPTY,
        corrupt=corrupt,
    )


def _recorded_losses(
    shares: Mapping[BookieId, Share],
    holdings: Mapping[BookieId, Holding],
    present: Collection[EntrySet],
) -> EntrySet:
    # A copy that turned up after all outweighs the record.
    recorded = _union(
        shares[bookie_id].owed & holding.lost
        for bookie_id, holding in holdings.items()
        if holding.lost and bookie_id in shares
    )
    return recorded - _union(present) if recorded else recorded


def _short_of(
    copies: int, metadata: LedgerMetadata, every: EntrySet, shares: Collection[Share]
) -> EntrySet:
    # However the holes lie, an entry lacks at most one copy for each member with holes.
    if sum(bool(share.missing) for share in shares) <= metadata.write_quorum - copies:
        return EMPTY
    possible = [share.owed - share.missing if share.missing else share.owed for share in shares]
    return every - at_least(copies, possible)


def _gone(metadata: LedgerMetadata, every: EntrySet, shares: Collection[Share]) -> EntrySet:
    if sum(bool(share.lacking) for share in shares) < metadata.write_quorum:
        return EMPTY
    return every - _union(share.owed - share.lacking for share in shares)


def _unrecorded(
    gone: EntrySet, shares: Mapping[BookieId, Share], holdings: Mapping[BookieId, Holding]
) -> EntrySet:
    # A record may be on some members only: the repair died between two, or a disk is a new one.
    return _union(
        (gone & share.owed) - holdings[bookie_id].lost
        for bookie_id, share in shares.items()
        if gone and share.lacking
    )


def _union(sets: Iterable[EntrySet]) -> EntrySet:
    filled = [found for found in sets if found]
    if len(filled) <= 1:
        return filled[0] if filled else EMPTY
    return EntrySet.from_bounds(
        np.concatenate([found.starts for found in filled]),
        np.concatenate([found.ends for found in filled]),
    )


def at_least(copies: int, sets: Collection[EntrySet]) -> EntrySet:
    """The entries that are in `copies` or more of the sets."""
    assert copies > 0
    if sum(map(bool, sets)) < copies:
        return EMPTY
    starts = np.concatenate([found.starts for found in sets])
    ends = np.concatenate([found.ends for found in sets])
    at = np.concatenate((starts, ends + 1))
    step = np.repeat(np.array([1, -1], np.int64), len(starts))
    order = np.argsort(at, kind="stable")
    at = at[order]
    level = np.cumsum(step[order])
    # Of several steps at one id only the level after the last one counts.
    last_at_id = np.append(at[1:] != at[:-1], True)
    at, enough = at[last_at_id], level[last_at_id] >= copies
    change = np.flatnonzero(np.diff(enough, prepend=False))
    return EntrySet(at[change[0::2]], at[change[1::2]] - 1)
