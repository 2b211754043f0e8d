"""The audit: what bookies hold against what metadata says, for any number of ledgers.

Index only, read only: it reports and never changes anything. Ledgers go through in batches, so
memory holds one batch and the damaged ledgers. What looks wrong is looked at again, with fresh
metadata and fresh answers, before it is said (BP-34): writers move on while the audit reads.
"""

import asyncio
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final

from bookie.errors import MetadataFormatError
from bookie.ids import NO_ENTRY, BookieId, EntryId, LedgerId
from bookie.metadata.store import MetadataStore, Unreadable, Versioned
from bookie.protocol.availability import EMPTY
from bookie.protocol.ledger import LedgerMetadata
from bookie.protocol.recovery import ACCEPTED_LOSS_KEY
from bookie.protocol.status import Status
from bookie.repair.judge.columns import NO_ANSWER, Answer, holding_of
from bookie.repair.judge.counts import AuditCounts, counts_of
from bookie.repair.judge.expect import (
    Holding,
    Verdict,
    judge,
    known_lac,
    members,
    must_exist_through,
    no_answer,
)
from bookie.repair.judge.last_copies import COPIES_MIN, NOTHING, LastCopies, last_copies, sum_of
from bookie.repair.judge.outlook import can_fence
from bookie.repair.judge.quorums import Quorums, all_quorums, quorum_of
from bookie.repair.judge.tally import Tallies, summed, tally_of
from bookie.repair.look.bookie_control import BookieControl

METADATA_IN_FLIGHT: Final = 64
LOOKS_MAX: Final = 4
"""Looks at one ledger whose metadata changes each time; then its findings count as unknown."""


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """Bounds of an audit.

    `grace_s`: wait before a second look, so that adds on their way arrive. `recheck_s`: wait before
    ledgers with unreachable bookies are asked about once more; None = no such re-check.
    """

    ledgers_per_batch: int = 1000
    metadata_in_flight: int = METADATA_IN_FLIGHT
    grace_s: float = 1.0
    recheck_s: float | None = 3.0


@dataclass(frozen=True, slots=True)
class Look:
    """One ledger as seen at one time."""

    metadata: Versioned[LedgerMetadata]
    holdings: Mapping[BookieId, Holding]
    """An answer for each member, also where none came."""
    verdict: Verdict
    counted: Tallies | None = None
    """Copies by member, where the sets of `holdings` and `verdict` were dropped to save memory."""
    is_decided: bool = True
    """False: the metadata changed at every look, so that the verdict says nothing definite."""

    @property
    def tallies(self) -> Tallies:
        """Copies by member."""
        if self.counted is not None:
            return self.counted
        return {bookie_id: tally_of(share) for bookie_id, share in self.verdict.shares.items()}

    @property
    def ledger_id(self) -> LedgerId:
        return self.verdict.ledger_id

    @property
    def is_open_ended(self) -> bool:
        """True when entries may have been acknowledged that no answer speaks of: the ledger is not
        closed, and too few bookies of its last fragment have searched their disks.
        """
        metadata = self.metadata.value
        return not metadata.is_closed and not can_fence(metadata, self.holdings)

    @property
    def is_silent(self) -> bool:
        """True when something is unknown because a member gave no answer."""
        return (bool(self.verdict.unknown) or self.is_open_ended) and not all(
            holding.has_searched for holding in self.holdings.values()
        )


