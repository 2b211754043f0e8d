"""What happened in one simulation, and the rules that must hold of it whatever happened.

Single writers give ids, so every check is linear: acknowledged ids form a prefix; no close below
what was acknowledged or read; one payload per id; nothing beyond the end is acknowledged or read,
however late; CLOSED is terminal; all who open a closed ledger agree. And what is acknowledged, or
lies within a closed end, an ack quorum of those it is attributed to has stored.
Events are hashed as they come: the same seed must give the same hash.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from bookie.ids import NO_ENTRY, BookieId, EntryId, LedgerId
from bookie.protocol.ledger import LedgerMetadata, LedgerState
from bookie.protocol.quorum import write_set

VIOLATIONS_MAX: Final = 20
MOVERS: Final = ("drainer", "replicator")
"""Clients that give closed ledgers other members."""
_NEXT_STATES: Final = {
    LedgerState.OPEN: {LedgerState.OPEN, LedgerState.IN_RECOVERY, LedgerState.CLOSED},
    LedgerState.IN_RECOVERY: {LedgerState.IN_RECOVERY, LedgerState.CLOSED},
    LedgerState.CLOSED: {LedgerState.CLOSED},
}


@dataclass(slots=True)
class LedgerHistory:
    """One ledger's past. `metadata` None once it is deleted."""

    metadata: LedgerMetadata | None = None
    open_ensembles: list[tuple[BookieId, ...]] = field(default_factory=list)
    """The last ensembles that it had while OPEN, in order."""
    sent: dict[EntryId, bytes] = field(default_factory=dict)
    acked: EntryId = NO_ENTRY
    """All up to this one are acknowledged to the writer's caller."""
    seen: EntryId = NO_ENTRY
    """The highest id that any reader was shown, or learned to be acknowledged."""
    end_accepted: bool = False
    """A person accepted a loss at the end: what was acknowledged may lie beyond it."""

    @property
    def end(self) -> EntryId | None:
        found = self.metadata
        return found.last_entry_id if found is not None and found.is_closed else None


