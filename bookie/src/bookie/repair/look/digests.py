"""The deep look: every copy that a bookie lists is read, and its digest verified. It finds bit rot.

A copy is `corrupt` when its bookie cannot read it back (the checksum of its frame is wrong: its own
word), or when it came whole and its digest is wrong. Corrupt copies are taken out of what a bookie
holds before a ledger is judged: they count as copies that are not there, and repair neither reads
nor trusts them. Nothing is said after one reading: what looks corrupt is read once more, with fresh
metadata and a fresh list. Reads of each bookie are bounded in number and, on request, in rate.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from bookie.client.peers import Peers
from bookie.frames.entry import EntryCodec, master_key
from bookie.ids import BookieId, EntryId, LedgerId
from bookie.protocol.availability import EMPTY, EntrySet
from bookie.protocol.copies import verified_copies
from bookie.protocol.ledger import LedgerMetadata
from bookie.protocol.status import Status
from bookie.repair.judge.expect import Holding, judge
from bookie.repair.look.audit import LOOKS_MAX, Auditor, Look, undecided
from bookie.repair.look.pacing import Paces, Sleep, share_of
from bookie.wire.native import ReadReply, ReadRequest

LEDGERS_AT_ONCE: Final = 16
DEEP_LEDGERS_PER_BATCH: Final = 100
"""Small: what has to be read of a striped ledger can be thousands of intervals on each member."""


@dataclass(frozen=True, slots=True)
class DigestSettings:
    """Bounds of a deep look. `bytes_per_second`: of each bookie; None = as fast as it answers."""

    read_bytes: int = 1024 * 1024
    reads_per_bookie: int = 2
    bytes_per_second: int | None = None

    def shared_by(self, parts: int) -> "DigestSettings":
        """The settings of each process, if this many share the rate."""
        return replace(self, bytes_per_second=share_of(self.bytes_per_second, parts))


@dataclass(frozen=True, slots=True)
class CopiesRead:
    """What became of the copies asked for: each is in exactly one set."""

    good: EntrySet = EMPTY
    corrupt: EntrySet = EMPTY
    unread: EntrySet = EMPTY
    """No answer came, or none that covers them, or no digest type is stored and they have not the
    one that is guessed: nothing is known of these."""
    bytes_read: int = 0
    """Bytes of the frames that were read, good or bad."""

    def __add__(self, other: "CopiesRead") -> "CopiesRead":
        return CopiesRead(
            self.good | other.good,
            self.corrupt | other.corrupt,
            self.unread | other.unread,
            self.bytes_read + other.bytes_read,
        )

    @property
    def suspect(self) -> EntrySet:
        return self.corrupt | self.unread


class DigestReader:
    """Reads copies of one cluster; the bounds hold for all that read through it together."""

    def __init__(
        self,
        peers: Peers,
        settings: DigestSettings | None = None,
        *,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._peers = peers
        self._settings = settings or DigestSettings()
        self._paces = Paces(self._settings.bytes_per_second, sleep=sleep)
        self._slots: dict[BookieId, asyncio.Semaphore] = {}
        """Reads that each bookie may be asked for at once."""
        self.bytes_read = 0
        """Bytes of frames, read by all users of this object."""

    async def read(
        self, metadata: LedgerMetadata, bookie_id: BookieId, wanted: EntrySet
    ) -> CopiesRead:
        """Verify these copies on this bookie. Never raises for a bad one."""
        codec = EntryCodec(metadata.ledger_id, metadata.digest_type, metadata.password)
        found = CopiesRead()
        for first, last in spans(wanted):
            at = first
            while at <= last:
                asked = wanted.clip(at, last)
                reply = await self._ask(metadata, bookie_id, first=at, last=last)
                if reply is None or reply.answered_through < at:
                    rest = wanted.clip(at, wanted.last)
                    return found + CopiesRead(unread=rest)
                answered = asked.clip(at, reply.answered_through)
                is_guess = not metadata.password_is_stored
                found += judge_reply(reply, answered, codec, is_guess=is_guess)
                at = EntryId(reply.answered_through + 1)
        return found

    async def _ask(
        self, metadata: LedgerMetadata, bookie_id: BookieId, *, first: EntryId, last: EntryId
    ) -> ReadReply | None:
        key = master_key(metadata.password)
        request = ReadRequest(metadata.ledger_id, first, last, self._settings.read_bytes, key)
        slots = self._slots.get(bookie_id)
        if slots is None:
            slots = self._slots[bookie_id] = asyncio.Semaphore(self._settings.reads_per_bookie)
        async with slots:
            status, reply = await self._peers.read(bookie_id, request)
            if status is not Status.OK or reply is None:
                return None
            read_bytes = _size(reply)
            self.bytes_read += read_bytes
            await self._paces.spend(bookie_id, read_bytes)
            return reply


def judge_reply(
    reply: ReadReply, asked: EntrySet, codec: EntryCodec, *, is_guess: bool = False
) -> CopiesRead:
    """What a reply says of the copies asked for, none of them beyond what it speaks of.

    `is_guess`: the metadata have no digest type, so that a digest can be right but never wrong.
    """
    if not asked:
        return CopiesRead(bytes_read=_size(reply))
    right, wrong = verified_copies(reply.runs, codec, first=asked.first, last=asked.last)
    if is_guess:
        wrong = EMPTY
    good = right & asked
    # Its own word: stored, and unreadable. What came in another frame after all is readable.
    unreadable = EntrySet.from_ranges(reply.unknown) if reply.unknown else EMPTY
    corrupt = ((wrong | unreadable) & asked) - good
    return CopiesRead(good, corrupt, asked - good - corrupt, _size(reply))


def _size(reply: ReadReply) -> int:
    return sum(map(len, reply.runs))


@dataclass(slots=True)
class DeepLooks:
    """Makes looks at ledgers deep: what each member lists is read and verified."""

    auditor: Auditor
    """Looks again at ledgers with copies that are suspect."""
    reader: DigestReader
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(LEDGERS_AT_ONCE))
    """One for each ledger that is read now."""

    async def deepen(self, looks: Iterable[Look]) -> dict[LedgerId, Look]:
        """Judges these ledgers by copies whose digests are right; deleted ones are left out."""
        deep = await asyncio.gather(*map(self.deepen_one, looks))
        return {look.ledger_id: look for look in deep if look is not None}

    async def read_listed(self, look: Look) -> dict[BookieId, CopiesRead]:
        """Each copy that a member lists and owes, read once."""
        async with self._slots:
            return await self._read(look, _listed(look))

    async def deepen_one(self, look: Look) -> Look | None:
        """One of them; None when the ledger was deleted meanwhile.

        Undecided when no two readings are of one version of the metadata, or agree.
        """
        async with self._slots:
            read = await self._read(look, _listed(look))
            for _again in range(LOOKS_MAX):
                if look.is_decided and not any(copies.suspect for copies in read.values()):
                    return _judged(look, read)
                fresh = (await self.auditor.settled([look.ledger_id])).get(look.ledger_id)
                if fresh is None:
                    return None
                before = read if fresh.is_decided and _is_same(fresh, look) else {}
                look, read = fresh, await self._read_rest(fresh, before)
                # A copy that moved away while it was read is not there for a good reason.
                if before and _is_twice(before, read) and await self._holds_still(look):
                    return _judged(look, read)
            return undecided(look)

    async def _holds_still(self, look: Look) -> bool:
        now = await self.auditor.read([look.ledger_id])
        found = now.get(look.ledger_id)
        return found is not None and found.version == look.metadata.version

    async def _read_rest(
        self, look: Look, before: Mapping[BookieId, CopiesRead]
    ) -> dict[BookieId, CopiesRead]:
        """Read what is listed and was not good `before`: also of bookies that did not list it then.
        What was good before stays so.
        """
        good = {bookie_id: CopiesRead(good=copies.good) for bookie_id, copies in before.items()}
        wanted = {b: e - good[b].good if b in good else e for b, e in _listed(look).items()}
        return good | {
            b: copies + good.get(b, CopiesRead())
            for b, copies in (await self._read(look, wanted)).items()
        }

    async def _read(
        self, look: Look, wanted: Mapping[BookieId, EntrySet]
    ) -> dict[BookieId, CopiesRead]:
        asked = {bookie_id: entries for bookie_id, entries in wanted.items() if entries}
        found = await asyncio.gather(
            *(self.reader.read(look.metadata.value, b, entries) for b, entries in asked.items())
        )
        return dict(zip(asked, found, strict=True))


def _is_same(one: Look, other: Look) -> bool:
    return one.metadata.version == other.metadata.version


def _is_twice(before: Mapping[BookieId, CopiesRead], read: Mapping[BookieId, CopiesRead]) -> bool:
    """Whether each copy that looks corrupt did so `before`."""
    nothing = CopiesRead()
    return not any(one.corrupt - before.get(b, nothing).corrupt for b, one in read.items())


def _listed(look: Look) -> dict[BookieId, EntrySet]:
    return {bookie_id: share.present for bookie_id, share in look.verdict.shares.items()}


def _judged(look: Look, read: Mapping[BookieId, CopiesRead]) -> Look:
    """The look without what is not good."""
    holdings = {b: _without(h, read[b]) if b in read else h for b, h in look.holdings.items()}
    verdict = judge(look.metadata.value, holdings, through=look.verdict.through)
    return replace(look, holdings=holdings, verdict=verdict)


def _without(holding: Holding, read: CopiesRead) -> Holding:
    return replace(
        holding,
        entries=holding.entries - read.suspect,
        corrupt=read.corrupt,
        unread=read.unread,
    )


SPAN_GAP_ENTRIES: Final = 16
"""Wanted ranges this close are read in one go: striped shares, single holes."""


def spans(wanted: EntrySet) -> list[tuple[EntryId, EntryId]]:
    """First and last ids to read, ranges with small gaps taken together."""
    if not wanted:
        return []
    cuts = np.flatnonzero(wanted.starts[1:] - wanted.ends[:-1] > SPAN_GAP_ENTRIES)
    firsts = wanted.starts[np.concatenate(([0], cuts + 1))].tolist()
    lasts = wanted.ends[np.concatenate((cuts, [-1]))].tolist()
    return [(EntryId(a), EntryId(b)) for a, b in zip(firsts, lasts, strict=True)]


def deep_auditor(auditor: Auditor, reader: DigestReader) -> Auditor:
    """The auditor with deep looks, in small batches."""
    settings = replace(auditor.settings, ledgers_per_batch=DEEP_LEDGERS_PER_BATCH)
    deepen = DeepLooks(auditor, reader).deepen
    return replace(auditor, settings=settings, deepen=deepen)