@dataclass(frozen=True, slots=True)
class Audit:
    """The result over all ledgers. Those that are `skipped` or `unreadable` are counted nowhere
    else, but in `last_copies` and `quorums`.
    """

    counts: AuditCounts = field(default_factory=AuditCounts)
    """Entries by class."""
    findings: tuple[Verdict, ...] = ()
    """The verdict on each ledger that is not wholly ok."""
    unreachable: frozenset[BookieId] = frozenset()
    """Bookies that gave no answer which an audit can rest on."""
    marked: int = 0
    """Ledgers that some bookie holds in limbo or unchecked, though all entries may be there."""
    accepted: tuple[tuple[LedgerId, bytes], ...] = ()
    """Ledgers that a person let close at a possible loss, each with its record (S33)."""
    tallies: Tallies = field(default_factory=dict)
    """Copies by bookie."""
    silent: frozenset[BookieId] = frozenset()
    """The unreachable bookies that gave no answer at all."""
    skipped: frozenset[LedgerId] = frozenset()
    """Ledgers with findings that are not to be reported yet."""
    last_copies: LastCopies = NOTHING
    """Which bookies hold entries with too few copies."""
    quorums: Quorums = field(default_factory=dict)
    """How many ledgers there are of each kind of quorum."""
    unreadable: tuple[tuple[LedgerId, MetadataFormatError], ...] = ()
    """Ledgers whose metadata cannot be read: nothing is known of their entries."""
    open_ended: frozenset[LedgerId] = frozenset()
    """Ledgers of which more may have been acknowledged than is known (`Look.is_open_ended`)."""

    def __add__(self, other: "Audit") -> "Audit":
        return Audit(
            self.counts + other.counts,
            self.findings + other.findings,
            self.unreachable | other.unreachable,
            self.marked + other.marked,
            self.accepted + other.accepted,
            summed((self.tallies, other.tallies)),
            self.silent | other.silent,
            self.skipped | other.skipped,
            self.last_copies + other.last_copies,
            all_quorums((self.quorums, other.quorums)),
            self.unreadable + other.unreadable,
            self.open_ended | other.open_ended,
        )