class History:
    """See the module. `now` gives seconds of the simulation."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._hash = hashlib.sha256()
        self.ledgers: dict[LedgerId, LedgerHistory] = {}
        self.violations: list[str] = []
        self.lines: list[str] | None = None
        """Every event as text, for whoever wants to read them."""
        self.events = self.acks = self.reads = 0
        self.has_stored: Callable[[str, LedgerId, EntryId], bool] = lambda *_: True
        """Whether a bookie ever said that it stored an entry; heard on the wire (`wiretap`)."""
        self.offered: set[bytes] = set()
        """Payloads that may turn up in whatever ledger: those of a log's owners."""

    def note(self, event: str) -> None:
        """An event of whatever kind: part of the hash and of the story."""
        self.events += 1
        line = f"{self._now():.6f} {event}"
        self._hash.update(line.encode())
        if self.lines is not None:
            self.lines.append(line)

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()[:16]

    def violate(self, rule: str) -> None:
        self.note(f"VIOLATION {rule}")
        if len(self.violations) < VIOLATIONS_MAX:
            self.violations.append(f"at {self._now():.3f} s: {rule}")

    def ledger(self, ledger_id: LedgerId) -> LedgerHistory:
        return self.ledgers.setdefault(ledger_id, LedgerHistory())

    # Metadata
    def changed(
        self, ledger_id: LedgerId, metadata: LedgerMetadata | None, *, by: str = ""
    ) -> None:
        """The store holds this now, as that client wrote it; None: deleted."""
        known = self.ledger(ledger_id)
        before = known.metadata
        known.metadata = metadata
        if metadata is not None and metadata.state is LedgerState.OPEN:
            known.open_ensembles.append(metadata.last_fragment.ensemble)
        if metadata is None:
            self.note(f"ledger {ledger_id} deleted")
            return
        end = f" at {metadata.last_entry_id}" if metadata.is_closed else ""
        spans = " ".join(f"{f.first_entry_id}:{','.join(f.ensemble)}" for f in metadata.fragments)
        self.note(f"ledger {ledger_id} {metadata.state.value}{end} {spans}")
        if before is not None:
            self._check_change(known, before, metadata)
            self._check_author(known, before, metadata, by)

    def _check_author(
        self, known: LedgerHistory, before: LedgerMetadata, after: LedgerMetadata, by: str
    ) -> None:
        """Only who moves copies touches a CLOSED ledger; a recoverer names other bookies with its
        closing write, not before; and no acknowledged entry is attributed to bookies without it.
        """
        ledger_id = after.ledger_id
        if before.is_closed and not by.startswith(MOVERS):
            self.violate(f"{by} wrote the metadata of ledger {ledger_id}, which was CLOSED already")
        if before.state is after.state is LedgerState.IN_RECOVERY and (
            before.last_fragment.ensemble != after.last_fragment.ensemble
        ):
            self.violate(
                f"{by} changed the last ensemble of ledger {ledger_id} while it is IN_RECOVERY"
            )
        if after.state is LedgerState.OPEN and after.fragments != before.fragments:
            for entry_id in range(after.last_fragment.first_entry_id, known.acked + 1):
                what = "was acknowledged before its ensemble changed"
                if not self._is_stored(after, EntryId(entry_id), what=what):
                    break

    def _check_change(
        self, known: LedgerHistory, before: LedgerMetadata, after: LedgerMetadata
    ) -> None:
        ledger_id = after.ledger_id
        if after.state not in _NEXT_STATES[before.state]:
            self.violate(
                f"ledger {ledger_id} went from {before.state.value} to {after.state.value}"
            )
        if before.is_closed and after.last_entry_id != before.last_entry_id:
            self.violate(
                f"the end of CLOSED ledger {ledger_id} moved from {before.last_entry_id} to "
                f"{after.last_entry_id}"
            )
        if before.is_closed or not after.is_closed or known.end_accepted:
            return
        for entry_id in range(after.last_entry_id + 1):
            if not self._is_stored(after, EntryId(entry_id), what="lies within the closed end"):
                break
        if after.last_entry_id < known.acked:
            self.violate(
                f"ledger {ledger_id} was closed at {after.last_entry_id} though {known.acked} was "
                "acknowledged: truncated"
            )
        if after.last_entry_id < known.seen:
            self.violate(
                f"ledger {ledger_id} was closed at {after.last_entry_id} though a reader was shown "
                f"{known.seen}: a dirty read"
            )

    # Writers
    def sending(self, ledger_id: LedgerId, entry_id: EntryId, payload: bytes) -> None:
        sent = self.ledger(ledger_id).sent
        if entry_id in sent:
            self.violate(f"ledger {ledger_id}: id {entry_id} was given twice")
        sent[entry_id] = payload

    def acknowledged(self, ledger_id: LedgerId, entry_id: EntryId) -> None:
        known = self.ledger(ledger_id)
        self.acks += 1
        self.note(f"ack {ledger_id}/{entry_id}")
        if entry_id != known.acked + 1:
            self.violate(
                f"ledger {ledger_id}: {entry_id} was acknowledged after {known.acked}: no prefix"
            )
        if known.end is not None and entry_id > known.end and not known.end_accepted:
            self.violate(
                f"ledger {ledger_id}: {entry_id} was acknowledged though CLOSED at {known.end}"
            )
        known.acked = max(known.acked, entry_id)
        if known.metadata is not None and not known.end_accepted:
            self._is_stored(known.metadata, entry_id, what="was acknowledged")

    def _is_stored(self, metadata: LedgerMetadata, entry_id: EntryId, *, what: str) -> bool:
        """Whether an ack quorum of the bookies that metadata attributes it to has stored it."""
        ensemble = metadata.fragment_of(entry_id).ensemble
        members = write_set(entry_id, ensemble=ensemble, write_quorum=metadata.write_quorum)
        stored = [b for b in members if self.has_stored(b, metadata.ledger_id, entry_id)]
        if len(stored) >= metadata.ack_quorum:
            return True
        self.violate(
            f"ledger {metadata.ledger_id}: {entry_id} {what}, but of {', '.join(members)} only "
            f"{', '.join(stored) or 'nobody'} ever stored it"
        )
        return False

    # Readers
    def read(self, ledger_id: LedgerId, entry_id: EntryId, payload: bytes) -> None:
        known = self.ledger(ledger_id)
        self.reads += 1
        expected = known.sent.get(entry_id)
        if expected is None and payload in self.offered:
            expected = known.sent[entry_id] = payload
        if payload != expected:
            self.violate(
                f"ledger {ledger_id}: {entry_id} was read as {payload[:40]!r}, not {expected!r}"
            )
        self.learned(ledger_id, entry_id)

    def learned(self, ledger_id: LedgerId, lac: EntryId) -> None:
        """A reader learned that everything up to here is acknowledged."""
        known = self.ledger(ledger_id)
        if lac <= known.seen:
            return
        self.note(f"seen {ledger_id}/{lac}")
        known.seen = lac
        if known.end is not None and lac > known.end:
            self.violate(
                f"ledger {ledger_id}: a reader was shown {lac} though it was CLOSED at {known.end}"
            )

    def opened(self, ledger_id: LedgerId, end: EntryId) -> None:
        """Somebody opened the ledger with recovery and found this end."""
        known = self.ledger(ledger_id)
        self.note(f"opened {ledger_id} to {end}")
        if known.metadata is not None and known.end != end:
            self.violate(f"ledger {ledger_id} was opened to {end}, its metadata says {known.end}")

    def lost(self, ledger_id: LedgerId, entry_id: EntryId, *, expected: bool) -> None:
        """A reader learned that an entry is lost for good."""
        self.note(f"loss {ledger_id}/{entry_id}")
        if not expected:
            self.violate(f"ledger {ledger_id}: {entry_id} is lost though the budget was kept")

    # The end
    def check_readable(self, ledger_id: LedgerId, found: dict[EntryId, bytes]) -> None:
        """All that a healed cluster gives back of a closed ledger."""
        known = self.ledger(ledger_id)
        end = known.end if known.end is not None else NO_ENTRY
        missing = [i for i in range(end + 1) if EntryId(i) not in found]
        if missing:
            self.violate(
                f"ledger {ledger_id}: {len(missing)} of {end + 1} entries cannot be read after "
                f"healing, {missing[0]} first; {known.acked} was the last acknowledged"
            )


def names(metadata: LedgerMetadata, bookie_id: BookieId, entry_id: EntryId) -> bool:
    """True when the metadata puts this entry on this bookie."""
    fragment = metadata.fragment_of(entry_id)
    if bookie_id not in fragment.ensemble:
        return False
    position = fragment.ensemble.index(bookie_id)
    size, quorum = metadata.ensemble_size, metadata.write_quorum
    return (position - entry_id) % size < quorum
