"""One bookie in memory: what it holds, what it answers, and every way a test can hurt it.

`fleet.FakeFleet` carries requests here. Entries become durable only by `flush`; fences, keys and
limbo marks are durable at once, as a real bookie's are before it answers.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from bookie.metadata.store import MetadataStore
from bookie.protocol.entry import parse_header
from bookie.protocol.errors import FrameError
from bookie.protocol.ids import NO_ENTRY, BookieId, EntryId, LedgerId
from bookie.protocol.runs import RUN_ENTRIES_MAX, RunFrame, build_run, parse_run
from bookie.protocol.status import Status
from bookie.wire.native import LacReply, LacRequest, ReadReply, ReadRequest


@dataclass(slots=True)
class FakeLedger:
    """One ledger on one bookie. `durable`: ids that survive a crash."""

    master_key: bytes
    fenced: bool = False
    limbo: bool = False
    unchecked: bool = False
    deleted: bool = False
    explicit_lac: EntryId = NO_ENTRY
    entries: dict[EntryId, bytes] = field(default_factory=dict)
    durable: set[EntryId] = field(default_factory=set)
    unreadable: set[EntryId] = field(default_factory=set)

    @property
    def lac(self) -> EntryId:
        """Highest LAC any held entry carries, or the explicit one."""
        carried = (parse_header(entry).lac for entry in self.entries.values())
        return max(self.explicit_lac, *carried, NO_ENTRY)

    @property
    def last_entry_id(self) -> EntryId:
        return max(self.entries, default=NO_ENTRY)


class FakeBookie:
    """State, rules and controls of one bookie; no clock, no I/O."""

    def __init__(self, bookie_id: BookieId) -> None:
        self.bookie_id = bookie_id
        self.down = False
        self.ready = True
        self.read_only = False
        self.refuse_adds: Status | None = None
        """Answer every add, recovery adds too, with this status and keep nothing."""
        self.boundary: LedgerId | None = None
        """Ledgers up to this id existed at the last unclean boot: normal adds are refused (R24)."""
        self.ledgers: dict[LedgerId, FakeLedger] = {}

    # What the wire asks
    def add_run(self, master_key: bytes, frame: bytes) -> Status:
        """Admit and keep one run; an id that is already there keeps its first copy."""
        if not self.ready:
            return Status.NOT_READY
        if self.refuse_adds is not None:
            return self.refuse_adds
        try:
            run = parse_run(frame)
        except FrameError:
            return Status.BAD_REQUEST
        refusal = self._refusal(run, master_key)
        if refusal is None:
            ledger = self._ledger(run.ledger_id, master_key)
            for entry_id, entry in zip(run.entry_ids(), run.entries(), strict=True):
                ledger.entries.setdefault(entry_id, bytes(entry))
        return Status.OK if refusal is None else refusal

    def _refusal(self, run: RunFrame, master_key: bytes) -> Status | None:
        ledger = self.ledgers.get(run.ledger_id)
        if ledger is not None and ledger.master_key not in (b"", master_key):
            return Status.UNAUTHORIZED
        if ledger is not None and ledger.deleted:
            return Status.FENCED
        if run.is_recovery:
            return None
        if ledger is not None and (ledger.fenced or ledger.limbo):
            return Status.FENCED
        if self.boundary is not None and run.ledger_id <= self.boundary:
            return Status.FENCED
        return Status.READ_ONLY if self.read_only else None

    def read(self, request: ReadRequest, *, fence: bool) -> tuple[Status, ReadReply | None]:
        """Entries of a range, or why none can be spoken of."""
        refused = self._open(request.ledger_id, request.master_key, fence=fence)
        if refused is not None:
            return refused, None
        ledger = self.ledgers.get(request.ledger_id) or FakeLedger(b"")
        held = sorted(i for i in ledger.entries if request.first <= i <= request.last)
        kept, through = self._fit(ledger, held, request)
        return Status.OK, ReadReply(
            lac=ledger.lac,
            last_entry_id=ledger.last_entry_id,
            answered_through=through,
            absent=self._absent(request.ledger_id),
            unknown=tuple((i, i) for i in held if i in ledger.unreadable and i <= through),
            runs=tuple(self._runs(request.ledger_id, ledger, kept)),
        )

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

    def _runs(self, ledger_id: LedgerId, ledger: FakeLedger, ids: list[EntryId]) -> Iterable[bytes]:
        group: list[EntryId] = []
        for entry_id in [*ids, EntryId(-2)]:
            if group and entry_id != group[-1] + 1:
                bodies = [ledger.entries[i] for i in group]
                yield build_run(ledger_id, group[0], bodies, lac=ledger.lac)
                group = []
            group.append(entry_id)

    def read_lac(self, request: LacRequest, *, fence: bool) -> tuple[Status, LacReply | None]:
        """Highest LAC known here; in limbo or without the ledger only a status."""
        refused = self._open(request.ledger_id, request.master_key, fence=fence)
        absent = self._absent(request.ledger_id)
        ledger = self.ledgers.get(request.ledger_id)
        if refused is not None:
            return refused, None
        if ledger is None or absent is not Status.NO_SUCH_ENTRY:
            return absent, None
        return Status.OK, LacReply(ledger.lac, ledger.last_entry_id)

    def write_lac(self, request: LacRequest) -> Status:
        refused = self._open(request.ledger_id, request.master_key, fence=False)
        if refused is not None:
            return refused
        ledger = self._ledger(request.ledger_id, request.master_key)
        if ledger.fenced:
            return Status.FENCED
        ledger.explicit_lac = max(ledger.explicit_lac, request.lac)
        return Status.OK

    def force(self, request: LacRequest) -> Status:
        refused = self._open(request.ledger_id, request.master_key, fence=False)
        if refused is None:
            self.flush()
        return Status.OK if refused is None else refused

    def _open(self, ledger_id: LedgerId, master_key: bytes, *, fence: bool) -> Status | None:
        """Key and fence of a request; None when it may go on."""
        if not self.ready:
            return Status.NOT_READY
        ledger = self.ledgers.get(ledger_id)
        if ledger is not None and ledger.master_key not in (b"", master_key):
            return Status.UNAUTHORIZED
        if fence:
            self._ledger(ledger_id, master_key).fenced = True
        return None

    def _absent(self, ledger_id: LedgerId) -> Status:
        ledger = self.ledgers.get(ledger_id)
        if ledger is None:
            return Status.NO_SUCH_LEDGER
        return Status.UNKNOWN if ledger.limbo or ledger.unchecked else Status.NO_SUCH_ENTRY

    def _ledger(self, ledger_id: LedgerId, master_key: bytes) -> FakeLedger:
        ledger = self.ledgers.setdefault(ledger_id, FakeLedger(master_key))
        if not ledger.master_key:
            ledger.master_key = master_key  # marked at boot, before any client named the key
        return ledger

    # What tests do to it
    def flush(self) -> None:
        """Everything accepted so far survives the next crash."""
        for ledger in self.ledgers.values():
            ledger.durable.update(ledger.entries)

    def crash(self, *, wipe: bool = False) -> None:
        """Unclean stop: unflushed entries are gone; with `wipe` the disks too, fences included."""
        self.down = True
        if wipe:
            self.ledgers.clear()
            self.boundary = None
        for ledger in self.ledgers.values():
            ledger.entries = {i: e for i, e in ledger.entries.items() if i in ledger.durable}

    async def boot(self, store: MetadataStore, *, marks: bool = True) -> None:
        """Start again after `crash`: boundary, limbo and unchecked marks, then serve (R23-R25)."""
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
            self.boundary = max(boundary, self.boundary or boundary)
        self.down = False

    def mark(self, ledger_id: LedgerId, *, limbo: bool = False, unchecked: bool = False) -> None:
        """Put a ledger in limbo (fenced, too) or under check, as an unclean boot does."""
        ledger = self._ledger(ledger_id, b"")
        ledger.limbo |= limbo
        ledger.fenced |= limbo
        ledger.unchecked |= unchecked

    def clear(self, ledger_id: LedgerId) -> None:
        """Take limbo and unchecked away, unconditionally: the rules are the test's business."""
        self.ledgers[ledger_id].limbo = self.ledgers[ledger_id].unchecked = False

    def delete(self, ledger_id: LedgerId) -> None:
        """Collect a deleted ledger; a fenced tombstone stays (S40)."""
        ledger = self.ledgers[ledger_id]
        ledger.entries.clear()
        ledger.deleted = ledger.fenced = True

    def corrupt(self, ledger_id: LedgerId, entry_id: EntryId) -> None:
        """Flip the last bit of an entry: its frame is still good, its digest is not."""
        entry = self.ledgers[ledger_id].entries[entry_id]
        self.ledgers[ledger_id].entries[entry_id] = entry[:-1] + bytes([entry[-1] ^ 1])

    def fail_reads(self, ledger_id: LedgerId, entry_ids: Collection[EntryId]) -> None:
        """The index knows these entries, the disk cannot return them (EIO)."""
        self.ledgers[ledger_id].unreadable.update(entry_ids)

    def lose(self, ledger_id: LedgerId, entry_ids: Collection[EntryId]) -> None:
        """Forget entries, whatever was flushed."""
        for entry_id in entry_ids:
            self.ledgers[ledger_id].entries.pop(entry_id, None)

    def held(self, ledger_id: LedgerId) -> list[EntryId]:
        """Ids held now, rising."""
        ledger = self.ledgers.get(ledger_id)
        return sorted(ledger.entries) if ledger is not None else []