@dataclass(slots=True)
class Auditor:
    """Looks at ledgers of one cluster."""

    store: MetadataStore
    control: BookieControl
    settings: AuditSettings = field(default_factory=AuditSettings)
    progress: Callable[[int], None] = lambda _ledgers: None
    """Called with how many ledgers were judged so far."""
    deepen: Callable[[Iterable[Look]], Awaitable[dict[LedgerId, Look]]] | None = None
    """Makes the looks of an audit deep ones (`digests`); None = by indexes."""
    excuse: Callable[[Collection[LedgerId]], Awaitable[set[LedgerId]]] | None = None
    """Returns which of these ledgers with findings must not be reported yet; called last."""
    copies_min: int = COPIES_MIN
    """An entry with fewer known copies is in `last_copies`."""
    unreadable: Unreadable = field(default_factory=dict)
    """Ledgers that were looked at, and whose metadata cannot be read: neither right nor wrong."""

    async def audit(self, ledger_ids: AsyncIterator[LedgerId] | Iterable[LedgerId]) -> Audit:
        """Audit these ledgers; deleted ones are no ledgers. UnavailableError: no metadata store."""
        found = Audit()
        silent: list[LedgerId] = []
        batch_size = self.settings.ledgers_per_batch
        async for batch in batches_of(ledger_ids, batch_size):
            looks = await self.for_report(batch)
            if self.settings.recheck_s is not None:
                silent += [i for i, look in looks.items() if look.is_silent]
                looks = {i: look for i, look in looks.items() if not look.is_silent}
            found += await self._report(looks)
            self.progress(found.counts.ledgers)
        # A bookie may be away for a moment only: its ledgers are asked about once more.
        if silent and self.settings.recheck_s is not None:
            await asyncio.sleep(self.settings.recheck_s)
        for start in range(0, len(silent), batch_size):
            batch = silent[start : start + batch_size]
            found += await self._report(await self.for_report(batch))
            self.progress(found.counts.ledgers)
        return replace(found, unreadable=tuple(sorted(self.unreadable.items())))

    async def _report(self, looks: Mapping[LedgerId, Look]) -> Audit:
        wrong = [ledger_id for ledger_id, look in looks.items() if not look.verdict.is_ok]
        excused = await self.excuse(wrong) if self.excuse is not None else set()
        kept = {i: look for i, look in looks.items() if i not in excused}
        # Nobody is excused from knowing what the last copies are.
        thin = (
            last_copies(look.metadata.value, look.verdict, copies_min=self.copies_min)
            for look in looks.values()
            if not look.verdict.is_ok
        )
        return replace(
            audit_of(kept),
            skipped=frozenset(excused),
            last_copies=sum_of(thin),
            quorums=all_quorums(quorum_of(look.metadata.value) for look in looks.values()),
        )

    async def for_report(self, ledger_ids: Sequence[LedgerId]) -> dict[LedgerId, Look]:
        """Looks at these as an audit takes them: settled, deep if that is asked for, and slim."""
        if self.deepen is None:
            return await self.settled(ledger_ids, slim=True)
        looks = await self.deepen((await self.settled(ledger_ids)).values())
        return {ledger_id: _slimmed(look) for ledger_id, look in looks.items()}

    async def settled(
        self, ledger_ids: Sequence[LedgerId], *, slim: bool = False
    ) -> dict[LedgerId, Look]:
        """Look, and look again at what is suspect until two looks agree on the metadata, and that
        is still the metadata after the second.
        """
        looks = await self.look(ledger_ids, slim=slim)
        suspects = {i: look for i, look in looks.items() if look.verdict.is_suspect}
        for _again in range(LOOKS_MAX - 1):
            if not suspects:
                return looks
            await asyncio.sleep(self.settings.grace_s)
            # An open ledger is held to the end that was known before: what was acknowledged then
            # must be there now, while what came later may still be on its way.
            ends = {i: look.verdict.through for i, look in suspects.items() if _is_open(look)}
            fresh = await self.look(list(suspects), ends=ends, slim=slim)
            current = await self._versions(i for i, look in fresh.items() if _is_suspect(look))
            moved = {
                i: look
                for i, look in fresh.items()
                if i in current
                and not looks[i].metadata.version == look.metadata.version == current[i]
            }
            looks = {i: look for i, look in looks.items() if i not in suspects}
            looks |= {i: x for i, x in fresh.items() if i in current or not _is_suspect(x)}
            suspects = moved
        return looks | {i: undecided(look) for i, look in suspects.items()}

    async def _versions(self, ledger_ids: Iterable[LedgerId]) -> dict[LedgerId, int]:
        """Of those that still exist. Asked after the answers: what was deleted or moved between
        the metadata and the answers is wrong by both looks, and no finding."""
        found = await self.read(ledger_ids)
        return {ledger_id: one.version for ledger_id, one in found.items()}

    async def read(
        self, ledger_ids: Iterable[LedgerId]
    ) -> dict[LedgerId, Versioned[LedgerMetadata]]:
        """Metadata of those that exist; `unreadable` knows of these what cannot be read now."""
        asked = list(ledger_ids)
        fresh: Unreadable = {}
        in_flight = self.settings.metadata_in_flight
        found = await read_ledgers(self.store, asked, unreadable=fresh, in_flight=in_flight)
        for ledger_id in asked:  # one that is deleted by now is no ledger
            self.unreadable.pop(ledger_id, None)
        self.unreadable |= fresh
        return found

    async def look(
        self,
        ledger_ids: Sequence[LedgerId],
        *,
        ends: Mapping[LedgerId, EntryId] | None = None,
        slim: bool = False,
    ) -> dict[LedgerId, Look]:
        """One look at each ledger that exists and has metadata that can be read; `ends` caps how
        far an open one is judged.

        `slim`: without what is there, for those who only report what is not.
        """
        ledgers = await self.read(ledger_ids)
        answers = await self._answers(ledgers)
        looks: dict[LedgerId, Look] = {}
        # Decoded one ledger at a time: a striped one can be thousands of intervals on each member.
        for ledger_id, metadata in ledgers.items():
            holdings = {
                bookie_id: holding_of(bookie_id, ledger_id, of_bookie.get(ledger_id, NO_ANSWER))
                for bookie_id in members(metadata.value)
                for of_bookie in (answers[bookie_id],)
            }
            look = _look(metadata, holdings, (ends or {}).get(ledger_id))
            looks[ledger_id] = _slimmed(look) if slim else look
        return looks

    async def _answers(
        self, ledgers: Mapping[LedgerId, Versioned[LedgerMetadata]]
    ) -> dict[BookieId, Mapping[LedgerId, Answer]]:
        wanted: dict[BookieId, list[LedgerId]] = {}
        for ledger_id, metadata in ledgers.items():
            for bookie_id in members(metadata.value):
                wanted.setdefault(bookie_id, []).append(ledger_id)
        answers = await asyncio.gather(
            *(self.control.answers(bookie_id, ids) for bookie_id, ids in wanted.items())
        )
        return dict(zip(wanted, answers, strict=True))


