"""One bookie in memory: what it holds, what it answers, and every way a test can hurt it.

`fleet.FakeFleet` carries requests here. Entries become durable only by `flush`; fences, keys and
limbo marks are durable at once, as a real bookie's are before it answers.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from bookie.errors import DigestError, FrameError
from bookie.frames.build import build_run
from bookie.frames.entry import Buffer, EntryCodec, parse_header
from bookie.frames.frame import RUN_ENTRIES_MAX, parse_run
from bookie.ids import NO_ENTRY, BookieId, EntryId, LedgerId
from bookie.metadata.store import BOOT_EPOCH_PROPERTY, MetadataStore
from bookie.protocol.admission import (
    LedgerFacts,
    Ruling,
    absent_status,
    rule_add,
    rule_force,
    rule_read,
    rule_read_lac,
    rule_write_lac,
)
from bookie.protocol.availability import EntrySet
from bookie.protocol.status import Status
from bookie.wire.identity import Identity
from bookie.wire.native import LacReply, LacRequest, ReadReply, ReadRequest


@dataclass(slots=True)
class FakeLedger:
    """One ledger on one bookie. `durable`: ids that survive a crash."""

    master_key: bytes = b""
    fenced: bool = False
    limbo: bool = False
    unchecked: bool = False
    deleted: bool = False
    explicit_lac: EntryId = NO_ENTRY
    """The highest of WRITE_LAC."""
    frame_lac: EntryId = NO_ENTRY
    """The highest that a run carried."""
    entries: dict[EntryId, bytes] = field(default_factory=dict)
    durable: set[EntryId] = field(default_factory=set)
    unreadable: set[EntryId] = field(default_factory=set)
    rejected: set[EntryId] = field(default_factory=set)
    """Unreadable entries that the bookie itself found to be wrong; it does not list them any
    more."""

    @property
    def lac(self) -> EntryId:
        """Highest LAC any held entry or accepted frame carries, or the explicit one."""
        carried = (parse_header(entry).lac for entry in self.entries.values())
        return max(self.explicit_lac, self.frame_lac, *carried)

    @property
    def last_entry_id(self) -> EntryId:
        return max(self.entries, default=NO_ENTRY)


class FakeBookie:
    """State, rules and controls of one bookie; no clock, no I/O."""

    def __init__(self, bookie_id: BookieId) -> None:
        self.bookie_id = bookie_id
        self.boot_epoch = 1
        self.down = False
        self.ready = True
        self.read_only = False
        self.refuse_adds: Status | None = None
        """Answer every add, recovery adds too, with this status and keep nothing."""
        self.fence_fails = False
        """A fence cannot be made durable: it is not applied, and its request is an I/O error."""
        self.boundary: LedgerId | None = None
        """Ledgers up to this id existed at a boot without the disks of before: normal adds are
        refused forever (R24)."""
        self.lost_disks = False
        """Its last stop took the disks with it."""
        self.ledgers: dict[LedgerId, FakeLedger] = {}

    # Who it is
    def identity(self, cluster: str) -> Identity:
        """Its identity, as a bookie of the cluster with this instance id."""
        return Identity(cluster, self.bookie_id, self.boot_epoch)

    @property
    def properties(self) -> dict[str, str]:
        """Properties in its registration."""
        return {BOOT_EPOCH_PROPERTY: str(self.boot_epoch)}

    # What the wire asks, ruled by the real admission rules
    def add_run(self, master_key: bytes, frame: Buffer) -> Status:
        """Admit and keep one run; an id that is already there keeps its first copy.

        Unless that copy cannot be read and this is recovery's: then it takes its place.
        """
        if not self.ready:
            return Status.NOT_READY
        if self.refuse_adds is not None:
            return self.refuse_adds
        try:
            run = parse_run(frame)
        except FrameError:
            return Status.BAD_REQUEST
        ruling = rule_add(
            self.facts(run.ledger_id),
            master_key=master_key,
            is_recovery=run.is_recovery,
            is_writable=not self.read_only,
        )
        self._apply(ruling, run.ledger_id, master_key)
        if ruling.is_ok:
            ledger = self._ledger(run.ledger_id)
            ledger.frame_lac = max(ledger.frame_lac, run.lac)
            for entry_id, entry in zip(run.entry_ids(), run.entries(), strict=True):
                if run.is_recovery and entry_id in ledger.unreadable:
                    ledger.unreadable.discard(entry_id)
                    ledger.rejected.discard(entry_id)
                    ledger.entries[entry_id] = bytes(entry)
                ledger.entries.setdefault(entry_id, bytes(entry))
        return ruling.status

    def read(self, request: ReadRequest, *, fence: bool) -> tuple[Status, ReadReply | None]:
        """Entries of a range, or why none can be spoken of."""
        if not self.ready:
            return Status.NOT_READY, None
        facts = self.facts(request.ledger_id)
        ruling = rule_read(facts, master_key=request.master_key, fence=fence)
        if ruling.fence and self.fence_fails:
            return Status.IO_ERROR, None
        self._apply(ruling, request.ledger_id, request.master_key)
        if not ruling.is_ok:
            return ruling.status, None
        ledger = self.ledgers.get(request.ledger_id) or FakeLedger()
        held = sorted(i for i in ledger.entries if request.first <= i <= request.last)
        kept, through = self._fit(ledger, held, request)
        return Status.OK, ReadReply(
            lac=ledger.lac,
            last_entry_id=ledger.last_entry_id,
            answered_through=through,
            absent=absent_status(self.facts(request.ledger_id), fence=fence),
            unknown=tuple((i, i) for i in held if i in ledger.unreadable and i <= through),
            runs=tuple(self._runs(request.ledger_id, ledger, kept)),
        )

    def facts(self, ledger_id: LedgerId) -> LedgerFacts:
        """What the admission rules are asked with."""
        ledger = self.ledgers.get(ledger_id)
        behind = self.boundary is not None and ledger_id <= self.boundary
        if ledger is None:
            return LedgerFacts(behind_boundary=behind)
        return LedgerFacts(
            is_known=True,
            master_key=ledger.master_key or None,
            fenced=ledger.fenced,
            limbo=ledger.limbo,
            unchecked=ledger.unchecked,
            deleted=ledger.deleted,
            behind_boundary=behind,
            lac=ledger.lac,
            last_entry_id=ledger.last_entry_id,
        )

    def _apply(self, ruling: Ruling, ledger_id: LedgerId, master_key: bytes) -> None:
        """What must be durable before the answer; here it is at once."""
        if ruling.learn_key:
            self._ledger(ledger_id).master_key = master_key
        if ruling.fence:
            self._ledger(ledger_id).fenced = True

    def _ledger(self, ledger_id: LedgerId) -> FakeLedger:
        return self.ledgers.setdefault(ledger_id, FakeLedger())

    def _fit(
        self, ledger: FakeLedger, held: list[EntryId], request: ReadRequest
    ) -> tuple[list[EntryId], EntryId]:
        room = request.bytes_max
        kept: list[EntryId] = []
        for entry_id in held:
            if entry_id in ledger.unreadable:
                continue
            room -= len(ledger.entries[entry_id])
            if (room < 0 and kept) or len(kept) == RUN_ENTRIES_MAX:
                return kept, EntryId(entry_id - 1)
            kept.append(entry_id)
        return kept, request.last

    def _runs(
        self, ledger_id: LedgerId, ledger: FakeLedger, ids: list[EntryId]
    ) -> Iterable[Buffer]:
        group: list[EntryId] = []
        for entry_id in [*ids, EntryId(-2)]:
            if group and entry_id != group[-1] + 1:
                bodies = [ledger.entries[i] for i in group]
                yield build_run(ledger_id, group[0], bodies, lac=ledger.lac)
                group = []
            group.append(entry_id)

    def read_lac(self, request: LacRequest, *, fence: bool) -> tuple[Status, LacReply | None]:
        """Highest LAC known here; in limbo or without the ledger only a status."""
        if not self.ready:
            return Status.NOT_READY, None
        facts = self.facts(request.ledger_id)
        ruling = rule_read_lac(facts, master_key=request.master_key, fence=fence)
        if ruling.fence and self.fence_fails:
            return Status.IO_ERROR, None
        self._apply(ruling, request.ledger_id, request.master_key)
        if not ruling.is_ok:
            return ruling.status, None
        return Status.OK, LacReply(facts.lac, facts.last_entry_id)

    def write_lac(self, request: LacRequest) -> Status:
        """Keep an explicit LAC, durable at once."""
        if not self.ready:
            return Status.NOT_READY
        ruling = rule_write_lac(
            self.facts(request.ledger_id),
            master_key=request.master_key,
            is_writable=not self.read_only,
        )
        self._apply(ruling, request.ledger_id, request.master_key)
        if ruling.is_ok:
            ledger = self._ledger(request.ledger_id)
            ledger.explicit_lac = max(ledger.explicit_lac, request.lac)
        return ruling.status

    def force(self, request: LacRequest) -> Status:
        """Make what was accepted durable."""
        if not self.ready:
            return Status.NOT_READY
        ruling = rule_force(self.facts(request.ledger_id), master_key=request.master_key)
        if ruling.is_ok:
            self.flush()
        return ruling.status

    # What tests do to it
    def flush(self) -> None:
        """Everything accepted so far survives the next crash."""
        for ledger in self.ledgers.values():
            ledger.durable.update(ledger.entries)

    def crash(self, *, wipe: bool = False) -> None:
        """Unclean stop: unflushed entries are gone; with `wipe` the disks too, fences included."""
        self.down, self.lost_disks = True, wipe
        if wipe:
            self.ledgers.clear()
            self.boundary = None
        for ledger in self.ledgers.values():
            ledger.frame_lac = NO_ENTRY
            ledger.entries = {i: e for i, e in ledger.entries.items() if i in ledger.durable}

    async def boot(self, store: MetadataStore, *, marks: bool = True) -> None:
        """Start again after `crash`: limbo and unchecked marks, a boundary if the disks are lost,
        then serve (R23-R25).

        Until then everything is answered NOT_READY. `marks` False: as Apache's own would start.
        """
        self.down, self.ready = False, False
        self.boot_epoch += 1
        if marks:
            boundary = await store.new_ledger_id()
            listed = [ledger_id async for ledger_id in store.ledger_ids()]
            for ledger_id in listed:
                metadata = (await store.read_ledger(ledger_id)).value
                last_names = self.bookie_id in metadata.last_fragment.ensemble
                if not metadata.is_closed and last_names:
                    self.mark(ledger_id, limbo=True)
                elif metadata.names(self.bookie_id):
                    self.mark(ledger_id, unchecked=True)
            if self.lost_disks:
                self.boundary = max(boundary, self.boundary or boundary)
        self.ready = True

    def mark(self, ledger_id: LedgerId, *, limbo: bool = False, unchecked: bool = False) -> None:
        """Put a ledger in limbo or under check, as an unclean boot does."""
        ledger = self._ledger(ledger_id)
        ledger.limbo |= limbo
        ledger.unchecked |= unchecked

    def clear(self, ledger_id: LedgerId) -> None:
        """Take limbo and unchecked away, unconditionally: the rules are the test's business."""
        self.ledgers[ledger_id].limbo = self.ledgers[ledger_id].unchecked = False

    def delete(self, ledger_id: LedgerId) -> None:
        """Collect a deleted ledger; a tombstone stays (S40)."""
        ledger = self.ledgers[ledger_id]
        ledger.entries.clear()
        ledger.deleted = True

    def corrupt(self, ledger_id: LedgerId, entry_id: EntryId) -> None:
        """Flip the last bit of an entry: its frame is still good, its digest is not."""
        entry = self.ledgers[ledger_id].entries[entry_id]
        self.ledgers[ledger_id].entries[entry_id] = entry[:-1] + bytes([entry[-1] ^ 1])

    def fail_reads(self, ledger_id: LedgerId, entry_ids: Collection[EntryId]) -> None:
        """The index knows these entries, the disk cannot return them (EIO)."""
        self.ledgers[ledger_id].unreadable.update(entry_ids)

    def reject(self, ledger_id: LedgerId, codec: EntryCodec, entries: EntrySet) -> EntrySet:
        """Look at own copies; those with a wrong digest cannot be read from now on."""
        ledger, wrong = self.ledgers[ledger_id], set[EntryId]()
        for entry_id, entry in ledger.entries.items():
            if entries.covers(entry_id, entry_id) and entry_id not in ledger.unreadable:
                try:
                    codec.decode(entry, entry_id=entry_id)
                except DigestError:
                    wrong.add(entry_id)
        ledger.unreadable |= wrong
        ledger.rejected |= wrong
        return EntrySet.from_ids(wrong)

    def lose(self, ledger_id: LedgerId, entry_ids: Collection[EntryId]) -> None:
        """Forget entries, whatever was flushed."""
        for entry_id in entry_ids:
            self.ledgers[ledger_id].entries.pop(entry_id, None)

    def held(self, ledger_id: LedgerId) -> list[EntryId]:
        """Ids held now, rising."""
        ledger = self.ledgers.get(ledger_id)
        return sorted(ledger.entries) if ledger is not None else []
