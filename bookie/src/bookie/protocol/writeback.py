"""Write-back of recovered entries: recovery adds, their acks, and local ensemble changes.

Part of `recovery`. Entries go, verbatim and as runs, to the write set in the current *local*
ensemble; an entry counts once its ack quorum is made of write-back acks, never of reads (R13). A
member that fails is replaced locally only: the closing compare-and-set writes the fragments, so a
second recoverer never reads from bookies that had nothing (spec 72a4003).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from bookie.protocol.entry import Buffer
from bookie.protocol.errors import BookieError, NotEnoughBookiesError, UnauthorizedError
from bookie.protocol.ids import BookieId, EntryId
from bookie.protocol.ledger import LedgerMetadata, changed_ensemble
from bookie.protocol.quorum import write_set_positions
from bookie.protocol.runs import (
    CONSECUTIVE,
    FLAG_RECOVERY,
    RUN_ENTRIES_MAX,
    Pattern,
    build_run,
)
from bookie.protocol.status import Status

RUN_BYTES_MAX: Final = 1024 * 1024
"""Entries are grouped into runs of about this size; one larger entry travels alone."""


@dataclass(frozen=True, slots=True)
class AddRun:
    """Send this frame to this bookie; answer with `on_added(op, status)`."""

    op: int
    bookie_id: BookieId
    frame: Buffer = field(repr=False)


@dataclass(frozen=True, slots=True)
class Replace:
    """Choose a bookie for this ensemble position, none of `exclude`; `on_replacement` answers."""

    position: int
    ensemble: tuple[BookieId, ...]
    exclude: frozenset[BookieId]


WriteBackEffect = AddRun | Replace


@dataclass(slots=True)
class _Pending:
    entry: bytes
    acked: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Op:
    position: int
    entry_ids: tuple[EntryId, ...]


class WriteBack:
    """Entries on their way back. `fragments` is the local view; `failure` ends the recovery."""

    def __init__(self, metadata: LedgerMetadata, *, lac: EntryId, ops: Iterator[int]) -> None:
        self.fragments = metadata.fragments
        self.failure: BookieError | None = None
        self._metadata = metadata
        self._lac = lac  # frozen: a moving one would show readers what may be excluded (R16)
        self._ops = ops
        self._sent: dict[int, _Op] = {}
        self._pending: dict[EntryId, _Pending] = {}
        self._pending_bytes = 0
        self._failed: dict[int, Status] = {}
        self._asking: int | None = None
        self._chosen: dict[int, BookieId] = {}
        self._hopeless: set[int] = set()
        self._refused: set[BookieId] = set()

    @property
    def pending(self) -> int:
        """Entries that have not reached their ack quorum."""
        return len(self._pending)

    @property
    def pending_bytes(self) -> int:
        return self._pending_bytes

    @property
    def ensemble(self) -> tuple[BookieId, ...]:
        return self.fragments[-1].ensemble

    def add(self, entries: Sequence[tuple[EntryId, bytes]]) -> list[WriteBackEffect]:
        """Send recovered entries, ids rising, to their write sets."""
        for entry_id, entry in entries:
            assert entry_id not in self._pending
            self._pending[entry_id] = _Pending(entry)
            self._pending_bytes += len(entry)
        for position, bookie_id in self._chosen.items():
            self._change(position, bookie_id)
        self._chosen.clear()
        effects: list[WriteBackEffect] = []
        frames: dict[tuple[EntryId, ...], Buffer] = {}
        ids = [entry_id for entry_id, _entry in entries]
        for position in range(self._metadata.ensemble_size):
            if position not in self._failed:
                effects += self._send(position, ids, frames)
        return effects + self._repair_ensemble()

    def distrust(self, bookie_id: BookieId) -> None:
        """This member returned a corrupt copy: it keeps that one, so its acks mean nothing."""
        if bookie_id in self.ensemble:
            self._fail(self.ensemble.index(bookie_id), Status.IO_ERROR)

    def _fail(self, position: int, status: Status) -> None:
        self._failed.setdefault(position, status)
        self._sent = {o: s for o, s in self._sent.items() if s.position != position}

    def on_added(self, op: int, status: Status) -> list[WriteBackEffect]:
        """A bookie's answer to one AddRun; unknown ops belong to replaced members (R17)."""
        sent = self._sent.pop(op, None)
        if sent is None:
            return []
        if status is Status.OK:
            self._acknowledge(sent)
            return []
        if status is Status.UNAUTHORIZED:
            self.failure = UnauthorizedError(self._metadata.ledger_id)
            return []
        self._fail(sent.position, status)
        return self._repair_ensemble()

    def on_replacement(self, position: int, bookie_id: BookieId | None) -> list[WriteBackEffect]:
        """The bookie chosen for a Replace, None when there is none to choose."""
        if position != self._asking:
            return []
        self._asking = None
        effects: list[WriteBackEffect] = []
        if bookie_id is None:
            self._hopeless.add(position)
        elif not self._pending:
            self._chosen[position] = bookie_id  # a fragment needs an entry to start at: the next
        else:
            self._change(position, bookie_id)
            effects = self._send(position, list(self._pending), {})
        return effects + self._repair_ensemble()

    def _acknowledge(self, sent: _Op) -> None:
        for entry_id in sent.entry_ids:
            if entry_id in self._pending:
                self._pending[entry_id].acked.add(sent.position)
        # In order, so that a local fragment can start at the first entry that is not safe yet.
        while self._pending:
            lowest = next(iter(self._pending))
            if len(self._pending[lowest].acked) < self._metadata.ack_quorum:
                break
            self._pending_bytes -= len(self._pending.pop(lowest).entry)

    def _change(self, position: int, bookie_id: BookieId) -> None:
        self._refused.add(self.ensemble[position])
        self.fragments = changed_ensemble(
            self.fragments,
            first_entry_id=next(iter(self._pending)),
            replacements={position: bookie_id},
        )
        del self._failed[position]
        for pending in self._pending.values():
            pending.acked.discard(position)  # the new member has none of them

    def _repair_ensemble(self) -> list[WriteBackEffect]:
        """Ask for the next replacement, one at a time; give up when acks cannot be reached."""
        settled = self._hopeless | self._chosen.keys()
        wanted = [p for p in sorted(self._failed) if p not in settled]
        if not self._pending or self._asking is not None:
            return []
        if wanted:
            self._asking = wanted[0]
            taken = frozenset(self.ensemble) | self._refused | frozenset(self._chosen.values())
            return [Replace(wanted[0], self.ensemble, taken)]
        stuck = next((i for i in self._pending if not self._can_be_acked(i)), None)
        if stuck is not None:
            self.failure = self._not_enough(stuck)
        return []

    def _can_be_acked(self, entry_id: EntryId) -> bool:
        positions = self._write_set(entry_id)
        alive = {position for position in positions if position not in self._failed}
        return len(alive | self._pending[entry_id].acked) >= self._metadata.ack_quorum

    def _not_enough(self, entry_id: EntryId) -> NotEnoughBookiesError:
        said = ", ".join(
            f"{self.ensemble[position]}: {status.name}"
            for position, status in sorted(self._failed.items())
        )
        return NotEnoughBookiesError(
            f"ledger {self._metadata.ledger_id} entry {entry_id} is recovered, but cannot be "
            f"written back to {self._metadata.ack_quorum} bookies ({said}) and no other bookie is "
            "there to take their place: bring them back or add bookies, then try again"
        )

    def _write_set(self, entry_id: EntryId) -> tuple[int, ...]:
        return write_set_positions(
            entry_id,
            ensemble_size=self._metadata.ensemble_size,
            write_quorum=self._metadata.write_quorum,
        )

    def _send(
        self, position: int, ids: Sequence[EntryId], frames: dict[tuple[EntryId, ...], Buffer]
    ) -> list[WriteBackEffect]:
        """One position's share of these entries; `frames` lets positions share equal runs."""
        share = [entry_id for entry_id in ids if position in self._write_set(entry_id)]
        effects: list[WriteBackEffect] = []
        for pattern, run_ids in self._runs(share):
            if run_ids not in frames:
                frames[run_ids] = build_run(
                    self._metadata.ledger_id,
                    run_ids[0],
                    [self._pending[entry_id].entry for entry_id in run_ids],
                    lac=self._lac,
                    pattern=pattern,
                    flags=FLAG_RECOVERY,
                )
            op = next(self._ops)
            self._sent[op] = _Op(position, run_ids)
            effects.append(AddRun(op, self.ensemble[position], frames[run_ids]))
        return effects

    def _runs(self, ids: Sequence[EntryId]) -> Iterator[tuple[Pattern, tuple[EntryId, ...]]]:
        """Cut a position's rising ids into as few runs as order, size and count allow."""
        size, period = self._metadata.write_quorum, self._metadata.ensemble_size
        striped = Pattern(size, period) if size < period else CONSECUTIVE
        at = 0
        while at < len(ids):
            end, room = at + 1, RUN_BYTES_MAX - len(self._pending[ids[at]].entry)
            while end < len(ids) and ids[end] == striped.id_at(ids[at], end - at):
                room -= len(self._pending[ids[end]].entry)
                if room < 0 or end - at == RUN_ENTRIES_MAX:
                    break
                end += 1
            run_ids = tuple(ids[at:end])
            plain = run_ids[-1] - run_ids[0] == len(run_ids) - 1
            yield CONSECUTIVE if plain else striped, run_ids
            at = end