def audit_of(looks: Mapping[LedgerId, Look]) -> Audit:
    """The audit of one batch of looks."""
    found = list(looks.values())
    return Audit(
        counts=sum((counts_of(look.verdict) for look in found), AuditCounts()),
        findings=tuple(look.verdict for look in found if not look.verdict.is_ok),
        unreachable=frozenset(
            bookie_id
            for look in found
            for bookie_id, holding in look.holdings.items()
            if not holding.has_searched
        ),
        marked=sum(any(h.is_marked for h in look.holdings.values()) for look in found),
        accepted=tuple(
            (look.ledger_id, record)
            for look in found
            if (record := look.metadata.value.custom.get(ACCEPTED_LOSS_KEY)) is not None
        ),
        tallies=summed(look.tallies for look in found),
        silent=frozenset(
            bookie_id
            for look in found
            for bookie_id, holding in look.holdings.items()
            if holding.status is Status.UNREACHABLE
        ),
        open_ended=frozenset(look.ledger_id for look in found if look.is_open_ended),
    )


async def read_ledgers(
    store: MetadataStore,
    ledger_ids: Iterable[LedgerId],
    *,
    unreadable: Unreadable,
    in_flight: int = METADATA_IN_FLIGHT,
) -> dict[LedgerId, Versioned[LedgerMetadata]]:
    """Metadata of those that exist, read linearizably, at most `in_flight` at once.

    What cannot be read goes into `unreadable`: such a ledger exists, and nothing is known of it.
    """
    wanted, found = list(ledger_ids), dict[LedgerId, Versioned[LedgerMetadata]]()
    for start in range(0, len(wanted), in_flight):
        asked = wanted[start : start + in_flight]
        found |= await store.read_ledgers(asked, unreadable=unreadable)
    return found


def _look(
    metadata: Versioned[LedgerMetadata],
    holdings: Mapping[BookieId, Holding],
    end: EntryId | None,
) -> Look:
    lac = NO_ENTRY if end is not None else known_lac(holdings.values())
    through = must_exist_through(metadata.value, lac=lac)
    if end is not None and not metadata.value.is_closed:
        through = max(through, end)
    return Look(metadata, holdings, judge(metadata.value, holdings, through=through))


def _slimmed(look: Look) -> Look:
    """A look without the entries that are there."""
    verdict = look.verdict
    shares = {
        bookie_id: replace(share, owed=EMPTY, present=EMPTY, lacking=EMPTY)
        for bookie_id, share in verdict.shares.items()
    }
    holdings = {
        b: replace(h, entries=EMPTY, lost=EMPTY, corrupt=EMPTY) for b, h in look.holdings.items()
    }
    slim = replace(verdict, shares=shares, ok=EMPTY)
    return replace(look, holdings=holdings, verdict=slim, counted=look.tallies)


def _is_suspect(look: Look) -> bool:
    return look.verdict.is_suspect


def _is_open(look: Look) -> bool:
    return not look.metadata.value.is_closed


def undecided(look: Look) -> Look:
    """The look without a definite word: the ledger's metadata changed each time."""
    silent = {b: no_answer(b, look.ledger_id, Status.UNREACHABLE) for b in look.holdings}
    through = look.verdict.through
    verdict = judge(look.metadata.value, silent, through=through)
    return replace(look, verdict=verdict, counted=None, is_decided=False)


async def batches_of(
    ledger_ids: AsyncIterator[LedgerId] | Iterable[LedgerId], size: int
) -> AsyncIterator[list[LedgerId]]:
    """The ids, `size` at a time."""
    if isinstance(ledger_ids, Iterable):
        rest = iter(ledger_ids)
        while batch := list(islice(rest, size)):
            yield batch
        return
    batch = []
    async for ledger_id in ledger_ids:
        batch.append(ledger_id)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
